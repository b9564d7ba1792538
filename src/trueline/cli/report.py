"""``trueline report``: what was kept, judged and written again, without running anything: a check, or a Run's page."""

from __future__ import annotations

import argparse
from pathlib import Path

from trueline.cli.checks import add_reports, conclude
from trueline.cli.options import EXIT_CLEAN, Parser, written
from trueline.errors import UsageError

RUN_FILE = "run.json"


def parser() -> Parser:
    options = Parser(
        "report",
        "FOLDER [options]",
        "Judges a check that was kept, by its own standard or by another one, and writes it. Of a Run it writes the "
        "page (--html). Runs nothing.",
        "trueline report checks/a --standard allclose --html report.html",
    )
    options.add_argument("folder", metavar="FOLDER", help="the folder that was given to check --out, or a Run")
    options.add_argument("--standard", metavar="S", help="rules to judge by (default: those of the check)")
    add_reports(options)
    return options


def run(options: argparse.Namespace) -> int:
    if (Path(options.folder) / RUN_FILE).exists():
        return _write_run(options)
    from trueline.campaign import load_check

    return conclude(load_check(options.folder, options.standard), options)


def _write_run(options: argparse.Namespace) -> int:
    from trueline.report.run_page import write_run_html
    from trueline.store import open_run

    if not options.html:
        raise UsageError(f"{options.folder} is a Run: --html FILE writes its page, `trueline show` prints it")
    with open_run(options.folder) as run, written(options.html) as stream:
        write_run_html(run, stream)
    print(f"written: {options.html}")
    return EXIT_CLEAN
