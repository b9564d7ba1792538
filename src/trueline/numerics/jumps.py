"""Elements that jump when the inputs move: they may be on either side, but nowhere else.

Of three golds of moved inputs (``sensitivity.perturb``) the first two moved by one rounding to opposite sides, the
third by a small share of the first move. Where a gold is smooth, however steep, the first two answer alike and the
third by that small share. Where one of them answers and its opposite does not, or the small move does as much as the
large one, the gold jumps: at ties, at the edges of steps, at comparisons.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trueline.dtypes import DType
from trueline.numerics.yardstick import Doubles, Elements, Flags, units

_FAR = 16.0
"""A jump is at least this many units; smaller ones are covered by what is allowed for conditioning."""
_ONE_SIDED = 16.0
_NOT_SHRUNK = 0.25


@dataclass(slots=True)
class Jumps:
    """How many elements jump, and where the candidate and the honest implementation are on another side than the
    gold."""

    count: int
    flips: NDArray[np.int64]
    honest_flips: int


def settle_jumps(elements: Elements, moves: list[Doubles], dtype: DType, noise: Flags | None = None) -> Jumps | None:
    """Measures elements that jump against the side that they are nearest to, and takes away their response; None where
    no element jumps. ``moves`` are those of the gold, in the order of the module's words. ``noise`` marks elements
    whose gold moves with every rounding of its own."""
    far = elements.response > _FAR * elements.unit
    places = np.flatnonzero(far if noise is None else far & ~noise)
    if not places.size:
        return None
    first, second, small = (np.abs(one[places]) for one in moves)
    larger, smaller = np.maximum(first, second), np.minimum(first, second)
    places = places[((larger > _ONE_SIDED * smaller) | (small > _NOT_SHRUNK * first)) & (larger < np.inf)]
    if not places.size:
        return None
    sides = [one[places] for one in moves]
    flips = places[_nearest(elements, elements.error, places, sides, dtype)]
    honest_flips = int(np.count_nonzero(_nearest(elements, elements.honest_error, places, sides, dtype)))
    elements.response[places] = 0.0
    elements.moving[places] = True
    return Jumps(int(places.size), flips, honest_flips)


def _nearest(
    elements: Elements, errors: Doubles, places: NDArray[np.int64], sides: list[Doubles], dtype: DType
) -> NDArray[np.bool_]:
    """Replaces errors by those against the nearest side, and says where that is not the gold's."""
    error = errors[places]
    best = error.copy()
    unit = elements.unit[places]
    flipped = np.zeros(places.shape, bool)
    for side in sides:
        other = error - side
        nearer = np.abs(other) < np.minimum(np.abs(best), np.abs(error) / 2)
        best = np.where(nearer, other, best)
        unit = np.where(nearer, np.maximum(unit, units(np.abs(elements.gold[places] + side), dtype)), unit)
        flipped |= nearer
    errors[places] = best
    elements.unit[places] = unit
    return np.asarray(flipped & (np.abs(error) > 2 * unit))
