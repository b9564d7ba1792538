"""What honest arithmetic may be off where honest implementations of an operator go different ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from trueline.dtypes import dtype_named
from trueline.frameworks.base import ArrayOut, Executed
from trueline.numerics import widen

Arrays = Mapping[str, ArrayOut]


def worse_of(honest: Executed, other: Executed, gold: Executed) -> Executed:
    """An honest execution in which each element is the one of the two that is farther from the gold."""
    if not (honest.returned and other.returned and gold.returned):
        return honest
    return replace(
        honest,
        outputs=_worse(honest.outputs, other.outputs, gold.outputs),
        gradients=_worse(honest.gradients, other.gradients, gold.gradients),
    )


def _worse(honest: Arrays, other: Arrays, gold: Arrays) -> dict[str, ArrayOut]:
    return {path: _worse_array(array, other.get(path), gold.get(path)) for path, array in honest.items()}


def _worse_array(honest: ArrayOut, other: ArrayOut | None, gold: ArrayOut | None) -> ArrayOut:
    if honest.bits is None or other is None or other.bits is None or gold is None or gold.bits is None:
        return honest
    kind = dtype_named(honest.dtype)
    if not kind.is_float or other.dtype != honest.dtype or not honest.shape == other.shape == gold.shape:
        return honest
    far = np.abs(widen(other.bits, kind) - gold.bits) > np.abs(widen(honest.bits, kind) - gold.bits)
    return replace(honest, bits=np.where(far, other.bits, honest.bits).reshape(honest.bits.shape))
