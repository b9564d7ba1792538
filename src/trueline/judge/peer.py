"""The default for three Runs: a candidate is wrong where it errs more than its peer, rounding and chance explain.

The gold says what is right, the peer what another implementation of the same precision is off by. The questions are
those of ``calibrated`` (is a single element off, are all together, do they lean to one side, are NaN and infinity where
they belong), with the peer as the honest implementation. Two excuses are heard besides, because a peer may be lucky:

- few elements: with fewer than ``FEW`` of them the peer's error is one draw and says little;
- float32 and wider: orders of summation differ between sound kernels by more than a factor.

There the error counts only beyond what rounding in that operator explains (``rounding_limit``). An error that is much
larger than the peer's and yet within rounding is a warning where it is too large for chance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from trueline.cases import Case, Evidence, TensorFinding
from trueline.dtypes import dtype_named
from trueline.judge.calibrated import Calibrated
from trueline.records import Verdict

FEW = 24
WORSE = 8.0
"""An error so many times the peer's is no chance, even where rounding may explain it."""
_NARROW_DIGITS = 12


@dataclass(frozen=True)
class Peer:
    """The candidate's errors against the peer's."""

    name: str = "peer"

    def judge_tensor(self, evidence: Evidence, case: Case) -> TensorFinding:
        found = Calibrated().judge_tensor(evidence, case)
        if found.verdict is Verdict.PASS or evidence.exact or not _excusable(evidence):
            return replace(found, reason=_with_ratio(evidence, found.reason))
        ours, limit = _distance(evidence), evidence.numbers.get("rounding_limit", 0.0)
        if not ours <= limit:
            return replace(found, reason=_with_ratio(evidence, found.reason))
        words = _with_ratio(evidence, f"off by {ours:.2g}; rounding explains {limit:.2g} here")
        lasting = math.prod(evidence.shape) >= FEW and _ratio(evidence) > WORSE
        return TensorFinding(evidence, Verdict.WARN if lasting else Verdict.PASS, words, ours / limit)


def _excusable(evidence: Evidence) -> bool:
    """Whether rounding inside the operator may excuse what the peer's error does not."""
    if evidence.numbers.get("nan_wrong") or evidence.numbers.get("infinity_wrong"):
        return False
    if evidence.gold is None or evidence.gold.reference_norm == 0.0:
        return False
    return math.prod(evidence.shape) < FEW or dtype_named(evidence.dtype).digits >= _NARROW_DIGITS


def _distance(evidence: Evidence) -> float:
    return math.inf if evidence.gold is None else evidence.gold.normalized


def _ratio(evidence: Evidence) -> float:
    ours, theirs = _distance(evidence), 0.0 if evidence.honest is None else evidence.honest.normalized
    return ours / theirs if theirs > 0.0 else (math.inf if ours > 0.0 else 1.0)


def _with_ratio(evidence: Evidence, reason: str) -> str:
    if evidence.exact or evidence.gold is None or evidence.honest is None:
        return reason
    ours, theirs = evidence.gold.normalized, evidence.honest.normalized
    if ours == theirs == 0.0:
        return reason
    times = f", {ours / theirs:.3g} times" if theirs > 0.0 else ""
    return f"{reason} (error {ours:.2g}, the peer's {theirs:.2g}{times})"
