"""``trueline overflow``: where NaN and infinity were born in a Run, and whether they were meant."""

from __future__ import annotations

import argparse

from trueline.cli.options import EXIT_CLEAN, EXIT_FAILED, EXIT_FINDINGS, Parser, add_json_file, written


def parser() -> Parser:
    options = Parser(
        "overflow",
        "RUN [options]",
        "Names the call that first gave NaN or infinity, says what happened, whether it had to, and what helps; leaves "
        "alone what was meant (masks, loss scaling). Says which calls will overflow if their trend holds. Exit code 1 "
        "where something is wrong.",
        "trueline overflow runs/a --csv overflow.csv",
    )
    options.add_argument("run", metavar="RUN", help="the folder of a Run; with tensors kept it can say more")
    options.add_argument("--csv", metavar="FILE", help="write a row for each place where something was born")
    options.add_argument("--html", metavar="FILE", help="write one page that opens from disk")
    add_json_file(options, "the whole report")
    options.add_argument("--no-replay", action="store_true", help="do not execute the calls again")
    options.add_argument("--rows", type=int, default=12, metavar="N", help="rows in each table (default: 12)")
    return options


def run(options: argparse.Namespace) -> int:
    from trueline.diagnose.overflow import overflow
    from trueline.report.overflow_files import write_overflow_csv, write_overflow_json

    report = overflow(options.run, replay=not options.no_replay)
    if options.csv:
        with written(options.csv) as stream:
            write_overflow_csv(report, stream)
    if options.html:
        from trueline.report.overflow_html import write_overflow_html

        with written(options.html) as stream:
            write_overflow_html(report, stream)
    if options.json:
        with written(options.json) as stream:
            write_overflow_json(report, stream)
    if options.json != "-":
        from trueline.report.overflow_text import overflow_blocks
        from trueline.report.terminal import write

        write(overflow_blocks(report, rows=options.rows))
    if report.wrong:
        return EXIT_FINDINGS
    return EXIT_CLEAN if report.measured else EXIT_FAILED
