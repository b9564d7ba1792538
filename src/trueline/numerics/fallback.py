"""The CPU kernels in numpy: the same results as the C extension, slower, for machines without a compiler.

Works in float64 on chunks of the logical order, so that memory use does not grow with the tensor. Also holds
``widen``, which turns the storage bits of any dtype into numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.dtypes import BY_CODE, DTYPES, DType
from trueline.errors import UsageError
from trueline.numerics.layout import DIGEST_STEP, THRESHOLDS, mix64, sign_words
from trueline.records import SKETCH_SIZE

Array = NDArray[Any]
Doubles = NDArray[np.float64]

CHUNK = 1 << 15
"""Elements at a time, few enough to stay in the cache; a multiple of the sketch's size."""

_SIGNS = np.array([1.0, -1.0])
_SAFE_EXPONENT = 400

_COMPONENTS = {"complex32": DTYPES["float16"], "complex64": DTYPES["float32"], "complex128": DTYPES["float64"]}

_FLOAT8 = {  # name: bits of the mantissa, bias of the exponent
    "float8_e4m3fn": (3, 7),
    "float8_e5m2": (2, 15),
    "float8_e4m3fnuz": (3, 8),
    "float8_e5m2fnuz": (2, 16),
}


def component_of(dtype: DType) -> DType:
    """The dtype of a complex number's parts; any other dtype itself."""
    return _COMPONENTS.get(dtype.name, dtype)


def widen(array: Array, dtype: DType) -> Array:
    """The numbers behind storage bits, as float64 (complex dtypes: complex128); integers beyond 2**53 are rounded."""
    check_storage(array, dtype)
    if dtype.is_complex:
        part = component_of(dtype)
        parts = _widen_real(np.ascontiguousarray(array).reshape(-1).view(part.storage), part)
        return parts.view(np.complex128).reshape(array.shape)
    return _widen_real(array, dtype)


def check_storage(array: Array, dtype: DType) -> None:
    """Raises UsageError unless the array's type is the one that stores ``dtype``."""
    if array.dtype != np.dtype(dtype.storage):
        raise UsageError(f"{dtype.name} is stored as numpy {np.dtype(dtype.storage)}, got an array of {array.dtype}")


def _widen_real(array: Array, dtype: DType) -> Doubles:
    if dtype.name.startswith("float8"):
        return np.asarray(_float8_values(dtype.name)[array])
    if dtype.name == "bfloat16":
        array = np.asarray(array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    elif dtype.name == "bool":
        array = np.asarray(array.view(np.uint8) != 0)
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        return np.asarray(array.astype(np.float64))


@cache
def _float8_values(name: str) -> Doubles:
    byte = np.arange(256)
    if name == "float8_e8m0fnu":
        return np.where(byte == 0xFF, np.nan, np.ldexp(1.0, byte - 127))
    mantissa_bits, bias = _FLOAT8[name]
    magnitude = byte & 0x7F
    exponent, mantissa = magnitude >> mantissa_bits, magnitude & ((1 << mantissa_bits) - 1)
    significand = np.where(exponent > 0, mantissa + (1 << mantissa_bits), mantissa)
    values: Doubles = np.ldexp(significand.astype(np.float64), np.maximum(exponent, 1) - bias - mantissa_bits)
    if name == "float8_e4m3fn":
        values[magnitude == 0x7F] = np.nan
    elif name == "float8_e5m2":
        values[magnitude == 0x7C] = np.inf
        values[magnitude > 0x7C] = np.nan
    values[byte >= 0x80] *= -1.0
    if name.endswith("fnuz"):
        values[0x80] = np.nan
    return values


class _Memory:
    """Lets numpy see the memory that a descriptor points at."""

    def __init__(self, descriptor: Any, dtype: DType) -> None:
        ndim = int(descriptor["ndim"])
        self.__array_interface__ = {
            "version": 3,
            "typestr": np.dtype(dtype.storage).str,
            "data": (int(descriptor["pointer"]), True),
            "shape": tuple(int(size) for size in descriptor["shape"][:ndim]),
            "strides": tuple(int(step) * dtype.itemsize for step in descriptor["strides"][:ndim]),
        }


def _chunks(descriptor: Any) -> Iterator[tuple[int, Array]]:
    """Yields (index of the first component, raw components) in logical order."""
    dtype = BY_CODE[int(descriptor["dtype"])]
    part = component_of(dtype)
    numel = int(descriptor["numel"])
    if numel == 0:
        return
    view = np.asarray(_Memory(descriptor, dtype))
    flat: Any = view.reshape(-1) if view.flags.c_contiguous else view.flat
    width = dtype.itemsize // part.itemsize
    for start in range(0, numel, CHUNK // width):
        yield start * width, flat[start : start + CHUNK // width].view(part.storage)


def reduce_batch(descriptors: NDArray[np.void], out: NDArray[np.void], *, digest: bool) -> None:
    """Fills one ``STATISTICS`` row for each descriptor."""
    for descriptor, row in zip(descriptors, out, strict=True):
        with np.errstate(all="ignore"):
            _reduce(descriptor, row, digest)


def _reduce(descriptor: Any, row: Any, digest: bool) -> None:
    part = component_of(BY_CODE[int(descriptor["dtype"])])
    minimum, maximum, smallest, total, norm = math.inf, -math.inf, math.inf, 0.0, 0.0
    count = nan = positive = negative = zeros = mixed = 0
    sketch = np.zeros(SKETCH_SIZE)
    for start, raw in _chunks(descriptor):
        values = _widen_real(raw, part)
        finite = np.isfinite(values)
        count += values.size
        numbers = values
        if not finite.all():
            nan += int(np.isnan(values).sum())
            positive += int((values == math.inf).sum())
            negative += int((values == -math.inf).sum())
            numbers, values = values[finite], np.where(finite, values, 0.0)
        total += float(numbers.sum())
        minimum = min(minimum, float(numbers.min(initial=math.inf)))
        maximum = max(maximum, float(numbers.max(initial=-math.inf)))
        magnitudes = np.abs(numbers)
        norm = math.hypot(norm, _norm(magnitudes))
        nonzero = int(np.count_nonzero(magnitudes))
        zeros += magnitudes.size - nonzero
        if nonzero < magnitudes.size:
            magnitudes = magnitudes[magnitudes != 0.0]
        smallest = min(smallest, float(magnitudes.min(initial=math.inf)))
        sketch += _sketch(values, start)
        if digest:
            mixed += _digest(raw, start)
    measured = count - nan - positive - negative
    row["count"] = count
    row["minimum"] = minimum if measured else math.nan
    row["maximum"] = maximum if measured else math.nan
    row["mean"] = total / measured if measured else math.nan
    row["norm"] = norm
    row["nan"], row["positive_infinity"], row["negative_infinity"], row["zeros"] = nan, positive, negative, zeros
    row["exponent_min"] = math.frexp(smallest)[1] - 1 if measured > zeros else 0
    row["exponent_max"] = math.frexp(max(maximum, -minimum))[1] - 1 if measured > zeros else -1
    row["digest"] = mixed & 0xFFFF_FFFF_FFFF_FFFF
    row["sketch"] = sketch


def _norm(magnitudes: Doubles) -> float:
    """The L2 norm, scaled by a power of two where a square might overflow or underflow."""
    largest = float(magnitudes.max(initial=0.0))
    if largest == 0.0:
        return 0.0
    exponent = math.frexp(largest)[1]
    if abs(exponent) < _SAFE_EXPONENT:
        return math.sqrt(np.square(magnitudes).sum())
    scaled = np.ldexp(magnitudes, -exponent)
    return float(np.ldexp(np.sqrt(np.square(scaled).sum()), exponent))


def _sketch(values: Doubles, start: int) -> Doubles:
    padded = np.zeros(-(-values.size // SKETCH_SIZE) * SKETCH_SIZE)
    padded[: values.size] = values
    words = np.arange(start >> 5, (start + padded.size) >> 5, dtype=np.uint64).astype(np.uint32)
    bits = np.unpackbits(sign_words(words).astype("<u4").view(np.uint8), bitorder="little")
    signed = padded * _SIGNS[bits]
    sums: Doubles = signed.reshape(-1, SKETCH_SIZE).sum(axis=0)
    return sums


def _digest(raw: Array, start: int) -> int:
    bits = raw.view(f"<u{raw.itemsize}").astype(np.uint64)
    steps = np.arange(start + 1, start + 1 + raw.size, dtype=np.uint64) * np.uint64(DIGEST_STEP)
    return int(mix64(bits + steps).sum(dtype=np.uint64))


def compare_batch(references: NDArray[np.void], candidates: NDArray[np.void], out: NDArray[np.void]) -> None:
    """Fills one ``COMPARISON`` row for each pair of descriptors of the same shape."""
    out[...] = np.zeros((), out.dtype)
    for reference, candidate, row in zip(references, candidates, out, strict=True):
        _compare(reference, candidate, row)


def _compare(reference: Any, candidate: Any, row: Any) -> None:
    left, right = BY_CODE[int(reference["dtype"])], BY_CODE[int(candidate["dtype"])]
    row["worst"], row["worst_reference"], row["worst_candidate"] = -1, math.nan, math.nan
    for (start, raw_left), (_, raw_right) in zip(_chunks(reference), _chunks(candidate), strict=True):
        expected = _widen_real(raw_left, component_of(left))
        actual = _widen_real(raw_right, component_of(right))
        with np.errstate(all="ignore"):
            difference = _difference(raw_left, raw_right, expected, actual, exact=left is right and left.is_exact)
            _compare_chunk(expected, actual, difference, _unit(left, right), start, row)
    if left.is_complex and row["worst"] >= 0:
        row["worst"] //= 2


def _difference(raw_left: Array, raw_right: Array, expected: Doubles, actual: Doubles, *, exact: bool) -> Doubles:
    """Candidate minus reference; of 64-bit integers taken exactly, as float64 cannot tell large ones apart."""
    if not exact or raw_left.itemsize < 8:
        return actual - expected
    x, y = raw_left.view(np.uint64), raw_right.view(np.uint64)
    less = raw_right < raw_left
    return np.where(less, -(x - y).astype(np.float64), (y - x).astype(np.float64))


def _unit(left: DType, right: DType) -> DType | None:
    """The coarser of two dtypes; None where both are exact."""
    inexact = [dtype for dtype in (left, right) if dtype.digits]
    return min(inexact, key=lambda dtype: (dtype.digits, -dtype.exponent_min)) if inexact else None


def _compare_chunk(
    expected: Doubles, actual: Doubles, difference: Doubles, unit: DType | None, start: int, row: Any
) -> None:
    finite = np.isfinite(expected) & np.isfinite(actual)
    both_nan, either_nan = np.isnan(expected) & np.isnan(actual), np.isnan(expected) | np.isnan(actual)
    same_infinity = (expected == actual) & ~finite
    row["count"] += expected.size
    row["both_finite"] += int(finite.sum())
    row["equal"] += int((finite & (difference == 0.0)).sum() + both_nan.sum() + same_infinity.sum())
    row["nan_mismatch"] += int((either_nan & ~both_nan).sum())
    row["infinity_mismatch"] += int((~finite & ~either_nan & ~same_infinity).sum())
    signed = np.where(finite, difference, 0.0)
    distance = np.abs(signed)
    if distance.max(initial=0.0) > row["max_abs"]:
        at = int(distance.argmax())
        row["max_abs"], row["worst"] = distance[at], start + at
        row["worst_reference"], row["worst_candidate"] = expected[at], actual[at]
    if not finite.all():
        expected, actual, signed, distance = expected[finite], actual[finite], signed[finite], distance[finite]
    row["dot"] += (expected * actual).sum()  # not @: BLAS would start threads
    row["reference_squares"] += np.square(expected).sum()
    row["candidate_squares"] += np.square(actual).sum()
    row["difference_squares"] += np.square(signed).sum()
    row["sum_abs"] += distance.sum()
    row["sum_signed"] += signed.sum()
    row["reference_max"] = max(row["reference_max"], np.abs(expected).max(initial=0.0))
    _compare_relatively(expected, distance, unit, row)


def _compare_relatively(expected: Doubles, distance: Doubles, unit: DType | None, row: Any) -> None:
    relative = np.where(distance == 0.0, 0.0, distance / np.abs(expected))
    row["max_rel"] = max(row["max_rel"], relative.max(initial=0.0))
    row["rel_count"] += np.count_nonzero(expected)
    row["sum_rel"] += relative[expected != 0.0].sum()
    row["within"] += np.array([(relative < threshold).sum() for threshold in THRESHOLDS])
    units = distance
    if unit is not None:
        exponent = np.where(expected == 0.0, unit.exponent_min, np.frexp(expected)[1] - 1)
        units = np.ldexp(distance, unit.digits - 1 - np.maximum(exponent, unit.exponent_min))
    row["max_ulp"] = max(row["max_ulp"], units.max(initial=0.0))
    row["sum_ulp"] += units.sum()
