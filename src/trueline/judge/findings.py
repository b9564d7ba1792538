"""What the standards of other tools share: findings with scores, and the numbers that they ask for.

A score is the error in units of the limit, so that a share of elements that must be above 99.9 % is told by the share
that is outside, in units of the 0.1 % that may be.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from trueline.cases import Evidence, TensorFinding
from trueline.records import Verdict

HALF = ("float16", "bfloat16")
SINGLE = ("float32", "float64")
HUNDREDTH, THOUSANDTH, TEN_THOUSANDTH = 1e-2, 1e-3, 1e-4
_WITHIN = {HUNDREDTH: "within_hundredth", THOUSANDTH: "within_thousandth", TEN_THOUSANDTH: "within_ten_thousandth"}
_ZERO = 2.0**-52
"""Magnitudes up to this are zero to the cosines of these tools."""
_DROPOUT_LEAST, _DROPOUT_SHARE = 100, 0.1


def passed(evidence: Evidence, reason: str, score: float | None = None) -> TensorFinding:
    return TensorFinding(evidence, Verdict.PASS, reason, score)


def warned(evidence: Evidence, reason: str, score: float | None = None) -> TensorFinding:
    return TensorFinding(evidence, Verdict.WARN, reason, score)


def failed(evidence: Evidence, reason: str, score: float | None = None) -> TensorFinding:
    return TensorFinding(evidence, Verdict.FAIL, reason, score)


def not_compared(evidence: Evidence, reason: str) -> TensorFinding:
    return TensorFinding(evidence, Verdict.NOT_COMPARED, reason)


def missing(evidence: Evidence, names: Iterable[str]) -> TensorFinding | None:
    """NOT_COMPARED where a number is not there: the tensor was not measured that way. One that has to be equal and is,
    such as what must hold of a result as a whole, needs no numbers."""
    lacking = [name for name in names if name not in evidence.numbers]
    if not lacking:
        return None
    found = evidence.direct or evidence.gold
    if evidence.exact and found is not None and found.equal == found.count:
        return passed(evidence, "all elements are equal", 0.0)
    return not_compared(evidence, f"the number {lacking[0]} was not taken of this tensor ({evidence.dtype})")


def count_of(evidence: Evidence) -> int:
    return math.prod(evidence.shape)


def off_share(evidence: Evidence, reference: str, limit: float) -> float:
    """How many elements are off by more than ``limit``, in units of the share that may be: below 1 is well."""
    return (1.0 - evidence.numbers[f"{reference}_{_WITHIN[limit]}"]) / limit


def share_fails(evidence: Evidence, reference: str, limit: float) -> bool:
    """The "double" rule: the share of elements with a relative error below ``limit`` must be above 1 - limit."""
    return not evidence.numbers[f"{reference}_{_WITHIN[limit]}"] > 1.0 - limit


def share_words(evidence: Evidence, reference: str, limit: float) -> str:
    share = evidence.numbers[f"{reference}_{_WITHIN[limit]}"]
    return f"{100 * share:.4g} % of the elements are within {limit:g}, more than {100 * (1 - limit):g} % must be"


def share_names(reference: str) -> tuple[str, ...]:
    return tuple(f"{reference}_{name}" for name in _WITHIN.values())


def cosine_of(evidence: Evidence, reference: str) -> tuple[float | None, str]:
    """The cosine as these tools take it: NaN where anything is not finite, None where it says nothing (one element,
    or zeros on both sides), -1 where one side alone is zero; and in words."""
    other = "honest" if reference == "direct" else "bench"
    measurement = evidence.direct if reference == "direct" else evidence.gold
    mine, theirs = evidence.numbers["candidate_peak"], evidence.numbers[f"{other}_peak"]
    if count_of(evidence) == 1:
        return None, "one element has no cosine"
    if mine <= _ZERO and theirs <= _ZERO:
        return None, "both sides are zero"
    if mine <= _ZERO or theirs <= _ZERO:
        return -1.0, f"the {'candidate' if mine <= _ZERO else 'reference'} alone is all zero"
    if not (math.isfinite(mine) and math.isfinite(theirs)) or measurement is None:
        return math.nan, "the cosine is NaN"
    return measurement.cosine, f"cosine {measurement.cosine:.6g}"


def cosine_names(reference: str) -> tuple[str, ...]:
    return ("candidate_peak", "honest_peak" if reference == "direct" else "bench_peak")


def dropout_finding(evidence: Evidence, reference: str) -> TensorFinding:
    """The rule for calls with "dropout" in their name: about as many zeros, and fewer than 100 elements pass. Values
    are not looked at."""
    zeros = f"{reference}_zeros"
    if finding := missing(evidence, (zeros, "candidate_zeros")):
        return finding
    count = count_of(evidence)
    if count < _DROPOUT_LEAST:
        return passed(evidence, f"dropout of fewer than {_DROPOUT_LEAST} elements is not looked at")
    share = abs(evidence.numbers[zeros] - evidence.numbers["candidate_zeros"]) / count
    words = f"the numbers of zeros differ by {100 * share:.3g} % of the elements"
    if share < _DROPOUT_SHARE:
        return passed(evidence, f"{words}, which is all that is looked at in dropout", share / _DROPOUT_SHARE)
    return failed(evidence, words, share / _DROPOUT_SHARE)


def equal_finding(evidence: Evidence, reference: str) -> TensorFinding:
    """Every element must be equal."""
    name = f"{reference}_unequal"
    if finding := missing(evidence, (name,)):
        return finding
    share = evidence.numbers[name]
    if share == 0.0:
        return passed(evidence, "all elements are equal", 0.0)
    return failed(evidence, f"{_percent(share)} of the elements differ, none may", math.inf)


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
