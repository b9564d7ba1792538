"""``trueline check``: every call of a source alone, against a reference that can be trusted."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from trueline.cli.checks import EXECUTION, add_execution, add_reports, add_source, conclude, overrides_of
from trueline.cli.inside import add_inside, run_inside
from trueline.cli.options import Parser, given
from trueline.errors import TruelineError, UsageError

if TYPE_CHECKING:
    from trueline.campaign import CheckReport

_CAMPAIGN = ("mode", "draws", "variants", "executor", "address", "retry")


def parser() -> Parser:
    options = Parser(
        "check",
        "SOURCE... --target T [options]",
        "Executes every call of a Run, or every line of a file of config lines, alone, forward and backward, and says "
        "which are wrong: exit code 1 if any. A reference of another framework judges the calls that both have.",
        "trueline check runs/a --target torch:cuda/bfloat16 --out checks/a --save-failures",
    )
    add_source(options, target_needed=False)
    options.add_argument("--reference", metavar="T", help="what to trust (default: the target's framework on the CPU)")
    options.add_argument(
        "--standard", metavar="S", help="rules to judge by: calibrated (default), allclose, precheck, a .toml file, ..."
    )
    options.add_argument(
        "--mode", metavar="M",
        help="accuracy (default), target-only, amp[:dtype], static, cinn, compile, stability[:N], tolerance, "
        "performance",
    )  # fmt: skip
    options.add_argument("--out", metavar="FOLDER", help="keep the check here; goes on where it was stopped")
    options.add_argument(
        "--save-failures", action="store_true", help="keep inputs, outputs and a script for each failure"
    )
    _add_campaign(options)
    add_inside(options)
    add_execution(options)
    add_reports(options)
    return options


def _add_campaign(options: Parser) -> None:
    group = options.add_argument_group("campaigns")
    group.add_argument("--draws", type=int, metavar="N", help="draws of the inputs of each case (default: 1)")
    group.add_argument(
        "--variants", type=_words, metavar="V,...", help="also cases made of each: zero-size, big, dtypes"
    )
    group.add_argument("--strided", action="store_true", help="also each case with inputs that are not contiguous")
    group.add_argument(
        "--retry", metavar="E,...",
        help="run cases of --out again that ended so: crashed, timed_out, out_of_memory, harness_error, ..., all",
    )  # fmt: skip
    group.add_argument(
        "--baseline", metavar="FOLDER", help="a kept check: exit code 1 only for failures that it does not have"
    )
    group.add_argument("--executor", metavar="E", help="processes (default) or ray")
    group.add_argument("--address", metavar="A", help="the cluster of --executor ray (default: auto)")


def run(options: argparse.Namespace) -> int:
    if options.inside:
        return run_inside(options)
    if options.target is None:
        raise UsageError("--target is needed: where to execute, for example torch:cuda/bfloat16 or torch:cpu")
    if options.mode == "performance":
        from trueline.cli.profile import run_check

        return run_check(options)
    return conclude(_checked(options), options)


def _checked(options: argparse.Namespace) -> CheckReport:
    from trueline.campaign import check, load_check
    from trueline.cli.live import live

    if options.baseline is not None:
        load_check(options.baseline)  # one that is not there is an error now, not after hours
    try:
        with live(sys.stderr) as view:
            return check(
                options.source,
                target=options.target,
                overrides=overrides_of(options),
                out=options.out,
                save_failures=options.save_failures,
                strided=options.strided,
                progress=view.advance,
                on_case=view.on_case,
                **given(options, ("reference", "standard", *_CAMPAIGN, *EXECUTION)),
            )
    except KeyboardInterrupt:
        if options.out is None:
            raise
        raise TruelineError("interrupted; the same command goes on from here") from None


def _words(text: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(","))
    if not all(words):
        raise UsageError(f"{text!r} is not a list of names like zero-size,dtypes")
    return words
