"""Time and memory of the calls of a Run, from a profile of it: a Run itself keeps no times, since a call that is being
recorded does not take the time that it takes alone.

A profile measures each distinct call once. A call of the Run gets the numbers of the one that is written the same:
API, arguments, dtypes and shapes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trueline.cases import Case, TensorSpec
from trueline.records import Call, Level, Phase, Verdict
from trueline.report.call_numbers import Vector
from trueline.report.check_wording import call_words
from trueline.store import Trace
from trueline.store.columns import LEVELS, NONE, PHASES

_UNDER = " under autocast "
"""What a profile adds to a call that was made under autocast; a Run does not say it so."""
NO_VERDICT = 255
"""Stands for the verdict of a call of which the profile knows nothing."""


def call_times(trace: Trace, profile: Mapping[str, Any]) -> dict[str, Vector]:
    """Of each call of one rank: ``seconds`` and ``against_seconds``, ``peak`` and ``against_peak`` bytes (NaN where
    the profile has no such call), the ``speed`` verdict of its time and memory and the ``accuracy`` verdict."""
    known = {str(case["call"]).partition(_UNDER)[0]: case for case in reversed(profile["cases"])}
    count = len(trace)
    names = ("seconds", "against_seconds", "peak", "against_peak")
    found: dict[str, Vector] = {name: np.full(count, np.nan, dtype="<f4") for name in names}
    verdicts = {name: np.full(count, NO_VERDICT, dtype=np.int64) for name in ("speed", "accuracy")}
    forwards, backwards = _by_forward(trace)
    for positions in _alike(trace, forwards):
        case = known.get(_words(trace.call(int(positions[0]), statistics=False)))
        if case is None:
            continue
        for phase, places in ((Phase.FORWARD, positions), (Phase.BACKWARD, backwards[positions])):
            places = places[places != NONE]
            for name, value in _numbers(case, phase).items():
                found[name][places] = value
            for name, verdict in _verdicts(case, phase).items():
                verdicts[name][places] = verdict
    return {**found, **verdicts}


def _words(call: Call) -> str:
    """The call as a profile writes it."""
    specs = tuple(TensorSpec(one.path, one.dtype, one.shape) for one in call.inputs)
    return call_words(Case(call.api, call.arguments, specs))


def _by_forward(trace: Trace) -> tuple[Vector, Vector]:
    """The positions of the forward API calls; by position of any call, that of its first backward call."""
    ids, phase = trace.column("id"), trace.column("phase")
    api = trace.column("level") == LEVELS.index(Level.API)
    backwards = np.full(len(trace), NONE, dtype=np.int64)
    for position in np.flatnonzero(api & (phase == PHASES.index(Phase.BACKWARD)))[::-1].tolist():
        forward = int(trace.column("forward")[position])
        place = int(np.searchsorted(ids, forward)) if forward != NONE else len(ids)
        if place < len(ids) and int(ids[place]) == forward:
            backwards[place] = position
    return np.flatnonzero(api & (phase == PHASES.index(Phase.FORWARD))), backwards


def _alike(trace: Trace, positions: Vector) -> list[Vector]:
    """Calls in groups that are written the same, by what the Run says once: a few numbers a call."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    api, arguments = trace.column("api"), trace.column("arguments")
    for position in positions.tolist():
        layouts = tuple(trace.visits_of(position)[:, 4].tolist())
        groups.setdefault((int(api[position]), int(arguments[position]), layouts), []).append(position)
    return [np.array(group) for group in groups.values()]


def _numbers(case: Mapping[str, Any], phase: Phase) -> dict[str, float]:
    found = {}
    for prefix, side in (("", case["target"]), ("against_", case["against"])):
        profiled = None if side is None else side["phases"].get(phase.value)
        memory = None if profiled is None else profiled["memory"]
        found[f"{prefix}seconds"] = math.nan if profiled is None else float(profiled["timing"]["median"])
        found[f"{prefix}peak"] = math.nan if memory is None else float(memory["peak"])
    return found


def _verdicts(case: Mapping[str, Any], phase: Phase) -> dict[str, int]:
    said: Sequence[int] = [Verdict[one["verdict"]] for one in case["findings"] if one["phase"] == phase.value]
    speed = max(said, default=NO_VERDICT)
    accuracy = NO_VERDICT if case["accuracy"] is None else int(Verdict[case["accuracy"]])
    return {"speed": int(speed), "accuracy": accuracy}
