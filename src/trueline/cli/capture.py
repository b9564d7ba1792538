"""``trueline capture``: a program -> a Run."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence

from trueline.cli.options import EXIT_CLEAN, EXIT_FAILED, EXIT_FINDINGS, Parser, add_json_file, given, numbers, written
from trueline.errors import TruelineError, UsageError
from trueline.records import Data
from trueline.report.blocks import line

FRAMEWORKS = ("auto", "torch", "paddle")
LEVELS = ("api", "module", "kernel", "api+module")
PASSED_ON = (
    "level", "data", "steps", "ranks", "apis", "modules", "calls", "between", "stacks", "integers",
    "exit_after_last_step", "every", "witness", "seed", "deterministic", "framework", "targets",
)  # fmt: skip
WATCHED = ("steps", "ranks", "overflow_nums", "exit_after", "look_back", "rotation", "hold", "whole", "budget",
           "seed", "deterministic", "framework")  # fmt: skip
WATCH_ONLY = ("overflow_nums", "exit_after", "look_back", "rotation", "hold", "whole", "budget")
IMPORTED = "imported"
"""What a process tells that has imported a framework and begun."""
WATCH_DOOR = "trueline.diagnose.watching:watch"


def parser() -> Parser:
    options = _CaptureParser(
        "capture",
        "--out RUN [options] -- PROGRAM ...",
        "Runs a program and records its calls into a Run. The script stays as it is; torchrun and "
        "paddle.distributed.launch work too. With --watch it records little, for as long as the program runs, and "
        "keeps the calls before anything that becomes NaN or infinity. Ends with the program's own exit code where "
        "that is not 0; else with 2 where nothing was recorded, with 0, or 1 where a watch saw an overflow.",
        "trueline capture --out runs/a --data tensors --steps 2 -- python train.py --epochs 1",
    )
    options.add_argument("--out", required=True, metavar="RUN", help="the folder to write; must not hold a Run yet")
    options.add_argument("--level", choices=LEVELS, help="at which height calls are seen (default: api)")
    options.add_argument("--data", choices=[data.value for data in Data], help="what is kept (default: stats)")
    _add_scope(options)
    _add_switches(options)
    _add_watch(options)
    add_json_file(options, "what was recorded")
    return options


def run(options: argparse.Namespace) -> int:
    if not options.program:
        raise UsageError("no program to run: put it after --, as in trueline capture --out RUN -- python train.py")
    if options.watch:
        return _watch(options)
    if stray := [name for name in WATCH_ONLY if getattr(options, name) is not None]:
        raise UsageError(f"{_option(stray[0])} is an option of a watch: add --watch")
    from trueline.capture.launch import run_command
    from trueline.capture.targets import absolute

    if options.targets:
        options.targets = absolute(options.targets)
    with tempfile.NamedTemporaryFile("r", prefix="trueline-", suffix=".txt") as told:
        code: int = run_command(options.program, {"out": options.out, "told": told.name, **given(options, PASSED_ON)})
        recorded = _report(options.out, options.json, code, told.read())
    if code == 0 and not recorded:
        return EXIT_FAILED
    return code if code >= 0 else 128 - code  # a program that was killed ends as in a shell


def _watch(options: argparse.Namespace) -> int:
    """Runs a program under a watch, then says what was found: exit code 1 where the program itself ended well."""
    from trueline.capture.launch import run_command
    from trueline.capture.watch_options import WatchOptions, make_watch_options

    if stray := [name for name in PASSED_ON if name not in WATCHED and getattr(options, name) is not None]:
        raise UsageError(f"{_option(stray[0])} has no meaning for a watch, which looks at everything: leave it away")
    own = ("exit_after", "look_back", "rotation", "hold", "whole", "budget")
    known = {name: getattr(WatchOptions(), name) for name in own}
    asked = given(options, [name for name in WATCHED if name not in ("seed", "deterministic", "framework")])
    make_watch_options(**{"steps": None, "ranks": None, "overflow_nums": None, "backward": True, **known, **asked})
    with tempfile.NamedTemporaryFile("r", prefix="trueline-", suffix=".txt") as told:
        asked_for = {"out": options.out, "told": told.name, **given(options, WATCHED)}
        code: int = run_command(options.program, asked_for, WATCH_DOOR)
        found = _report_watch(options.out, options.json, told.read())
    if code:
        return code if code > 0 else 128 - code
    return found


def _report_watch(out: str, target: str | None, told: str) -> int:
    """Says what a watch found; text goes to standard error."""
    from trueline.diagnose.overflow import overflow
    from trueline.report.overflow_files import write_overflow_json
    from trueline.report.overflow_text import overflow_blocks
    from trueline.report.terminal import write

    try:
        report = overflow(out)
    except TruelineError as error:
        print(f"trueline capture: nothing was watched: {_why(told, str(error))}", file=sys.stderr)
        return EXIT_FAILED
    write([line(f"trueline: watched, see {out}", "strong"), *overflow_blocks(report)], sys.stderr)
    if target:
        with written(target) as stream:
            write_overflow_json(report, stream)
    if report.wrong:
        return EXIT_FINDINGS
    return EXIT_CLEAN if report.measured else EXIT_FAILED


def _why(told: str, else_: str) -> str:
    """Why nothing was recorded, by what the processes of the program have told."""
    reasons = list(dict.fromkeys(text for text in told.splitlines() if text))
    if not reasons:
        return "the program imported neither torch nor paddle (or it started another Python without our environment)"
    faults = [text for text in reasons if text != IMPORTED]
    return "; ".join(faults) or else_


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


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
    scope.add_argument("--every", type=int, metavar="N", help="record each N-th step alone, in a long training")
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


def _add_watch(options: Parser) -> None:
    watch = options.add_argument_group("watch")
    watch.add_argument(
        "--watch",
        action="store_true",
        help="look lightly at every call of every step; keep the calls before an overflow",
    )
    watch.add_argument("--overflow-nums", type=int, metavar="N", help="end the watch after N bad steps of a rank")
    watch.add_argument(
        "--exit-after", action="store_true", default=None, help="end the program then, too (without N: after the first)"
    )
    watch.add_argument("--look-back", type=int, metavar="CALLS", help="calls before the origin to keep (default: 64)")
    watch.add_argument("--rotation", type=int, metavar="N", help="look at each call in every N-th step (default: 4)")
    watch.add_argument(
        "--hold",
        type=float,
        metavar="SHARE",
        help="memory to hold back: a share of what is free, or bytes (default: 0.25)",
    )
    watch.add_argument(
        "--watch-budget",
        dest="budget",
        type=float,
        metavar="SHARE",
        help="share of the time that recording steps on a GPU may take (default: 0.03; 1: record every step)",
    )
    watch.add_argument(
        "--whole",
        action="store_true",
        default=None,
        help="look at every element of every call in every step, not at a part of large tensors in turn",
    )


def _report(out: str, target: str | None, code: int, told: str) -> bool:
    """Says what was recorded; False where nothing was. The program may own standard output, so text goes to standard
    error."""
    from trueline.report.json import dumps, run_dict
    from trueline.report.partial import partial_blocks, partial_certificates
    from trueline.report.showing import certificate_blocks
    from trueline.report.terminal import write
    from trueline.store import open_run

    summary: dict[str, object] = {"path": out}
    why = ""
    try:
        with open_run(out) as run:
            certificates = {rank: run.rank(rank).certificate for rank in run.ranks}
            summary = run_dict(run.path, run.info, certificates)
    except TruelineError as error:
        certificates, why = {}, str(error)
    recorded = any(sum(one.calls.values()) for one in certificates.values())
    if recorded:
        write(partial_blocks(partial_certificates(out, certificates)), sys.stderr)
        write([line(f"trueline: recorded {out}", "strong"), *certificate_blocks(certificates)], sys.stderr)
    else:
        stopped = "; ".join(dict.fromkeys(one.partial for one in certificates.values() if one.partial))
        why = _why(told, stopped or why or "the program made no call that was asked for")
        summary["error"] = f"nothing was recorded: {why}"
        print(f"trueline capture: nothing was recorded: {why}", file=sys.stderr)
    if target:
        with written(target) as stream:
            stream.write(dumps({"exit_code": code, **summary}) + "\n")
    return recorded
