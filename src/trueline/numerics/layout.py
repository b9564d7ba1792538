"""What the kernels are given and what they give back, as numpy structured types; shared by CPU, numpy and CUDA.

Every kernel takes an array of ``DESCRIPTOR`` rows (where a tensor lies, its dtype, shape and strides) and fills an
array of ``STATISTICS`` or ``COMPARISON`` rows. The fields of all three types lie as in a C struct.

Elements are numbered by their logical index, in C order, whatever the strides. A complex tensor is one of twice as
many real components; counts and sketches are over the components.

Two definitions are part of the Run format, so that sketches and digests made anywhere can be compared:

- **sketch**: element ``i`` is added to sum ``i & 63``, negated if bit ``i & 31`` of ``sign_words(i >> 5)`` is set;
  elements that are not finite count as zero.
- **digest**: the sum over ``i``, modulo 2**64, of ``mix64(bits + (i + 1) * DIGEST_STEP)``, ``bits`` being the raw bits
  of the element, zero-extended.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.errors import UsageError
from trueline.records import SKETCH_SIZE, Measurement, Statistics

MAX_DIMENSIONS = 6
"""Tensors with more dimensions than this, after collapsing, are made contiguous by the caller."""

THRESHOLDS = (1e-4, 1e-3, 5e-3, 1e-2)
"""The relative errors that ``Measurement.within`` counts."""

DIGEST_STEP = 0x9E3779B97F4A7C15

DESCRIPTOR = np.dtype(
    [
        ("pointer", "<u8"),
        ("numel", "<i8"),
        ("dtype", "<i4"),
        ("ndim", "<i4"),
        ("shape", "<i8", (MAX_DIMENSIONS,)),
        ("strides", "<i8", (MAX_DIMENSIONS,)),
    ]
)
"""Where a tensor lies. ``dtype`` is ``DType.code``; ``numel`` and ``strides`` are in elements of that dtype. A
contiguous tensor, and a scalar, has one dimension."""

STATISTICS = np.dtype(
    [
        ("count", "<i8"),
        ("minimum", "<f8"),
        ("maximum", "<f8"),
        ("mean", "<f8"),
        ("norm", "<f8"),
        ("nan", "<i8"),
        ("positive_infinity", "<i8"),
        ("negative_infinity", "<i8"),
        ("zeros", "<i8"),
        ("exponent_min", "<i4"),
        ("exponent_max", "<i4"),
        ("digest", "<u8"),
        ("sketch", "<f4", (SKETCH_SIZE,)),
    ]
)
"""``records.Statistics``, with the digest (0 where it was not asked for)."""

COMPARISON = np.dtype(
    [
        ("count", "<i8"),
        ("equal", "<i8"),
        ("both_finite", "<i8"),
        ("rel_count", "<i8"),
        ("nan_mismatch", "<i8"),
        ("infinity_mismatch", "<i8"),
        ("worst", "<i8"),
        ("within", "<i8", (len(THRESHOLDS),)),
        ("dot", "<f8"),
        ("reference_squares", "<f8"),
        ("candidate_squares", "<f8"),
        ("difference_squares", "<f8"),
        ("sum_abs", "<f8"),
        ("sum_signed", "<f8"),
        ("max_abs", "<f8"),
        ("max_rel", "<f8"),
        ("sum_rel", "<f8"),
        ("max_ulp", "<f8"),
        ("sum_ulp", "<f8"),
        ("worst_reference", "<f8"),
        ("worst_candidate", "<f8"),
        ("reference_max", "<f8"),
    ]
)
"""The raw numbers behind ``records.Measurement``. ``equal`` counts all elements; every other number is over the
elements that are finite on both sides. ``rel_count`` counts those whose reference is not zero. ``worst`` is -1, its
values NaN, where no finite pair differs."""

_COMPARISON_NAMES = COMPARISON.names or ()
_DESCRIPTOR_STRUCT = struct.Struct(f"<Qqii{2 * MAX_DIMENSIONS}q")
_PADDING = (0,) * MAX_DIMENSIONS


def collapse(shape: Sequence[int], strides: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Merges adjacent dimensions that one stride can walk and drops those of size 1; the logical order stays."""
    sizes: list[int] = []
    steps: list[int] = []
    for size, step in zip(shape, strides, strict=True):
        if size == 0:
            return (0,), (1,)
        if size == 1:
            continue
        if sizes and steps[-1] == size * step:
            sizes[-1] *= size
            steps[-1] = step
        else:
            sizes.append(size)
            steps.append(step)
    if not sizes:
        return (1,), (1,)
    return tuple(sizes), tuple(steps)


def pack_descriptor(
    descriptors: NDArray[np.void],
    position: int,
    pointer: int,
    code: int,
    shape: Sequence[int],
    strides: Sequence[int],
) -> bool:
    """Writes row ``position`` of a contiguous ``DESCRIPTOR`` array; strides are in elements.

    False, with nothing written, where the tensor has too many dimensions and must be made contiguous first.
    """
    sizes, steps = collapse(shape, strides)
    ndim = len(sizes)
    if ndim > MAX_DIMENSIONS:
        return False
    buffer: Any = descriptors  # an array is a buffer; older numpy's annotations do not say so
    _DESCRIPTOR_STRUCT.pack_into(
        buffer,
        position * _DESCRIPTOR_STRUCT.size,
        pointer,
        math.prod(sizes),
        code,
        ndim,
        *sizes,
        *_PADDING[ndim:],
        *steps,
        *_PADDING[ndim:],
    )
    return True


def sign_words(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The 32 signs of each group of 32 elements, one bit each, from the number of the group."""
    mixed = words.astype(np.uint32, copy=True)
    mixed ^= mixed >> np.uint32(16)
    mixed *= np.uint32(0x7FEB352D)
    mixed ^= mixed >> np.uint32(15)
    mixed *= np.uint32(0x846CA68B)
    mixed ^= mixed >> np.uint32(16)
    return mixed


def mix64(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spreads every input bit over the whole word (the finaliser of splitmix64)."""
    mixed = values.astype(np.uint64, copy=True)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def sketch_distance(reference: Any, candidate: Any) -> Any:
    """Estimates |a - b| / |a| in the L2 norm from the sketches of a and b.

    Takes two sketches and gives a float, or two arrays of sketches (last axis) and gives an array. Two zero
    sketches are at distance 0.0; a sketch that is not zero is infinitely far from a zero reference. NaN where sums
    have overflowed.
    """
    expected = np.asarray(reference, dtype=np.float64)
    actual = np.asarray(candidate, dtype=np.float64)
    if expected.shape[-1:] != (SKETCH_SIZE,) or actual.shape[-1:] != (SKETCH_SIZE,):
        raise UsageError(f"a sketch has {SKETCH_SIZE} sums, got shapes {expected.shape} and {actual.shape}")
    with np.errstate(divide="ignore", invalid="ignore"):
        difference = np.sqrt(np.square(expected - actual).sum(axis=-1))
        scale = np.sqrt(np.square(expected).sum(axis=-1))
        distance = np.where(difference == 0.0, 0.0, difference / scale)
    return float(distance) if distance.ndim == 0 else distance


def to_statistics(row: Any, *, sketch: bool = True) -> Statistics:
    """One ``STATISTICS`` row as a record."""
    *numbers, _digest, sums = row.item()
    arguments: list[Any] = [*numbers, tuple(sums.tolist()) if sketch else None]
    return Statistics(*arguments)


def to_measurement(row: Any) -> Measurement:
    """One ``COMPARISON`` row as a record.

    Where no pair is finite the errors are NaN: nothing was measured. Where the reference is zero throughout, the
    normalized error is 0.0 or infinite, the mean relative error like the largest one; the cosine is 1.0 if both are
    zero and 0.0 if one is. Both are NaN where the squares of float64 numbers underflow. An element that is not finite
    but equal on both sides is within every threshold.
    """
    raw = dict(zip(_COMPARISON_NAMES, row.item(), strict=True))
    count, finite, rel_count = raw["count"], raw["both_finite"], raw["rel_count"]
    max_rel = raw["max_rel"] if finite else math.nan
    equal_not_finite = count - finite - raw["nan_mismatch"] - raw["infinity_mismatch"]
    shares = [_ratio(inside + equal_not_finite, count) for inside in raw["within"].tolist()]
    return Measurement(
        count=count,
        equal=raw["equal"],
        cosine=_cosine(raw),
        max_abs=raw["max_abs"] if finite else math.nan,
        mean_abs=_ratio(raw["sum_abs"], finite),
        max_rel=max_rel,
        mean_rel=raw["sum_rel"] / rel_count if rel_count else max_rel,
        rmse=math.sqrt(_ratio(raw["difference_squares"], finite)),
        normalized=_normalized(raw),
        bias=_ratio(raw["sum_signed"], finite),
        max_ulp=raw["max_ulp"] if finite else math.nan,
        mean_ulp=_ratio(raw["sum_ulp"], finite),
        within=(shares[0], shares[1], shares[2], shares[3]),
        nan_mismatch=raw["nan_mismatch"],
        infinity_mismatch=raw["infinity_mismatch"],
        worst=raw["worst"],
        worst_reference=raw["worst_reference"],
        worst_candidate=raw["worst_candidate"],
        reference_norm=math.sqrt(raw["reference_squares"]),
        candidate_norm=math.sqrt(raw["candidate_squares"]),
        reference_max=raw["reference_max"] if finite else math.nan,
    )


def _ratio(value: float, count: int) -> float:
    return value / count if count else math.nan


def _underflowed(raw: Mapping[str, Any]) -> bool:
    """Whether numbers that are not zero have squares that are."""
    reference_lost = raw["reference_squares"] == 0.0 and raw["reference_max"] > 0.0
    return bool(reference_lost or (raw["difference_squares"] == 0.0 and raw["max_abs"] > 0.0))


def _cosine(raw: Mapping[str, Any]) -> float:
    if not raw["both_finite"] or _underflowed(raw):
        return math.nan
    squares: float = raw["reference_squares"]
    difference_squares: float = raw["difference_squares"]
    reference_norm, candidate_norm = math.sqrt(squares), math.sqrt(raw["candidate_squares"])
    if reference_norm == 0.0 or candidate_norm == 0.0:
        return 1.0 if reference_norm == candidate_norm else 0.0
    if difference_squares < squares / 4:
        # The law of cosines keeps the digits of 1 - cosine that a quotient of nearly equal sums has lost.
        lost = difference_squares - (reference_norm - candidate_norm) ** 2
        return 1.0 - max(0.0, lost / reference_norm / candidate_norm / 2)
    cosine: float = raw["dot"] / reference_norm / candidate_norm
    return min(1.0, max(-1.0, cosine))


def _normalized(raw: Mapping[str, Any]) -> float:
    if not raw["both_finite"] or _underflowed(raw):
        return math.nan
    if raw["reference_squares"] == 0.0:
        return 0.0 if raw["difference_squares"] == 0.0 else math.inf
    return math.sqrt(raw["difference_squares"]) / math.sqrt(raw["reference_squares"])
