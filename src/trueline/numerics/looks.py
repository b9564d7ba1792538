"""What the C extension makes of a candidate, an honest implementation and a gold in one go: the numbers of a first
look (``floats`` without golds of moved inputs) and those of other tools (``predecessors``).

Tensors are read as they are stored. Only those of finite numbers, all within the range of their dtype, are measured
here; for others, and where the extension was not built, the functions give None, and numpy does it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.dtypes import DTYPES, DType
from trueline.numerics.cpu import address_of, kernel, same_bits
from trueline.numerics.envelope import Corner, corners_of
from trueline.numerics.fallback import component_of, widen
from trueline.numerics.yardstick import smallest_unit

Array = NDArray[Any]
Doubles = NDArray[np.float64]
Gold = Array | tuple[Array, Array]

_LOOK = 11
_SUMS = 53
"""Doubles that the C extension writes: of ``Look``, and of ``OtherSums``."""
_BLOCK = 1 << 15
"""Elements at a time, few enough to stay in the cache."""
_FOUND = 2048
"""So many elements beyond the corners are collected before the corners are drawn anew: two blocks of the extension."""
_NOTHING_ELSE = {
    **dict.fromkeys(("bias_consistency", "bias_values", "nan_wrong", "infinity_wrong"), 0.0),
    **dict.fromkeys(("jumps", "flips", "honest_flips", "excused"), 0.0),
    **dict.fromkeys(("not_finite_at", "flip_at"), -1.0),
}


@dataclass(frozen=True, slots=True)
class Flat:
    """The real components of candidate and honest implementation, flat storage bits of ``dtype``; of the gold the
    same, or doubles. ``same`` says that the first two are equal to the last bit; they are the same array then."""

    candidate: Array
    honest: Array | None
    gold: Array
    low: Doubles | None
    dtype: DType
    complex: bool
    same: bool

    @property
    def count(self) -> int:
        return self.candidate.size

    def part(self, chosen: Any) -> tuple[Doubles, Doubles]:
        """Some components of candidate and honest implementation, as numbers."""
        assert self.honest is not None, "asked where there is one"
        return widen(self.candidate[chosen], self.dtype), widen(self.honest[chosen], self.dtype)


def flat(candidate: Array, honest: Array | None, gold: Gold, dtype: DType) -> Flat | None:
    """Storage bits of ``dtype`` and a gold of the same shape, which may be the honest bits themselves; None for exact
    types, and for nothing."""
    if dtype.is_exact or not candidate.size:
        return None
    high, low = gold if isinstance(gold, tuple) else (gold, None)
    part = component_of(dtype)
    ours = _components(candidate, part)
    same = honest is not None and same_bits(candidate, honest)
    theirs = ours if same else None if honest is None else _components(honest, part)
    truth = theirs if high is honest else _doubles(high)
    assert truth is not None
    lost = None if low is None else _doubles(low)
    return Flat(ours, theirs, truth, lost, part, dtype.is_complex, same)


def first_look(sides: Flat, scale: float, roundings: float) -> dict[str, float] | None:
    """The numbers of ``FloatNumbers`` without golds of moved inputs, but for how consistent a bias is: that it is at
    least 0.0 standard errors is all that is known."""
    look, dtype = kernel("look"), sides.dtype
    if look is None:
        return None
    epsilon = 2.0**-52 if sides.low is None else 2.0**-63
    overflow = dtype.largest + math.ldexp(dtype.epsilon / 2, dtype.exponent_max)
    growth = math.sqrt(max(roundings, 1.0))
    yard = np.array(
        (dtype.epsilon, smallest_unit(dtype), dtype.digits, overflow, scale, epsilon, growth, sides.complex), np.float64
    )
    out = np.zeros(_LOOK)
    if not look(*_given(sides), address_of(yard), address_of(out)):
        return None
    peak, at, ulp, explained, gold, candidate, squares, honest_squares, bias, honest_bias, sharp = out.tolist()
    count, sharp = sides.count, max(sharp, 1.0)
    return {
        **_NOTHING_ELSE,
        "peak": peak,
        "peak_at": at // 2 if sides.complex and at >= 0 else at,
        "peak_ulp": ulp,
        "peak_explained": explained,
        "peak_gold": gold,
        "peak_candidate": candidate,
        "compared": float(count),
        "spread": math.sqrt(squares / count),
        "honest_spread": math.sqrt(honest_squares / count),
        "bias": bias / sharp,
        "honest_bias": honest_bias / sharp,
    }


def tool_sums(sides: Flat, rules: Array) -> list[float] | None:
    """The raw sums of ``predecessors`` by the rules of one dtype, as ``sum_up`` of the extension orders them; where
    the honest implementation gave the same, those of the candidate alone."""
    sums = kernel("sums")
    if sums is None or sides.complex:
        return None
    out = np.zeros(_SUMS)
    if not sums(*_given(sides, twice=False), address_of(rules), address_of(out)):
        return None
    return out.tolist()


def direct_corners(sides: Flat) -> list[Corner]:
    """The corners (``envelope``) of the candidate's differences from the honest implementation."""
    above = kernel("above")
    corners: list[Corner] = []
    start, places = 0, np.empty(_FOUND, np.int64)
    assert sides.honest is not None, "asked where there is one"
    while start < sides.count:
        if above is None:
            chosen: Any = slice(start, start + _BLOCK)
            start += _BLOCK
        else:
            lines, flat = _lines(corners), corners[-1][1] if corners else 0.0
            found, start = above(
                address_of(sides.candidate), address_of(sides.honest), sides.dtype.code, sides.count, start,
                address_of(lines), len(lines), flat, address_of(places), _FOUND,
            )  # fmt: skip
            chosen = places[:found]
        candidate, honest = sides.part(chosen)
        corners = corners_of(np.abs(honest), np.abs(candidate - honest), corners)
    return corners


def _lines(corners: Sequence[Corner]) -> Doubles:
    """The lines from corner to corner, the first one from the origin: a point on each, and its slope."""
    lines = []
    before = (0.0, 0.0)
    for corner in corners:
        width = corner[0] - before[0]
        if width > 0.0:
            lines.append((*before, (corner[1] - before[1]) / width))
        before = corner
    return np.array(lines, np.float64).reshape(-1, 3)


def _given(sides: Flat, *, twice: bool = True) -> tuple[int, ...]:
    """Where they lie and what they are, as the extension asks for it. Without ``twice`` an honest implementation that
    gave the same is left out."""
    honest, low = sides.honest, sides.low
    gold = DTYPES["float64"] if sides.gold.dtype == np.float64 else sides.dtype
    return (
        address_of(sides.candidate),
        0 if honest is None or (sides.same and not twice) else address_of(honest),
        address_of(sides.gold),
        0 if low is None else address_of(low),
        sides.dtype.code,
        gold.code,
        sides.count,
    )


def _components(bits: Array, part: DType) -> Array:
    return np.ascontiguousarray(bits).reshape(-1).view(part.storage)


def _doubles(values: Array) -> Doubles:
    flat = np.ascontiguousarray(values).reshape(-1)
    if flat.dtype.kind == "c":
        return flat.astype(np.complex128, copy=False).view(np.float64)
    return flat.astype(np.float64, copy=False)
