"""``trueline compare``: two Runs, or three with a peer as the yardstick -> where they part, and why."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from trueline.cli.options import Parser, add_json_file, exit_code, let_go, numbers, written

if TYPE_CHECKING:
    from trueline.events import Progress
    from trueline.report.subject import ComparisonView


def parser() -> Parser:
    options = Parser(
        "compare",
        "REFERENCE CANDIDATE [options]",
        "Compares two Runs and names where they part, and why: the call that went wrong first, or what else it is. "
        "Exit code 1 where they do, or where too little could be compared to say. With --baseline, REFERENCE is the "
        "gold, and the candidate's errors are judged by those of the baseline, its peer.",
        "trueline compare runs/good runs/bad --html report.html",
    )
    options.add_argument("reference", metavar="REFERENCE", help="the Run to trust")
    options.add_argument("candidate", metavar="CANDIDATE", help="the Run to judge")
    options.add_argument("--baseline", metavar="RUN", help="a third Run: the peer by whose errors to judge")
    options.add_argument(
        "--standard",
        default="honest",
        metavar="S",
        help="rules to judge by: honest (default), ptdbg; of tensors that were kept also apex, allclose(rtol=, atol=), "
        "assert-close, bitwise and others; with --baseline peer (default), apex-multi, calibrated and others",
    )
    options.add_argument(
        "--csv", metavar="FILE", help="write all tensors, and what the programs give away, with ptdbg's columns"
    )
    options.add_argument("--apex-csv", metavar="DIR", help="write the pair of CSV files that PaddleAPEX writes")
    add_json_file(options, "the whole comparison")
    options.add_argument("--html", metavar="FILE", help="write one page that opens from disk")
    options.add_argument("--step", type=numbers, metavar="N", help="only these steps: 2 or 2,4-6")
    options.add_argument("--rank", type=numbers, metavar="N", help="only these ranks")
    options.add_argument("--no-replay", action="store_true", help="do not replay suspects in float64")
    options.add_argument(
        "--allow-partial", action="store_true", help="exit code 0 also where too little could be compared to say"
    )
    options.add_argument("--rows", type=int, default=12, metavar="N", help="calls in the table (default: 12)")
    return options


def run(options: argparse.Namespace) -> int:
    from trueline.cli.progress import progress
    from trueline.diagnose import compare_runs
    from trueline.report.given_away import given_away
    from trueline.report.wording import measured

    with progress(sys.stderr) as advance:
        comparison = compare_runs(
            options.reference,
            options.candidate,
            baseline=options.baseline,
            standard=options.standard,
            steps=options.step,
            ranks=options.rank,
            replay=False if options.no_replay else None,
            progress=advance,
        )
    with comparison:
        options.apex_files = ()
        compared = measured(comparison.counts) + given_away(comparison).compared
        code = exit_code(comparison.verdict, compared, partial=options.allow_partial)
        try:
            with progress(sys.stderr) as advance:
                _write_files(comparison, options, advance)
            if options.json != "-":
                _print(comparison, options)
        except BrokenPipeError:  # ``| head`` has seen enough: the verdict stands
            let_go(sys.stdout)
        return code


def _write_files(comparison: ComparisonView, options: argparse.Namespace, advance: Progress) -> None:
    if options.csv:
        from trueline.report.csv import write_csv

        with written(options.csv) as stream:
            write_csv(comparison, stream, advance)
    if options.apex_csv:
        options.apex_files = _write_apex(comparison, options, advance)
    if options.html:
        from trueline.report.comparison_html import write_html

        with written(options.html) as stream:
            write_html(comparison, stream)
    if options.json:
        from trueline.report.json import write_json

        with written(options.json) as stream:
            write_json(comparison, stream, advance)


def _write_apex(comparison: ComparisonView, options: argparse.Namespace, advance: Progress) -> tuple[Path, Path]:
    """The numbers of APEX's columns are taken from the tensors, so two Runs are compared once more by its standard
    where they were judged by another."""
    from datetime import datetime

    from trueline.diagnose import compare_runs
    from trueline.report.apex_csv import write_apex_csv

    folder = Path(options.apex_csv)
    folder.mkdir(parents=True, exist_ok=True)
    stamp = datetime.now().strftime("%Y%m%d%H%M%S")
    if comparison.baseline is not None or comparison.standard == "apex":
        return write_apex_csv(comparison, folder, stamp, advance)
    chosen = {"steps": options.step, "ranks": options.rank}
    with compare_runs(options.reference, options.candidate, standard="apex", progress=advance, **chosen) as as_apex:
        return write_apex_csv(as_apex, folder, stamp, advance)


def _print(comparison: ComparisonView, options: argparse.Namespace) -> None:
    from trueline.report.blocks import BLANK, line
    from trueline.report.terminal import write
    from trueline.report.text import comparison_blocks

    blocks = comparison_blocks(
        comparison, rows=options.rows, html_written=bool(options.html), partial=options.allow_partial
    )
    files = [name for name in (options.html, options.csv, options.json) if name and name != "-"]
    files += [str(path) for path in options.apex_files]
    if files:
        blocks += [BLANK, line(f"written: {', '.join(files)}", "dim")]
    write(blocks)
