"""How far the numbers of a tensor may reach, and what lies at the ends.

A span is where magnitudes may lie: what the domain of the tensor allows, and within that what the operator bears
without overflow or loss of all digits. Operators that only move or compare numbers bear all of a type; a sum of
products bears less; an exponential little.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.dtypes import DType
from trueline.ops.facts import Kind, facts_of

Array = NDArray[Any]
Generator = np.random.Generator
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """Numbers from ``low`` to ``high``; ``smallest`` is the smallest magnitude besides zero, and ``zero`` says whether
    zero is one of them where it lies between."""

    low: float
    high: float
    smallest: float
    zero: bool = True

    def wide(self, generator: Generator, shape: Shape) -> Array:
        """Magnitudes spread evenly over the powers of two, with both signs where the span has both."""
        negative = _powers(generator, shape, self.smallest, -self.low) if self.low < 0 else None
        positive = _powers(generator, shape, max(self.smallest, self.low), self.high) if self.high > 0 else None
        if negative is None or positive is None:
            return np.asarray(positive) if negative is None else -negative
        return np.where(generator.random(shape) < 0.5, -negative, positive)

    def edges(self, kind: DType) -> Array:
        """The numbers of the span at which something may change, ends included."""
        step = 2.0 ** -(kind.digits // 2)
        sizes = (0.0, self.smallest, 0.5, 1.0 - step, 1.0, 1.0 + step, 2.0, self.high, -self.low)
        numbers = {sign * size for size in sizes for sign in (1.0, -1.0)} | {self.low, self.high}
        inside = sorted(one for one in numbers if self.low <= one <= self.high and (abs(one) >= self.smallest))
        zeros = [0.0, -0.0] if self.zero and self.low < 0 < self.high else [0.0] if self.zero and self.low == 0 else []
        return np.array([*inside, *zeros])


def _powers(generator: Generator, shape: Shape, low: float, high: float) -> Array:
    """From ``low`` to ``high``, both positive, as many of each order of magnitude: straight lines between the powers of
    two, which are exact everywhere."""
    (first, lowest), (second, highest) = math.frexp(low), math.frexp(high)
    begin, end = lowest + 2 * first - 2, highest + 2 * second - 2
    exponents = begin + (end - begin) * generator.random(shape)
    whole = np.floor(exponents)
    return np.clip(np.ldexp(1.0 + (exponents - whole), whole.astype(np.int32)), low, high)


def span_of(api: str, name: str, source: str, numbers: tuple[float, ...], kind: DType) -> Span | None:
    """The span of a tensor whose domain has this source with these numbers; None where the source is no range."""
    if source == "normal":
        return _anything(api, name, kind) if numbers in ((), (0.0, 1.0)) else None
    bounds = _bounds(source, numbers)
    if bounds is None:
        return None
    low, high = bounds
    if source in ("positive", "nonzero") and name in _ANY_POSITIVE:
        high = 2.0 ** (kind.exponent_max // 4)
        return Span(1 / high if source == "positive" else -high, high, 1 / high, zero=False)
    return Span(low, high, _smallest(source, numbers, low, high), zero=source != "nonzero" and name not in _KINKED)


def _bounds(source: str, numbers: tuple[float, ...]) -> tuple[float, float] | None:
    given = [*numbers, *_DEFAULTS.get(source, ())[len(numbers) :]]
    if source in ("positive", "uniform"):
        return (given[0], given[1]) if given[0] < given[1] else None
    if source == "nonzero":
        return -given[1], given[1]
    if source == "probability":
        return given[0], 1.0 - given[0]
    if source == "unit_open":
        return given[0] - 1.0, 1.0 - given[0]
    return _FIXED.get(source)


_DEFAULTS = {
    "positive": (0.05, 8.0),
    "nonzero": (0.1, 4.0),
    "uniform": (0.0, 1.0),
    "probability": (0.02,),
    "unit_open": (0.02,),
}
_FIXED = {"above_one": (1.0625, 9.0), "angles": (-3.125, 3.125)}

_ANY_POSITIVE = frozenset("log log2 log10 sqrt rsqrt div reciprocal".split())
"""What any positive number is good for; other operators keep to what their row says."""


def _smallest(source: str, numbers: tuple[float, ...], low: float, high: float) -> float:
    if source == "nonzero":
        return (numbers or _DEFAULTS["nonzero"])[0]
    return low if low > 0 else -high if high < 0 else max(-low, high) * 2.0**-8


def _anything(api: str, name: str, kind: DType) -> Span:
    """What an operator bears that says nothing about its domain."""
    if kind.is_exact:
        return _whole_numbers(api, name, kind)
    room, smooth = facts_of(api).kind, name not in _KINKED
    if room in _BARE and name not in _COMPUTES and name not in _KINKED:
        largest = 2.0 ** (kind.exponent_max - 1)
        return Span(-largest, largest, 2.0 ** (kind.exponent_min - kind.digits // 2))
    exponent = _exponent(name, room, kind)
    if kind.is_complex:
        exponent = min(exponent, 3.0)
    small = room in _LINEAR and not kind.is_complex
    smallest = 2.0 ** max(kind.exponent_min // 4, -40) if small else _LEAST.get(name, 2.0**-10)
    return Span(-(2.0**exponent), 2.0**exponent, smallest, zero=smooth)


_BARE = (Kind.MOVE, Kind.SELECT, Kind.DISCRETE)
"""No arithmetic: every number of the type is as good as any other."""
_LINEAR = (*_BARE, Kind.SUM, Kind.PRODUCT)
"""A tiny number gives a tiny result, and the next one a result next to it."""

_COMPUTES = frozenset(
    """floor_divide floordiv remainder mod fmod rmod rfloordiv histc histogram histogramdd bincount isclose allclose
    searchsorted bucketize to matrix_rank median nanmedian leaky_relu round nextafter frexp one_hot shard_index
    max_unpool1d max_unpool2d max_unpool3d scatter masked_scatter index_fill complex view_as_complex max_pool1d
    max_pool2d max_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d max_pool1d_with_indices
    max_pool2d_with_indices max_pool3d_with_indices""".split()
)
"""Of these some that do arithmetic after all, count in steps of one, cast to a type that ends earlier, or mark what
lies outside by a number that is only large."""

_KINKED = frozenset(
    "leaky_relu rrelu prelu i0e i1e sgn frexp thresholded_relu norm dist cdist hypot atan2 elu celu".split()
)
"""The slope at zero is a matter of convention: zero is not drawn."""

_LEAST = {"sinc": 0.25, "prod": 0.5, "cumprod": 0.5, "i0e": 0.25, "i1e": 0.25}
"""Operators whose formulas lose their digits, or leave the type, at magnitudes below."""


def _exponent(name: str, room: Kind, kind: DType) -> float:
    """The power of two up to which magnitudes may reach."""
    quarter = min(math.floor(kind.exponent_max / 4), 31)
    if name in _REACH:
        return _REACH[name]
    if name in _NEAR_ONE:
        return 1.0
    if room is Kind.EXPONENTIAL or name in _EXPONENTIAL:
        return math.floor(math.log2(kind.exponent_max * 0.3))
    if name in _PERIODIC:
        return min(quarter, 6.0)
    if room in _LINEAR or name in _ANY_POSITIVE:
        return quarter
    return min(quarter, 8.0 if room in _ADDING else 3.0)


_REACH = {"frexp": 3.0, "histogram": 3.0, "histc": 3.0, "histogramdd": 3.0}
_ADDING = (Kind.CONTRACTION, Kind.REDUCTION, Kind.NORMALIZATION, Kind.SMOOTH)
_EXPONENTIAL = frozenset("logsumexp logcumsumexp logaddexp poisson_nll_loss expm1 i0 i1 i0e i1e".split())
_PERIODIC = frozenset("sin cos tan sinc polar".split())
_NEAR_ONE = frozenset("prod cumprod pow float_power matrix_power matrix_exp lgamma digamma addcdiv det slogdet".split())


def _whole_numbers(api: str, name: str, kind: DType) -> Span:
    """Whole numbers: all of the type where nothing is computed, else so that a product of two still fits."""
    limits = np.iinfo(kind.storage)
    room = facts_of(api).kind
    if (room in _BARE and name not in _COMPUTES and name not in ("abs", "neg")) or name in _BITS:
        return Span(float(limits.min), float(limits.max), 1.0)
    if room in _COUNTABLE or name in ("abs", "neg"):
        largest = float(2 ** (kind.itemsize * 4 - 1) - 1)
        return Span(0.0 if kind.kind == "u" else -largest, largest, 1.0)
    return Span(0.0 if kind.kind == "u" else -9.0, 9.0, 1.0)


_BITS = frozenset("bitwise_and bitwise_or bitwise_xor bitwise_not and or xor invert".split())
_COUNTABLE = (Kind.SUM, Kind.PRODUCT)
