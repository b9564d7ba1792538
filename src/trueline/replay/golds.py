"""Whether a gold is one: an operator may give float32 whatever it was fed, and then knows no better than the rest.
And whether one is needed at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from trueline.cases import Case
from trueline.dtypes import dtype_named
from trueline.frameworks.base import ArrayOut, Bits, Executed, Inputs
from trueline.frameworks.rounding import widened_array
from trueline.ops.facts import Kind, facts_of

_WIDE = ("float64", "complex128")


def trusted(case: Case, gold: Executed) -> Executed:
    """A gold without what it holds in a narrower dtype than float64. Where an operator only moves or picks elements,
    nothing was rounded, and its numbers stand."""
    exact = facts_of(case.api).exact and not case.backward
    return replace(gold, outputs=_each(gold.outputs, exact), gradients=_each(gold.gradients, exact))


def is_known(case: Case, inputs: Inputs, candidate: Executed, honest: Executed) -> bool:
    """Whether the gold is what the honest implementation gave, so that it need not be computed: where whole numbers or
    bools go in and come out, float64 changes nothing; and where elements are only moved or picked, nothing is rounded.
    The latter is believed where two implementations agree to the last bit, and of what has no gradient: adding up
    gradients rounds."""
    if not honest.returned or case.backward:
        return False
    names = [array.dtype for array in inputs.tensors.values()]
    names += [array.dtype for array in (*honest.outputs.values(), *candidate.outputs.values())]
    if all(dtype_named(name).is_exact for name in names):
        return True
    return facts_of(case.api).kind in (Kind.MOVE, Kind.SELECT) and _are_equal(candidate.outputs, honest.outputs)


def _are_equal(ours: Mapping[str, ArrayOut], theirs: Mapping[str, ArrayOut]) -> bool:
    return ours.keys() == theirs.keys() and all(_is_equal(ours[path], theirs[path]) for path in ours)


def _is_equal(ours: ArrayOut, theirs: ArrayOut) -> bool:
    """Equal to the last bit, the signs of zeros and the kinds of NaN included."""
    if ours.bits is None or theirs.bits is None or ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return False
    if not ours.bits.size:
        return True
    return np.array_equal(_bytes(ours.bits), _bytes(theirs.bits))


def _bytes(bits: Bits) -> Bits:
    return np.ascontiguousarray(bits).reshape(-1).view(np.uint8)


def _each(arrays: Mapping[str, ArrayOut], exact: bool) -> dict[str, ArrayOut]:
    return {path: _one(array, exact) for path, array in arrays.items()}


def _one(array: ArrayOut, exact: bool) -> ArrayOut:
    if array.bits is None or array.dtype in _WIDE or dtype_named(array.dtype).is_exact:
        return array
    if exact:
        return widened_array(array)
    return replace(array, bits=None, note=f"the reference gives {array.dtype} even where it is asked for float64")
