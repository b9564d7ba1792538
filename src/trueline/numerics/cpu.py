"""Statistics, digests and comparisons of tensors in CPU memory.

Arrays hold storage bits (``DType.storage``: bfloat16 as uint16 and so on), with any strides. The work is done by the C
extension where it was built and by numpy otherwise, or if the environment variable ``TRUELINE_NO_KERNELS`` is set to
anything but 0; both give the same results. The C extension releases the interpreter's lock, so callers may split a
batch over threads.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.dtypes import DType
from trueline.errors import UsageError
from trueline.numerics import fallback
from trueline.numerics.fallback import check_storage, widen
from trueline.numerics.layout import (
    COMPARISON,
    DESCRIPTOR,
    MAX_DIMENSIONS,
    STATISTICS,
    pack_descriptor,
    to_measurement,
    to_statistics,
)
from trueline.records import Measurement, Statistics

__all__ = [
    "RowReducer",
    "address_of",
    "available",
    "compare",
    "compare_batch",
    "describe",
    "digest",
    "instruction_set",
    "kernel",
    "reader_address",
    "reduce_batch",
    "same_bits",
    "statistics",
    "widen",
]


def _load_kernels() -> ModuleType | None:
    try:
        return import_module("trueline.numerics._kernels")
    except ImportError:
        return None


_KERNELS = _load_kernels()
_CONTIGUOUS = struct.Struct(f"<Qqii{2 * MAX_DIMENSIONS}q")
_ZEROS = (0,) * (MAX_DIMENSIONS - 1)
_ROW_BYTES = STATISTICS.itemsize
_WORDS_AT_ONCE = 1 << 15
"""Words of eight bytes that stay in the cache."""


def _kernels() -> ModuleType | None:
    return None if os.environ.get("TRUELINE_NO_KERNELS", "0") not in ("", "0") else _KERNELS


def kernel(name: str) -> Callable[..., Any] | None:
    """A function of the C extension; None where it is not there, is switched off or has no such function."""
    return getattr(_kernels(), name, None)


def available() -> bool:
    """Whether the C extension is there and not switched off."""
    return _kernels() is not None


def instruction_set() -> str:
    """Which kernels do the work: ``avx2``, ``portable`` or ``numpy``."""
    kernels = _kernels()
    return str(kernels.instruction_set()) if kernels is not None else "numpy"


def reader_address() -> int:
    """Where the kernel lies that fills one ``STATISTICS`` row from one ``DESCRIPTOR``, for other extensions of this
    package: ``(descriptor, digest wanted, row)``, called with the interpreter's lock held. 0 where there is none."""
    kernels = _kernels()
    return int(getattr(kernels, "reduce_one", 0))


def describe(array: NDArray[Any], dtype: DType) -> NDArray[np.void]:
    """One ``DESCRIPTOR`` row, as an array of one; the caller keeps ``array`` alive while it is in use.

    Raises UsageError for an array of more than six dimensions that do not collapse: make it contiguous first.
    """
    check_storage(array, dtype)
    row = np.zeros(1, DESCRIPTOR)
    strides = [step // dtype.itemsize for step in array.strides]
    if any(step % dtype.itemsize for size, step in zip(array.shape, array.strides, strict=True) if size > 1):
        raise UsageError(f"strides {array.strides} are not multiples of the {dtype.itemsize} bytes of {dtype.name}")
    if not pack_descriptor(row, 0, _address(array), dtype.code, array.shape, strides):
        raise UsageError(f"an array of shape {array.shape} with strides {array.strides} must be made contiguous first")
    return row


def reduce_batch(descriptors: NDArray[np.void], out: NDArray[np.void], *, digest: bool) -> None:
    """Fills one ``STATISTICS`` row for each ``DESCRIPTOR`` of tensors in CPU memory."""
    _check_table(descriptors, DESCRIPTOR, len(out))
    _check_table(out, STATISTICS, len(out))
    kernels = _kernels()
    if kernels is None:
        fallback.reduce_batch(descriptors, out, digest=digest)
    else:
        kernels.reduce(_address(descriptors), len(descriptors), _address(out), int(digest))


class RowReducer:
    """Fills a table of ``STATISTICS`` rows one at a time, with as little overhead per tensor as Python allows."""

    def __init__(self, out: NDArray[np.void], *, digest: bool) -> None:
        _check_table(out, STATISTICS, len(out))
        self._out = out
        self._digest = digest
        self._table = np.zeros(1, DESCRIPTOR)
        self._buffer: Any = self._table
        self._table_address = _address(self._table)
        self._out_address = _address(out)
        kernels = _kernels()
        self._kernel = None if kernels is None else kernels.reduce

    def contiguous(self, row: int, pointer: int, code: int, numel: int) -> None:
        """Reads a contiguous tensor in CPU memory into a row."""
        _CONTIGUOUS.pack_into(self._buffer, 0, pointer, numel, code, 1, numel, *_ZEROS, 1, *_ZEROS)
        self._run(row)

    def strided(self, row: int, pointer: int, code: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
        """Reads a strided one; False, with nothing done, where it must be made contiguous first."""
        if not pack_descriptor(self._table, 0, pointer, code, shape, strides):
            return False
        self._run(row)
        return True

    def _run(self, row: int) -> None:
        if self._kernel is None:
            fallback.reduce_batch(self._table, self._out[row : row + 1], digest=self._digest)
        else:
            self._kernel(self._table_address, 1, self._out_address + row * _ROW_BYTES, self._digest)


def compare_batch(references: NDArray[np.void], candidates: NDArray[np.void], out: NDArray[np.void]) -> None:
    """Fills one ``COMPARISON`` row for each pair of descriptors; the tensors of a pair have the same shape."""
    _check_table(references, DESCRIPTOR, len(out))
    _check_table(candidates, DESCRIPTOR, len(out))
    _check_table(out, COMPARISON, len(out))
    if (references["numel"] != candidates["numel"]).any():
        raise UsageError("tensors of different sizes cannot be compared element by element")
    kernels = _kernels()
    if kernels is None:
        fallback.compare_batch(references, candidates, out)
    else:
        kernels.compare(_address(references), _address(candidates), len(out), _address(out))


def statistics(array: NDArray[Any], dtype: DType) -> Statistics:
    """The statistics of one array, with its sketch."""
    return to_statistics(_reduce(array, dtype, digest=False))


def digest(array: NDArray[Any], dtype: DType) -> int:
    """A number that depends on every bit of the array and on the order of its elements, not on its strides."""
    return int(_reduce(array, dtype, digest=True)["digest"])


def compare(
    reference: NDArray[Any], reference_dtype: DType, candidate: NDArray[Any], candidate_dtype: DType
) -> Measurement:
    """Compares two arrays of the same shape, element by element; their dtypes may differ.

    A complex array is compared by its real components; ``worst`` is then the index of the complex element.
    """
    if reference.shape != candidate.shape:
        raise UsageError(f"cannot compare shape {reference.shape} with {candidate.shape} element by element")
    if reference_dtype.is_complex != candidate_dtype.is_complex:
        raise UsageError(f"cannot compare {reference_dtype.name} with {candidate_dtype.name}: one is complex")
    kernels = _kernels()
    if kernels is not None and reference.flags.c_contiguous and candidate.flags.c_contiguous:
        table = np.empty(2 * DESCRIPTOR.itemsize, np.uint8)
        for place, array, dtype in ((0, reference, reference_dtype), (1, candidate, candidate_dtype)):
            check_storage(array, dtype)
            row_at, size = place * DESCRIPTOR.itemsize, array.size
            _CONTIGUOUS.pack_into(
                table.data, row_at, address_of(array), size, dtype.code, 1, size, *_ZEROS, 1, *_ZEROS
            )
        start, row = address_of(table), np.zeros(COMPARISON.itemsize, np.uint8)
        kernels.compare(start, start + DESCRIPTOR.itemsize, 1, address_of(row))
        return to_measurement(row.view(COMPARISON)[0])
    out = np.zeros(1, COMPARISON)
    reference, candidate = _simplified(reference), _simplified(candidate)
    compare_batch(describe(reference, reference_dtype), describe(candidate, candidate_dtype), out)
    return to_measurement(out[0])


def same_bits(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether two arrays are equal to the last bit, the signs of zeros and the kinds of NaN included. The first
    difference ends it."""
    if one is other:
        return True
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    first, second = (np.ascontiguousarray(bits).reshape(-1).view(np.uint8) for bits in (one, other))
    whole = first.size - first.size % 8
    words = (first[:whole].view(np.uint64), second[:whole].view(np.uint64))
    for start in range(0, words[0].size, _WORDS_AT_ONCE):
        part = slice(start, start + _WORDS_AT_ONCE)
        if not np.array_equal(words[0][part], words[1][part]):
            return False
    return bool(np.array_equal(first[whole:], second[whole:]))


def _reduce(array: NDArray[Any], dtype: DType, *, digest: bool) -> Any:
    array = _simplified(array)
    out = np.zeros(1, STATISTICS)
    reduce_batch(describe(array, dtype), out, digest=digest)
    return out[0]


def _simplified(array: NDArray[Any]) -> NDArray[Any]:
    """The array itself, or a contiguous copy of one that a descriptor may not be able to hold."""
    whole_steps = all(step % array.itemsize == 0 for step in array.strides)
    return array if array.ndim <= MAX_DIMENSIONS and whole_steps else np.ascontiguousarray(array)


def address_of(array: NDArray[Any]) -> int:
    """Where the first element of an array of plain numbers lies."""
    address: int = array.__array_interface__["data"][0]
    return address


def _address(table: NDArray[Any]) -> int:
    """The same for a table, of whose columns the interface would tell at length."""
    return int(table.ctypes.data)


def _check_table(table: NDArray[np.void], dtype: np.dtype[np.void], length: int) -> None:
    if (table.dtype is not dtype and table.dtype != dtype) or table.shape != (length,) or not table.flags.c_contiguous:
        raise UsageError(f"expected a contiguous table of {length} rows, got shape {table.shape} of {table.dtype}")
