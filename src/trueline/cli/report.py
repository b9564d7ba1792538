"""``trueline report``: what was kept, judged and written again, without running anything."""

from __future__ import annotations

import argparse
from pathlib import Path

from trueline.cli.checks import ROWS, add_reports, conclude
from trueline.cli.kept import PIPELINE_FILE, PROFILE_FILE, RUN_FILE, is_kept
from trueline.cli.options import EXIT_CLEAN, Parser, written
from trueline.errors import UsageError


def parser() -> Parser:
    options = Parser(
        "report",
        "FOLDER [options]",
        "Judges a check that was kept, by its own standard or by another one, and writes it; writes what a pipeline "
        "has left. Of a Run and of a profile it writes the page (--html). Runs nothing.",
        "trueline report checks/a --standard allclose --html report.html",
    )
    options.add_argument(
        "folder", metavar="FOLDER", help="the folder of a check, of a pipeline or of a profile (or its file), or a Run"
    )
    options.add_argument("--standard", metavar="S", help="rules to judge a check by (default: its own)")
    options.add_argument(
        "--baseline", metavar="FOLDER", help="of a check: an earlier one; new failures alone are findings"
    )
    options.add_argument("--profile", metavar="FOLDER", help="of a Run: its profile, whose times stand by the calls")
    add_reports(options)
    options.set_defaults(rows=None)  # tables of pipelines are longer than lists of failures
    return options


def run(options: argparse.Namespace) -> int:
    path = Path(options.folder)
    if is_kept(path, RUN_FILE):
        return _write_run(options)
    if is_kept(path, PROFILE_FILE):
        return _write_profile(options)
    if options.profile:
        raise UsageError(f"--profile is for the page of a Run, which {path} is not")
    if is_kept(path, PIPELINE_FILE):
        return _write_pipeline(options)
    from trueline.campaign import load_check

    options.rows = ROWS if options.rows is None else options.rows
    return conclude(load_check(options.folder, options.standard), options)


def _refuse(options: argparse.Namespace, what: str, *names: str) -> None:
    """Says which options have no meaning for what is there."""
    for name in names:
        if getattr(options, name.replace("-", "_")):
            raise UsageError(f"{options.folder} is {what}, for which there is no --{name}")


def _write_pipeline(options: argparse.Namespace) -> int:
    from trueline.cli.pipeline import ROWS as PIPELINE_ROWS
    from trueline.cli.pipeline import conclude_pipeline
    from trueline.pipeline import load_pipeline

    _refuse(options, "a pipeline", "csv", "accuracy-csv", "standard", "baseline")
    path = Path(options.folder)
    options.rows = PIPELINE_ROWS if options.rows is None else options.rows
    return conclude_pipeline(load_pipeline(path), options, path if path.is_dir() else path.parent)


def _write_profile(options: argparse.Namespace) -> int:
    from trueline.web.profile_page import write_profile_file

    if not options.html:
        raise UsageError(f"{options.folder} is a profile: --html FILE writes its page")
    _refuse(options, "a profile", "csv", "accuracy-csv", "standard", "junit", "json", "profile", "baseline")
    with written(options.html) as stream:
        write_profile_file(options.folder, stream)
    print(f"written: {options.html}")
    return EXIT_CLEAN


def _write_run(options: argparse.Namespace) -> int:
    from trueline.cli.incomplete import tell_incomplete
    from trueline.store import open_run
    from trueline.web.run_page import write_run_file

    if not options.html:
        raise UsageError(f"{options.folder} is a Run: --html FILE writes its page, `trueline show` prints it")
    _refuse(options, "a Run", "csv", "accuracy-csv", "standard", "junit", "json", "baseline")
    path = Path(options.folder)
    with open_run(path if path.is_dir() else path.parent) as run, written(options.html) as stream:
        tell_incomplete(run)
        write_run_file(run, stream, profile=options.profile)
    print(f"written: {options.html}")
    return EXIT_CLEAN
