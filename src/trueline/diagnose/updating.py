"""Each parameter's update by itself: what an optimizer made of a gradient, however it is written.

For-loop, foreach, fused, hand-written: what they have in common is what became of each parameter in a step. That is
compared with what the two gradients, and the states that the two optimizers had, explain. So is what became of each of
the states: one that nothing explains must not explain the next update.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from trueline.diagnose.observables import Observable, Observables
from trueline.dtypes import dtype_named
from trueline.numerics import widen
from trueline.store.columns import NONE

if TYPE_CHECKING:
    from trueline.diagnose.ported import PortedObservables

_LINEAR = frozenset({"momentum_buffer", "velocity", "velocity_0", "step"})
"""States of optimizers whose update follows the gradient in proportion; all others divide by its size."""
_SQUARES = ("sq", "sum", "moment2")
"""What the names of states have in common that are made of the squares of gradients."""
_FREEDOM = 4.0
NARROW = 8.0
"""Roundings of its own type that a state goes through in a step, where it is written in several calls."""
_KINK = 3.0
_SKETCHED = 4e-7
"""The rounding of a sketch, relative to what was sketched: an update is a small difference of two."""
FLOOR = 2e-5
_SETTLED = 0.05
"""A gradient's element that differs by less than this share of itself leads to the same step."""
_NOISE = 64.0
NO_SIGNAL = 0.5
"""What differs by more than half of itself says nothing about what is made of it."""


@dataclass(frozen=True, slots=True)
class Update:
    """How far apart the two updates of a parameter are, or the two values of one of its states, relative to the
    reference's, how far they may be, and by what factor the candidate's is larger."""

    item: Observable
    distance: float
    limit: float
    factor: float

    @property
    def explained(self) -> bool:
        return self.distance <= self.limit


class Updates:
    """The updates of all parameters of one rank."""

    def __init__(self, observables: Observables) -> None:
        self._all = observables

    def of_step(self, step: int) -> list[Update]:
        found = []
        for one in self._all.items:
            if one.kind == "update" and one.step == step and one.both:
                made = self._update(one)
                if made is not None:
                    found.append(made)
        return found

    def states_of_step(self, step: int) -> list[Update]:
        """What became of the states of the optimizer."""
        found = []
        for one in self._all.items:
            if one.kind == "optimizer state" and one.step == step and one.both:
                made = self._state(one)
                if made is not None:
                    found.append(made)
        return found

    def stays(self, side: int, one: Observable) -> bool:
        """Whether an update left its parameter, on one side, as it was."""
        begin = self._all.by_name.get(("parameter", one.model, one.name, one.step))
        if begin is None or (begin.candidate if side else begin.reference) == NONE:
            return False
        moved = self._moved(side, begin, one)
        return moved is not None and not moved[0].any()

    def _update(self, one: Observable) -> Update | None:
        begin = self._all.by_name.get(("parameter", one.model, one.name, one.step))
        if begin is None or not begin.both or self._all.shapes(one)[0] != self._all.shapes(one)[1]:
            return None
        moved = [self._moved(side, begin, one) for side in (0, 1)]
        if moved[0] is None or moved[1] is None or moved[0][0].shape != moved[1][0].shape:
            return None
        (left, size, exact), (right, _, _) = moved[0], moved[1]
        if exact and self._steep(one):
            settled = self._settled(one)
            if settled is not None and settled.shape == left.shape:
                left, right = left[settled], right[settled]
        length, other = float(np.linalg.norm(left)), float(np.linalg.norm(right))
        off = float(np.linalg.norm(right - left))
        if off == 0.0:
            return Update(one, 0.0, 0.0, 1.0)
        if not math.isfinite(off):
            return Update(one, math.inf, FLOOR, 1.0)
        if not left.size:
            return Update(one, 0.0, 0.0, 1.0)
        rounding = (2.0 * self._all.unit(one) + (0.0 if exact else _SKETCHED)) * size
        if max(length, other) <= 4.0 * rounding:
            return Update(one, 0.0, 0.0, 1.0)
        distance = off / length if length > 0.0 else math.inf
        noise = _FREEDOM * rounding / length if length > 0.0 else 0.0
        return Update(one, distance, noise + self._arrives(one), other / length if length > 0.0 else math.inf)

    def _steep(self, one: Observable) -> bool:
        """Whether an optimizer divides by the size of the gradient, so that its noise becomes as large as any."""
        keys = {other.name.rpartition(".")[2] for other in self._states.get((one.model, one.name), ())}
        return not keys or not keys <= _LINEAR

    def _settled(self, one: Observable) -> Any:
        """The elements whose gradients, and the states from the step before, agree well; where they do not, rounding
        has chosen the sign of the update. None where the gradients were not kept."""
        gradient = self._all.by_name.get(("gradient", one.model, one.name, one.step))
        if gradient is None or not gradient.both:
            return None
        settled: Any = None
        for item in (gradient, *self._states_before(one)):
            arrays = [self._elements(side, item) for side in (0, 1)]
            if arrays[0] is None or arrays[1] is None or arrays[0].shape != arrays[1].shape:
                if item is gradient:
                    return None
                continue
            alike = np.abs(arrays[1] - arrays[0]) <= _SETTLED * np.abs(arrays[0])
            if settled is None:
                settled = alike
            elif alike.shape == settled.shape:
                settled &= alike
        return settled

    def _states_before(self, one: Observable) -> list[Observable]:
        """The states of a parameter with which a step began."""
        known = self._states.get((one.model, one.name), ())
        return [other for other in known if other.both and other.step == one.step - 1]

    def _elements(self, side: int, one: Observable) -> Any:
        value, trace = self._all.value(side, one), self._all.traces[side]
        if value not in trace.stored:
            return None
        layout = trace.layouts[int(trace.state_visits[one.candidate if side else one.reference, 4])]
        bits = np.asarray(self._all.table.readers[side].tensor_bits(value, layout.dtype, layout.shape)).reshape(-1)
        return widen(bits, dtype_named(layout.dtype))

    def _arrives(self, one: Observable) -> float:
        """What the differences of gradient and states explain."""
        gradient = self._all.by_name.get(("gradient", one.model, one.name, one.step))
        apart = 0.0
        if gradient is not None and gradient.both:
            apart = self._all.distance(gradient)
        known = [self._all.distance(other) for other in self._states_before(one)]
        apart = max([apart, *(value for value in known if value == value)])
        if apart != apart:
            return math.inf
        if not self._steep(one):
            return FLOOR + _FREEDOM * apart
        explained = FLOOR + _FREEDOM * apart + _KINK * math.sqrt(apart)
        if apart > 0.0 and gradient is not None and gradient.both:
            row = self._all.measured[gradient.place]
            if row["smallest"] <= _NOISE * apart * row["rms"]:
                return max(explained, _FREEDOM)  # some of its elements are noise, and nobody says how many
        return explained

    def _state(self, one: Observable) -> Update | None:
        """A state is made of the gradient and of what it was before, in proportion or from squares."""
        distance = self._all.distance(one)
        name, key = one.name.rpartition(".")[::2]
        before = self._all.by_name.get((one.kind, one.model, one.name, one.step - 1))
        begin = self._all.by_name.get(("parameter", one.model, name, one.step))
        if not distance <= math.inf or (before is None and (begin is None or self._differs(begin))):
            return None  # nobody says how far apart they were before
        row = self._all.measured[one.place]
        gradient = self._all.by_name.get(("gradient", one.model, name, one.step))
        limit = FLOOR + NARROW * self._all.unit(one)
        for given in (gradient, before):
            if given is None:
                continue
            apart = self._all.distance(given) if given.both else math.inf
            if apart > NO_SIGNAL:
                return Update(one, distance, math.inf, 1.0)  # rounding alone: nothing follows for its squares
            size = self._all.measured[given.place] if given.both else row
            share = float(size["rms"]) / float(row["rms"]) if row["rms"] > 0.0 else 1.0
            if given is gradient and any(part in key for part in _SQUARES):
                share = 2.0 * float(size["largest"]) / float(size["rms"]) if size["rms"] > 0.0 else 1.0
            limit += _FREEDOM * apart * max(share, 1.0) if apart > 0.0 else 0.0
        factor = float(row["candidate_rms"]) / float(row["rms"]) if row["rms"] > 0.0 else math.inf
        return Update(one, distance, math.inf if limit != limit else limit, factor)

    def _differs(self, one: Observable) -> bool:
        return not one.both or self._all.distance(one) != 0.0

    @cached_property
    def _states(self) -> dict[tuple[str, str], list[Observable]]:
        """The states of the optimizer by the parameter that they belong to."""
        found: dict[tuple[str, str], list[Observable]] = {}
        for one in self._all.items:
            if one.kind == "optimizer state":
                found.setdefault((one.model, one.name.rpartition(".")[0]), []).append(one)
        return found

    def _moved(self, side: int, begin: Observable, end: Observable) -> tuple[Any, float, bool] | None:
        """By how much a parameter moved (its elements, or the sums of its sketch), how large it is, and whether that
        was told from the elements."""
        values = [self._all.value(side, begin), self._all.value(side, end)]
        trace = self._all.traces[side]
        if all(value in trace.stored for value in values):
            arrays = [self._elements(side, item) for item in (begin, end)]
            return arrays[1] - arrays[0], float(np.linalg.norm(arrays[1])), True
        found = trace.statistics_rows(values)
        if any(value not in found for value in values):
            return None
        sketches = [np.asarray(found[value]["sketch"], dtype=np.float64) for value in values]
        if np.isnan(sketches[0][0]) or np.isnan(sketches[1][0]):
            return None
        return sketches[1] - sketches[0], float(np.linalg.norm(sketches[1])), False


class PortedUpdates(Updates):
    """The same where the two sides are of different frameworks: whose weights lie otherwise, and whose optimizers call
    their states otherwise."""

    def __init__(self, observables: PortedObservables, steep: bool) -> None:
        super().__init__(observables)
        self._ported = observables
        self._divides = steep

    def _steep(self, one: Observable) -> bool:
        return self._divides

    def _elements(self, side: int, one: Observable) -> Any:
        return self._ported.elements(side, one)

    def _gradients_apart(self, one: Observable) -> float:
        """The largest distance of a parameter's gradients so far: what the states of an optimizer were made from."""
        known = [
            self._all.distance(other)
            for other in self._all.items
            if other.kind == "gradient" and other.both and other.name == one.name and other.model == one.model
            and other.step <= one.step
        ]
        return max((value for value in known if value == value), default=0.0)

    def _arrives(self, one: Observable) -> float:
        apart = self._gradients_apart(one)
        kink = _KINK * math.sqrt(apart) if self._divides else 0.0
        return max(super()._arrives(one), FLOOR + _FREEDOM * apart + kink)

    def _moved(self, side: int, begin: Observable, end: Observable) -> tuple[Any, float, bool] | None:
        if all(self._ported.stored(side, item) for side in (0, 1) for item in (begin, end)):
            arrays = [self._elements(side, item) for item in (begin, end)]
            return arrays[1] - arrays[0], float(np.linalg.norm(arrays[1])), True
        if not self._ported.straight(begin):
            return None
        found = [self._ported.combined(side, item) for item in (begin, end)]
        sketches = [np.asarray(row["sketch"], dtype=np.float64) for row in found if row is not None]
        if len(sketches) < 2:
            return None
        if np.isnan(sketches[0][0]) or np.isnan(sketches[1][0]):
            return None
        return sketches[1] - sketches[0], float(np.linalg.norm(sketches[1])), False


def common_factor(updates: Sequence[Update], some: str) -> str:
    """What all updates that differ have in common, where it is a factor; ``some`` names them."""
    factors = [one.factor for one in updates]
    low, high = min(factors), max(factors)
    if high == 0.0:
        return f"{some} stay as they are in the candidate" if len(updates) > 1 else f"{some} stays as it is"
    if math.isinf(low):
        return f"{some} move in the candidate alone" if len(updates) > 1 else f"{some} moves in the candidate alone"
    if low > 0.0 and high < 1.02 * low and abs(high - 1.0) > 0.005:
        return f"updates are {high:.4g} times as large: {some}"
    return f"updates differ: {some}"
