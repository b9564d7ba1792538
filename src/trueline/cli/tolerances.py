"""``trueline tolerances``: how large the errors of a check are, and the tolerances that would hold for them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from trueline.cli.options import EXIT_CLEAN, EXIT_FAILED, Parser, add_json, given, let_go


def parser() -> Parser:
    options = Parser(
        "tolerances",
        "CHECK [--out FOLDER] [options]",
        "Quantiles of the errors of a check that was kept, of every API, dtype, direction and output: absolute, "
        "relative, in ULP and in eps of the scale of the result, with the worst config and element, and tolerances to "
        "recommend. Writes them with the files that PaddleAPITest has: tol.csv, tol_full.csv, tol_stat.csv and "
        "tol_stat_api.csv.",
        "trueline tolerances checks/a --out tolerances/a",
    )
    options.add_argument("check", metavar="CHECK", help="the folder that was given to check --out")
    options.add_argument("--out", metavar="FOLDER", help="write there (default: CHECK/tolerances)")
    options.add_argument("--margin", type=float, metavar="X", help="recommend X times what was seen (default: 2)")
    options.add_argument(
        "--confidence", type=float, metavar="C", help="of intervals and coverages, from 0 to 1 (default: 0.95)"
    )
    options.add_argument("--rows", type=int, default=20, metavar="N", help="rows in the table (default: 20)")
    add_json(options)
    return options


def run(options: argparse.Namespace) -> int:
    from trueline.campaign.tolerances import FOLDER, JSON_FILE, write_tolerances
    from trueline.report.terminal import write
    from trueline.report.tolerances import tolerance_blocks

    found = write_tolerances(options.check, options.out, **given(options, ("margin", "confidence")))
    folder = Path(options.check) / FOLDER if options.out is None else Path(options.out)
    try:
        if options.json:
            print((folder / JSON_FILE).read_text(encoding="utf-8"), end="")
            return EXIT_CLEAN if found.tensors else EXIT_FAILED
        write(tolerance_blocks(found, rows=options.rows, folder=folder))
    except BrokenPipeError:  # ``| head`` has seen enough
        let_go(sys.stdout)
    return EXIT_CLEAN if found.tensors else EXIT_FAILED
