"""Whether a gold is one: an operator may give float32 whatever it was fed, and then knows no better than the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trueline.cases import Case
from trueline.dtypes import dtype_named
from trueline.frameworks.base import ArrayOut, Executed
from trueline.frameworks.rounding import widened_array
from trueline.ops.facts import facts_of

_WIDE = ("float64", "complex128")


def trusted(case: Case, gold: Executed) -> Executed:
    """A gold without what it holds in a narrower dtype than float64. Where an operator only moves or picks elements,
    nothing was rounded, and its numbers stand."""
    exact = facts_of(case.api).exact and not case.backward
    return replace(gold, outputs=_each(gold.outputs, exact), gradients=_each(gold.gradients, exact))


def _each(arrays: Mapping[str, ArrayOut], exact: bool) -> dict[str, ArrayOut]:
    return {path: _one(array, exact) for path, array in arrays.items()}


def _one(array: ArrayOut, exact: bool) -> ArrayOut:
    if array.bits is None or array.dtype in _WIDE or dtype_named(array.dtype).is_exact:
        return array
    if exact:
        return widened_array(array)
    return replace(array, bits=None, note=f"the reference gives {array.dtype} even where it is asked for float64")
