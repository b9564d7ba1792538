"""``trueline report``: a check that was kept, judged and written again, without running anything."""

from __future__ import annotations

import argparse

from trueline.cli.checks import add_reports, conclude
from trueline.cli.options import Parser


def parser() -> Parser:
    options = Parser(
        "report",
        "FOLDER [options]",
        "Judges a check that was kept, by its own standard or by another one, and writes it. Runs nothing.",
        "trueline report checks/a --standard allclose --html report.html",
    )
    options.add_argument("folder", metavar="FOLDER", help="the folder that was given to check --out")
    options.add_argument("--standard", metavar="S", help="rules to judge by (default: those of the check)")
    add_reports(options)
    return options


def run(options: argparse.Namespace) -> int:
    from trueline.campaign import load_check

    return conclude(load_check(options.folder, options.standard), options)
