"""``trueline diff``: two checks that were kept, and what fails now that did not before."""

from __future__ import annotations

import argparse

from trueline.cli.options import EXIT_CLEAN, EXIT_FINDINGS, Parser, add_json_file, written


def parser() -> Parser:
    options = Parser(
        "diff",
        "OLD NEW [options]",
        "Holds two kept checks against each other: new failures, what is fixed, other errors, cases that appeared or "
        "are gone. Exit code 1 if there are new failures. Runs nothing.",
        "trueline diff checks/release checks/today --csv differences.csv",
    )
    options.add_argument("old", metavar="OLD", help="the folder that was given to check --out, before")
    options.add_argument("new", metavar="NEW", help="the same, now")
    options.add_argument("--standard", metavar="S", help="rules to judge both by (default: of each its own)")
    options.add_argument("--csv", metavar="FILE", help="write all cases that differ as CSV")
    add_json_file(options, "all differences")
    options.add_argument("--rows", type=int, default=10, metavar="N", help="cases told of each kind (default: 10)")
    return options


def run(options: argparse.Namespace) -> int:
    from trueline.campaign.diff import diff_checks
    from trueline.report.diff_text import diff_blocks, write_diff_csv, write_diff_json
    from trueline.report.terminal import write

    diff = diff_checks(options.old, options.new, options.standard)
    names = (options.old, options.new)
    if options.csv:
        with written(options.csv) as stream:
            write_diff_csv(diff.differences(), stream)
    if options.json:
        with written(options.json) as stream:
            write_diff_json((diff.old_info, diff.new_info), names, diff.counts, diff.known, diff.same,
                            diff.differences(), stream)  # fmt: skip
    if options.json != "-" and options.csv != "-":
        found = list(diff.differences(most=max(options.rows, 0)))
        write(diff_blocks(names, diff.counts, diff.known, diff.same, found))
    return EXIT_FINDINGS if diff.new_failures else EXIT_CLEAN
