"""Sources of numbers: one small function for each kind of tensor that operators ask for.

Every source takes a generator, a shape, the type that the values are for, and its own numbers; it gives values in
whatever numpy type is natural. ``ops.domains`` has the language in which they are named.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trueline.dtypes import DType
from trueline.errors import UsageError
from trueline.ops import exact

Array = np.ndarray[Any, Any]
Generator = np.random.Generator
Shape = tuple[int, ...]
Source = Callable[..., Array]
"""(generator, shape, dtype, numbers...) -> values"""


def _largest(kind: DType) -> float:
    """The largest finite number of a type, to a few digits less than it has (so that rounding cannot overflow)."""
    if kind.is_exact:
        return 1.0 if kind.kind == "b" else float(np.iinfo(kind.storage).max)
    return float(2.0**kind.exponent_max * 1.75)


def _normal(generator: Generator, shape: Shape, kind: DType, mean: float = 0.0, deviation: float = 1.0) -> Array:
    if kind.is_exact and (mean, deviation) == (0.0, 1.0):
        low, high = (0, 2) if kind.kind == "b" else ((0, 10) if kind.kind == "u" else (-9, 10))
        return generator.integers(low, high, shape)
    return mean + deviation * generator.standard_normal(shape)


def _uniform(generator: Generator, shape: Shape, kind: DType, low: float = 0.0, high: float = 1.0) -> Array:
    if kind.is_exact:
        return generator.integers(int(low), int(high) + 1, shape)
    return generator.uniform(low, high, shape)


def _positive(generator: Generator, shape: Shape, kind: DType, low: float = 0.05, high: float = 8.0) -> Array:
    """Spread evenly over its orders of magnitude, so that the small ones are tested as well."""
    if kind.is_exact:
        return generator.integers(1, max(2, int(high) + 1), shape)
    first, last = float(exact.log(low)), float(exact.log(high))
    return exact.exp(first + (last - first) * generator.random(shape))


def _nonzero(generator: Generator, shape: Shape, kind: DType, low: float = 0.1, high: float = 4.0) -> Array:
    sign = np.where(generator.random(shape) < 0.5, -1, 1) if kind.kind != "u" else np.ones(shape, int)
    return sign * _positive(generator, shape, kind, low, high)


def _unit_open(generator: Generator, shape: Shape, kind: DType, margin: float = 0.02) -> Array:
    return generator.uniform(-1.0 + margin, 1.0 - margin, shape)


def _probability(generator: Generator, shape: Shape, kind: DType, margin: float = 0.02) -> Array:
    return generator.uniform(margin, 1.0 - margin, shape)


def _index(generator: Generator, shape: Shape, kind: DType, size: float, low: float = 0.0) -> Array:
    """Integers from ``low`` up to, not including, ``size``; all zero where there is nothing to choose from."""
    return generator.integers(int(low), max(int(size), int(low) + 1), shape)


def _distinct(generator: Generator, shape: Shape, kind: DType, size: float) -> Array:
    """Indices below ``size``, no two equal along the last axis."""
    columns = shape[-1] if shape else 1
    if columns > size:
        raise UsageError(f"{columns} different indices below {int(size)} do not exist")
    rows = int(np.prod(shape[:-1], dtype=np.int64)) if shape else 1
    if rows * size > _MANY:
        return _strides_around(generator, rows, columns, int(size)).reshape(shape)
    picked = [generator.permutation(int(size))[:columns] for _ in range(rows)]
    return np.asarray(picked, dtype=np.int64).reshape(shape)


_MANY = 1_000_000


def _strides_around(generator: Generator, rows: int, columns: int, size: int) -> Array:
    """Different numbers below ``size`` in each row, without shuffling all of them: steps around a circle, of a width
    that has no divisor in common with its length."""
    start, width = (generator.integers(0, size, (rows, 1)) for _ in range(2))
    width = np.where(np.gcd(width, size) == 1, width, 1)
    return (start + width * np.arange(columns)) % size


def _distinct_along(generator: Generator, shape: Shape, kind: DType, size: float, axis: float = -1.0) -> Array:
    """Indices below ``size``, no two equal along the given axis."""
    turned = np.moveaxis(np.empty(shape, np.int8), int(axis), -1).shape
    return np.moveaxis(_distinct(generator, turned, kind, size), -1, int(axis))


def _plane_distinct(generator: Generator, shape: Shape, kind: DType, size: float, rank: float) -> Array:
    """Indices below ``size``, no two equal within the last ``rank`` axes taken together."""
    planes = (*shape[: -int(rank)], int(np.prod(shape[-int(rank) :], dtype=np.int64)))
    return _distinct(generator, planes, kind, size).reshape(shape)


def _permutation(generator: Generator, shape: Shape, kind: DType) -> Array:
    return _distinct(generator, shape, kind, shape[-1] if shape else 1)


def _sorted(generator: Generator, shape: Shape, kind: DType) -> Array:
    values = _normal(generator, shape, kind)
    return np.sort(values, axis=-1) if shape else values


def _lengths(generator: Generator, shape: Shape, kind: DType, low: float, high: float) -> Array:
    """Lengths of sequences; the first is the longest allowed, as packed and padded forms expect one of them to be."""
    values = np.asarray(generator.integers(int(low), int(high) + 1, shape))
    if values.size:
        values.reshape(-1)[0] = int(high)
    return values


def _offsets(generator: Generator, shape: Shape, kind: DType, size: float, closed: float = 0.0) -> Array:
    """Beginnings of bags in a list of ``size`` items: from zero, never falling; ``closed`` where the last one is the
    end of the list."""
    values = np.sort(generator.integers(0, max(int(size), 1), shape))
    if values.size:
        values[0] = 0
        values[-1] = size if closed else values[-1]
    return values


def _boxes(generator: Generator, shape: Shape, kind: DType, size: float = 32.0) -> Array:
    """Corners ``x1 y1 x2 y2`` with positive width and height along the last axis, inside ``size``."""
    pairs = np.sort(generator.uniform(0.0, size - 1.0, (*shape[:-1], 2, 2)), axis=-2)
    pairs[..., 1, :] += 1.0
    return pairs.reshape(shape)


def _boolean(generator: Generator, shape: Shape, kind: DType, share: float = 0.5) -> Array:
    return generator.random(shape) < share


def _chosen(generator: Generator, shape: Shape, kind: DType, count: float) -> Array:
    """A mask with exactly so many elements set."""
    total = int(np.prod(shape, dtype=np.int64))
    values = np.zeros(total, bool)
    values[generator.permutation(total)[: int(count)]] = True
    return values.reshape(shape)


def _signs(generator: Generator, shape: Shape, kind: DType) -> Array:
    return np.where(generator.random(shape) < 0.5, -1, 1)


def _orthogonal(generator: Generator, shape: Shape, kind: DType) -> Array:
    rows, columns = shape[-2:]
    vectors = exact.reflections(generator, shape[:-2], rows, is_complex=kind.is_complex)
    corner = np.broadcast_to(np.eye(rows, columns), shape)
    return exact.reflected(corner, vectors) if corner.size else np.zeros(shape)


def _complex_normal(generator: Generator, shape: Shape, kind: DType) -> Array:
    values = generator.standard_normal(shape)
    return values + 1j * generator.standard_normal(shape) if kind.is_complex else values


def _with_spectrum(generator: Generator, shape: Shape, kind: DType, low: float, high: float, symmetric: bool) -> Array:
    """Matrices whose singular values are spread evenly from ``low`` to ``high`` and well apart from each other."""
    rows, columns = shape[-2:]
    if not np.prod(shape, dtype=np.int64):
        return np.zeros(shape)
    count = min(rows, columns)
    spectrum = np.zeros(shape)
    spectrum[..., range(count), range(count)] = np.linspace(high, low, count) if count > 1 else high
    left = exact.reflections(generator, shape[:-2], rows, is_complex=kind.is_complex)
    right = left if symmetric else exact.reflections(generator, shape[:-2], columns, is_complex=kind.is_complex)
    return exact.reflected(exact.reflected(spectrum, left), right, columns=True)


def _positive_definite(generator: Generator, shape: Shape, kind: DType, low: float = 0.5, high: float = 4.0) -> Array:
    values = _with_spectrum(generator, shape, kind, low, high, symmetric=True)
    return (values + np.swapaxes(values, -1, -2).conj()) / 2


def _symmetric(generator: Generator, shape: Shape, kind: DType) -> Array:
    """Eigenvalues of both signs, well apart."""
    return _positive_definite(generator, shape, kind, -2.5, 3.0)


def _invertible(generator: Generator, shape: Shape, kind: DType, low: float = 0.5, high: float = 3.0) -> Array:
    return _with_spectrum(generator, shape, kind, low, high, symmetric=False)


def _triangular(generator: Generator, shape: Shape, kind: DType, upper: bool) -> Array:
    """Small off the diagonal and between 1 and 2 on it, so that solving with it is well conditioned."""
    size = max(shape[-1], 1)
    values = _complex_normal(generator, shape, kind) * (0.5 / np.sqrt(size))
    values = np.triu(values, 1) if upper else np.tril(values, -1)
    return values + np.eye(shape[-2], shape[-1]) * generator.uniform(1.0, 2.0, (*shape[:-1], 1))


def _lower_triangular(generator: Generator, shape: Shape, kind: DType) -> Array:
    return _triangular(generator, shape, kind, upper=False)


def _upper_triangular(generator: Generator, shape: Shape, kind: DType) -> Array:
    return _triangular(generator, shape, kind, upper=True)


def _packed_factors(generator: Generator, shape: Shape, kind: DType) -> Array:
    """A lower and an upper factor in one matrix, as factorizations return them; both well conditioned."""
    below = np.tril(_triangular(generator, shape, kind, upper=False), -1)
    return below + _triangular(generator, shape, kind, upper=True)


def _pivots(generator: Generator, shape: Shape, kind: DType, size: float) -> Array:
    """Row exchanges, counted from one: each row with itself or a later one."""
    rows = np.arange(shape[-1] if shape else 1)
    return 1 + rows + (generator.random(shape) * (np.maximum(size, rows + 1) - rows)).astype(np.int64)


def _log_probability(generator: Generator, shape: Shape, kind: DType) -> Array:
    scores = generator.standard_normal(shape)
    if not shape:
        return np.minimum(scores, 0.0)
    weights, total = exact.shares(scores)
    return exact.log(weights) - exact.log(total)


def _simplex(generator: Generator, shape: Shape, kind: DType) -> Array:
    """Positive, adding up to one along the last axis."""
    if not shape:
        return np.ones(shape)
    weights, total = exact.shares(generator.standard_normal(shape))
    return weights / total


def _simplex_along(generator: Generator, shape: Shape, kind: DType, axis: float) -> Array:
    """Positive, adding up to one along the given axis."""
    turned = np.moveaxis(np.empty(shape, np.int8), int(axis), -1).shape
    return np.moveaxis(_simplex(generator, turned, kind), -1, int(axis))


def _one_hot(generator: Generator, shape: Shape, kind: DType) -> Array:
    return np.eye(shape[-1])[generator.integers(0, shape[-1], shape[:-1])]


def _labels(generator: Generator, shape: Shape, kind: DType, classes: float, ignored: float, share: float) -> Array:
    """Class numbers, a share of them the number that a loss is told to ignore."""
    values = _index(generator, shape, kind, classes)
    return np.where(generator.random(shape) < share, int(ignored), values)


def _classes(generator: Generator, shape: Shape, kind: DType, classes: float, axis: float = -1.0) -> Array:
    """Class numbers where integers are wanted, else the probabilities of the classes along an axis."""
    if kind.is_exact:
        return _index(generator, shape, kind, classes)
    return _simplex_along(generator, shape, kind, axis)


def _segments(generator: Generator, shape: Shape, kind: DType, count: float) -> Array:
    """Numbers of segments, in order; some segments may be empty."""
    return np.sort(_index(generator, shape, kind, count), axis=-1) if shape else _index(generator, shape, kind, count)


def _parts(generator: Generator, shape: Shape, kind: DType, total: float) -> Array:
    """Numbers of things in groups, ``total`` of them altogether."""
    count = int(np.prod(shape, dtype=np.int64))
    return np.bincount(generator.integers(0, max(count, 1), int(total)), minlength=count)[:count].reshape(shape)


def _sizes(generator: Generator, shape: Shape, kind: DType, first: float, others: float) -> Array:
    """A shape as numbers: its first size, and one size for all others."""
    values = np.full(shape or (1,), others)
    values[..., :1] = first
    return values.reshape(shape)


def _angles(generator: Generator, shape: Shape, kind: DType) -> Array:
    return generator.uniform(-np.pi, np.pi, shape)


def _tiny(generator: Generator, shape: Shape, kind: DType) -> Array:
    """Around the smallest normal number, above and below it."""
    return generator.standard_normal(shape) * 2.0**kind.exponent_min * 4.0


def _small(generator: Generator, shape: Shape, kind: DType) -> Array:
    """Small, and far enough from the smallest normal number that a square keeps most of its digits."""
    return generator.standard_normal(shape) * 2.0 ** (kind.exponent_min / 4)


def _large(generator: Generator, shape: Shape, kind: DType) -> Array:
    """Large, and far enough from overflow that sums and squares of many do not reach it."""
    return generator.standard_normal(shape) * 2.0 ** (kind.exponent_max / 4)


def _near_overflow(generator: Generator, shape: Shape, kind: DType, share: float = 0.5) -> Array:
    """Magnitudes up to the given share of the largest number of the type."""
    return generator.uniform(-share, share, shape) * _largest(kind)


def _wide(generator: Generator, shape: Shape, kind: DType) -> Array:
    """Magnitudes spread evenly over a good part of the exponents of the type."""
    exponents = generator.uniform(0.4 * kind.exponent_min, 0.4 * kind.exponent_max, shape)
    return _signs(generator, shape, kind) * exact.exp2(exponents)


def _halves(generator: Generator, shape: Shape, kind: DType) -> Array:
    """Multiples of one half: the points where rounding has to choose."""
    return generator.integers(-12, 13, shape) / 2.0


def _steps(generator: Generator, shape: Shape, kind: DType) -> Array:
    """All numbers 0, 1, 2, ... in order."""
    return np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)


def _constant(generator: Generator, shape: Shape, kind: DType, value: float = 1.0) -> Array:
    return np.full(shape, value)


def _attention_mask(generator: Generator, shape: Shape, kind: DType, share: float = 0.3) -> Array:
    """Additive mask: zero, or minus infinity for a share of the keys, never for all keys of a query."""
    open_ = np.asarray(generator.random(shape) >= share)
    if shape and shape[-1]:
        open_[..., 0] = True
    return open_ if kind.kind == "b" else np.where(open_, 0.0, -np.inf)


def _between(generator: Generator, shape: Shape, kind: DType, low: float = -2.0, high: float = 2.0) -> Array:
    """Off the whole numbers, by a twentieth at least: what looks at the elements on both sides of a place takes others
    where a place is rounded across one."""
    return generator.integers(int(low), int(high), shape) + generator.uniform(0.05, 0.95, shape)


SOURCES: dict[str, Source] = {
    "normal": _normal,
    "uniform": _uniform,
    "positive": _positive,
    "nonzero": _nonzero,
    "probability": _probability,
    "unit_open": _unit_open,
    "above_one": lambda generator, shape, kind: 1.0 + _positive(generator, shape, kind),
    "index": _index,
    "distinct": _distinct,
    "distinct_along": _distinct_along,
    "plane_distinct": _plane_distinct,
    "permutation": _permutation,
    "sorted": _sorted,
    "lengths": _lengths,
    "offsets": _offsets,
    "boxes": _boxes,
    "boolean": _boolean,
    "chosen": _chosen,
    "signs": _signs,
    "orthogonal": _orthogonal,
    "positive_definite": _positive_definite,
    "symmetric": _symmetric,
    "invertible": _invertible,
    "lower_triangular": _lower_triangular,
    "upper_triangular": _upper_triangular,
    "packed_factors": _packed_factors,
    "pivots": _pivots,
    "log_probability": _log_probability,
    "simplex": _simplex,
    "simplex_along": _simplex_along,
    "one_hot": _one_hot,
    "labels": _labels,
    "classes": _classes,
    "segments": _segments,
    "parts": _parts,
    "sizes": _sizes,
    "angles": _angles,
    "tiny": _tiny,
    "small": _small,
    "large": _large,
    "near_overflow": _near_overflow,
    "wide": _wide,
    "halves": _halves,
    "steps": _steps,
    "constant": _constant,
    "attention_mask": _attention_mask,
    "between": _between,
    "triangular": lambda generator, shape, kind, upper=0.0: _triangular(generator, shape, kind, upper=bool(upper)),
}
