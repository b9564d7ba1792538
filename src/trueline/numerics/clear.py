"""Whether a result is so near its gold that nothing more needs to be known to let it pass.

Golds of moved inputs, which cost more than all the rest of a case, only ever widen what is explained: they say how far
honest arithmetic may be off where a call is steep or jumps. A result that is right without that is right with it. So
they are asked for only where the numbers that were measured without them come near a limit.

The limits here are below those of the default standard (``judge.calibrated``), two thirds of them for the peak, which
moved inputs can only lower, and half of them or less for the others: what lies between the two is measured in full.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trueline.dtypes import DType
from trueline.numerics.trust import TRUSTED_EXCESS, rounding_of
from trueline.records import Measurement


@dataclass(frozen=True, slots=True)
class _Limits:
    peak: float
    spread: float
    bias: float


_NARROW = _Limits(peak=3.4, spread=0.3, bias=0.025)
_WIDE = _Limits(peak=8.0, spread=1.2, bias=1.0)
_NARROW_DIGITS = 12


def is_clear(numbers: Mapping[str, float], dtype: DType) -> bool:
    """Whether the numbers of a tensor that was measured without golds of moved inputs pass beyond doubt."""
    if dtype.is_exact:
        return not (numbers["wrong"] or numbers["flips"])
    if numbers["nan_wrong"] or numbers["infinity_wrong"] or not numbers["compared"]:
        return False
    limits = _NARROW if dtype.digits < _NARROW_DIGITS else _WIDE
    return (
        numbers["peak"] <= limits.peak
        and numbers["spread"] <= limits.spread + numbers["honest_spread"]
        and abs(numbers["bias"]) <= limits.bias + abs(numbers["honest_bias"])
    )


def is_within_rounding(found: Measurement, dtype: DType, scale: float, terms: int) -> bool:
    """Whether an honest implementation is no farther from the gold than rounding alone explains, so that it can be
    trusted whatever moved inputs would say."""
    return not found.rmse > TRUSTED_EXCESS * rounding_of(found, dtype, scale, terms)
