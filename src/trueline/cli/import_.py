"""``trueline import``: a dump of another tool as a Run."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from trueline.cli.options import EXIT_CLEAN, Parser, add_json

FORMATS = ("msprobe", "ptdbg", "checker", "apex")


def parser() -> Parser:
    options = Parser(
        "import",
        "FOLDER --out RUN [options]",
        "Turns a dump of msprobe, ptdbg_ascend, api_accuracy_checker or PaddleAPEX into a Run, which every other "
        "command reads. Nothing that the dump holds is executed.",
        "trueline import dump/npu --out runs/npu",
    )
    options.add_argument("folder", metavar="FOLDER", help="the folder of the dump, or its pkl or JSON file")
    options.add_argument("--out", metavar="RUN", required=True, help="the folder of the Run; must not exist")
    options.add_argument("--format", choices=FORMATS, help="the tool that wrote it; found by itself where it can be")
    options.add_argument("--data", metavar="FOLDER", help="ptdbg: the folder of the npy files, if not beside the pkl")
    add_json(options)
    return options


def run(options: argparse.Namespace) -> int:
    from trueline.exchange import import_run
    from trueline.report.json import dumps, plain
    from trueline.report.wording import plural

    found = import_run(options.folder, options.out, format=options.format, data=options.data)
    if options.json:
        content = {
            "run": str(found.path),
            "format": found.format,
            "calls": found.calls,
            "tensors": found.tensors,
            "stored_bytes": found.stored_bytes,
            "ranks": list(found.ranks),
            "steps": list(found.steps),
            "left_out": dict(found.left_out),
            "remarks": dict(found.remarks),
        }
        print(dumps(plain(content)))
        return EXIT_CLEAN
    kept = f"{found.stored_bytes:,} bytes kept" if found.stored_bytes else "statistics alone"
    ranks, steps = plural(len(found.ranks), "rank"), plural(len(found.steps), "step")
    print(f"{plural(found.calls, 'call')} of {ranks} and {steps}, {plural(found.tensors, 'tensor')} ({kept})")
    print(f"from a dump of {found.format} into {found.path}")
    for line in counted("left out", found.left_out) + counted("note", found.remarks):
        print(line)
    return EXIT_CLEAN


def counted(word: str, counts: Mapping[str, int]) -> list[str]:
    """Lines for what was counted by reason, the most frequent first."""
    return [f"  {word}: {count:,} x {reason}" for reason, count in sorted(counts.items(), key=lambda item: -item[1])]
