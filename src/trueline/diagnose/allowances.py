"""How far apart what two programs of different frameworks give away may be: what rounding of a whole program adds up
to, what a step begins with, and honest leaps where a gradient jumps at a kink.
"""

from __future__ import annotations

import math
from functools import cached_property

from trueline.diagnose.confirm import Court
from trueline.diagnose.divergence import Divergences
from trueline.diagnose.finding import Divergence
from trueline.diagnose.observables import Observable
from trueline.diagnose.ported import PortedObservables
from trueline.diagnose.table import RankTable
from trueline.numerics.layout import sketch_distance
from trueline.ops.facts import Kind, facts_of
from trueline.records import Verdict

_ROUNDINGS_SINGLE, _ROUNDINGS_HALF = 4096.0, 24.0
"""What a whole program's rounding may add up to, in unit roundoffs."""
_TIGHT_SINGLE, _TIGHT_HALF = 32.0, 4.0
_SKETCH = 3e-6
DRIFT = 16.0
"""By how much what a step begins with may grow on its way through the program."""
_LEAP = 8.0
"""How many times farther apart than what it was given a value is that a fault made."""
_BELIEVED = 0.02
"""No honest leap is larger."""
_ASKED = 2.0
"""The same where the two calls were asked for something else as well."""


class Allowances(Divergences):
    """What is allowed in one rank."""

    observables: PortedObservables

    def __init__(self, table: RankTable, observables: PortedObservables, court: Court | None, deadline: float) -> None:
        super().__init__(table, observables, court, deadline)
        self.observables = observables

    @cached_property
    def beyond(self) -> list[int]:
        return [
            place
            for place, one in enumerate(self.observables.items)
            if one.kind not in ("input", "begin of buffer", "update")
            and not (one.kind == "parameter" and one.step != min(self.table.steps))
            and self._differs_much(one)
        ]

    def _differing(self, *kinds: str, step: int) -> list[Observable]:
        chosen = (self.observables.items[place] for place in self.beyond)
        return [one for one in chosen if one.kind in kinds and one.step == step]

    def _differs_much(self, one: Observable) -> bool:
        if not one.both:
            return self._is_lonely(one)
        distance, unit = self.observables.distance(one), self.observables.unit(one)
        if distance != distance:
            return False
        if not self._beyond_few(one):
            return False
        if one.kind == "parameter":
            return True
        if one.kind == "gradient" and self._cancels(one, distance, unit):
            return False
        return distance > self._loose(one)

    def _few(self, one: Observable) -> float:
        """A few roundings."""
        unit = self.observables.unit(one)
        return max((_TIGHT_HALF if unit > 1e-4 else _TIGHT_SINGLE) * unit, _SKETCH)

    def _beyond_few(self, one: Observable) -> bool:
        """Whether it differs by more than a few roundings."""
        return self.observables.distance(one) > self._few(one)

    def _leaps(self, found: Divergence, within: float) -> bool:
        """Whether what the calls give, from values that agree within a distance, is farther apart than that by far. So
        a small fault is told from rounding that adds up."""
        return self._gave_apart(found) > (_ASKED if found.kind == "argument" else _LEAP) * within

    def _gave_apart(self, found: Divergence) -> float:
        """How far apart the largest of the values are that the calls of both sides gave last; infinity where only one
        side gave any, or they are of other sizes."""
        rows = []
        for side, positions in enumerate((found.reference, found.candidate)):
            values = [value for position in positions[-1:] for value in self.joints.graphs[side].gave(position)]
            rows.append(list(self.table.traces[side].statistics_rows(values).values()))
        largest = max((row["count"] for row in rows[1]), default=0)
        return min(
            (
                float(sketch_distance(left["sketch"], right["sketch"]))
                for left in rows[0]
                for right in rows[1]
                if left["count"] == right["count"] == largest
            ),
            default=math.inf,
        )

    def _loose(self, one: Observable) -> float:
        unit = self.observables.unit(one)
        loose = (_ROUNDINGS_HALF if unit > 1e-4 else _ROUNDINGS_SINGLE) * unit
        return loose + DRIFT * (self._drift(one.step) + self._kinks.get(one.step, 0.0))

    def _drift(self, step: int) -> float:
        """How far apart what a step begins with is, where it is not the first."""
        if step not in self._drifts:
            self._drifts[step] = 0.0
            if step != min(self.table.steps):
                known = [self.observables.distance(one) for one in self.observables.of("parameter", step=step)
                         if one.both and self._size_of(one)]  # fmt: skip
                self._drifts[step] = max((one for one in known if math.isfinite(one)), default=0.0)
        return self._drifts[step]

    @cached_property
    def _drifts(self) -> dict[int, float]:
        return {}

    def _size_of(self, one: Observable) -> float:
        return float(self.observables.measured[one.place]["rms"])

    def _honest_leap(self, found: Divergence) -> float | None:
        """How far apart a call's results are, where what it was given explains that: a gradient may jump where the
        values that decide it lie on either side of a kink. None where it does not."""
        leap = self._gave_apart(found)
        if found.kind != "call" or not leap <= _BELIEVED:
            return None
        if self._positions(found.row) != (*found.reference, *found.candidate):
            return None
        if facts_of(self.table.api(found.row)).kind not in (Kind.SELECT, Kind.DISCRETE):
            return None
        if self.table.verdict[found.row] <= int(Verdict.PASS):
            return leap
        trial = None if self._court is None else self._court.try_row(found.row)
        return leap if trial is not None and trial.guilty is False else None

    @cached_property
    def _kinks(self) -> dict[int, float]:
        """By step, the largest of such leaps."""
        return {}
