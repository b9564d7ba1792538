"""``trueline exec``: every call of a source alone, its outputs kept as a Run, to be compared elsewhere."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from trueline.cli.checks import EXECUTION, add_execution, add_source, overrides_of
from trueline.cli.options import EXIT_CLEAN, EXIT_FAILED, Parser, add_json_file, given, written

if TYPE_CHECKING:
    from trueline.campaign.execute import ExecReport


def parser() -> Parser:
    options = Parser(
        "exec",
        "SOURCE... --target T --out RUN [options]",
        "Executes every call of a Run alone and keeps outputs and gradients as a Run, to be compared with that of "
        "another machine.",
        "trueline exec runs/a --target torch:cuda --out runs/a-cuda",
    )
    add_source(options)
    options.add_argument("--out", required=True, metavar="RUN", help="the folder to write; must not hold a Run yet")
    add_execution(options)
    add_json_file(options, "what was executed")
    return options


def run(options: argparse.Namespace) -> int:
    from trueline.campaign.execute import execute
    from trueline.cli.progress import progress

    with progress(sys.stderr) as advance:
        report = execute(
            options.source,
            target=options.target,
            out=options.out,
            overrides=overrides_of(options),
            progress=advance,
            **given(options, EXECUTION),
        )
    if options.json:
        from trueline.report.json import dumps, plain

        with written(options.json) as stream:
            stream.write(dumps(plain(report)) + "\n")
    if options.json != "-":
        _print(report)
    return EXIT_CLEAN if report.returned else EXIT_FAILED


def _print(report: ExecReport) -> None:
    from trueline.report.blocks import BLANK, Block, Fields, line
    from trueline.report.terminal import write
    from trueline.report.wording import command, plural

    skipped = sum(report.skipped.values())
    items = [
        ("run", str(report.folder)),
        ("target", report.target),
        ("calls", plural(report.calls, "call") + (f", {skipped:,} skipped" if skipped else "")),
        ("cases", f"{report.returned:,} of {report.cases:,} returned"),
        *((f"{count:,} x", reason) for reason, count in [*report.reasons.items(), *report.skipped.items()]),
    ]
    blocks: list[Block] = [line(f"executed {plural(report.cases, 'case')}", "strong"), BLANK, Fields(tuple(items))]
    compare = command("trueline", "compare", "OTHER", report.folder)
    blocks += [BLANK, line(f"next: the same with another target or on another machine, then {compare}", "dim")]
    write(blocks)
