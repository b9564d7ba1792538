"""``trueline export``: a Run as a corpus of config lines for campaigns, or as the dump of another tool."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from trueline.cli.import_ import FORMATS, counted
from trueline.cli.incomplete import tell_incomplete
from trueline.cli.options import EXIT_CLEAN, Parser, add_json, numbers, written
from trueline.errors import TruelineError, UsageError
from trueline.store import open_run

if TYPE_CHECKING:
    from trueline.campaign.export import Exported
    from trueline.exchange import Sent


def parser() -> Parser:
    options = Parser(
        "export",
        "RUN... (--configs FILE | --format F --out FOLDER) [options]",
        "Writes the distinct calls of Runs, of Paddle or of torch, as config lines: one call a line, tensors by their "
        "shape and dtype. `trueline check FILE` executes them. Or writes one Run as a dump of another tool: msprobe "
        "(whose own compare reads it), ptdbg, checker (api_accuracy_checker) or apex.",
        "trueline export runs/a --configs model.txt",
    )
    options.add_argument("run", metavar="RUN", nargs="+", help="the folder of a Run")
    options.add_argument("--configs", metavar="FILE", help="the file of config lines to write; '-' prints the lines")
    options.add_argument("--counts", action="store_true", help="say above each line how many calls it stands for")
    options.add_argument("--format", choices=FORMATS, help="write a dump of this tool instead")
    options.add_argument("--out", metavar="FOLDER", help="the folder of the dump; must not exist")
    options.add_argument("--no-tensors", action="store_true", help="write statistics alone into the dump")
    options.add_argument("--steps", metavar="N", type=numbers, help="only these steps, like 2,4-6")
    options.add_argument("--ranks", metavar="N", type=numbers, help="only these ranks")
    add_json(options)
    return options


def run(options: argparse.Namespace) -> int:
    if (options.configs is None) is (options.format is None):
        raise UsageError("say what to write: --configs FILE, or --format F --out FOLDER; see trueline export --help")
    code = _dump(options) if options.format is not None else _configs(options)
    for path in options.run:
        with open_run(path) as opened:
            tell_incomplete(opened)
    return code


def _dump(options: argparse.Namespace) -> int:
    from trueline.exchange import export_run

    if options.out is None:
        raise UsageError("a dump needs a folder: --out FOLDER; see trueline export --help")
    if len(options.run) > 1:
        raise UsageError("a dump is made of one Run; export the others into folders of their own")
    sent = export_run(
        options.run[0],
        options.out,
        format=options.format,
        tensors=not options.no_tensors,
        steps=options.steps,
        ranks=options.ranks,
    )
    print(_sent_as_json(sent) if options.json else _sent_told(sent))
    return EXIT_CLEAN


def _sent_as_json(sent: Sent) -> str:
    from trueline.report.json import dumps, plain

    content = {
        "folder": str(sent.path),
        "format": sent.format,
        "calls": sent.calls,
        "tensors": sent.tensors,
        "files": [str(file) for file in sent.files],
        "left_out": dict(sent.left_out),
        "unsaid": dict(sent.unsaid),
    }
    return dumps(plain(content))


def _sent_told(sent: Sent) -> str:
    from trueline.report.wording import plural

    what = f"{plural(sent.calls, 'call')} with {plural(sent.tensors, 'tensor')}"
    words = [f"{what} into {sent.path}, as {sent.format} writes them"]
    words += [f"  {file}" for file in sent.files[:8]]
    return "\n".join([*words, *counted("left out", sent.left_out), *counted("unsaid", sent.unsaid)])


def _configs(options: argparse.Namespace) -> int:
    from trueline.campaign.export import export_configs, write_configs

    exported = export_configs(options.run)
    if not exported.lines:
        reasons = "; ".join(reason for reason, _ in _most_first(exported.left_out)[:3]) or "there are no calls"
        raise TruelineError(f"nothing of {', '.join(options.run)} can be written as a config line: {reasons}")
    with written(options.configs) as stream:
        write_configs(exported, stream, counts=options.counts)
    printed = options.configs == "-"
    if options.json:
        print(_as_json(exported), file=sys.stderr if printed else sys.stdout)
        return EXIT_CLEAN
    print(_told(exported, "" if printed else f" into {options.configs}"), file=sys.stderr if printed else sys.stdout)
    return EXIT_CLEAN


def _as_json(exported: Exported) -> str:
    from trueline.report.json import dumps, plain

    content = {
        "lines": len(exported.lines),
        "kept": sum(exported.lines.values()),
        "calls": exported.calls,
        "left_out": dict(exported.left_out),
        "unsaid": dict(exported.simplified),
    }
    return dumps(plain(content))


def _told(exported: Exported, into: str) -> str:
    from trueline.report.wording import plural

    kept = sum(exported.lines.values())
    words = [f"{plural(len(exported.lines), 'line')} for {kept:,} of {plural(exported.calls, 'call')}{into}"]
    words += [f"  left out: {count:,} x {reason}" for reason, count in _most_first(exported.left_out)]
    words += [f"  unsaid: {count:,} x {what}" for what, count in _most_first(exported.simplified)]
    return "\n".join(words)


def _most_first(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: -item[1])
