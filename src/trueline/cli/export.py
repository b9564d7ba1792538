"""``trueline export``: the calls of a Run as config lines, a corpus for campaigns."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from trueline.cli.options import EXIT_CLEAN, Parser, add_json, written
from trueline.errors import TruelineError

if TYPE_CHECKING:
    from trueline.campaign.export import Exported


def parser() -> Parser:
    options = Parser(
        "export",
        "RUN... --configs FILE [options]",
        "Writes the distinct calls of Runs, of Paddle or of torch, as config lines: one call a line, tensors by their "
        "shape and dtype. `trueline check FILE` executes them.",
        "trueline export runs/a --configs model.txt",
    )
    options.add_argument("run", metavar="RUN", nargs="+", help="the folder of a Run")
    options.add_argument("--configs", metavar="FILE", required=True, help="the file to write; '-' prints the lines")
    options.add_argument("--counts", action="store_true", help="say above each line how many calls it stands for")
    add_json(options)
    return options


def run(options: argparse.Namespace) -> int:
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
