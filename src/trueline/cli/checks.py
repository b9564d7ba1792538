"""What the commands about checks share: options for sources and execution, and writing a check out."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from trueline.cli.options import (
    EXIT_CLEAN,
    EXIT_FINDINGS,
    Parser,
    add_json_file,
    exit_code,
    let_go,
    written,
)
from trueline.errors import UsageError

if TYPE_CHECKING:
    from trueline.campaign import CheckReport
    from trueline.campaign.diff import Diff

ROWS = 8
EXECUTION = ("seed", "workers", "timeout", "memory", "limit", "ops")


def add_source(parser: Parser, *, target_needed: bool = True) -> None:
    """SOURCE, --target, --override and --ops."""
    parser.add_argument(
        "source", metavar="SOURCE", nargs="*",
        help="the folder of a Run, one call of it (RUN::CALL@step=N,rank=N), or a file of config lines",
    )  # fmt: skip
    parser.add_argument(
        "--target", required=target_needed, metavar="T", help="where to execute: torch:cuda/bfloat16, torch:cpu"
    )
    parser.add_argument(
        "--override", action="append", default=[], metavar="API=MODULE:FUNCTION",
        help="call this function in place of an API; may be given again",
    )  # fmt: skip
    parser.add_argument(
        "--operators", action="append", default=[], metavar="MODULE",
        help="import this module and call its own operators too (functions, autograd functions, torch.library)",
    )  # fmt: skip
    parser.add_argument(
        "--ops", action="append", metavar="GLOB", help="operators of the catalogue: 'torch.nn.functional.*', 'paddle.*'"
    )


def add_execution(parser: Parser) -> None:
    """How cases are executed."""
    group = parser.add_argument_group("execution")
    group.add_argument("--workers", type=int, metavar="N", help="processes (default: one a core; 0: none, to debug)")
    group.add_argument("--timeout", type=float, metavar="S", help="seconds that a case may take (default: 120)")
    group.add_argument("--memory", type=float, metavar="GB", help="memory that a case may use (default: its share)")
    group.add_argument("--limit", type=int, metavar="N", help="only the first N cases")
    group.add_argument("--seed", type=int, metavar="N", help="seed of the inputs that are drawn (default: 0)")


def add_reports(parser: Parser) -> None:
    """Where a check is written to."""
    group = parser.add_argument_group("reports")
    group.add_argument("--csv", metavar="FILE", help="write all tensors as CSV")
    group.add_argument(
        "--accuracy-csv", metavar="FOLDER",
        help="write accuracy_checking_result.csv and accuracy_checking_details.csv, as the predecessors did",
    )  # fmt: skip
    group.add_argument("--junit", metavar="FILE", help="write JUnit XML, for a build server")
    group.add_argument("--html", metavar="FILE", help="write one page that opens from disk")
    add_json_file(parser, "the whole check")
    group.add_argument("--rows", type=int, default=ROWS, metavar="N", help=f"failures told in detail (default: {ROWS})")


def overrides_of(options: argparse.Namespace) -> dict[str, str]:
    """``API=module:function`` of every --override, and every module of --operators."""
    found: dict[str, str] = {}
    for text in options.override:
        api, equals, place = text.partition("=")
        if not equals or not api or ":" not in place:
            raise UsageError(f"--override {text!r}: write API=module:function, for example torch.relu=mykernels:relu")
        found[api] = place
    return found | {f"{module}.*": f"{module}:*" for module in options.operators}


def conclude(report: CheckReport, options: argparse.Namespace) -> int:
    """Writes a check to all places asked for and gives the exit code: 0 clean, 1 findings, 2 nothing was measured. With
    a baseline, failures that it has as well are no findings."""
    from trueline.report.wording import measured

    code = exit_code(report.verdict, measured(report.counts))
    against = _against_baseline(report, options)
    if against is not None and code == EXIT_FINDINGS and not against.new_failures:
        code = EXIT_CLEAN
    try:
        files = _write_files(report, options, against)
        if options.json != "-":
            _print(report, options, files, against)
    except BrokenPipeError:  # ``| head`` has seen enough: the verdict stands
        let_go(sys.stdout)
    return code


def _write_files(report: CheckReport, options: argparse.Namespace, against: Diff | None) -> list[str]:
    info, results = report.info, report.results
    if options.csv:
        from trueline.report.check_csv import write_check_csv

        with written(options.csv) as stream:
            write_check_csv(info, results, stream)
    if options.accuracy_csv:
        _write_predecessors(report, Path(options.accuracy_csv))
    if options.junit:
        from trueline.report.junit import write_junit

        with written(options.junit) as stream:
            write_junit(info, results, stream)
    if options.html:
        from trueline.report.check_html import write_check_html

        changes = None if against is None else (options.baseline, against)
        with written(options.html) as stream:
            write_check_html(info, results, stream, folder=report.folder, against=changes)
    if options.json:
        from trueline.report.check_json import write_check_json

        with written(options.json) as stream:
            write_check_json(info, results, stream, folder=report.folder)
    names = [options.html, options.csv, options.accuracy_csv, options.junit, options.json]
    return [name for name in names if name and name != "-"]


def _write_predecessors(report: CheckReport, folder: Path) -> None:
    from trueline.report.check_csv import write_details_csv, write_result_csv

    folder.mkdir(parents=True, exist_ok=True)
    with written(str(folder / "accuracy_checking_result.csv")) as stream:
        write_result_csv(report.info, report.results, stream)
    with written(str(folder / "accuracy_checking_details.csv")) as stream:
        write_details_csv(report.info, report.results, stream)


def _against_baseline(report: CheckReport, options: argparse.Namespace) -> Diff | None:
    folder = getattr(options, "baseline", None)
    if folder is None:
        return None
    from trueline.campaign.diff import diff_checks

    return diff_checks(folder, report)


def _print(report: CheckReport, options: argparse.Namespace, files: list[str], against: Diff | None) -> None:
    from trueline.report.blocks import BLANK, line
    from trueline.report.check_text import check_blocks
    from trueline.report.terminal import write

    blocks = check_blocks(
        report.info, report.results, rows=options.rows, folder=report.folder, html_written=bool(options.html)
    )
    if against is not None:
        from trueline.report.diff_text import baseline_blocks

        new = list(against.differences(("new failure",), max(options.rows, 0)))
        blocks += baseline_blocks(options.baseline, against.counts, against.known, new)
    if files:
        blocks += [BLANK, line(f"written: {', '.join(files)}", "dim")]
    write(blocks)
