"""Data in the likeness of a recorded tensor, from its statistics alone.

Kept are minimum and maximum (both occur), mean and spread, the smallest magnitude, and the shares of zeros, NaN and
infinities; integers stay within their exact range, and counting sequences and triangular masks are recognized. What
cannot be known from statistics is the order of the elements.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.dtypes import DType
from trueline.records import Statistics
from trueline.replay.stream import Stream

Array = NDArray[Any]
Shape = tuple[int, ...]

_TWO_VALUED = 0.45
"""Standard deviation over range; one half where all elements lie at the two ends."""
_UNIFORM = 0.24
"""A uniform distribution has 0.289."""
_SKEWED = 0.7
"""Standard deviation over mean of one-sided data from which on magnitudes are spread evenly in their exponents."""


def in_likeness(statistics: Statistics, stream: Stream, shape: Shape, dtype: DType) -> Array:
    """Values of a shape: float64 for floats, complex128 for complex, else of the dtype itself."""
    count = math.prod(shape)
    if count == 0 or statistics.count == 0:
        return np.zeros(shape, dtype=_working_type(dtype))
    if dtype.kind == "b":
        # Of a tensor of which the extremes alone are known: that it holds both says nothing of how many.
        unknown = math.isnan(statistics.mean) and statistics.minimum < statistics.maximum
        chosen = count // 2 if unknown else _share(statistics.zeros, statistics, count)
        zeros = _placed(chosen, stream, shape)
        values = np.ones(count, dtype=np.bool_)
        values[zeros] = False
        return values.reshape(shape)
    if dtype.is_exact:
        return _integers(statistics, stream, shape, dtype)
    if dtype.is_complex:
        return _floats(statistics, stream, (*shape, 2)).reshape(-1).view(np.complex128).reshape(shape)
    return _floats(statistics, stream, shape)


def _working_type(dtype: DType) -> Any:
    return np.dtype(dtype.storage) if dtype.is_exact else np.complex128 if dtype.is_complex else np.float64


def _share(part: int, statistics: Statistics, count: int) -> int:
    """How many of ``count`` elements; all of the recorded ones where the counts agree."""
    return part if statistics.count == count else round(part / statistics.count * count)


def _placed(chosen: int, stream: Stream, shape: Shape) -> NDArray[np.int64]:
    """Positions for elements that are something else than the rest: a triangle where their number is that of one."""
    count = math.prod(shape)
    if chosen == 0 or chosen >= count:
        return np.arange(min(chosen, count), dtype=np.int64)
    if len(shape) >= 2 and shape[-1] == shape[-2] > 1:
        side, batch = shape[-1], count // shape[-1] ** 2
        upper = np.triu(np.ones((side, side), dtype=np.bool_), 1)
        for triangle in (upper, ~upper):
            if chosen == batch * int(triangle.sum()):
                return np.flatnonzero(np.broadcast_to(triangle, shape))
    return stream.places(count, chosen)


def _floats(statistics: Statistics, stream: Stream, shape: Shape) -> Array:
    count = math.prod(shape)
    specials = {
        math.nan: _share(statistics.nan, statistics, count),
        math.inf: _share(statistics.positive_infinity, statistics, count),
        -math.inf: _share(statistics.negative_infinity, statistics, count),
        0.0: _share(statistics.zeros, statistics, count),
    }
    values = np.zeros(count)
    plain = np.ones(count, dtype=np.bool_)
    for value, number in specials.items():
        if not number:
            continue
        free = np.flatnonzero(plain) if not plain.all() else None
        chosen = _placed(number, stream, shape) if free is None else free[stream.places(len(free), number)]
        values[chosen] = value
        plain[chosen] = False
    rest = int(plain.sum())
    if rest and math.isfinite(statistics.minimum):
        values[plain] = _with_ends(statistics, _spread(statistics, stream, rest), stream)
    return values.reshape(shape)


def _moments(statistics: Statistics) -> tuple[float, float]:
    """Mean and standard deviation of the elements that are finite and not zero; those of an even spread where the
    extremes alone are known, as dumps of other tools have them."""
    if math.isnan(statistics.mean) or math.isnan(statistics.norm):
        low, high = statistics.minimum / 2, statistics.maximum / 2  # halved first: their sum may be too large
        return low + high, (high - low) / math.sqrt(3)
    count = max(statistics.finite - statistics.zeros, 1)
    mean = statistics.mean * statistics.finite / count
    root = statistics.norm / math.sqrt(count)
    inside = (root - abs(mean)) * (root + abs(mean))
    return mean, math.sqrt(inside) if inside > 0 and math.isfinite(inside) else 0.0


def _spread(statistics: Statistics, stream: Stream, count: int) -> Array:
    low, high = statistics.minimum, statistics.maximum
    mean, deviation = _moments(statistics)
    width = high - low
    if width <= 0 or not math.isfinite(width):
        return np.full(count, low) if width <= 0 else np.clip(mean + deviation * stream.normal(count), low, high)
    if deviation >= _TWO_VALUED * width:
        return np.where(stream.uniform(count) < (mean - low) / width, high, low)
    farthest = max(abs(low), abs(high))
    if (low >= 0 or high <= 0) and deviation > _SKEWED * abs(mean) > 0 and farthest > 4 * abs(mean):
        return _skewed(abs(mean), deviation, stream, count, -1.0 if high <= 0 else 1.0).clip(low, high)
    if deviation >= _UNIFORM * width and abs(mean - (low + high) / 2) < 0.1 * width:
        return np.asarray(low + width * stream.uniform(count))
    return np.clip(mean + deviation * stream.normal(count), low, high)


def _skewed(mean: float, deviation: float, stream: Stream, count: int, sign: float) -> Array:
    """One-sided data over many orders of magnitude: log-normal, by base-2 exponents."""
    variance = math.log2(1 + (deviation / mean) ** 2) / math.log2(math.e)
    # Coarse enough that the last bit of a logarithm, which differs between machines, does not show.
    middle = round((math.log2(mean) - variance / 2 * math.log2(math.e)) * 2**16) / 2**16
    step = round(math.sqrt(variance) * math.log2(math.e) * 2**16) / 2**16
    return sign * stream.power_of_two(middle + step * stream.normal(count))


def _with_ends(statistics: Statistics, values: Array, stream: Stream) -> Array:
    """Minimum, maximum and the smallest magnitude occur, one each, where there is room; and no zero, since zeros have
    been counted before."""
    low, high = statistics.minimum, statistics.maximum
    tiny = math.ldexp(1.0, statistics.exponent_min) if statistics.exponent_max >= statistics.exponent_min else 0.0
    values[values == 0.0] = tiny if high > 0 else -tiny
    wanted = [end for end in (low, high) if end != 0.0] or [low]
    if tiny and low <= tiny <= high:
        wanted.append(tiny)
    elif tiny and low <= -tiny <= high:
        wanted.append(-tiny)
    if len(values) > len(wanted):
        values[stream.places(len(values), len(wanted))] = wanted
    elif len(values) >= 2:
        values[:2] = low, high
    else:
        values[:] = low if low != 0.0 else high
    return values


def _integers(statistics: Statistics, stream: Stream, shape: Shape, dtype: DType) -> Array:
    count, storage = math.prod(shape), np.dtype(dtype.storage)
    limits = np.iinfo(storage)
    low = min(max(int(statistics.minimum), int(limits.min)), int(limits.max))
    high = min(max(int(statistics.maximum), low), int(limits.max))
    sequence = _counting(statistics, shape, low, high)
    if sequence is not None:
        return sequence.astype(storage)
    size = high - low + 1
    drawn = (stream.words(count) % np.uint64(size)) if size < 2**64 else stream.words(count)
    values = (drawn + np.uint64(low % 2**64)).view(np.int64) if storage.kind == "i" else drawn + np.uint64(low)
    zeros = _share(statistics.zeros, statistics, count)
    if low <= 0 <= high and zeros > 4 * max(1.0, count / size):
        values[_placed(zeros, stream, shape)] = 0
    elif count >= 2:
        values[stream.places(count, 2)] = low, high
    else:
        values[:] = low
    return values.reshape(shape).astype(storage)


def _counting(statistics: Statistics, shape: Shape, low: int, high: int) -> Array | None:
    """0, 1, 2, … along all of the tensor or along its last dimension, where the statistics are those of such a
    sequence: positions and ranges are such, and code relies on their order."""
    for length in {math.prod(shape), shape[-1] if shape else 1}:
        if length < 3 or high - low != length - 1:
            continue
        sequence = np.arange(low, high + 1, dtype=np.float64)
        repeats = math.prod(shape) // length
        norm = math.sqrt(float((sequence**2).sum()) * statistics.count / length)
        if math.isclose(statistics.mean, (low + high) / 2, rel_tol=1e-9) and math.isclose(
            statistics.norm, norm, rel_tol=1e-9
        ):
            counted: Array = np.tile(np.arange(low, high + 1), repeats).reshape(shape)
            return counted
    return None
