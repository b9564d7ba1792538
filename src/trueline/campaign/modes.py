"""What a check can be asked for besides accuracy: its modes, by name.

    accuracy       the numbers of every call against those of the reference (default)
    target-only    every call runs on the target, forward and backward; nothing is compared
    amp            both sides under autocast; ``amp:float16`` says to which dtype (default: bfloat16)
    static, cinn   the graph that Paddle makes of a call, without and with its compiler, against the call itself
    compile        what torch.compile makes of a call against the call itself
    stability      every call several times with the same inputs: the same bits each time? ``stability:10``
    tolerance      errors are collected, none is judged; ends in tolerances to recommend
    performance    time and memory (``campaign.profile``)

A mode changes the Targets, the job that workers do with a case, and the standard. That is all: planning, executing, the
ledger and reports are those of every check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from trueline.cases import INDEPENDENT, Target
from trueline.errors import UsageError
from trueline.judge.checks import DEFAULT_CHECK_STANDARD, CheckStandard
from trueline.records import Verdict

ACCURACY, TARGET_ONLY, AMP, STATIC, CINN = "accuracy", "target-only", "amp", "static", "cinn"
COMPILE, STABILITY, TOLERANCE, PERFORMANCE = "compile", "stability", "tolerance", "performance"

MEASURE_JOBS = "trueline.replay.jobs:measuring"
RUN_JOBS = "trueline.replay.modes_alone:running"
REPEAT_JOBS = "trueline.replay.modes_alone:repeating"
"""What workers do; by name, so that this process needs no framework."""

DEFAULT_REPEATS = 3
_MOST_REPEATS = 1000
_AUTOCAST = ("bfloat16", "float16")


@dataclass(frozen=True, slots=True)
class Mode:
    """A way to check. ``jobs`` is what workers do with a case, ``setup`` what they are told of it besides the Targets.
    ``standard`` is the one by which the mode judges; empty where any can be asked. ``passed`` is the word for what
    passed, where that is not that numbers were found right."""

    name: str
    setting: str = ""
    how: str = ""
    """What is added to the target; see ``cases.Target``."""
    jobs: str = MEASURE_JOBS
    standard: str = ""
    setup: Mapping[str, Any] = field(default_factory=dict)
    passed: str = ""

    def __str__(self) -> str:
        return f"{self.name}:{self.setting}" if self.setting else self.name

    def word(self, verdict: Verdict) -> str:
        """A verdict in this mode, in capitals."""
        named = self.passed if verdict is Verdict.PASS and self.passed else verdict.name
        return named.replace("_", " ")


@dataclass(frozen=True, slots=True)
class Applied:
    """A check as a mode has it: Targets, standard, what workers do and what they are told."""

    mode: Mode
    target: str
    reference: str | None
    standard: str | CheckStandard
    jobs: str
    setup: Mapping[str, Any]


def mode_named(text: str) -> Mode:
    """The mode of this name, with what is set after a colon: ``stability``, ``stability:10``, ``amp:float16``."""
    name, colon, setting = text.strip().partition(":")
    if name not in _MODES:
        raise UsageError(f"unknown mode {name!r}; there are {', '.join(_MODES)}")
    if colon and name not in (AMP, STABILITY):
        raise UsageError(f"the mode {name} has nothing to set, {text!r} was asked for; write --mode {name}")
    return _MODES[name](setting)


def apply_mode(
    mode: str | Mode,
    target: str,
    reference: str | None = None,
    standard: str | CheckStandard = DEFAULT_CHECK_STANDARD,
) -> Applied:
    """What a mode makes of a check."""
    chosen = mode_named(mode) if isinstance(mode, str) else mode
    candidate = _with_how(Target.parse(target), chosen)
    trusted = None if reference is None else Target.parse(reference)
    if trusted is not None and trusted.how not in ("", INDEPENDENT):
        raise UsageError(f"{reference} cannot be the reference: what is trusted is executed eagerly, without "
                         f"+{trusted.how}")  # fmt: skip
    if candidate.autocast:  # on both sides
        trusted = replace(trusted or Target(candidate.framework, "cpu", "float64"), how=candidate.how)
    if chosen.standard and standard not in (DEFAULT_CHECK_STANDARD, chosen.standard):
        raise UsageError(f"the mode {chosen.name} has its own rule ({chosen.standard}): it cannot be judged by "
                         f"{standard if isinstance(standard, str) else standard.name}")  # fmt: skip
    return Applied(
        chosen,
        str(candidate),
        None if trusted is None else str(trusted),
        chosen.standard or standard,
        chosen.jobs,
        chosen.setup,
    )


def _with_how(target: Target, mode: Mode) -> Target:
    if not mode.how or target.how == mode.how:
        return target
    if target.how:
        raise UsageError(f"{target} says already how calls are executed; the mode {mode.name} says otherwise")
    try:
        return Target.parse(f"{target}+{mode.how}", target.overrides)
    except UsageError:
        own = {"paddle": f"{STATIC} or {CINN}", "torch": COMPILE}[target.framework]
        raise UsageError(f"{target} has no mode {mode.name}; the graphs of {target.framework} are checked by "
                         f"--mode {own}") from None  # fmt: skip


def _amp(setting: str) -> Mode:
    dtype = setting or _AUTOCAST[0]
    if dtype not in _AUTOCAST:
        raise UsageError(f"autocast to {dtype!r}? Write amp:bfloat16 or amp:float16")
    return Mode(AMP, setting, f"amp-{dtype}")


def _stability(setting: str) -> Mode:
    try:
        repeats = int(setting or DEFAULT_REPEATS)
    except ValueError:
        repeats = 0
    if not 2 <= repeats <= _MOST_REPEATS:
        raise UsageError(f"stability takes how often a call is run, from 2 to {_MOST_REPEATS} times, not {setting!r}")
    return Mode(STABILITY, setting, "", REPEAT_JOBS, "repeatable", {"repeats": repeats}, "STABLE")


_MODES: Mapping[str, Callable[[str], Mode]] = {
    ACCURACY: lambda _: Mode(ACCURACY),
    TARGET_ONLY: lambda _: Mode(TARGET_ONLY, jobs=RUN_JOBS, standard="ran", passed="RAN, NOT COMPARED"),
    AMP: _amp,
    STATIC: lambda _: Mode(STATIC, how="static"),
    CINN: lambda _: Mode(CINN, how="cinn"),
    COMPILE: lambda _: Mode(COMPILE, how="compile"),
    STABILITY: _stability,
    TOLERANCE: lambda _: Mode(TOLERANCE, standard="collected", passed="COLLECTED, NOT JUDGED"),
    PERFORMANCE: lambda _: Mode(PERFORMANCE),
}

MODES = tuple(_MODES)
