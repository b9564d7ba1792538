"""What a worker does that times Cases: makes one ready, and runs it a short while whenever it is told to.

A job is a *round*: some laps of each direction of one Case. Who sends the jobs alternates between two workers, so that
whatever else happens on this machine happens to both.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from trueline.cases import Case, Outcome, Status, Target, TensorSpec
from trueline.frameworks.base import ArrayIn, CannotExecute, Inputs
from trueline.frameworks.timing import CallFailed, Prepared, Timer, timer
from trueline.ops.domains import is_structural
from trueline.ops.mapping.translate import NoCounterpart, translate
from trueline.profiles import Footprint, Lap
from trueline.records import Phase
from trueline.replay.inputs import drawn, load
from trueline.replay.serial import case_from_json, outcome_to_json, plain, target_from_json
from trueline.replay.translated import is_foreign

TIME = "trueline.replay.timing:timing"

_LAP_SECONDS = 1e-3
"""So long a lap is to last: much longer than reading the clock takes."""
_MOST_CALLS = 5000
_TILE = 1 << 20
_WARM_SECONDS = 0.1
_WARM_LAPS = 3
_STEADY = 0.95
"""Warm is what was not faster than this share of the lap before."""

Work = Callable[[Any], Any]


def timing(setup: dict[str, Any], announce: Callable[[str], None]) -> Work:
    bench = Bench([target_from_json(one) for one in setup["targets"]], announce)
    bench.timer(setup["first"])  # imports the framework and the overrides now, so that no case pays for it
    return bench.work


class Bench:
    """Keeps the last Case ready. A job says on ``which`` of the Targets it is to be timed: most often one and the same,
    but two workers can exchange their Targets, to see whether a difference is the Target's or the process's."""

    def __init__(
        self,
        targets: Sequence[Target],
        announce: Callable[[str], None],
        make: Callable[[Target], Timer] = timer,
    ) -> None:
        self._targets = targets
        self._make = make
        self._timers: dict[int, Timer] = {}
        self._announce = announce
        self._ready_for: tuple[int, str] = (-1, "")
        self._prepared: Prepared | None = None
        self._times: dict[Phase, int] = {}
        self._facts: dict[str, Any] = {}

    def work(self, payload: Mapping[str, Any]) -> Any:
        which = payload["which"]
        if "dtypes" in payload:
            found = self.timer(which).roofline(payload["dtypes"])
            return {"flops": dict(found.flops), "bandwidth": found.bandwidth}
        case = case_from_json(payload["case"])
        if payload["fresh"] or (which, case.key) != self._ready_for:
            self._announce("prepare")
            self._prepare(case, which)
        if self._prepared is None:
            return self._facts
        self._announce("time")
        laps = {phase.value: self._round(self._prepared, phase, payload["seconds"]) for phase in self._prepared.phases}
        return {**self._facts, "laps": laps}

    def timer(self, which: int) -> Timer:
        """What times Cases on one of the Targets."""
        if which not in self._timers:
            self._timers[which] = self._make(self._targets[which])
        return self._timers[which]

    def _prepare(self, case: Case, which: int) -> None:
        self._ready_for, self._prepared = (which, case.key), None
        try:
            translated, inputs = on_target(case, inputs_of(case), self._targets[which])
            self._prepared = ready = self.timer(which).prepare(translated, inputs)
        except CallFailed as error:
            self._facts = {"outcome": outcome_to_json(error.outcome)}
            return
        except CannotExecute as error:
            self._facts = {"outcome": outcome_to_json(Outcome(Status.UNSUPPORTED, str(error)))}
            return
        self._times = {phase: self._warm(ready, phase) for phase in ready.phases}
        memory = {phase.value: _bytes(ready.memory(phase)) for phase in ready.phases}
        outputs = [[one.path, one.dtype, list(one.shape), one.shared] for one in ready.outputs]
        done = outcome_to_json(Outcome(Status.RETURNED))
        self._facts = {"outcome": done, "memory": memory, "outputs": outputs, "notes": list(ready.notes),
                       "taken_off": ready.taken_off}  # fmt: skip

    def _warm(self, ready: Prepared, phase: Phase) -> int:
        """Runs a direction until it does not get faster any more; gives how many calls make a lap."""
        begun = time.perf_counter()
        times, last = 1, float("inf")
        for number in range(1000):
            lap = ready.lap(phase, times)
            busy = max(lap.seconds, lap.launch or 0.0, lap.wall, 1e-9)
            steady = busy >= _STEADY * last and number >= _WARM_LAPS
            if steady or time.perf_counter() - begun > _WARM_SECONDS:
                break
            last = busy
            times = calls_of_a_lap(busy)
        return calls_of_a_lap(busy)

    def _round(self, ready: Prepared, phase: Phase, seconds: float) -> dict[str, Any]:
        times = self._times[phase]
        laps: list[Lap] = []
        begun = time.perf_counter()
        while not laps or time.perf_counter() - begun < seconds:
            laps.append(ready.lap(phase, times))
        launches = [lap.launch for lap in laps if lap.launch is not None]
        seconds = plain([lap.seconds for lap in laps])
        return {"calls": sum(lap.calls for lap in laps), "seconds": seconds, "launch": launches}


def calls_of_a_lap(seconds: float) -> int:
    """How many calls of so many seconds make a lap."""
    return max(1, min(_MOST_CALLS, round(_LAP_SECONDS / seconds)))


def inputs_of(case: Case) -> Inputs:
    """What a Case is given, as in a check, but that a large tensor repeats itself: numbers that nobody looks at need
    not all be different, and drawing them would take longer than timing the call."""
    tensors = {
        spec.path: load(spec) if spec.stored else _tiled(spec, case.seed, spec.path, case) for spec in case.tensors
    }
    gradients = {
        spec.path: load(spec) if spec.stored else _tiled(spec, case.seed, f"gradient {spec.path}")
        for spec in case.gradients
    }

    def arriving(path: str, shape: tuple[int, ...], dtype: str) -> ArrayIn:
        return _tiled(TensorSpec(path, dtype, shape), case.seed, f"gradient {path}")

    return Inputs(tensors, gradients, arriving)


def _tiled(spec: TensorSpec, seed: int, name: str, case: Case | None = None) -> ArrayIn:
    if math.prod(spec.shape) <= _TILE or is_structural(spec.domain):
        return drawn(spec, seed, name, case)
    tile = drawn(replace(spec, shape=(_TILE,), strides=None), seed, name, case)
    return ArrayIn(np.resize(tile.bits, spec.shape), tile.dtype)


def on_target(case: Case, inputs: Inputs, target: Target) -> tuple[Case, Inputs]:
    """A Case and its inputs as a Target executes them: translated where they are of another framework.
    ``CannotExecute`` where that one has no counterpart."""
    if case.api in target.overrides or not is_foreign(case, target):
        return case, inputs
    try:
        found = translate(case, target.framework)
    except NoCounterpart as error:
        raise CannotExecute(f"no counterpart in {target.framework}: {error}") from None
    tensors = {theirs: inputs.tensors[ours] for ours, theirs in found.paths.items() if ours in inputs.tensors}
    return found.case, replace(inputs, tensors=tensors)


def _bytes(footprint: Footprint | None) -> list[int] | None:
    return None if footprint is None else [footprint.peak, footprint.retained]
