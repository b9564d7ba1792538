"""What is compared with what: the outputs and gradients of an executed Case, with their golds.

Structure first: what must be there, its dtype, shape, device and whether it is a view. Then the rule of the operator
(``ops.equivalence``) says in which form values may be compared; most operators have none and are compared as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trueline.cases import Case, Evidence, Outcome, Status
from trueline.dtypes import DType, dtype_named
from trueline.frameworks.base import ArrayIn, ArrayOut, Executed
from trueline.numerics import statistics, widen
from trueline.numerics.evidence import measure
from trueline.numerics.floats import Gold
from trueline.numerics.narrow import narrow
from trueline.numerics.yardstick import Flags
from trueline.ops.accumulation import gradient_terms, norm_counts, roundings_of, steps_of_position, terms_of
from trueline.ops.equivalence import rule_for, same_gauge
from trueline.ops.facts import Kind, facts_of
from trueline.ops.freedoms import has_slope_at_nan, is_decided_by_inputs, may_differ_in_form
from trueline.ops.names import canonical
from trueline.replay.forms import Form, gold_of, numbers

if TYPE_CHECKING:
    from trueline.replay.worker import Executions

Array = NDArray[Any]
Arrays = Mapping[str, ArrayOut]

_ALWAYS_VIEWS = frozenset(
    """transpose permute movedim moveaxis expand expand_as unsqueeze squeeze select narrow unbind split chunk diagonal
    detach view_as_real view_as_complex real imag unfold""".split()
)
"""Their results share the memory of their argument: who writes to one writes to the other."""

_OWN_MEMORY = frozenset("clone cat stack repeat flip roll index_select gather where tril triu masked_fill".split())
"""Of those that only move elements, the ones whose results are new tensors always. The others may give an argument, or
look at its memory, where that is as good: ``reshape``, ``contiguous``, ``to``."""
_MAY_LOOK = (Kind.MOVE, Kind.REDUCTION, Kind.RANDOM, Kind.COLLECTIVE, Kind.UNDEFINED)
"""What may give an argument, or a look at it, where it has nothing to do: a sum of one, a dropout that is off."""
_LAYOUTS = frozenset("contiguous clone zeros_like ones_like full_like empty_like rand_like randn_like".split())
"""Their strides are part of what they promise."""

_FEW = 4096
"""Elements up to which numpy is quicker than a kernel that finds out much more."""
_OUTPUT, _GRADIENT = "output", "gradient"


def evidence_of(
    case: Case, executions: Executions, *, predecessors: bool = True, thorough: bool = False
) -> Iterator[Evidence]:
    """The evidence of every output and gradient. The candidate has returned. ``thorough`` asks for golds of moved
    inputs also where a result is right beyond doubt without them."""
    comparison = _Comparison(case, executions, predecessors, thorough)
    yield from comparison.conduct()
    faults = list(comparison.faults(_OUTPUT))
    if rule_for(case.api) is None or faults:
        found = [*faults, *comparison.plain(_OUTPUT, {fault.path for fault in faults})]
        if case.backward:
            found += comparison.plain_gradients()
        yield from comparison.without_doubt(found)
    else:
        yield from comparison.ruled()


@dataclass(frozen=True, slots=True)
class _InDoubt:
    """An array that is not right beyond doubt: to be measured again with golds of moved inputs, which are made for all
    such arrays together."""

    part: str
    path: str
    array: ArrayOut


class _Doubt(Exception):
    """Golds of moved inputs were asked for."""


def _ask() -> list[Gold]:
    raise _Doubt


class _Comparison:
    """One Case: candidate, honest implementation and golds side by side."""

    def __init__(self, case: Case, executions: Executions, predecessors: bool, thorough: bool) -> None:
        self._case = case
        self._thorough = thorough
        self._all = executions
        self._predecessors = predecessors
        honest = executions.honest
        self._expected = honest if honest.returned else executions.gold
        self._scales: dict[str, float] = {}
        self._shapes = {path: array.bits.shape for path, array in executions.inputs.tensors.items()}
        self._neighbours: tuple[Executed, ...] | None = None
        self._terms = terms_of(case.api, case.arguments, self._shapes) or 1
        given = {array.dtype for array in executions.inputs.tensors.values()}
        self._decided = is_decided_by_inputs(case.api, case.arguments, given)

    def without_doubt(self, found: Sequence[Evidence | _InDoubt]) -> Iterator[Evidence]:
        """The evidence in its order, that of the arrays in doubt with golds of moved inputs."""
        doubtful = [one for one in found if isinstance(one, _InDoubt)]
        wanted = frozenset(one.path for one in doubtful if one.part == _GRADIENT)
        moved = self._all.perturbed(wanted) if doubtful else ()
        for one in found:
            yield one if isinstance(one, Evidence) else self._plain(one.part, one.path, one.array, moved)

    def faults(self, part: str) -> Iterator[Evidence | _InDoubt]:
        """What is not there, or not what it must be, apart from its values."""
        expected, found = _arrays(self._expected, part), _arrays(self._all.candidate, part)
        for path in {**expected, **found}:
            theirs, ours = expected.get(path), found.get(path)
            array = ours or expected[path]
            free = may_differ_in_form(self._case.api, path) if part == _OUTPUT and ours and theirs else ""
            if free and theirs is not None and array.shape != theirs.shape and 0 in (*array.shape, *theirs.shape):
                yield Evidence(part, path, array.dtype, array.shape, note=free)
            elif part == _GRADIENT and theirs is not None and self._is_left_out(ours, theirs):
                assert theirs.bits is not None
                yield self._looked_at(part, path, replace(theirs, bits=np.zeros_like(theirs.bits)))
            elif problem := self._problem(part, theirs, ours, wider=bool(free)):
                yield Evidence(part, path, array.dtype, array.shape, structure=problem)

    def conduct(self) -> Iterator[Evidence]:
        """What the call did that its results do not show."""
        ours, theirs = self._all.candidate.conduct, self._all.honest.conduct
        if ours is None or theirs is None or self._all.crossed:
            return
        problems = ["leaves gradients switched the other way"] if ours.switches and not theirs.switches else []
        if ours.draws and not theirs.draws:
            problems.append("changes the state of the random numbers, which this operator does not draw")
        if problems:
            yield Evidence(_OUTPUT, "call", "bool", (), structure="; ".join(problems))

    def _is_left_out(self, ours: ArrayOut | None, theirs: ArrayOut) -> bool:
        """Whether a gradient is missing that is zero everywhere. One framework gives zeros where the other gives none:
        both mean the same to whoever adds them up."""
        if theirs.bits is None or (ours is not None and ours.bits is not None) or not self._all.crossed:
            return False
        return not np.any(numbers(ArrayIn(theirs.bits, theirs.dtype)))

    def _written(self, found: ArrayOut | None) -> ArrayOut | None:
        """What the reference wrote to the argument that an array is, and returned; None where it wrote nothing."""
        alias = found.alias if found is not None else ""
        return next((one for one in self._expected.outputs.values() if alias and one.alias == alias), None)

    def plain(self, part: str, settled: set[str]) -> Iterator[Evidence | _InDoubt]:
        """Every array as it is, but for those that are settled."""
        for path, array in _arrays(self._all.candidate, part).items():
            if path not in settled and array.bits is not None and self._is_expected(part, path):
                yield self._looked_at(part, path, array)

    def _looked_at(self, part: str, path: str, array: ArrayOut) -> Evidence | _InDoubt:
        """An array by cheap evidence, where that is enough."""
        try:
            return self._plain(part, path, array, self._all.perturbed() if self._thorough else None)
        except _Doubt:
            return _InDoubt(part, path, array)

    def plain_gradients(self) -> Iterator[Evidence | _InDoubt]:
        reason = self._no_gradients()
        if reason:
            yield Evidence(_GRADIENT, "*", "float32", (), note=reason)
            return
        faults = list(self.faults(_GRADIENT))
        yield from faults
        yield from self.plain(_GRADIENT, {fault.path for fault in faults})

    def ruled(self) -> Iterator[Evidence]:
        """In the form that the rule of the operator asks for."""
        sides = self._all
        candidate = Form(self._case, sides.inputs, sides.candidate)
        honest = Form(self._case, sides.inputs, sides.honest) if sides.honest.returned else None
        gold = Form(self._case, sides.inputs, sides.gold) if sides.gold.returned else None
        # Perturbed golds are seen with the inputs as they were: equal ones among them are to stay equal.
        moved = cache(lambda: [Form(self._case, sides.inputs, one) for one in sides.perturbed()])
        yield from self._checks(candidate, honest)
        for path in candidate.paths(_OUTPUT):
            yield self._formed(_OUTPUT, path, candidate, honest, gold, moved)
        if self._case.backward:
            yield from self._formed_gradients(candidate, honest, gold, moved)
        for path, reason in candidate.form.dropped.items():
            if not _stands_for(path, candidate):
                part = _GRADIENT if path in sides.candidate.gradients else _OUTPUT
                array = _arrays(sides.candidate, part)[path]
                yield Evidence(part, path, array.dtype, array.shape, note=reason)

    def _formed_gradients(
        self, candidate: Form, honest: Form | None, gold: Form | None, moved: Callable[[], list[Form]]
    ) -> Iterator[Evidence]:
        reason = self._no_gradients()
        if not reason and gold is not None and not same_gauge(candidate.form, gold.form):
            reason = candidate.form.gauge_reason or "the executions made other free choices"
        if reason:
            yield Evidence(_GRADIENT, "*", "float32", (), note=reason)
            return
        faults = list(self.faults(_GRADIENT))
        yield from self.without_doubt(faults)
        if gold is not None and honest is not None and not same_gauge(honest.form, gold.form):
            honest = None
        alike = cache(lambda: [one for one in moved() if gold is not None and same_gauge(one.form, gold.form)])
        settled = {fault.path for fault in faults}
        for path in candidate.paths(_GRADIENT):
            if path not in settled and self._is_expected(_GRADIENT, path):
                yield self._formed(_GRADIENT, path, candidate, honest, gold, alike)

    def _formed(
        self,
        part: str,
        path: str,
        candidate: Form,
        honest: Form | None,
        gold: Form | None,
        moved: Callable[[], list[Form]],
    ) -> Evidence:
        array = _arrays(self._all.candidate, part)[path.partition(":")[0]]
        exact = path in candidate.form.exact
        kind = dtype_named("int64" if exact else array.dtype)
        if gold is None or not gold.has(part, path):
            return Evidence(part, path, kind.name, array.shape, note=self._no_gold(part, path))
        ours = candidate.bits(part, path, kind, exact=exact)
        theirs = honest.bits(part, path, kind, exact=exact) if honest is not None and honest.has(part, path) else None
        chosen = self._all.apart and part == _OUTPUT and facts_of(self._case.api).exact
        if self._is_the_same_answer(kind) or chosen:
            theirs = None  # elements that are chosen or moved need no measure

        def golds_of_moved() -> list[Gold]:
            return [one.gold(part, path, exact=exact) for one in moved() if one.has(part, path)]

        return self._measured(
            part, path, ours, theirs, gold.gold(part, path, exact=exact), golds_of_moved, kind.name
        )

    def _is_the_same_answer(self, kind: DType) -> bool:
        """Whether an honest answer says nothing, for the same kernel gave it: numbers may show that it is not to be
        trusted, answers are right or wrong."""
        return self._all.apart and kind.is_exact

    def _checks(self, candidate: Form, honest: Form | None) -> Iterator[Evidence]:
        """What must hold of an execution by itself; where it does not hold of the honest one, it says nothing."""
        holding = np.ones(1, dtype=np.bool_)
        for place, check in enumerate(candidate.form.checks):
            path = f"{check.path}:check {place + 1}"
            others = honest.form.checks if honest is not None else ()
            if check.holds:
                yield measure(_OUTPUT, path, holding, holding, holding, dtype="bool")
            elif place < len(others) and not others[place].holds:
                yield Evidence(_OUTPUT, path, "bool", (1,), note=f"not even the reference does this: {check.text}")
            else:
                yield Evidence(_OUTPUT, path, "bool", (1,), structure=f"must hold and does not: {check.text}")

    def _plain(self, part: str, path: str, array: ArrayOut, moved: Sequence[Executed] | None) -> Evidence:
        """``moved`` are golds of moved inputs, None to raise ``_Doubt`` where they are asked for."""
        honest = _arrays(self._all.honest, part).get(path) if self._all.honest.returned else None
        gold = self._gold(part, path, array, honest)
        if gold is None:
            return Evidence(part, path, array.dtype, array.shape, note=self._no_gold(part, path))
        others = [_arrays(one, part).get(path) for one in moved or ()]
        golds = [gold_of(one) for one in others if one is not None and one.bits is not None]
        theirs = honest.bits if honest is not None and honest.dtype == array.dtype else None
        if self._is_the_same_answer(dtype_named(array.dtype)):
            theirs = None
        assert array.bits is not None
        excused = self._without_slope(path, array) if part == _GRADIENT else None
        return self._measured(
            part, path, array.bits, theirs, gold, _ask if moved is None else golds, array.dtype, excused, plain=True
        )

    def _nudged(self, part: str, path: str) -> list[Array]:
        """What the honest implementation makes of neighbouring inputs at a path."""
        if self._neighbours is None:
            self._neighbours = self._all.nudged() if self._all.nudged is not None else ()
        found = (_arrays(one, part).get(path) for one in self._neighbours)
        return [one.bits for one in found if one is not None and one.bits is not None]

    def _without_slope(self, path: str, array: ArrayOut) -> Flags | None:
        """Where the gradient of an input is not defined; None where it is everywhere."""
        gold = self._all.gold.gradients.get(path)
        if gold is None or gold.shape != array.shape or not self._gives_nan_alone():
            return self._at_nan(path, array.shape)
        unknown = _not_a_number(array) & ~_not_a_number(gold)
        return unknown if unknown.any() else None

    def _gives_nan_alone(self) -> bool:
        """Whether nothing but NaN comes out: that has no slope, and NaN is as good as any number."""
        given = [one for one in self._all.gold.outputs.values() if one.bits is not None and not _is_exact(one)]
        return bool(given) and all(one.bits is not None and _is_nan(one.bits) for one in given)

    def _at_nan(self, path: str, shape: tuple[int, ...]) -> Flags | None:
        """Where the input itself is NaN."""
        given = self._all.inputs.tensors.get(path)
        if given is None or has_slope_at_nan(self._case.api) or dtype_named(given.dtype).is_exact:
            return None
        if given.bits.size > _FEW and not statistics(given.bits, dtype_named(given.dtype)).nan:
            return None
        unknown = np.isnan(numbers(given))
        return unknown if unknown.any() and unknown.shape == shape else None

    def _measured(
        self,
        part: str,
        path: str,
        ours: Array,
        theirs: Array | None,
        gold: Gold,
        moved: list[Gold] | Callable[[], list[Gold]],
        dtype: str,
        excused: Flags | None = None,
        *,
        plain: bool = False,
    ) -> Evidence:
        kind, kept = dtype_named(dtype), {}
        if part == _OUTPUT and self._decided:
            moved, kept["decided"] = list, 1.0  # inputs that are moved would be other inputs
        added = self._added(path) if part == _GRADIENT else 0
        high = gold[0] if isinstance(gold, tuple) else gold
        if theirs is None and not kind.is_exact and high.shape == ours.shape:
            theirs = narrow(high, kind)
            kept["honest_rounded"] = 1.0  # no honest kernel in this dtype: the gold, rounded, stands in
        if self._all.candidate.tensor_float and kind.name == "float32":
            kept[f"tf32_{self._all.candidate.tensor_float}"] = 1.0
        return measure(
            part,
            path,
            ours,
            theirs,
            gold,
            moved() if self._thorough and callable(moved) else moved,
            dtype=kind,
            excused=excused,
            scale=self._scale(part),
            roundings=roundings_of(self._case.api, self._case.arguments, self._shapes, kind.digits, added),
            normwise=norm_counts(self._case.api, kind.digits, gradient=part == _GRADIENT),
            terms=max(self._terms, added, steps_of_position(self._case.api, self._shapes)),
            nudged=partial(self._nudged, part, path) if plain and self._all.nudged is not None else None,
            predecessors=self._predecessors,
            numbers=kept,
        )

    def _added(self, path: str) -> int:
        """How many terms the gradient of an input adds up."""
        elements = sum(math.prod(array.shape) for array in self._all.candidate.outputs.values())
        return gradient_terms(self._case.api, self._case.arguments, self._shapes, path, elements)

    def _scale(self, part: str) -> float:
        """The largest magnitude that went in: beside it, what vanishes is noise."""
        if part not in self._scales:
            given = list(self._all.inputs.tensors.values())
            if part == _GRADIENT:
                given += self._all.inputs.gradients.values()
            self._scales[part] = max((_largest(array) for array in given), default=0.0)
        return self._scales[part]

    def _gold(self, part: str, path: str, array: ArrayOut, honest: ArrayOut | None) -> Gold | None:
        """The gold of a path. For exact types the honest result is one where the gold has none."""
        found = _arrays(self._all.gold, part).get(path) if self._all.gold.returned else None
        exact = dtype_named(array.dtype).is_exact
        if found is not None and found.bits is not None and dtype_named(found.dtype).is_exact == exact:
            return gold_of(found)
        if exact:
            return honest.bits if honest is not None and honest.dtype == array.dtype else None
        if found is not None and found.bits is not None:
            return found.bits.astype(np.float64)
        return None

    def _problem(self, part: str, expected: ArrayOut | None, found: ArrayOut | None, *, wider: bool) -> str:
        """What of the form of an array is wrong. It may be of a ``wider`` floating dtype where that is said."""
        if expected is None or (expected.bits is None and part == _GRADIENT):
            return _surplus(part, found, self._written(found))
        if found is None:
            return "is missing" if expected.bits is not None else ""
        if found.bits is None:
            return found.note
        problems = []
        freely = wider and _digits(found) > _digits(expected) > 0
        if self._all.honest.returned and found.dtype != expected.dtype and not freely:
            problems.append(f"dtype {found.dtype} instead of {expected.dtype}")
        if found.shape != expected.shape:
            problems.append(f"shape {list(found.shape)} instead of {list(expected.shape)}")
        if self._all.crossed:  # whether a number is a tensor, and how it is laid out, is each framework's own affair
            return "; ".join(problems)
        if bool(found.device) != bool(expected.device):
            problems.append("a tensor, not a number" if found.device else "a number, not a tensor")
        if found.note != expected.note:
            problems.append(f"{found.note or 'dense'} instead of {expected.note or 'dense'}")
        problems += self._place_problems(part, expected, found)
        return "; ".join(problems)

    def _place_problems(self, part: str, expected: ArrayOut, found: ArrayOut) -> Iterator[str]:
        name = canonical(self._case.api)
        device = self._all.target.partition(":")[0]
        follows = bool(self._case.tensors) and name != "to"  # a cast or a copy may be meant to change the device
        if follows and bool(found.device) == bool(expected.device) and found.device not in ("", device):
            yield f"device {found.device} instead of {device}"
        if part == _OUTPUT and expected.alias and found.alias != expected.alias:
            yield f"a new tensor, where {expected.alias} must be changed in place and returned"
        if part == _OUTPUT and found.alias and not expected.alias:
            yield f"{found.alias} itself, changed, where the result must be a new tensor"
        if part == _OUTPUT and name in _ALWAYS_VIEWS and expected.view and not found.view:
            yield f"a copy, where the result must be a view of {expected.view}"
        if part == _OUTPUT and found.view and not (expected.view or found.alias) and self._makes_new(name):
            yield f"shares its memory with {found.view}, where the result must be a new tensor"
        if part == _OUTPUT and name in _LAYOUTS and _steps(found) != _steps(expected) and found.shape == expected.shape:
            yield f"strides {list(found.strides)} instead of {list(expected.strides)}"
        if part == _OUTPUT and found.tracked and not expected.tracked and self._all.honest.returned:
            yield "asks for a gradient, where none can come back"

    def _makes_new(self, name: str) -> bool:
        kind = facts_of(self._case.api).kind
        return name in _OWN_MEMORY or kind not in _MAY_LOOK

    def _is_expected(self, part: str, path: str) -> bool:
        array = _arrays(self._expected, part).get(path)
        return array is not None and array.bits is not None

    def _no_gold(self, part: str, path: str) -> str:
        found = _arrays(self._all.gold, part).get(path.partition(":")[0])
        note = found.note if found is not None and found.bits is None else ""
        return f"there is no gold: {self._all.gold.outcome.reason or note or 'the reference gives no such result'}"

    def _no_gradients(self) -> str:
        """Why the reference has no gradients; empty where it has."""
        for executed in (self._all.gold, self._all.honest):
            outcome: Outcome | None = executed.backward
            if executed.returned and outcome is not None and outcome.status is not Status.RETURNED:
                if executed is self._all.honest and outcome.status is Status.UNSUPPORTED:
                    continue  # the gold, rounded, stands in
                return f"the reference has no gradients: {outcome.reason}"
        return ""


def _arrays(executed: Executed, part: str) -> Arrays:
    return executed.outputs if part == _OUTPUT else executed.gradients


def _is_nan(values: Array) -> bool:
    return bool(values.size and np.isnan(values).all())


def _is_exact(array: ArrayOut) -> bool:
    return dtype_named(array.dtype).is_exact


def _not_a_number(array: ArrayOut) -> Flags:
    if array.bits is None:
        return np.zeros(array.shape, dtype=np.bool_)
    return np.asarray(np.isnan(numbers(ArrayIn(array.bits, array.dtype))))


def _steps(array: ArrayOut) -> list[int]:
    """The strides that say anything."""
    if 0 in array.shape:
        return []
    return [stride for stride, size in zip(array.strides, array.shape, strict=True) if size > 1]


def _digits(array: ArrayOut) -> int:
    return dtype_named(array.dtype).digits


def _surplus(part: str, found: ArrayOut | None, written: ArrayOut | None) -> str:
    """An output or gradient that the reference has not."""
    if found is None or found.bits is None:
        return ""
    if part == _OUTPUT and written is not None and written.bits is not None:
        return "" if np.array_equal(found.bits, written.bits) else "must be written to, and was not"
    if part == _OUTPUT:
        return "an argument that must not be changed was changed" if found.alias else "is there, and should not be"
    return "a gradient where there is none" if np.any(numbers(ArrayIn(found.bits, found.dtype)) != 0) else ""


def _largest(array: ArrayIn) -> float:
    """The largest finite magnitude of a floating or complex array; 0.0 where there is none."""
    kind = dtype_named(array.dtype)
    if kind.is_exact or array.bits.size == 0:
        return 0.0
    if array.bits.size <= _FEW and not kind.is_complex:
        largest = float(np.abs(widen(array.bits, kind)).max())
        if math.isfinite(largest):
            return largest
    found = statistics(array.bits, kind)
    return max(abs(found.minimum), abs(found.maximum)) if found.finite else 0.0


def _stands_for(path: str, candidate: Form) -> bool:
    """Whether something else is compared in place of an output that was dropped: a facet made from the outputs, or a
    check of what must hold of them. Nothing stands for a gradient."""
    facets = any(":" in name for name in candidate.paths(_OUTPUT))
    return path.startswith("out") and (facets or bool(candidate.form.checks))
