"""``trueline doctor``: what works on this machine. Exit code 1 where something that is needed does not."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from trueline.cli.machine import Check, examine
from trueline.cli.options import EXIT_CLEAN, EXIT_FINDINGS, Parser, add_json
from trueline.report.blocks import BLANK, Block, Row, Table, line

_STYLES = {"ok": "", "missing": "dim", "broken": "bad"}


def parser() -> Parser:
    options = Parser(
        "doctor",
        "[options]",
        "Says what works on this machine: versions, frameworks, devices, kernels, disk space.",
        "trueline doctor --folder /data/runs",
    )
    options.add_argument("--folder", default=".", metavar="FOLDER", help="where Runs will be written (default: here)")
    add_json(options)
    return options


def run(options: argparse.Namespace) -> int:
    checks = examine(options.folder)
    broken = [check for check in checks if check.state == "broken"]
    if options.json:
        from trueline.report.json import dumps

        print(dumps({"ok": not broken, "checks": [asdict(check) for check in checks]}))
    else:
        from trueline.report.terminal import write

        write(_blocks(checks, broken))
    return EXIT_FINDINGS if broken else EXIT_CLEAN


def _blocks(checks: list[Check], broken: list[Check]) -> list[Block]:
    rows = tuple(Row((check.state, check.name, check.detail), _STYLES[check.state]) for check in checks)
    if broken:
        verdict = line(f"not ready: {', '.join(check.name for check in broken)}", "bad")
    else:
        verdict = line("ready", "good")
    return [Table(("state", "what", "detail"), rows, indent=0), BLANK, verdict]
