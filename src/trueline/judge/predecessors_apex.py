"""The two rules of PaddleAPEX.

``apex``        ``acc_direct_cmp``: two backends in one dtype, so the candidate is held against the honest
                implementation. A cosine up to 0.99 or NaN fails; a largest absolute error below 0.001 passes; then
                shares of relative errors, as in the precheck. Types outside its families (int8, int16, complex) always
                fail.
``apex-multi``  ``acc_multi_cmp``: the candidate's errors against a golden in units of those of another implementation
                against the same golden. Ratios above 1 warn, above 2 (largest relative error: 10) fail. The balance of
                errors is taken and shown there, but does not count.

Where APEX has no row for a tensor (it is empty, an output is missing) the verdict is NOT_COMPARED. That a later warning
of an API overwrites an earlier error there is not followed in checks: the verdict of many is the worst of them. Where
two Runs are compared ``apex`` stands for APEX's own answers, and ``api_verdict`` gives that one too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trueline.cases import Case, Evidence, TensorFinding
from trueline.judge.findings import (
    HALF,
    SINGLE,
    cosine_names,
    count_of,
    dropout_finding,
    equal_finding,
    failed,
    missing,
    not_compared,
    passed,
    share_names,
    warned,
)
from trueline.judge.predecessors_ascend import chain
from trueline.records import Verdict

_EXACT_FAMILIES = ("bool", "uint8", "int32", "int64")
_NO_ERROR_RATIO = 10000.0
"""What APEX writes for an error where the other implementation has none."""

# metric: (ratio that warns, ratio that fails)
MULTI_LIMITS = {"small_share": (1.0, 2.0), "rmse": (1.0, 2.0), "max_rel": (1.0, 10.0), "mean_rel": (1.0, 2.0)}
_METRIC_WORDS = {
    "small_share": "share of wrong small values",
    "rmse": "RMSE",
    "max_rel": "largest relative error",
    "mean_rel": "mean relative error",
}


@dataclass(frozen=True)
class Apex:
    """The direct comparison."""

    name: str = "apex"

    def judge_tensor(self, evidence: Evidence, case: Case) -> TensorFinding:
        if "dropout" in case.api:
            return dropout_finding(evidence, "honest")
        if count_of(evidence) == 0:
            return not_compared(evidence, "PaddleAPEX has no row for an empty tensor")
        if evidence.dtype in _EXACT_FAMILIES:
            return equal_finding(evidence, "direct")
        if evidence.dtype not in (*HALF, *SINGLE):
            return failed(evidence, f"{evidence.dtype} is in none of the families that PaddleAPEX compares", math.inf)
        if finding := missing(evidence, (*cosine_names("direct"), "direct_max_abs", *share_names("direct"))):
            return finding
        return chain(evidence, "direct", nan_passes=False)


@dataclass(frozen=True)
class ApexMulti:
    """The comparison of two errors against one golden."""

    name: str = "apex-multi"

    def judge_tensor(self, evidence: Evidence, case: Case) -> TensorFinding:
        if count_of(evidence) == 0:
            return not_compared(evidence, "PaddleAPEX has no row for an empty tensor")
        if evidence.exact:
            return equal_finding(evidence, "bench")
        if evidence.dtype not in (*HALF, "float32"):
            return not_compared(evidence, f"PaddleAPEX skips {evidence.dtype} here")
        names = [f"apex_{side}{metric}" for side in ("", "honest_") for metric in MULTI_LIMITS]
        if finding := missing(evidence, names):
            return finding
        return self._by_ratios(evidence)

    def _by_ratios(self, evidence: Evidence) -> TensorFinding:
        score, worst, warning = -1.0, "", ""
        for metric, (warns, fails) in MULTI_LIMITS.items():
            ratio = _ratio(evidence.numbers[f"apex_{metric}"], evidence.numbers[f"apex_honest_{metric}"])
            words = f"{_METRIC_WORDS[metric]} {ratio:.3g} times the honest one"
            if ratio / fails > score:
                score, worst = ratio / fails, f"{words}, limit {fails:g}"
            if ratio > warns and not warning:
                warning = f"{words}, warning above {warns:g}"
        if score > 1.0:
            return failed(evidence, worst, score)
        return warned(evidence, warning, score) if warning else passed(evidence, worst, score)


def api_verdict(verdicts: Sequence[Verdict]) -> Verdict:
    """What APEX says of an API from what it says of its tensors in their order: the last error or warning counts."""
    spoken = [verdict for verdict in verdicts if verdict in (Verdict.WARN, Verdict.FAIL)]
    if spoken:
        return spoken[-1]
    return Verdict.PASS if Verdict.PASS in verdicts else Verdict.NOT_COMPARED


def _ratio(mine: float, theirs: float) -> float:
    if theirs == 0.0:
        return 1.0 if mine == 0.0 else _NO_ERROR_RATIO
    return abs(mine / theirs)
