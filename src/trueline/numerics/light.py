"""The light look at a tensor: what tells NaN, infinity, and how near its numbers came to the limits of their dtype.

One read of the memory and nothing else: no sums, no sketch, no digest. ``look_batch`` fills one ``LOOK`` row for each
``DESCRIPTOR`` of tensors in CPU memory, by the C extension where it is there and by numpy otherwise; both give the same
rows. ``numerics.cuda_light`` does it on CUDA. A complex tensor is one of twice as many real components.

``part_of`` leaves a part of a large tensor in its ``DESCRIPTOR``, for looks that are made again and again.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.dtypes import BY_CODE, DType
from trueline.errors import UsageError
from trueline.numerics import cpu
from trueline.numerics.fallback import widen
from trueline.numerics.layout import DESCRIPTOR

LOOK = np.dtype(
    [
        ("count", "<i8"),
        ("nan", "<i8"),
        ("positive_infinity", "<i8"),
        ("negative_infinity", "<i8"),
        ("zeros", "<i8"),
        ("subnormals", "<i8"),
        ("saturated", "<i8"),
        ("largest", "<f8"),
        ("smallest", "<f8"),
    ]
)
"""``largest`` is the largest finite magnitude and ``smallest`` the smallest that is not zero; both NaN where there is
none. ``subnormals`` counts numbers too small for the full precision of the dtype, ``saturated`` those whose magnitude
is the largest that the dtype has. Only ``count`` says anything of integers and bools."""


PART_LEAST, PART_MOST, PART_BLOCK = 65536, 8, 4096
"""A tensor has as many parts as it has the first of elements, at most the second; parts are made of blocks of the
third, which lie side by side."""


def part_of(row: NDArray[np.void], round_number: int) -> NDArray[np.void]:
    """A ``DESCRIPTOR`` (an array of one) of a part of a large tensor, another one in each round; of a small one the
    same. The rounds of all parts, twice over, leave nothing out. The C twin is ``_calls_light_rows.h``."""
    numel, ndim = int(row["numel"][0]), int(row["ndim"][0])
    parts = min(numel // PART_LEAST, PART_MOST)
    if parts < 2:
        return row
    found: NDArray[np.void] = row.copy()
    shape, strides = found["shape"][0], found["strides"][0]
    itemsize = np.dtype(BY_CODE[int(row["dtype"][0])].storage).itemsize
    if ndim == 1 and strides[0] == 1:
        # what is left over by whole blocks lies at the end, and every other time at the beginning
        found["pointer"] += np.uint64(numel % PART_BLOCK * itemsize if round_number // parts % 2 else 0)
        found["numel"] -= numel % PART_BLOCK
        found["ndim"] = ndim = 2
        shape[:2], strides[:2] = (numel // PART_BLOCK, PART_BLOCK), (PART_BLOCK, 1)
    for dimension in range(ndim - 1):
        size, phase = int(shape[dimension]), round_number % parts
        if size >= 2 * parts:
            left = (size - phase + parts - 1) // parts
            found["pointer"] += np.uint64(phase * int(strides[dimension]) * itemsize)
            found["numel"] = found["numel"] // size * left
            shape[dimension] = left
            strides[dimension] *= parts
            break
    return found


def reader_address() -> int:
    """Where the kernel lies that fills one ``LOOK`` row from one ``DESCRIPTOR``, for other extensions of this package:
    ``(descriptor, row)``. 0 where there is none."""
    kernel = cpu.kernel("glance_one")
    return int(kernel) if isinstance(kernel, int) else 0


def look_batch(descriptors: NDArray[np.void], out: NDArray[np.void]) -> None:
    """Fills one ``LOOK`` row for each ``DESCRIPTOR`` of tensors in CPU memory."""
    for table, dtype in ((descriptors, DESCRIPTOR), (out, LOOK)):
        if table.dtype != dtype or table.shape != (len(out),) or not table.flags.c_contiguous:
            raise UsageError(
                f"expected a contiguous table of {len(out)} rows, got shape {table.shape} of {table.dtype}"
            )
    kernel = cpu.kernel("glance")
    if kernel is not None:
        kernel(int(descriptors.ctypes.data), len(out), int(out.ctypes.data))
        return
    for position, row in enumerate(descriptors):
        out[position] = look_at(_elements(row), BY_CODE[int(row["dtype"])])


def look_at(bits: NDArray[Any], dtype: DType) -> tuple[Any, ...]:
    """The fields of a ``LOOK`` of an array of storage bits, by numpy."""
    if dtype.is_exact:
        return (bits.size, 0, 0, 0, 0, 0, 0, np.nan, np.nan)
    values = np.asarray(widen(np.ascontiguousarray(bits).reshape(-1), dtype))
    if np.iscomplexobj(values):
        values = np.ascontiguousarray(values).view(values.real.dtype)
    with np.errstate(invalid="ignore"):
        magnitudes = np.abs(values)
        finite = magnitudes[np.isfinite(magnitudes)]
        some = finite[finite > 0]
        least, most = limits_of(dtype)
        return (
            values.size,
            int(np.isnan(values).sum()),
            int((values == np.inf).sum()),
            int((values == -np.inf).sum()),
            int((finite == 0).sum()),
            int((some < least).sum()),
            int((finite == most).sum()),
            float(finite.max()) if finite.size else np.nan,
            float(some.min()) if some.size else np.nan,
        )


@cache
def limits_of(dtype: DType) -> tuple[float, float]:
    """The smallest number of full precision and the largest finite one; both are exact in float64."""
    return 2.0**dtype.exponent_min, dtype.largest


def _elements(row: Any) -> NDArray[Any]:
    """The elements behind a descriptor, as an array of storage bits."""
    dtype, ndim = BY_CODE[int(row["dtype"])], int(row["ndim"])
    storage = np.dtype(dtype.storage)
    shape = tuple(int(size) for size in row["shape"][:ndim])
    strides = tuple(int(step) * storage.itemsize for step in row["strides"][:ndim])
    if int(row["numel"]) == 0:
        return np.empty(0, storage)
    first = np.empty(0, storage)
    interface = {
        "data": (int(row["pointer"]), True),
        "shape": shape,
        "strides": strides,
        "typestr": storage.str,
        "version": 3,
    }
    return np.asarray(_Memory(interface, first))


class _Memory:
    """Lets numpy see memory that somebody else owns."""

    def __init__(self, interface: dict[str, Any], empty: NDArray[Any]) -> None:
        self.__array_interface__ = interface
        self._empty = empty
