"""``trueline capture``: a program -> a Run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from trueline.cli.options import EXIT_FAILED, Parser, add_json_file, given, numbers, written
from trueline.errors import TruelineError, UsageError
from trueline.records import Data
from trueline.report.blocks import line

FRAMEWORKS = ("auto", "torch", "paddle")
LEVELS = ("api", "module", "kernel", "api+module")
PASSED_ON = (
    "level", "data", "steps", "ranks", "apis", "modules", "calls", "between", "stacks", "integers",
    "exit_after_last_step", "witness", "seed", "deterministic", "framework", "targets",
)  # fmt: skip


def parser() -> Parser:
    options = _CaptureParser(
        "capture",
        "--out RUN [options] -- PROGRAM ...",
        "Runs a program and records its calls into a Run. The script stays as it is; torchrun and "
        "paddle.distributed.launch work too.",
        "trueline capture --out runs/a --data tensors --steps 2 -- python train.py --epochs 1",
    )
    options.add_argument("--out", required=True, metavar="RUN", help="the folder to write; must not hold a Run yet")
    options.add_argument("--level", choices=LEVELS, help="at which height calls are seen (default: api)")
    options.add_argument("--data", choices=[data.value for data in Data], help="what is kept (default: stats)")
    _add_scope(options)
    _add_switches(options)
    add_json_file(options, "what was recorded")
    return options


def run(options: argparse.Namespace) -> int:
    if not options.program:
        raise UsageError("no program to run: put it after --, as in trueline capture --out RUN -- python train.py")
    from trueline.capture.launch import run_command
    from trueline.capture.targets import absolute

    if options.targets:
        options.targets = absolute(options.targets)
    code: int = run_command(options.program, {"out": options.out, **given(options, PASSED_ON)})
    recorded = _report(options.out, options.json, code)
    if code == 0 and not recorded:
        return EXIT_FAILED
    return code if code >= 0 else 128 - code  # a program that was killed ends as in a shell


class _CaptureParser(Parser):
    """Everything after the first ``--`` is the program, untouched."""

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        cut = words.index("--") if "--" in words else len(words)
        options = super().parse(words[:cut])
        options.program = list(words[cut + 1 :])
        return options


def _add_scope(options: Parser) -> None:
    scope = options.add_argument_group("scope")
    scope.add_argument("--steps", type=numbers, metavar="2,4-6", help="steps to record (default: all)")
    scope.add_argument("--ranks", type=numbers, metavar="0,1", help="ranks to record (default: all)")
    scope.add_argument("--apis", nargs="+", metavar="GLOB", help="only APIs that match: 'torch.nn.functional.*'")
    scope.add_argument("--modules", nargs="+", metavar="GLOB", help="only modules that match: 'encoder.layers.*'")
    scope.add_argument("--calls", nargs="+", metavar="NAME", help="only these calls: torch.relu.3")
    scope.add_argument("--between", nargs=2, metavar=("FIRST", "LAST"), help="only from one call to another")
    scope.add_argument("--framework", choices=FRAMEWORKS, help="what to watch (default: what the program imports)")
    scope.add_argument(
        "--targets", nargs="+", metavar="FILE", help="Paddle: more functions to record, as op_target.yaml or full names"
    )


def _add_switches(options: Parser) -> None:
    switch = argparse.BooleanOptionalAction
    more = options.add_argument_group("more")
    more.add_argument("--stacks", action=switch, default=None, help="keep source stacks (default: yes)")
    more.add_argument("--integers", action=switch, default=None, help="also record tensors of ints and bools")
    more.add_argument(
        "--exit-after-last-step", action="store_true", default=None, help="end the program when all steps are recorded"
    )
    more.add_argument(
        "--witness", action="store_true", default=None, help="count kernels outside recorded calls (slower)"
    )
    more.add_argument("--seed", type=int, metavar="N", help="seed all generators before the program starts")
    more.add_argument(
        "--deterministic", action="store_true", default=None, help="ask the framework for deterministic kernels"
    )


def _report(out: str, target: str | None, code: int) -> bool:
    """Says what was recorded; False where nothing was. The program may own standard output, so text goes to standard
    error."""
    from trueline.report.json import dumps, run_dict
    from trueline.report.showing import certificate_blocks
    from trueline.report.terminal import write
    from trueline.store import open_run

    summary: dict[str, object]
    try:
        with open_run(out) as run:
            certificates = {rank: run.rank(rank).certificate for rank in run.ranks}
            summary = run_dict(run.path, run.info, certificates)
            write([line(f"trueline: recorded {out}", "strong"), *certificate_blocks(certificates)], sys.stderr)
    except TruelineError as error:
        summary = {"path": out, "error": str(error)}
        advice = "did the program import torch or paddle?"
        print(f"trueline capture: nothing was recorded: {error}; {advice}", file=sys.stderr)
    if target:
        with written(target) as stream:
            stream.write(dumps({"exit_code": code, **summary}) + "\n")
    return "error" not in summary
