"""``trueline exec``: every call of a source alone, its outputs kept as a Run, to be compared elsewhere."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
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
        "another machine. A list of dtypes (paddle:cpu/float32,bfloat16) writes a Run for each; +simulated after a "
        "dtype computes what has no kernel in it in float32 and rounds.",
        "trueline exec runs/a --target torch:cuda --out runs/a-cuda",
    )
    add_source(options)
    options.add_argument("--out", required=True, metavar="RUN", help="the folder to write; must not hold a Run yet")
    options.add_argument(
        "--inputs-rounded-to", metavar="DTYPE",
        help="round inputs to this first, so that targets of several dtypes are given the same numbers (default for a "
        "list of dtypes: the coarsest of them)",
    )  # fmt: skip
    add_execution(options)
    add_json_file(options, "what was executed")
    return options


def run(options: argparse.Namespace) -> int:
    from trueline.campaign.execute import execute_each
    from trueline.cli.progress import progress

    with progress(sys.stderr) as advance:
        reports = execute_each(
            options.source,
            target=options.target,
            out=options.out,
            overrides=overrides_of(options),
            progress=advance,
            **given(options, ("inputs_rounded_to", *EXECUTION)),
        )
    if options.json:
        from trueline.report.json import dumps, plain

        content = plain(reports[0]) if len(reports) == 1 else [plain(report) for report in reports]
        with written(options.json) as stream:
            stream.write(dumps(content) + "\n")
    if options.json != "-":
        _print(reports, options.source)
    if not any(report.cases for report in reports):
        print(f"trueline exec: nothing was executed: there is no call in {' '.join(options.source)}", file=sys.stderr)
    return EXIT_CLEAN if all(report.returned for report in reports) else EXIT_FAILED


def _print(reports: Sequence[ExecReport], sources: Sequence[str]) -> None:
    from trueline.report.blocks import BLANK, Block, Fields, line
    from trueline.report.partial import partial_blocks, partial_paths
    from trueline.report.terminal import write
    from trueline.report.wording import command, plural

    blocks: list[Block] = partial_blocks(partial_paths(sources))
    for report in reports:
        blocks += [line(f"executed {plural(report.cases, 'case')}", "strong"), BLANK]
        blocks += [Fields(tuple(_items(report))), BLANK]
    if len(reports) > 1:
        first, *others = (report.folder for report in reports)
        blocks += [line(f"next: {command('trueline', 'compare', first, other)}", "dim") for other in others]
    else:
        compare = command("trueline", "compare", "OTHER", reports[0].folder)
        blocks.append(line(f"next: the same with another target or on another machine, then {compare}", "dim"))
    write(blocks)


def _items(report: ExecReport) -> Iterator[tuple[str, str]]:
    from trueline.report.wording import plural

    skipped, simulated = sum(report.skipped.values()), sum(report.simulated.values())
    yield "run", str(report.folder)
    yield "target", report.target
    if report.inputs_rounded_to:
        yield "inputs", f"rounded to {report.inputs_rounded_to} first"
    yield "calls", plural(report.calls, "call") + (f", {skipped:,} skipped" if skipped else "")
    of_them = f", {simulated:,} of them simulated" if simulated else ""
    yield "cases", f"{report.returned:,} of {report.cases:,} returned{of_them}"
    for reason, count in report.simulated.items():
        yield f"{count:,} x", f"simulated: {reason}"
    for reason, count in [*report.reasons.items(), *report.skipped.items()]:
        yield f"{count:,} x", reason
