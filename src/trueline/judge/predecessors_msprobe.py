"""The standards of msprobe's acc_check and api_precision_compare (mindstudio-probe 26.2), with the numbers of its code.

``msprobe-absolute``    normal values within rtol, small ones within an absolute limit, NaN and Inf alike: not one
                        element outside
``msprobe-benchmark``   errors against the CPU benchmark in units of those of a trusted device; the limits depend on
                        whether the operator is one that it takes care of (levels L1 and L2)
``msprobe-ulp``         float32: mean below 64 ULP, or fewer than 5 % above 32 ULP, or fewer of them than the trusted
                        device; 16 bits: fewer than 0.1 % above one ULP, or fewer than the trusted device
``msprobe-binary``      every element equal
``msprobe-thousandth``  at least 99.9 % of the elements within 0.001
``msprobe``             which of them it really takes: ULP for eight-bit floats, absolute where an input is one,
                        benchmark for every other float (its tables for the others are never reached), else binary.
                        float64 and complex are skipped, dropout is not in its table
``msprobe-acc-check``   the status that acc_check itself writes: the chain of the precheck of December 2023

The benchmark is the gold, the trusted device the honest implementation. Where its manual says otherwise than its code,
the code counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trueline.cases import Case, Evidence, TensorFinding
from trueline.judge.findings import (
    HALF,
    count_of,
    equal_finding,
    failed,
    missing,
    not_compared,
    passed,
    share_names,
)
from trueline.judge.predecessors_ascend import before_values, chain
from trueline.records import Verdict

FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
_KNOWN = (*HALF, "float32")
_COMPARABLE = ("bool", "uint8", "int8", "int32", "int64")

LEAST_ERROR: Mapping[str, float] = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-14}
"""The trusted device's error counts as at least this."""
SMALL_SHARE_LIMIT = 2.0
_WORDS = {
    "small_share": "share of wrong small values",
    "rmse": "RMSE",
    "max_rel": "largest relative error",
    "mean_rel": "mean relative error",
}
LEVELS: Mapping[str, Mapping[str, float]] = {
    "L0": {"max_rel": 10.0, "mean_rel": 2.0, "rmse": 2.0},
    "L1": {"max_rel": 5.0, "mean_rel": 1.5, "rmse": 1.5},
    "L2": {"max_rel": 2.0, "mean_rel": 1.2, "rmse": 1.2},
}
_L1 = frozenset({"embedding", "npu_fusion_attention_grad", "npu_fusion_attention", "scatter_", "scatter_add_"})
_L2 = frozenset({
    "addmm", "npu_cross_entropy_loss", "npu_cross_entropy_loss_backward", "GELU", "layer_norm", "matmul", "mm", "index",
    "one_hot", "sum", "npu_rms_norm", "npu_rms_norm_backward", "nonzero",
})  # fmt: skip
ULP_MEAN, ULP_SHARE_FLOAT32, ULP_SHARE_HALF = 64.0, 0.05, 0.001
_THOUSANDTH_SHARE = 0.999


def level_of(api: str) -> str:
    """The level of care of an API, by the last part of its name, as msprobe looks it up."""
    short = api.rpartition(".")[2]
    return "L2" if short in _L2 else "L1" if short in _L1 else "L0"


@dataclass(frozen=True)
class MsprobeAbsolute:
    name: str = "msprobe-absolute"

    def judge_tensor(self, evidence: Evidence, case: Case) -> TensorFinding:
        parts = {
            "msprobe_absolute_not_finite": "of the NaN and Inf are not alike",
            "msprobe_absolute_relative": "of the normal values are outside of rtol",
            "msprobe_absolute_small": "of the small values are outside of their absolute limit",
        }
        if finding := _not_for(evidence, _KNOWN, parts):
            return finding
        for number, words in parts.items():
            if evidence.numbers[number] != 0.0:
                return failed(evidence, f"{100 * evidence.numbers[number]:.3g} % {words}, none may be", math.inf)
        return passed(evidence, "all elements are within their thresholds", 0.0)


@dataclass(frozen=True)
class MsprobeBenchmark:
    name: str = "msprobe-benchmark"

    def judge_tensor(self, evidence: Evidence, case: Case) -> TensorFinding:
        limits = {"small_share": SMALL_SHARE_LIMIT, **LEVELS[level_of(case.api)]}
        names = [f"msprobe_{side}{metric}" for side in ("", "honest_") for metric in limits]
        if finding := _not_for(evidence, _KNOWN, names):
            return finding
        score, worst = -1.0, "errors within the limits"
        for metric, limit in limits.items():
            mine, theirs = evidence.numbers[f"msprobe_{metric}"], evidence.numbers[f"msprobe_honest_{metric}"]
            ratio = device_ratio(mine, theirs, evidence.dtype)
            if ratio / limit > score:
                score = ratio / limit
                worst = f"{_WORDS[metric]} {mine:.3g}, honest {theirs:.3g}: ratio {ratio:.3g}, limit {limit:g}"
        return failed(evidence, worst, score) if score > 1.0 else passed(evidence, worst, score)


@dataclass(frozen=True)
class MsprobeUlp:
    name: str = "msprobe-ulp"

    def judge_tensor(self, evidence: Evidence, case: Case) -> TensorFinding:
        if evidence.dtype in FLOAT8:
            if finding := _not_for(evidence, FLOAT8, ("msprobe_ulp_share",)):
                return finding
            return self._by_share(evidence, ULP_SHARE_HALF)
        names = [f"msprobe_{side}ulp_{number}" for side in ("", "honest_") for number in ("mean", "share")]
        if finding := _not_for(evidence, _KNOWN, names):
            return finding
        numbers = evidence.numbers
        mean, honest_mean = numbers["msprobe_ulp_mean"], numbers["msprobe_honest_ulp_mean"]
        if not (math.isfinite(mean) and math.isfinite(honest_mean)) and not _alike(mean, honest_mean):
            return failed(evidence, f"the mean error is {mean:.3g} ULP, the honest one {honest_mean:.3g}", math.inf)
        single = evidence.dtype == "float32"
        if single and mean < ULP_MEAN:
            return passed(evidence, f"mean error {mean:.3g} ULP, below {ULP_MEAN:g}", mean / ULP_MEAN)
        found = self._by_share(evidence, ULP_SHARE_FLOAT32 if single else ULP_SHARE_HALF)
        ratio = device_ratio(numbers["msprobe_ulp_share"], numbers["msprobe_honest_ulp_share"], evidence.dtype)
        if found.verdict is Verdict.FAIL and ratio < 1.0:
            return passed(evidence, f"{found.reason}, but fewer than in the honest result", ratio)
        return found

    @staticmethod
    def _by_share(evidence: Evidence, limit: float) -> TensorFinding:
        share, largest = evidence.numbers["msprobe_ulp_share"], 32 if evidence.dtype == "float32" else 1
        words = f"{100 * share:.3g} % of the elements are off by more than {largest} ULP, limit {100 * limit:g} %"
        return passed(evidence, words, share / limit) if share < limit else failed(evidence, words, share / limit)


@dataclass(frozen=True)
class MsprobeBinary:
    name: str = "msprobe-binary"

    def judge_tensor(self, evidence: Evidence, case: Case) -> TensorFinding:
        if count_of(evidence) == 0:
            return not_compared(evidence, "an empty tensor is skipped")
        return equal_finding(evidence, "bench")


@dataclass(frozen=True)
class MsprobeThousandth:
    name: str = "msprobe-thousandth"

    def judge_tensor(self, evidence: Evidence, case: Case) -> TensorFinding:
        if finding := _not_for(evidence, (*_KNOWN, "float64"), share_names("bench")):
            return finding
        share = evidence.numbers["bench_within_thousandth"]
        words = f"{100 * share:.4g} % of the elements are within 0.001, limit {100 * _THOUSANDTH_SHARE:g} %"
        score = (1.0 - share) / (1.0 - _THOUSANDTH_SHARE)
        return passed(evidence, words, score) if share >= _THOUSANDTH_SHARE else failed(evidence, words, score)


@dataclass(frozen=True)
class Msprobe:
    """What api_precision_compare says, with its own choice of the standard."""

    name: str = "msprobe"

    def judge_tensor(self, evidence: Evidence, case: Case) -> TensorFinding:
        if "dropout" in case.api:
            return not_compared(evidence, "msprobe writes no details of dropout")
        dtype = evidence.dtype
        if dtype in FLOAT8:
            return MsprobeUlp().judge_tensor(evidence, case)
        if not evidence.exact and any(spec.dtype in FLOAT8 for spec in case.tensors):
            return MsprobeAbsolute().judge_tensor(evidence, case)
        if dtype in _KNOWN:
            return MsprobeBenchmark().judge_tensor(evidence, case)
        if evidence.exact:
            return MsprobeBinary().judge_tensor(evidence, case)
        return not_compared(evidence, f"msprobe does not support {dtype} here")


@dataclass(frozen=True)
class MsprobeAccCheck:
    """The status column of acc_check."""

    name: str = "msprobe-acc-check"

    def judge_tensor(self, evidence: Evidence, case: Case) -> TensorFinding:
        strange = evidence.dtype.startswith("complex") or (evidence.exact and evidence.dtype not in _COMPARABLE)
        if strange and count_of(evidence) and "dropout" not in case.api:
            return failed(evidence, f"msprobe cannot compare {evidence.dtype}", math.inf)
        if finding := before_values(evidence, case):
            return finding
        return chain(evidence, "bench")


def device_ratio(mine: float, theirs: float, dtype: str) -> float:
    """An error in units of the trusted device's, which counts as at least ``LEAST_ERROR``. Numbers that are not finite
    are well where both are alike, and beyond any limit where not."""
    if not (math.isfinite(mine) and math.isfinite(theirs)):
        return 0.0 if _alike(mine, theirs) else math.inf
    return abs(mine) / max(abs(theirs), LEAST_ERROR[dtype])


def _alike(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def _not_for(evidence: Evidence, dtypes: tuple[str, ...], names: Iterable[str]) -> TensorFinding | None:
    if count_of(evidence) == 0:
        return not_compared(evidence, "an empty tensor is skipped")
    if evidence.dtype not in dtypes:
        return not_compared(evidence, f"the standard is for {', '.join(dtypes)}, not for {evidence.dtype}")
    return missing(evidence, names)
