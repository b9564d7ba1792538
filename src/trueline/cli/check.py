"""``trueline check``: every call of a source alone, against a reference that can be trusted."""

from __future__ import annotations

import argparse
import sys

from trueline.cli.checks import EXECUTION, add_execution, add_reports, add_source, conclude, overrides_of
from trueline.cli.options import Parser, given
from trueline.errors import TruelineError


def parser() -> Parser:
    options = Parser(
        "check",
        "SOURCE... --target T [options]",
        "Executes every call of a Run, or every line of a file of config lines, alone, forward and backward, and says "
        "which are wrong: exit code 1 if any. A reference of another framework judges the calls that both have.",
        "trueline check runs/a --target torch:cuda/bfloat16 --out checks/a --save-failures",
    )
    add_source(options)
    options.add_argument("--reference", metavar="T", help="what to trust (default: the target's framework on the CPU)")
    options.add_argument(
        "--standard", metavar="S", help="rules to judge by: calibrated (default), allclose, precheck, a .toml file, ..."
    )
    options.add_argument("--out", metavar="FOLDER", help="keep the check here; goes on where it was stopped")
    options.add_argument(
        "--save-failures", action="store_true", help="keep inputs, outputs and a script for each failure"
    )
    add_execution(options)
    add_reports(options)
    return options


def run(options: argparse.Namespace) -> int:
    from trueline.campaign import check
    from trueline.cli.progress import progress

    try:
        with progress(sys.stderr) as advance:
            report = check(
                options.source,
                target=options.target,
                overrides=overrides_of(options),
                out=options.out,
                save_failures=options.save_failures,
                progress=advance,
                **given(options, ("reference", "standard", *EXECUTION)),
            )
    except KeyboardInterrupt:
        if options.out is None:
            raise
        raise TruelineError("interrupted; the same command goes on from here") from None
    return conclude(report, options)
