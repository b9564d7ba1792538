"""How far a tensor is from its gold, element by element, in units of what honest arithmetic may be off there.

The **unit** of an element is the distance between neighbouring numbers of the dtype at the gold's magnitude. What may
be off at an element is one unit, for rounding the result, and besides

- what moving the inputs by one rounding did to the gold there, or to elements of like magnitude (conditioning), and
- what an honest implementation was off there, or at elements of like magnitude (what its method costs).

Elements are pooled with those of the same binary exponent, because one element alone may be lucky: a sum may happen to
round well, or not to move, where its neighbours did not. Pooling by magnitude keeps the strictness where it belongs:
small results of a sum of large terms are all uncertain, small results of an exponential are all sharp.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.dtypes import DType

Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]

_EXPONENT_BITS = np.int64(0x7FF0000000000000)
_EXPONENTS = 2048
_ENOUGH = 16
"""Elements that make a pool; fewer are pooled with those of the next larger magnitude, and where there are none with
those of the next smaller."""
_ROUNDING = 0.3
"""The root mean square of rounding to nearest, in units."""
_CAP = 64.0
"""Errors beyond this many times what is expected are all alike to the spread: one wild element is the peak's matter."""
BIAS_SAMPLE = 4096
"""Elements among which a bias is looked for. More of them would show smaller ones than any that matter."""
_SHARP = 8.0
"""Elements that are expected to be off by more units than this have lost the digits in which a bias would show."""
_FEWEST_GROUPS = 8
_FEWEST_VALUES = 24


@dataclass(slots=True)
class Elements:
    """Flat arrays of one tensor: errors against the gold (0.0 where not ``compared``), the gold's units, the response
    of the gold to moved inputs, which elements are compared, and which move with the inputs at all."""

    gold: Doubles
    error: Doubles
    honest_error: Doubles
    response: Doubles
    unit: Doubles
    compared: Flags
    moving: Flags

    def weights(self) -> Doubles | None:
        """1.0 for elements that are compared, 0.0 for others; None where all are."""
        return None if self.compared.all() else self.compared.astype(np.float64)

    def at(self, chosen: Any) -> Elements:
        """The same for some of the elements, in the order of ``chosen``."""
        return Elements(self.gold[chosen], self.error[chosen], self.honest_error[chosen], self.response[chosen],
                        self.unit[chosen], self.compared[chosen], self.moving[chosen])  # fmt: skip


def smallest_unit(dtype: DType) -> float:
    """Below this no honest implementation is held to account: some devices flush subnormal numbers of float32 and its
    relatives to zero; those of the other types are always kept."""
    if dtype.name in ("float16", "complex32") or dtype.name.startswith("float8"):
        return math.ldexp(1.0, dtype.exponent_min - dtype.digits + 1)
    return math.ldexp(1.0, dtype.exponent_min)


def units(magnitude: Doubles, dtype: DType) -> Doubles:
    """The distance between neighbours of ``dtype`` at these magnitudes (not negative)."""
    powers = (magnitude.view(np.int64) & _EXPONENT_BITS).view(np.float64)
    return np.asarray(np.maximum(powers * dtype.epsilon, smallest_unit(dtype)))


@dataclass(slots=True)
class Pools:
    """By binary exponent of the unit: what elements of that magnitude are typically off. Absolute, squared."""

    counts: Doubles
    honest: Doubles
    response: Doubles

    @classmethod
    def empty(cls) -> Pools:
        return cls(np.zeros(_EXPONENTS), np.zeros(_EXPONENTS), np.zeros(_EXPONENTS))

    def add(self, elements: Elements) -> None:
        if not elements.unit.size:
            return
        exponents = _exponents(elements.unit)
        least = int(exponents.min())
        exponents -= least
        filled = slice(least, least + int(exponents.max()) + 1)
        # Relative to the unit, so that squares neither overflow nor vanish.
        errors = elements.honest_error / elements.unit
        # The mean of square roots is the typical response even where single elements jump.
        moves = elements.response / elements.unit
        weights = elements.weights()
        self.counts[filled] += np.bincount(exponents, weights)
        self.honest[filled] += np.bincount(exponents, _weighed(np.multiply(errors, errors, out=errors), weights))
        self.response[filled] += np.bincount(exponents, _weighed(np.sqrt(moves, out=moves), weights))

    def levels(self) -> tuple[Doubles, Doubles]:
        """By exponent, in units: root mean square error of the honest implementation, and typical response."""
        honest, response = np.zeros(_EXPONENTS), np.zeros(_EXPONENTS)
        filled = np.flatnonzero(self.counts).tolist()
        for position, exponent in enumerate(filled):
            count = squares = roots = 0.0
            # The larger ones first; the largest of all have none but smaller ones beside them.
            for other in (*filled[position:], *reversed(filled[:position])):
                if other < exponent:
                    honest[exponent] = max(honest[exponent], math.sqrt(squares / count))
                    response[exponent] = max(response[exponent], (roots / count) ** 2)
                larger = 2.0 ** max(min(other - exponent, 500), -500)
                count += self.counts[other]
                squares += self.honest[other] * larger * larger
                roots += self.response[other] * math.sqrt(larger)
                if count >= _ENOUGH:
                    break
            honest[exponent] = max(honest[exponent], math.sqrt(squares / count))
            response[exponent] = max(response[exponent], (roots / count) ** 2)
        return honest, response


def _exponents(unit: Doubles) -> NDArray[np.int64]:
    return np.asarray(unit.view(np.int64) >> 52)


def _weighed(values: Doubles, weights: Doubles | None) -> Doubles:
    return values if weights is None else values * weights


@dataclass(slots=True)
class Looked:
    """By element: how many times what is explained it is off (``peak``), what is explained and what is expected in the
    root mean square, both in units. In sum: the squares of errors over what is expected, of the candidate and of the
    honest implementation, and how many elements were compared."""

    peak: Doubles
    explained: Doubles
    expected: Doubles
    squares: float
    honest_squares: float
    compared: int


class Yardstick:
    """Measures elements, once the pools are full. ``roundings`` is how many an honest kernel makes one after another,
    beyond those of the honest implementation at hand: each does to what comes after it what moving the inputs does,
    and their directions are independent."""

    def __init__(self, pools: Pools, roundings: float = 1.0) -> None:
        self._honest, self._response = pools.levels()
        self._growth = math.sqrt(max(roundings, 1.0))

    def look(self, elements: Elements) -> Looked:
        """Every element against what is explained there."""
        unit = elements.unit
        exponents = _exponents(unit)
        response = elements.response / unit
        # Moves may cancel by luck where they do not for the likes of an element. One that does not move at all owes
        # that to no luck.
        np.maximum(response, self._response[exponents] * elements.moving, out=response)
        if self._growth > 1.0:
            response *= self._growth
        honest = self._honest[exponents]
        error = np.abs(elements.error) / unit
        honest_error = np.abs(elements.honest_error) / unit
        expected = response + honest
        expected += _ROUNDING * self._growth
        np.maximum(honest, honest_error, out=honest)
        explained = np.add(response, honest, out=response)
        explained += self._growth
        peak = error / explained
        error /= expected
        np.minimum(error, _CAP, out=error)
        honest_error /= expected
        np.minimum(honest_error, _CAP, out=honest_error)
        # Not by dot products: BLAS would start threads for them, which wait for each other longer than they work.
        squares = float(np.multiply(error, error, out=error).sum())
        honest_squares = float(np.multiply(honest_error, honest_error, out=honest_error).sum())
        return Looked(peak, explained, expected, squares, honest_squares, int(np.count_nonzero(elements.compared)))

    def bias(self, elements: Elements, shape: tuple[int, ...]) -> Bias:
        """The common part of the errors, away from zero or towards it, beyond that of rounding the gold itself."""
        expected = self.look(elements).expected
        scale = elements.unit * expected
        sharp = elements.compared & (expected <= _SHARP)
        direction = np.sign(elements.gold) * sharp
        rounding = np.rint(elements.gold / elements.unit) * elements.unit - elements.gold
        off = np.clip(direction * (elements.error - rounding) / scale, -8.0, 8.0)
        honest_off = np.clip(direction * (elements.honest_error - rounding) / scale, -8.0, 8.0)
        values, consistency = _by_value(elements.gold[sharp], off[sharp])
        for means in _by_axis(off, shape):
            consistency = min(consistency, _consistency(means))
        count = max(int(np.count_nonzero(sharp)), 1)
        return Bias(float(off.sum()) / count, consistency, float(honest_off.sum()) / count, values)


@dataclass(slots=True)
class Bias:
    """``size`` is the mean error in units of what is expected; ``consistency`` how many standard errors that is, taken
    over groups of elements that may share a rounding, the least of several ways to group; ``values`` how many
    different golds there were."""

    size: float
    consistency: float
    honest_size: float
    values: int


def _consistency(means: Doubles) -> float:
    deviation = float(means.std(ddof=1)) / math.sqrt(means.size)
    return abs(float(means.mean())) / max(deviation, 1e-9)


def _by_value(gold: Doubles, off: Doubles) -> tuple[int, float]:
    """Equal golds are rounded alike: they are one observation. Says how many there are, and how consistent."""
    if gold.size < _FEWEST_VALUES:
        return int(gold.size), 0.0
    order = np.argsort(gold)
    ordered = gold[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    if starts.size < _FEWEST_VALUES:
        return int(starts.size), 0.0
    sums = np.add.reduceat(off[order], starts)
    return int(starts.size), _consistency(sums / np.diff(np.append(starts, gold.size)))


def _by_axis(off: Doubles, shape: tuple[int, ...]) -> list[Doubles]:
    """Rows, columns or channels may share a mean or a scale that was rounded once: each is one observation."""
    grid = off.reshape(shape)
    axes = range(len(shape))
    return [grid.mean(axis=tuple(a for a in axes if a != axis)) for axis in axes if shape[axis] >= _FEWEST_GROUPS]


def sample_grid(shape: tuple[int, ...], most: int = BIAS_SAMPLE) -> tuple[slice, ...]:
    """Slices that thin out a tensor evenly along its axes until at most about ``most`` elements are left."""
    steps = [1] * len(shape)
    sizes = list(shape)
    while math.prod(sizes) > most:
        axis = sizes.index(max(sizes))
        steps[axis] *= 2
        sizes[axis] = -(-shape[axis] // steps[axis])
    return tuple(slice(None, None, step) for step in steps)
