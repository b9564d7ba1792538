"""Replays a region: all its calls, one after another, in float64, from the values that it begins with.

Fed with the same values, two regions of the same mathematics give the same in float64; then the candidate's rounding
is judged by that of the reference, and by what rounding along its own calls explains. If they do not, they compute
something else, and the number says how much.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from trueline.diagnose.carrying import Carrying
from trueline.diagnose.confirm import Trial
from trueline.diagnose.fillings import without_fillings
from trueline.diagnose.joints import Joints, Region
from trueline.dtypes import DTYPES, dtype_named
from trueline.errors import RunError
from trueline.ops.facts import Kind, facts_of
from trueline.ops.names import canonical
from trueline.records import Call, Phase, Role
from trueline.store.columns import NONE, ROLES

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array = Any
_OUTPUT = ROLES.index(Role.OUTPUT)
_NOT_REPEATABLE = (Kind.RANDOM, Kind.COLLECTIVE, Kind.UNDEFINED)

SAME_MATHEMATICS = 1e-7
"""How far apart two regions may be in float64 that compute the same: constants that were rounded to float32 once are
the largest honest difference."""
MARGIN = 4.0
"""How many times worse than the reference's rounding, and than what rounding along its own calls explains."""
_VANISHING = 1e-3
"""A value whose exact size is less than this share of what was recorded is nothing but rounding."""
_NOISE = 64.0
"""By what factor two honest implementations of the same may differ in what rounding leaves of a sum that vanishes."""
_ROUNDINGS = 8.0
"""By so many roundings what a side begins with may be off that the other computes itself."""
LONGEST = 200
"""Regions of more calls are not replayed."""


@dataclass
class _Side:
    """One side of a region while it is replayed: what was computed, and what stands in for values that it begins
    with."""

    number: int
    computed: dict[int, Array] = field(default_factory=dict)


class RegionCourt:
    """Tries the regions of one rank, within a budget of time."""

    def __init__(self, joints: Joints, deadline: float) -> None:
        self._joints = joints
        self._table = joints.table
        self._deadline = deadline
        self._carrying = tuple(Carrying(graph) for graph in joints.graphs)

    def try_region(self, region: Region, values: tuple[int, int]) -> Trial:
        from trueline.diagnose.replaying import Unreplayable

        if time.monotonic() > self._deadline:
            return Trial(None, "there was no time left to replay it")
        if not region.whole or max(len(side.calls) for side in region.sides) > LONGEST:
            return Trial(None, "it is too large to be replayed")
        if self._table.across:
            return Trial(None, "two frameworks lay out their tensors in other ways")
        try:
            return self._conclude(region, values)
        except Unreplayable as error:
            return Trial(None, f"it could not be replayed: {error}")
        except RunError:  # the Run is damaged: nobody may take what is left for an answer
            raise
        except Exception as error:  # whatever a kernel raises on recorded data must not end the comparison
            return Trial(None, f"it could not be replayed: {type(error).__name__}: {str(error)[:120]}")

    def _conclude(self, region: Region, values: tuple[int, int]) -> Trial:
        recorded = [self._stored(side, value) for side, value in enumerate(values)]
        computed: dict[int, Array] = {}
        reference = self._replayed(region, 0, values[0], computed)
        shared = {value: self._counterpart(value, computed) for value in region.candidate.begins}
        fed = {value: array for value, array in shared.items() if array is not None}
        candidate = self._replayed(region, 1, values[1], fed.copy())
        own = candidate if not fed else self._replayed(region, 1, values[1], {})
        if reference.size != candidate.size:
            return Trial(True, "the two give different numbers of elements")
        if (noise := _noise(recorded, (reference, own))) is not None:
            told = f"replayed in float64 nothing is left of it on either side; the candidate's rounding is {noise:.2g} "
            return Trial(noise > _NOISE, f"{told}times the reference's", {"noise": noise})
        apart = _distance(candidate, reference)
        errors = _distance(recorded[0], reference), _distance(recorded[1], own)
        begins = [dict.fromkeys(side.begins, 0.0) for side in region.sides]
        explained = self._carrying[1].off(region.candidate.calls, begins[1], values[1])
        evidence = {
            "apart_in_float64": apart,
            "candidate_error": errors[1],
            "reference_error": errors[0],
            "candidate_honest": explained,
        }
        if apart > SAME_MATHEMATICS + self._unshared(region, values):
            return Trial(
                True,
                f"replayed in float64 from the reference's values the two are {apart:.2g} apart: they do not compute "
                "the same",
                evidence,
                # What both begin with agrees within rounding at best: less than that proves nothing.
                proves_another=apart > _ROUNDINGS * max(self._unit(side, value) for side, value in enumerate(values)),
            )
        allowed = MARGIN * max(errors[0], explained)
        both = (
            f"replayed in float64 the two compute the same; the candidate is off by {errors[1]:.2g} and the reference "
            f"by {errors[0]:.2g}, where rounding explains {max(errors[0], explained):.2g}"
        )
        return Trial(errors[1] > allowed, both, evidence)

    def _unshared(self, region: Region, values: tuple[int, int]) -> float:
        """What the rounding explains of values with which one side begins, and that the other has nowhere: it may
        compute them within the region, in float64. 0.0 where both begin with what both have."""
        found = 0.0
        for side, behind in enumerate(region.sides):
            others = set(region.sides[1 - side].begins)
            alone = [
                value
                for value in behind.begins
                if self._joints.graphs[side].maker(value) != NONE
                and self._joints.counterpart(side, value) not in others
                and not self._joints.apart(side, value) <= _ROUNDINGS * self._unit(side, value)
            ]
            if alone:
                rounded = dict.fromkeys(behind.begins, 0.0)
                rounded.update((value, _ROUNDINGS * self._unit(side, value)) for value in alone)
                found += self._carrying[side].off(behind.calls, rounded, values[side])
        return MARGIN * found

    def _unit(self, side: int, value: int) -> float:
        layout = self._table.traces[side].layouts[self._joints.layout_of(side, value)]
        kind = dtype_named(layout.dtype)
        return 0.0 if kind.is_exact else max(kind.epsilon / 2, self._table.precision.policy)

    def _counterpart(self, value: int, computed: dict[int, Array]) -> Array | None:
        """The reference's numbers for a value with which the candidate begins, as its own replay gave them where it
        did."""
        other = self._joints.counterpart(1, value)
        if other is None:
            return None
        found = computed[other] if other in computed else self._stored(0, other)
        return found if found.size == self._stored(1, value).size else None

    def _replayed(self, region: Region, side: int, value: int, fed: dict[int, Array]) -> Array:
        """Computes a value; what it is fed with stands in for recorded values, and what is computed is added to it."""
        from trueline.diagnose.replaying import Unreplayable

        state = _Side(side, fed)
        for position in region.sides[side].calls:
            self._run(state, position)
        found = self._value(state, value)
        if found is None:
            raise Unreplayable("the replay returned other outputs than were recorded")
        return found

    def _value(self, state: _Side, value: int) -> Array:
        """The numbers of a value, flat: computed, summed from what was, or as they were recorded."""
        if value in state.computed:
            return state.computed[value]
        parts = self._joints.graphs[state.number].summed(value)
        if parts and any(part in state.computed for part, _ in parts):
            return sum(self._value(state, part) for part, _ in parts)
        return self._stored(state.number, value)

    def _stored(self, side: int, value: int) -> Array:
        from trueline.diagnose.replaying import Unreplayable, numbers_of

        trace = self._table.traces[side]
        if value not in trace.stored:
            raise Unreplayable("a value that it begins with was not stored")
        layout = trace.layouts[self._joints.layout_of(side, value)]
        bits = self._table.readers[side].tensor_bits(value, layout.dtype, layout.shape)
        return numbers_of(bits, layout.dtype)

    def _run(self, state: _Side, position: int) -> None:
        trace = self._table.traces[state.number]
        call = trace.call(position, statistics=False)
        if facts_of(call.api).kind in _NOT_REPEATABLE:
            from trueline.diagnose.replaying import Unreplayable

            raise Unreplayable(f"{call.api} {facts_of(call.api).kind.value}")
        if canonical(call.api) == "to" and self._cast(state, call):
            return
        found = self._executed(state, call, position)
        for record in call.outputs:
            if record.path in found:
                state.computed[record.tensor_id] = found[record.path]

    def _cast(self, state: _Side, call: Call) -> bool:
        """A cast between floating dtypes rounds, and nothing else: in float64 it is nothing at all, and nor is what
        becomes of its gradient."""
        in_place = facts_of(call.api).in_place
        given = call.inputs[1:2] if in_place else call.inputs[:1]  # what is written to says nothing
        if not given or not call.outputs or (in_place and call.phase is Phase.BACKWARD):
            return False
        source, made = given[0], call.outputs[0]
        kinds = [DTYPES.get(record.dtype) for record in (source, made)]
        if source.shape != made.shape or not all(kind is not None and kind.is_float for kind in kinds):
            return False
        state.computed[made.tensor_id] = self._value(state, source.tensor_id)
        return True

    def _executed(self, state: _Side, call: Call, position: int) -> dict[str, Array]:
        from trueline.cases import Case, Target
        from trueline.diagnose.replaying import as_recorded, numbers_of, parts_of, plan_of
        from trueline.frameworks.base import ArrayIn, Inputs
        from trueline.frameworks.machine import executor

        backward = call.phase is Phase.BACKWARD
        trace = self._table.traces[state.number]
        at = self._joints.graphs[state.number].forward_of(position) if backward else position
        forward = None if at == NONE else trace.call(at, statistics=False)
        case: Case = plan_of(call, forward)
        assert forward is not None

        def given(record: Any) -> ArrayIn:
            kind = dtype_named(record.dtype)
            numbers = self._value(state, record.tensor_id).reshape(record.shape)
            if kind.is_exact:
                return ArrayIn(numbers.astype(np.dtype(kind.storage)), kind.name)
            wide = "complex128" if kind.is_complex else "float64"
            return ArrayIn(np.ascontiguousarray(numbers, dtype=wide), wide)

        tensors = {record.path: given(record) for record in forward.inputs}
        known = {record.path for record in forward.outputs}
        gradients = {record.path: given(record) for record in call.inputs if record.path in known} if backward else {}
        machine = executor(Target(case.api.partition(".")[0], "cpu"))
        watch = frozenset(
            () if backward else (record.path for record in call.outputs if not record.path.startswith("out"))
        )
        done = machine.run(case, Inputs(tensors, gradients, settled=True), mode="gold", watch=watch)
        return {
            path: numbers_of(array.bits, array.dtype)
            for path, array in as_recorded(call, forward if backward else None, parts_of(case, done)).items()
            if array.bits is not None
        }


def _noise(recorded: Sequence[NDArray[Any]], exact: Sequence[NDArray[Any]]) -> float | None:
    """How many times as large as the reference's a value of the candidate is, where both should have vanished; None
    where one should not have."""
    sizes = [float(np.linalg.norm(one)) for one in recorded]
    if not all(math.isfinite(size) for size in sizes) or not all(sizes):
        return None
    if any(float(np.linalg.norm(one)) > _VANISHING * size for one, size in zip(exact, sizes, strict=True)):
        return None
    return sizes[1] / sizes[0]


def _distance(one: NDArray[Any], truth: NDArray[Any]) -> float:
    if one.size != truth.size:
        return float("inf")
    both = np.isfinite(one) & np.isfinite(truth)
    if not bool((np.isfinite(one) == np.isfinite(truth)).all()):
        return float("inf")
    plain = without_fillings(truth)
    if bool((plain == without_fillings(one)).all()):  # what stands for infinity on both sides is not measured
        both &= plain
    scale = float(np.linalg.norm(truth[both]))
    off = float(np.linalg.norm(one[both] - truth[both]))
    return off / scale if scale > 0.0 else (0.0 if off == 0.0 else float("inf"))
