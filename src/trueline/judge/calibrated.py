"""The default standard of a check: a tensor is wrong where honest arithmetic in its dtype cannot explain its errors.

Four questions are asked of the numbers that ``numerics.evidence`` measured, and each has one limit:

- **peak**: is a single element off by more than rounding, conditioning and an honest implementation explain there?
- **spread**: are the elements together off by more than is expected of them?
- **bias**: do the errors lean to one side, in every row, column and value alike? Rounding does not. This alone finds a
  factor of 1.002 in bfloat16, which is half a unit in the last place.
- **NaN and infinity**: are they where the gold has them, and nowhere else?

Integers and bools must be equal. Elements that jump when the inputs move by one rounding may be either, unless the
operator computes nothing before it decides: then what comes out is fixed to the bit by what went in.

The limits differ between two kinds of dtype for one reason. Kernels for types narrower than float32 compute in float32
inside: what is left in the result is one rounding to nearest, and a handful where a composition rounds in between.
Kernels for float32 and wider approximate functions to a few units, always in the same direction, and share rounded
factors such as 1/n between all elements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from trueline.cases import Case, Evidence, TensorFinding
from trueline.dtypes import dtype_named
from trueline.records import Verdict


@dataclass(frozen=True, slots=True)
class Limits:
    """``peak`` is in units of what is explained at the element, ``spread`` and ``bias`` of what is expected, beyond
    those of the honest implementation."""

    peak: float
    spread: float
    bias: float


NARROW = Limits(peak=5.0, spread=0.7, bias=0.06)
WIDE = Limits(peak=12.0, spread=3.0, bias=2.0)
_NARROW_DIGITS = 12
SPREAD_COUNT = 24
"""Fewer elements have no spread to speak of; their errors are the peak's matter."""
CONSISTENCY = 8.0
"""Standard errors by which a bias must be sure. Groups of elements are few and their means not normal."""
HONEST_BIAS = 2.0
SUSPICIOUS = 0.7
"""The share of a limit above which a tensor that passes is warned about."""
FLIPS = 3
FLIP_SHARE = 0.25
"""So many, and this share of the jumps, may land on the other side, and four times as often as those of the honest
implementation."""


_SWITCHES = {"cudnn": "torch.backends.cudnn.allow_tf32", "matmul": "torch.backends.cuda.matmul.allow_tf32"}
_TENSOR_FLOAT = 2.0**-8
"""Errors relative to the tensor as a whole up to which TF32 explains them: it rounds factors by 2**-11."""


class Calibrated:
    """Errors against those of honest arithmetic on the same inputs."""

    name = "calibrated"

    def judge_tensor(self, evidence: Evidence, case: Case) -> TensorFinding:
        numbers = evidence.numbers
        if math.prod(evidence.shape) == 0:
            return TensorFinding(evidence, Verdict.PASS, "empty, of the right dtype and shape", 0.0)
        if not {"compared", "jumps"} <= numbers.keys():
            return TensorFinding(evidence, Verdict.NOT_COMPARED, "was not measured against a gold")
        judge = _judge_exact if evidence.exact else _judge_float
        return judge(evidence, numbers)


def _judge_exact(evidence: Evidence, numbers: Mapping[str, float]) -> TensorFinding:
    wrong, allowed = numbers["wrong"], 2 * numbers["honest_wrong"]
    if wrong > allowed:
        place = _place(evidence, numbers["wrong_at"])
        reason = f"{wrong:.0f} of {numbers['compared']:.0f} elements differ, the first at {place}"
        return TensorFinding(evidence, Verdict.FAIL, reason, wrong / allowed if allowed else math.inf)
    return _judge_flips(evidence, numbers, "equal" if not wrong + numbers["flips"] else "equal but for ties")


def _judge_float(evidence: Evidence, numbers: Mapping[str, float]) -> TensorFinding:
    bad = numbers["nan_wrong"] + numbers["infinity_wrong"]
    if bad:
        name = "NaN" if numbers["nan_wrong"] else "infinity"
        place = _place(evidence, numbers["not_finite_at"])
        reason = f"{name} differs from the gold in {bad:.0f} elements, the first at {place}"
        return TensorFinding(evidence, Verdict.FAIL, reason, math.inf)
    if not numbers["compared"]:
        return _nothing_finite(evidence, numbers)
    if "decided" in numbers and (found := _not_equal(evidence, numbers)) is not None:
        return found
    limits = NARROW if dtype_named(evidence.dtype).digits < _NARROW_DIGITS else WIDE
    peak = _peak(evidence, numbers, limits)
    flips = _judge_flips(evidence, numbers, peak[1])
    if flips.verdict is Verdict.FAIL and peak[0] <= 1.0:
        return flips
    score, reason = max(peak, _spread(numbers, limits), _bias(numbers, limits), key=lambda found: found[0])
    if score > 1.0:
        reason += _by_tensor_float(evidence, numbers) + _besides(numbers)
        return TensorFinding(evidence, Verdict.FAIL, reason, score)
    if flips.verdict is not Verdict.PASS:
        return flips
    return TensorFinding(evidence, Verdict.WARN if score > SUSPICIOUS else Verdict.PASS, reason, score)


def _not_equal(evidence: Evidence, numbers: Mapping[str, float]) -> TensorFinding | None:
    """Elements that were only moved, chosen or compared must be what they were, rounded once where they changed their
    dtype: half a unit, or one where small numbers may be flushed to zero."""
    kind = dtype_named(evidence.dtype)
    rounding = 0.5 if abs(numbers["peak_gold"]) >= math.ldexp(1.0, kind.exponent_min) else 1.0
    allowed = rounding + 1.01 * max(numbers["peak_explained"] - 1.0, 0.0)
    off = abs(numbers["peak_ulp"])
    if off <= allowed + 1e-6:
        return None
    values = f"{numbers['peak_candidate']:.9g} for {numbers['peak_gold']:.9g}"
    reason = f"off by {off:.3g} ulp at {_place(evidence, numbers['peak_at'])} ({values}), where nothing is computed"
    return TensorFinding(evidence, Verdict.FAIL, reason, off / allowed)


def _by_tensor_float(evidence: Evidence, numbers: Mapping[str, float]) -> str:
    """Words about TF32 where it was allowed and errors are no larger than it makes them."""
    switch = next((name for name in _SWITCHES if f"tf32_{name}" in numbers), "")
    if not switch or evidence.gold is None or not evidence.gold.normalized <= _TENSOR_FLOAT:
        return ""
    return f". TF32 explains errors of this size: {_SWITCHES[switch]} is on, which rounds the factors to eleven digits"


def _besides(numbers: Mapping[str, float]) -> str:
    """Words about an honest implementation that is no measure, for it is wrong itself."""
    if "honest_excess" not in numbers:
        return ""
    excess = f"{numbers['honest_excess']:.3g} times what rounding explains"
    return f". The reference's own kernel in this dtype was not trusted: it is off by {excess}"


def _peak(evidence: Evidence, numbers: Mapping[str, float], limits: Limits) -> tuple[float, str]:
    if numbers["peak"] <= 0.0:
        return 0.0, "equal to the gold"
    allowed = limits.peak * numbers["peak_explained"]
    place = _place(evidence, numbers["peak_at"])
    off = abs(numbers["peak_ulp"])
    values = f"{numbers['peak_candidate']:.9g} for {numbers['peak_gold']:.9g}"
    text = f"off by {off:.3g} ulp at {place} ({values}); honest {evidence.dtype} arithmetic explains {allowed:.3g}"
    return numbers["peak"] / limits.peak, text


def _spread(numbers: Mapping[str, float], limits: Limits) -> tuple[float, str]:
    if numbers["compared"] < SPREAD_COUNT:
        return 0.0, ""
    limit = limits.spread + numbers["honest_spread"]
    text = (
        f"errors are {numbers['spread']:.3g} times as large as rounding makes them here, in the root mean square of "
        f"{numbers['compared']:.0f} elements; an honest implementation's {numbers['honest_spread']:.3g}, "
        f"limit {limit:.3g}"
    )
    return numbers["spread"] / limit, text


def _bias(numbers: Mapping[str, float], limits: Limits) -> tuple[float, str]:
    limit = limits.bias + HONEST_BIAS * abs(numbers["honest_bias"])
    sure = numbers["bias_consistency"] / CONSISTENCY
    size = abs(numbers["bias"]) / limit
    side = "too large" if numbers["bias"] > 0 else "too small"
    text = (
        f"results are {side} throughout, by {abs(numbers['bias']):.2g} times the error that rounding makes here, "
        f"{numbers['bias_consistency']:.3g} standard errors from none; limit {limit:.2g}"
    )
    return min(size, sure), text


def _judge_flips(evidence: Evidence, numbers: Mapping[str, float], otherwise: str) -> TensorFinding:
    """Elements that may be either side: many of them on the other side, where an honest implementation has none."""
    flips, jumps = numbers["flips"], numbers["jumps"]
    if not flips:
        return TensorFinding(evidence, Verdict.PASS, otherwise, 0.0)
    allowed = max(FLIPS, FLIP_SHARE * jumps) + 4 * numbers["honest_flips"]
    place = _place(evidence, numbers["flip_at"])
    text = f"{flips:.0f} of {jumps:.0f} elements that hang on a rounding fell to the other side, the first at {place}"
    if flips > allowed:
        honest = f"; of an honest implementation {numbers['honest_flips']:.0f}"
        return TensorFinding(evidence, Verdict.FAIL, text + honest, flips / allowed)
    if jumps == numbers["compared"]:
        return TensorFinding(evidence, Verdict.NOT_COMPARED, f"every element hangs on a rounding; {text}")
    return TensorFinding(evidence, Verdict.PASS, text, flips / allowed)


def _nothing_finite(evidence: Evidence, numbers: Mapping[str, float]) -> TensorFinding:
    if numbers["excused"] or evidence.gold is None or evidence.gold.equal < evidence.gold.count:
        reason = "no element could be compared: all are excused, or not finite in an honest implementation as well"
        return TensorFinding(evidence, Verdict.NOT_COMPARED, reason)
    return TensorFinding(evidence, Verdict.PASS, "NaN and infinity as in the gold, and nothing else", 0.0)


def _place(evidence: Evidence, flat: float) -> str:
    """A flat index as one by dimension."""
    index, places = int(flat), []
    for size in reversed(evidence.shape):
        places.append(index % size)
        index //= size
    return f"[{', '.join(str(place) for place in reversed(places))}]"
