"""Times a Case on one Target or on two by turns, until the numbers hold still or the time for it is spent.

Each Target has a worker process of its own. Only one of them works at a time; rounds alternate, and who begins
alternates as well, so that what slows the machine down slows both. What looks like a finding is timed again from the
start, with the two processes exchanged, before it is believed: a difference that stays with a process (where its memory
happens to lie) is none of the Targets.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trueline.cases import Case, Outcome, Status, Target
from trueline.errors import TruelineError
from trueline.profiles import (
    CaseTimed,
    Footprint,
    OutputSpec,
    PhaseProfile,
    Ratio,
    Roofline,
    SideProfile,
    Timing,
)
from trueline.records import Phase
from trueline.replay.pool import Done, Job, Pool
from trueline.replay.serial import case_to_json, outcome_from_json, target_to_json
from trueline.replay.timing import TIME

_FEWEST_ROUNDS = 5
_STILL = 0.05
"""Rounds hold still when the middle four fifths of them lie within this share of their median."""
RESOLUTION = 1e-6
"""Seconds, to which the clock and the calling of a function are known."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a Case is timed: rounds of so many seconds for each direction, all together not much longer than
    ``budget``. A ratio above ``limit`` is to be confirmed."""

    budget: float = 1.0
    round_seconds: float = 0.02
    limit: float = 1.2


@dataclass(frozen=True, slots=True)
class Round:
    """One direction in one round, in seconds a call."""

    calls: int
    seconds: tuple[float, ...]
    launches: tuple[float, ...]

    @property
    def typical(self) -> float:
        """The lower quartile: whatever else runs on the machine only ever makes a call slower."""
        return quantile(self.seconds, 0.25)


class Side:
    """A worker process for one of the Targets, which it can exchange for another."""

    def __init__(
        self,
        targets: Sequence[Target],
        which: int,
        environment: Mapping[str, str],
        timeout: float,
        memory: int | None,
    ) -> None:
        self.target = targets[which]
        self.which = which
        setup = {"targets": [target_to_json(one) for one in targets], "first": which}
        self._pool = Pool(TIME, setup, workers=1, timeout=timeout, memory=memory, environment=environment)

    def close(self) -> None:
        self._pool.close()

    def roofline(self, dtypes: Iterable[str]) -> Roofline:
        """What the device can do; nothing where it cannot be found out."""
        done = self._do({"dtypes": sorted(dtypes), "which": self.which})
        if done.answer is None:
            return Roofline()
        return Roofline(dict(done.answer["flops"]), float(done.answer["bandwidth"]))

    def round(self, case: Case, which: int, seconds: float, *, fresh: bool) -> dict[str, Any]:
        """The answer of the worker to one round on one of the Targets; how it ended where it did not give one."""
        done = self._do({"case": case_to_json(case), "which": which, "seconds": seconds, "fresh": fresh})
        if done.fault:
            return {"outcome": {"status": Status.RAISED.value, "reason": f"fault of the tool: {done.fault}"}}
        if done.outcome is not None:
            return {"outcome": {"status": done.outcome.status.value, "reason": done.outcome.reason}}
        answer: dict[str, Any] = done.answer
        return answer

    def _do(self, payload: Mapping[str, Any]) -> Done:
        done = list(self._pool.run([Job("", dict(payload))]))
        if not done:
            raise TruelineError(f"the worker of {self.target} gave no answer")
        return done[0]


class _Record:
    """What a Case has given so far on one Target."""

    def __init__(self, case: Case, which: int) -> None:
        self._case = case
        self._which = which
        self.facts: dict[str, Any] = {}
        self.rounds: dict[Phase, list[Round]] = {}
        self.outcome = Outcome(Status.UNSUPPORTED, "it was not timed")

    def go(self, side: Side, seconds: float, *, fresh: bool = False) -> bool:
        """One round in a worker; False where the Case does not return here."""
        answer = side.round(self._case, self._which, seconds, fresh=fresh)
        self.outcome = outcome_from_json(answer["outcome"])
        if self.outcome.status is not Status.RETURNED or "laps" not in answer:
            return False
        self.facts = answer
        for name, laps in answer["laps"].items():
            one = Round(laps["calls"], tuple(map(float, laps["seconds"])), tuple(laps["launch"]))
            self.rounds.setdefault(Phase(name), []).append(one)
        return True

    def profile(self) -> SideProfile:
        if self.outcome.status is not Status.RETURNED:
            return SideProfile(self.outcome)
        memory = self.facts["memory"]
        phases = {}
        for phase, rounds in self.rounds.items():
            taken_off = self.facts["taken_off"] if phase is Phase.BACKWARD else 0.0
            footprint = Footprint(*memory[phase.value]) if memory[phase.value] else None
            phases[phase] = PhaseProfile(replace(timing_of(rounds), taken_off=taken_off), footprint)
        outputs = tuple(OutputSpec(path, dtype, tuple(shape), shared)
                        for path, dtype, shape, shared in self.facts["outputs"])  # fmt: skip
        return SideProfile(self.outcome, phases, outputs, tuple(self.facts["notes"]))


def time_case(case: Case, sides: Sequence[Side], pace: Pace) -> CaseTimed:
    """Times a Case on the first side and, where there is one, against the second."""
    records = [_Record(case, side.which) for side in sides]
    _go(records, sides, pace)
    if len(records) == 2 and any(one.low > pace.limit for one in _ratios(records).values()):
        _go(records, sides[::-1], pace)
    profiles = [record.profile() for record in records]
    if len(records) == 1:
        return CaseTimed(case, profiles[0])
    both = all(profile.phases for profile in profiles)
    return CaseTimed(case, profiles[0], profiles[1], _ratios(records) if both else {})


def _go(records: Sequence[_Record], sides: Sequence[Side], pace: Pace) -> None:
    """Rounds by turns, from a fresh start, each record in the worker at its place, until they hold still or the time is
    spent. A Case that does not return on one Target ends it for both."""
    begun = time.monotonic()
    number = 0
    while number < _FEWEST_ROUNDS or (not _still(records) and time.monotonic() - begun < pace.budget):
        order = list(zip(records, sides, strict=True))
        order = order if number % 2 == 0 else order[::-1]
        returned = [record.go(side, pace.round_seconds, fresh=number == 0) for record, side in order]
        if not all(returned):
            return
        number += 1


def _still(records: Sequence[_Record]) -> bool:
    if len(records) == 2:
        return all(one.high - one.low <= _STILL * one.value for one in _ratios(records).values())
    rows = [[max(one.typical, RESOLUTION) for one in rounds] for rounds in records[0].rounds.values()]
    return all(quantile(row, 0.9) - quantile(row, 0.1) <= _STILL * quantile(row, 0.5) for row in rows)


def _ratios(records: Sequence[_Record]) -> dict[Phase, Ratio]:
    floors = {Phase.BACKWARD: max([RESOLUTION, *(float(record.facts.get("taken_off", 0.0)) for record in records)])}
    return ratios_of(records[0].rounds, records[1].rounds, floors)


def ratios_of(
    target: Mapping[Phase, Sequence[Round]],
    against: Mapping[Phase, Sequence[Round]],
    floors: Mapping[Phase, float],
) -> dict[Phase, Ratio]:
    """The first over the second, round by round. What was taken off a time is known no better than the machine is
    steady, so as much is added to both again."""
    found = {}
    for phase in (one for one in Phase if one in target and one in against):
        floor = floors.get(phase, RESOLUTION)
        pairs = [
            (one.typical + floor) / (other.typical + floor)
            for one, other in zip(target[phase], against[phase], strict=False)
        ]
        found[phase] = Ratio(quantile(pairs, 0.5), quantile(pairs, 0.1), quantile(pairs, 0.9), floor)
    return found


def timing_of(rounds: Sequence[Round]) -> Timing:
    """All laps of some rounds."""
    seconds = [lap for one in rounds for lap in one.seconds]
    launches = [lap for one in rounds for lap in one.launches]
    return Timing(
        quantile(seconds, 0.5),
        quantile(seconds, 0.1),
        quantile(seconds, 0.9),
        min(seconds),
        len(seconds),
        sum(one.calls for one in rounds),
        statistics.median(launches) if launches else None,
    )


def quantile(values: Sequence[float], share: float) -> float:
    """With straight lines between the values."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
