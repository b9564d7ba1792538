"""Numbers as the storage bits of a dtype, each rounded once to the nearest, halves to even."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.dtypes import DType
from trueline.numerics.fallback import widen

Array = NDArray[Any]

_PARTS = {"complex32": "<f2", "complex64": "<f4", "complex128": "<f8"}


def narrow(values: Array, dtype: DType) -> Array:
    """The bits of float64 (complex128) numbers in a floating (complex) dtype; integers and bools as they are."""
    storage = np.dtype(dtype.storage)
    with np.errstate(all="ignore"):  # what is too large becomes infinite, as the dtype has it
        if dtype.is_complex:
            parts = np.ascontiguousarray(values, dtype=np.complex128).reshape(-1).view(np.float64)
            return parts.astype(_PARTS[dtype.name]).view(storage).reshape(values.shape)
        if dtype.name == "bfloat16":
            return _bfloat16(np.asarray(values, dtype=np.float64))
        if dtype.is_float and dtype.itemsize == 1:
            return _float8(np.asarray(values, dtype=np.float64), dtype)
        return np.asarray(values).astype(storage)


def _bfloat16(values: Array) -> Array:
    """To float32 toward odd, then to the nearest: so that nothing is rounded twice."""
    single = values.astype(np.float32)
    bits = single.view(np.uint32)
    inexact = (single.astype(np.float64) != values) & np.isfinite(single)
    toward_zero = np.where(inexact & (np.abs(single) > np.abs(values)), bits - np.uint32(1), bits)
    bits = np.where(inexact, toward_zero | np.uint32(1), toward_zero).astype(np.uint32)
    half = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    rounded: Array = np.where(np.isnan(values), 0x7FC0, (bits + half) >> np.uint32(16))
    return rounded.astype("<u2")


@cache
def _float8_table(dtype: DType) -> tuple[Array, Array]:
    """All finite numbers of a type of one byte, rising, with their bits; of zeros the positive one."""
    bits = np.arange(256, dtype=np.uint8)
    numbers = widen(bits, dtype)
    finite = np.isfinite(numbers) & ((numbers != 0) | (bits == 0))
    order = np.argsort(numbers[finite], kind="stable")
    return numbers[finite][order], bits[finite][order]


def _float8(values: Array, dtype: DType) -> Array:
    """To the nearest number; what is too large becomes the largest, what is not a number zero: these types are drawn,
    never overflowed into."""
    numbers, bits = _float8_table(dtype)
    after = np.clip(np.searchsorted(numbers, np.nan_to_num(values)), 1, len(numbers) - 1)
    below = np.nan_to_num(values) - numbers[after - 1] <= numbers[after] - np.nan_to_num(values)
    found: Array = bits[np.where(below, after - 1, after)]
    return found
