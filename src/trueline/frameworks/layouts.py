"""How elements lie in memory, and plain numbers as arrays: what needs no framework."""

from __future__ import annotations

from typing import Any

import numpy as np

from trueline.dtypes import DTYPES
from trueline.frameworks.base import Bits, CannotExecute
from trueline.frameworks.values import Packed

_NUMBERS: tuple[tuple[type, str], ...] = ((bool, "bool"), (int, "int64"), (float, "float64"), (complex, "complex128"))


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a contiguous tensor, in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def in_memory(bits: Bits, strides: tuple[int, ...] | None) -> Bits | None:
    """The memory from which a tensor with these elements and strides is cut; None where it is plainly contiguous."""
    if strides is None or bits.size == 0 or strides == contiguous_strides(bits.shape):
        return None
    length = 1 + sum((size - 1) * stride for size, stride in zip(bits.shape, strides, strict=True))
    memory = np.zeros(length, dtype=bits.dtype)
    itemsize = bits.dtype.itemsize
    np.lib.stride_tricks.as_strided(memory, bits.shape, [stride * itemsize for stride in strides])[...] = bits
    return memory


def number_array(value: Any) -> tuple[Bits, str]:
    """A plain number as an array without dimensions, or many as one with, and their dtype."""
    if isinstance(value, Packed):
        name = next(name for kind, name in _NUMBERS if value.array.dtype.kind == np.dtype(kind).kind)
        return value.array.astype(DTYPES[name].storage, copy=False), name
    name = next(name for kind, name in _NUMBERS if isinstance(value, kind))
    storage = np.dtype(DTYPES[name].storage)
    if storage.kind == "i" and not -(2**63) <= value < 2**63:
        raise CannotExecute("it gives an integer of more than 64 bits")
    return np.array(value, dtype=storage), name
