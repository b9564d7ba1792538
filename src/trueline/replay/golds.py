"""Whether a gold is one: an operator may give float32 whatever it was fed, and then knows no better than the rest.
And whether one is needed at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trueline.cases import Case, Status
from trueline.dtypes import dtype_named
from trueline.frameworks.base import ArrayOut, Executed, Inputs
from trueline.frameworks.rounding import widened_array
from trueline.numerics.cpu import same_bits
from trueline.ops.facts import Kind, facts_of
from trueline.tree import tensor_paths

_WIDE = ("float64", "complex128")


def trusted(case: Case, gold: Executed) -> Executed:
    """A gold without what it holds in a narrower dtype than float64. Where an operator only moves or picks elements,
    nothing was rounded, and its numbers stand."""
    exact = facts_of(case.api).exact and not case.backward
    return replace(gold, outputs=_each(gold.outputs, exact), gradients=_each(gold.gradients, exact))


def is_known(case: Case, inputs: Inputs, candidate: Executed, honest: Executed) -> bool:
    """Whether the gold is what the honest implementation gave, so that it need not be computed: where whole numbers or
    bools go in and come out, float64 changes nothing; and where elements are only moved or picked, nothing is rounded.
    The latter is believed where two implementations agree to the last bit. Adding up gradients rounds: so of what has
    any, only operators count that give each of them to one element."""
    if not honest.returned:
        return False
    names = [array.dtype for array in inputs.tensors.values()]
    names += [array.dtype for array in (*honest.outputs.values(), *candidate.outputs.values())]
    kinds = [dtype_named(name) for name in names]
    if all(kind.is_exact for kind in kinds):
        return not case.backward
    facts = facts_of(case.api)
    if facts.kind is Kind.SELECT and any(kind.is_complex for kind in kinds):
        return False  # their magnitudes are computed
    if case.backward and not (facts.one_to_one and _went_back(honest) and _went_back(candidate) and not _meet(case)):
        return False
    return facts.kind in (Kind.MOVE, Kind.SELECT) and _agree(candidate, honest)


def _went_back(executed: Executed) -> bool:
    return executed.backward is not None and executed.backward.status is Status.RETURNED


def _meet(case: Case) -> bool:
    """Whether a tensor is given to the call twice: then its gradients are added."""
    given = [number for number, _ in tensor_paths(case.arguments)]
    return len(set(given)) < len(given)


def _agree(candidate: Executed, honest: Executed) -> bool:
    return _are_equal(candidate.outputs, honest.outputs) and _are_equal(candidate.gradients, honest.gradients)


def _are_equal(ours: Mapping[str, ArrayOut], theirs: Mapping[str, ArrayOut]) -> bool:
    return ours.keys() == theirs.keys() and all(_is_equal(ours[path], theirs[path]) for path in ours)


def _is_equal(ours: ArrayOut, theirs: ArrayOut) -> bool:
    """Equal to the last bit, the signs of zeros and the kinds of NaN included."""
    if ours.bits is None or theirs.bits is None or ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return False
    return same_bits(ours.bits, theirs.bits)


def _each(arrays: Mapping[str, ArrayOut], exact: bool) -> dict[str, ArrayOut]:
    return {path: _one(array, exact) for path, array in arrays.items()}


def _one(array: ArrayOut, exact: bool) -> ArrayOut:
    if array.bits is None or array.dtype in _WIDE or dtype_named(array.dtype).is_exact:
        return array
    if exact:
        return widened_array(array)
    return replace(array, bits=None, note=f"the reference gives {array.dtype} even where it is asked for float64")
