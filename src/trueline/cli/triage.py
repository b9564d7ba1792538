"""``trueline triage``: the failures of a check, grouped by likely cause and labelled by second opinions."""

from __future__ import annotations

import argparse
import json
import sys

from trueline.cli.options import EXIT_CLEAN, EXIT_FINDINGS, Parser, add_json, given


def parser() -> Parser:
    options = Parser(
        "triage",
        "CHECK [options]",
        "Groups the failures of a check that was kept (--out of trueline check) by likely cause, does some cases of "
        "each group again (as they were, with other inputs, in float64, in parts) and says who is wrong: the target, "
        "the reference or the mapping, or nobody. Exit code 1 where there are failures.",
        "trueline triage checks/nightly --out triage/nightly",
    )
    options.add_argument("check", metavar="CHECK", help="the folder of a check")
    options.add_argument("--out", metavar="DIR", help="where to write groups and scripts (default: CHECK/triage)")
    options.add_argument(
        "--no-opinions", dest="opinions", action="store_false", help="only group; execute nothing, write no scripts"
    )
    options.add_argument(
        "--representatives", type=int, metavar="N", help="cases of a group to do again, 1 to 3 (default: 2)"
    )
    options.add_argument("--scripts", type=int, metavar="N", help="groups that get a script (default: 50)")
    options.add_argument("--standard", metavar="S", help="rules to judge by (default: those of the check)")
    options.add_argument(
        "--override", action="append", default=[], metavar="API=MODULE:FUNCTION",
        help="repeat the functions that the check was made with, if you trust them",
    )  # fmt: skip
    options.add_argument(
        "--operators", action="append", default=[], metavar="MODULE", help="repeat the modules of operators likewise"
    )
    options.add_argument("--rows", type=int, default=20, metavar="N", help="groups told on the terminal (default: 20)")
    group = options.add_argument_group("execution")
    group.add_argument("--workers", type=int, metavar="N", help="processes (default: one a core)")
    group.add_argument("--timeout", type=float, metavar="S", help="seconds that a case may take (default: 120)")
    group.add_argument("--memory", type=float, metavar="GB", help="memory that a case may use (default: its share)")
    add_json(options)
    return options


def run(options: argparse.Namespace) -> int:
    from trueline.campaign.triage import triage
    from trueline.cli.checks import overrides_of
    from trueline.cli.live import live
    from trueline.groups import as_plain
    from trueline.report.terminal import write
    from trueline.report.triage import triage_blocks

    chosen = given(options, ("out", "representatives", "scripts", "workers", "timeout", "memory", "standard"))
    overrides = overrides_of(options)
    with live(sys.stderr) as view:
        found = triage(
            options.check, opinions=options.opinions, overrides=overrides, progress=view.advance, **chosen
        )
    if options.json:
        print(json.dumps({**as_plain(found), "labels": found.labels}, indent=1))
    else:
        write(triage_blocks(found, rows=options.rows))
    return EXIT_FINDINGS if found.groups else EXIT_CLEAN
