"""Large tensors of which all is known without looking at every element: candidate and honest implementation are the
same to the last bit, and equal to their gold. Then one element tells what all would.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.dtypes import DType
from trueline.numerics.cpu import statistics
from trueline.numerics.looks import Flat, first_look
from trueline.numerics.narrow import narrow
from trueline.numerics.yardstick import smallest_unit
from trueline.records import Measurement

Array = NDArray[Any]

MANY = 1 << 14
"""Elements from which on it is worth while to find out whether all are alike."""
_LARGEST_NOISE = 2.0**-44
"""Beside the largest number that went in: 256 roundings of a gold. What is smaller may be noise of the gold."""


@dataclass(frozen=True, slots=True)
class Alike:
    """A tensor that is equal to its gold throughout. ``element`` is its largest, as storage bits and as a number;
    ``zeros`` says how many of its elements are zero."""

    element: Array
    number: Array
    dtype: DType
    count: int
    zeros: int
    measured: Measurement
    """What comparing it with its gold gives."""

    def first_look(self, scale: float, roundings: float) -> dict[str, float] | None:
        """``looks.first_look`` of the whole."""
        one = Flat(self.element, self.element, self.number, None, self.dtype, False, True)
        found = first_look(one, scale, roundings)
        return None if found is None else {**found, "compared": float(self.count)}

    def of_others(self, measure: Callable[[Array, Array, Array], Mapping[str, float]]) -> dict[str, float]:
        """What other tools ask for of the whole, by what measures candidate, honest implementation and gold."""
        found = dict(measure(self.element, self.element, self.number))
        for name in ("bench_zeros", "candidate_zeros", "honest_zeros"):
            if name in found:
                found[name] = float(self.zeros)
        return found


def alike(sides: Flat, scale: float, against_gold: Measurement | None = None) -> Alike | None:
    """A tensor of finite numbers, not all zero, that is equal to its gold; None where it is not, or where some of its
    elements are so small that they are measured by another unit than their own. ``against_gold`` is what comparing it
    with its gold gave; without it the gold is the honest implementation's own result. ``scale`` is the largest
    magnitude that went in."""
    if sides.complex or not sides.same or sides.count < MANY or sides.low is not None:
        return None
    if against_gold is not None and against_gold.equal != sides.count:
        return None
    found = statistics(sides.candidate, sides.dtype)
    if found.finite != sides.count or not 0.0 < found.norm < math.inf:
        return None
    smallest, largest = math.ldexp(1.0, found.exponent_min), max(-found.minimum, found.maximum)
    unit = smallest_unit(sides.dtype)
    if smallest * sides.dtype.epsilon < unit and unit > _spacing(sides.dtype):
        return None
    if smallest <= max(scale, largest) * _LARGEST_NOISE:
        return None
    number = np.array([found.maximum if found.maximum == largest else found.minimum])
    measured = against_gold or equal_tensors(sides.count, found.norm, largest)
    return Alike(narrow(number, sides.dtype), number, sides.dtype, sides.count, found.zeros, measured)


def _spacing(dtype: DType) -> float:
    """Of all numbers of a dtype a multiple."""
    return math.ldexp(1.0, dtype.exponent_min - dtype.digits + 1)


def equal_tensors(count: int, norm: float, largest: float) -> Measurement:
    """What comparing a tensor of finite numbers with itself gives."""
    return Measurement(
        count, count, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, (1.0, 1.0, 1.0, 1.0), 0, 0, -1, math.nan,
        math.nan, norm, norm, largest,
    )  # fmt: skip
