"""Whether an honest implementation can be trusted as a measure of what its dtype can do.

It cannot where it is wrong itself. Then its error is far beyond what rounding explains, and it is the same error again
for inputs that are neighbours of those at hand. Rounding noise may be as large, where large numbers cancel or a
comparison hangs on a rounding, but it is another one for other inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from trueline.dtypes import DType
from trueline.numerics.cpu import widen
from trueline.numerics.floats import Array, Gold
from trueline.numerics.yardstick import smallest_unit
from trueline.records import Measurement

TRUSTED_EXCESS = 16.0
"""Times what rounding explains. Nearly all kernels stay below two, those that cancel or decide on a rounding below
eight."""
_SAME = 0.25
"""An error that changes by less than this share of itself is the same one again."""

Nudged = Callable[[], Sequence[Array]]
"""Results of the honest implementation for neighbouring inputs, as storage bits."""


def excess_of(
    honest: Array,
    found: Measurement,
    gold: Array,
    perturbed: Sequence[Gold],
    dtype: DType,
    *,
    scale: float,
    terms: int,
    nudged: Nudged,
) -> float:
    """How many times what rounding explains an honest implementation is off that cannot be trusted; 0.0 for one that
    can. ``found`` is the honest implementation against the gold, ``scale`` the largest magnitude that went in, and
    ``terms`` how many numbers an element is the sum of, each of which may have been rounded."""
    rounding = rounding_of(found, dtype, scale, terms)
    if not found.rmse > TRUSTED_EXCESS * rounding:  # as nearly always: no need to look at the moves
        return 0.0
    moves = (np.abs((one[0] if isinstance(one, tuple) else one) - gold) for one in perturbed[:2])
    moved = max((float(np.sqrt(np.mean(np.square(move)))) for move in moves), default=0.0)
    explained = rounding + moved * math.sqrt(max(terms, 1))
    if not found.rmse > TRUSTED_EXCESS * explained or _is_noise(found.rmse, honest, nudged(), dtype):
        return 0.0
    return found.rmse / explained


def rounding_of(found: Measurement, dtype: DType, scale: float, terms: int) -> float:
    """What rounding alone explains of an error, without what the gold does when its inputs move."""
    rounding = max(dtype.epsilon / 2 * (found.reference_max + scale), smallest_unit(dtype))
    return rounding * math.sqrt(max(terms, 1))


def _is_noise(error: float, honest: Array, nudged: Sequence[Array], dtype: DType) -> bool:
    values = widen(honest, dtype)
    for one in nudged:
        if one.shape != honest.shape:
            return True
        off = np.abs(widen(one, dtype) - values)
        off = off[np.isfinite(off)]
        if not off.size or math.sqrt(float(np.mean(np.square(off)))) > _SAME * error:
            return True
    return not nudged
