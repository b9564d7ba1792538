"""What the C extension makes of a candidate, an honest implementation and a gold in one go: the numbers of a first
look (``floats`` without golds of moved inputs) and those of other tools (``predecessors``).

Only tensors of finite numbers, all within the range of their dtype, are measured here; for others, and where the
extension was not built, the functions give None, and numpy does it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.dtypes import DType
from trueline.numerics.cpu import address_of, kernel, widen
from trueline.numerics.fallback import component_of
from trueline.numerics.yardstick import smallest_unit

Array = NDArray[Any]
Doubles = NDArray[np.float64]
Gold = Array | tuple[Array, Array]

_LOOK = 11
_SUMS = 53
"""Doubles that the C extension writes: of ``Look``, and of ``OtherSums``."""
_NOTHING_ELSE = {
    **dict.fromkeys(("bias_consistency", "bias_values", "nan_wrong", "infinity_wrong"), 0.0),
    **dict.fromkeys(("jumps", "flips", "honest_flips", "excused"), 0.0),
    **dict.fromkeys(("not_finite_at", "flip_at"), -1.0),
}


@dataclass(frozen=True, slots=True)
class Flat:
    """Candidate, honest implementation and gold as flat doubles; complex numbers as their parts. ``same`` says that
    the first two are equal to the last bit."""

    candidate: Doubles
    honest: Doubles | None
    gold: Doubles
    low: Doubles | None
    dtype: DType
    complex: bool
    same: bool


def flat(candidate: Array, honest: Array | None, gold: Gold, dtype: DType) -> Flat | None:
    """Storage bits of ``dtype`` and a gold of the same shape; None for exact types, and for nothing."""
    if dtype.is_exact or not candidate.size:
        return None
    high, low = gold if isinstance(gold, tuple) else (gold, None)
    ours = _doubles(widen(candidate, dtype))
    same = honest is not None and _same_bits(candidate, honest)
    theirs = ours if same else None if honest is None else _doubles(widen(honest, dtype))
    lost = None if low is None else _doubles(low)
    return Flat(ours, theirs, _doubles(high), lost, component_of(dtype), dtype.is_complex, same)


def first_look(sides: Flat, scale: float, roundings: float) -> dict[str, float] | None:
    """The numbers of ``FloatNumbers`` without golds of moved inputs, but for how consistent a bias is: that it is at
    least 0.0 standard errors is all that is known."""
    look, dtype = kernel("look"), sides.dtype
    if look is None:
        return None
    epsilon = 2.0**-52 if sides.low is None else 2.0**-63
    largest = math.ldexp(2.0 - dtype.epsilon, dtype.exponent_max)
    overflow = largest + math.ldexp(dtype.epsilon / 2, dtype.exponent_max)
    growth = math.sqrt(max(roundings, 1.0))
    yard = np.array(
        (dtype.epsilon, smallest_unit(dtype), dtype.digits, overflow, scale, epsilon, growth, sides.complex), np.float64
    )
    out = np.zeros(_LOOK)
    if not look(*_addresses(sides), sides.gold.size, address_of(yard), address_of(out)):
        return None
    peak, at, ulp, explained, gold, candidate, squares, honest_squares, bias, honest_bias, sharp = out.tolist()
    count, sharp = sides.gold.size, max(sharp, 1.0)
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
    if not sums(*_addresses(sides, twice=False), sides.gold.size, address_of(rules), address_of(out)):
        return None
    return out.tolist()


def _addresses(sides: Flat, *, twice: bool = True) -> tuple[int, int, int, int]:
    """Where they lie. Without ``twice`` an honest implementation that gave the same is left out."""
    honest, low = sides.honest, sides.low
    return (
        address_of(sides.candidate),
        0 if honest is None or (sides.same and not twice) else address_of(honest),
        address_of(sides.gold),
        0 if low is None else address_of(low),
    )


def _doubles(values: Array) -> Doubles:
    flat = np.ascontiguousarray(values).reshape(-1)
    if flat.dtype.kind == "c":
        return flat.astype(np.complex128, copy=False).view(np.float64)
    return flat.astype(np.float64, copy=False)


def _same_bits(one: Array, other: Array) -> bool:
    if one is other:
        return True
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    kind = f"u{one.dtype.itemsize}" if one.dtype.itemsize <= 8 else "u8"
    first, second = (np.ascontiguousarray(bits).reshape(-1).view(kind) for bits in (one, other))
    return bool(np.array_equal(first, second))
