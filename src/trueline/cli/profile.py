"""``trueline profile``: how long every call of a source takes, and how much memory, against another target."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from trueline.cli.checks import add_source, overrides_of
from trueline.cli.options import (
    EXIT_CLEAN,
    EXIT_FAILED,
    EXIT_FINDINGS,
    Parser,
    add_json_file,
    given,
    let_go,
    written,
)
from trueline.errors import UsageError
from trueline.records import Verdict

if TYPE_CHECKING:
    from trueline.campaign.profile import ProfileReport

_GIVEN = (
    "against", "limit_time", "limit_memory", "ops", "seed", "threads", "budget", "timeout", "memory", "limit",
    "step_seconds", "out",
)  # fmt: skip


def parser() -> Parser:
    options = Parser(
        "profile",
        "SOURCE... --target T [--against T] [options]",
        "Times every call of a Run alone, forward and backward, counts its memory, and says what is slower or larger "
        "than on another target: exit code 1 if anything is.",
        "trueline profile runs/a --target torch:cuda --against torch:cuda --override torch.relu=mykernels:relu",
    )
    add_source(options)
    options.add_argument("--against", metavar="T", help="what to hold it against; without it there is no verdict")
    options.add_argument("--limit-time", type=float, metavar="X", help="times as slow that is allowed (default: 1.2)")
    options.add_argument("--limit-memory", type=float, metavar="X", help="times the memory allowed (default: 1.1)")
    options.add_argument("--step-seconds", type=float, metavar="S", help="how long the step takes by itself")
    options.add_argument("--check", metavar="FOLDER", help="join the verdicts of this check")
    options.add_argument("--with-check", action="store_true", help="check the numbers as well, and join the verdicts")
    group = options.add_argument_group("execution")
    group.add_argument("--threads", type=int, metavar="N", help="threads of each worker (default: all cores)")
    group.add_argument("--budget", type=float, metavar="S", help="seconds for a case that is noisy (default: 1)")
    group.add_argument("--timeout", type=float, metavar="S", help="seconds that a round may take (default: 120)")
    group.add_argument("--memory", type=float, metavar="GB", help="memory that a case may use (default: its share)")
    group.add_argument("--limit", type=int, metavar="N", help="only the first N cases")
    group.add_argument("--seed", type=int, metavar="N", help="seed of the inputs that are drawn (default: 0)")
    reports = options.add_argument_group("reports")
    reports.add_argument("--csv", metavar="FILE", help="write all cases as CSV")
    reports.add_argument("--html", metavar="FILE", help="write one page that opens from disk")
    reports.add_argument(
        "--apex-csv", metavar="FOLDER",
        help="write prof_checking_result.csv and memory_checking_result.csv, as PaddleAPEX did",
    )  # fmt: skip
    reports.add_argument("--out", metavar="FOLDER", help="keep profile.csv and profile.json there, case by case")
    add_json_file(options, "the whole profile")
    reports.add_argument("--rows", type=int, default=20, metavar="N", help="calls in the table (default: 20)")
    return options


def run(options: argparse.Namespace) -> int:
    from trueline.campaign.profile import profile
    from trueline.cli.progress import progress

    with progress(sys.stderr) as advance:
        report = profile(
            options.source,
            target=options.target,
            overrides=overrides_of(options),
            check_folder=options.check,
            with_check=options.with_check,
            progress=advance,
            **given(options, _GIVEN),
        )
    try:
        files = _write_files(report, options)
        if options.json != "-":
            _print(report, options, files)
    except BrokenPipeError:  # ``| head`` has seen enough: the verdict stands
        let_go(sys.stdout)
    return _exit_code(report)


_NOT_TIMED = ("standard", "save_failures", "draws", "variants", "strided", "retry", "baseline", "executor", "workers")
_CHECKED = ("ops", "seed", "timeout", "memory", "limit", "out")


def run_check(options: argparse.Namespace) -> int:
    """``trueline check --mode performance``: the reference is what the target is held against."""
    from trueline.campaign.profile import profile
    from trueline.cli.progress import progress

    for name in _NOT_TIMED:
        if getattr(options, name, None):
            raise UsageError(f"--mode performance has no --{name.replace('_', '-')}; see trueline profile --help")
    with progress(sys.stderr) as advance:
        report = profile(
            options.source,
            target=options.target,
            against=options.reference,
            overrides=overrides_of(options),
            progress=advance,
            **given(options, _CHECKED),
        )
    try:
        options.apex_csv = None
        files = _write_files(report, options)
        if options.json != "-":
            _print(report, options, files)
    except BrokenPipeError:
        let_go(sys.stdout)
    return _exit_code(report)


def _exit_code(report: ProfileReport) -> int:
    """0 clean, 1 findings; 2 where nothing was timed, or nothing compared though it was asked for."""
    if report.verdict >= Verdict.FAIL:
        return EXIT_FINDINGS
    if not report.info.against:
        return EXIT_CLEAN if report.timed else EXIT_FAILED
    compared = len(report.results) - report.counts[Verdict.NOT_COMPARED.name]
    return EXIT_CLEAN if compared else EXIT_FAILED


def _write_files(report: ProfileReport, options: argparse.Namespace) -> list[str]:
    if options.csv:
        from trueline.report.profile_csv import write_profile_csv

        with written(options.csv) as stream:
            write_profile_csv(report.results, stream)
    if options.apex_csv:
        _write_apex(report, Path(options.apex_csv))
    if options.html:
        from trueline.report.profile_html import write_profile_html

        with written(options.html) as stream:
            write_profile_html(report.info, report.results, report.verdict, stream)
    if options.json:
        from trueline.report.profile_json import write_profile_json

        with written(options.json) as stream:
            write_profile_json(report.info, report.results, report.verdict, stream)
    return [name for name in (options.csv, options.html, options.apex_csv, options.json) if name and name != "-"]


def _write_apex(report: ProfileReport, folder: Path) -> None:
    from trueline.report import profile_csv

    folder.mkdir(parents=True, exist_ok=True)
    with written(str(folder / profile_csv.PROF_FILE)) as stream:
        profile_csv.write_prof_csv(report.results, stream)
    with written(str(folder / profile_csv.MEMORY_FILE)) as stream:
        profile_csv.write_memory_csv(report.results, stream)
    if report.info.check:
        with written(str(folder / profile_csv.SUMMARY_FILE)) as stream:
            profile_csv.write_summary_csv(report.results, stream)


def _print(report: ProfileReport, options: argparse.Namespace, files: list[str]) -> None:
    from trueline.report.blocks import BLANK, line
    from trueline.report.profile_text import profile_blocks
    from trueline.report.terminal import write

    blocks = profile_blocks(report.info, report.results, report.verdict, rows=options.rows)
    if files:
        blocks += [BLANK, line(f"written: {', '.join(files)}", "dim")]
    write(blocks)
