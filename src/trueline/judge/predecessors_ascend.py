"""The rules of ptdbg_ascend and of the api_accuracy_checker, as their documents say.

``ptdbg``          "Cosine < 0.99 and MaxAbsError > 0.001 is recorded as not reaching accuracy, everything else as
                   reaching it" (its manual). Where one side is all zero the cosine is NaN there, which is not below
``ptdbg-2023``     what its code did besides: also below a cosine of 0.9, or above a largest error of 1
``precheck``       "the cosine with the benchmark is above 0.99, and float16 and bfloat16 pass the double-thousandth,
                   float32 the double-ten-thousandth standard" (its manual). The double rule with k: more than 1 - k of
                   the elements have a relative error below k.
``precheck-2023``  the chain that replaced it in December 2023: a cosine up to 0.99 fails; a largest absolute error
                   below 0.001 passes; then float16 and bfloat16 fail by the double hundredth and warn by the double
                   thousandth, float32 and float64 fail by the double thousandth and warn by the double ten-thousandth.
                   (In the code of that time the cosine was always 1, so that its first step never failed.)

``precheck-document``  the manual's rule with the manual's benchmark: float16 and bfloat16 against float32 (its FAQ 3),
                   float32 against the same precision on the benchmark's device

ptdbg compares two runs in the same dtype, so the candidate is held against the honest implementation; the precheck
compares with a benchmark of higher precision, so it is held against the gold. Integers and bools must be equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trueline.cases import Case, Evidence, TensorFinding
from trueline.judge.findings import (
    HALF,
    HUNDREDTH,
    SINGLE,
    TEN_THOUSANDTH,
    THOUSANDTH,
    cosine_names,
    cosine_of,
    count_of,
    dropout_finding,
    equal_finding,
    failed,
    missing,
    not_compared,
    off_share,
    passed,
    share_fails,
    share_names,
    share_words,
    warned,
)

COSINE = 0.99
LARGEST = 0.001


@dataclass(frozen=True)
class CheckPtdbg:
    """The rule of ptdbg's comparison; ``strict`` adds what only its code says."""

    name: str = "ptdbg"
    strict: bool = False

    def judge_tensor(self, evidence: Evidence, case: Case) -> TensorFinding:
        found = evidence.direct
        if found is None:
            return not_compared(evidence, "there is no honest result in the same dtype to compare with")
        if count_of(evidence) == 0:
            return not_compared(evidence, "an empty tensor cannot be compared")
        if unlike := found.nan_mismatch + found.infinity_mismatch:
            return failed(evidence, f"NaN or Inf in other places than in the reference ({unlike})", math.inf)
        one_is_zero = (found.candidate_norm == 0.0) is not (found.reference_norm == 0.0)
        cosine, largest = math.nan if one_is_zero else found.cosine, found.max_abs
        words = f"cosine {cosine:.6g}, largest absolute error {largest:.3g}"
        score = min((1.0 - cosine) / (1.0 - COSINE), largest / LARGEST)
        if cosine < COSINE and largest > LARGEST:
            return failed(evidence, f"{words}: below {COSINE} and above {LARGEST}", score)
        if self.strict and (cosine < 0.9 or largest > 1.0):
            return failed(evidence, f"{words}: below 0.9 or above 1", max(largest, (1.0 - cosine) / 0.1))
        return passed(evidence, words, 0.0 if math.isnan(score) else score)


def ptdbg_2023() -> CheckPtdbg:
    return CheckPtdbg("ptdbg-2023", strict=True)


@dataclass(frozen=True)
class Precheck:
    """The rule of the api_accuracy_checker's manual."""

    name: str = "precheck"
    wider: bool = True
    """Whether float32 and float64 are held against the gold too, or against their own precision."""

    def judge_tensor(self, evidence: Evidence, case: Case) -> TensorFinding:
        bench = "bench" if self.wider or evidence.dtype in HALF else "direct"
        if finding := before_values(evidence, case, bench):
            return finding
        limit = THOUSANDTH if evidence.dtype in HALF else TEN_THOUSANDTH
        cosine, words = cosine_of(evidence, bench)
        if cosine is not None and not cosine > COSINE:
            return failed(evidence, f"{words}; a cosine above {COSINE} is asked for", cosine_score(cosine))
        score = max(off_share(evidence, bench, limit), 0.0 if cosine is None else cosine_score(cosine))
        if share_fails(evidence, bench, limit):
            return failed(evidence, share_words(evidence, bench, limit), score)
        return passed(evidence, f"{words}; {share_words(evidence, bench, limit)}", score)


def precheck_document() -> Precheck:
    return Precheck("precheck-document", wider=False)


@dataclass(frozen=True)
class Precheck2023:
    """The chain of December 2023, which msprobe's acc_check still follows."""

    name: str = "precheck-2023"

    def judge_tensor(self, evidence: Evidence, case: Case) -> TensorFinding:
        if finding := before_values(evidence, case):
            return finding
        return chain(evidence, "bench")


def before_values(evidence: Evidence, case: Case, bench: str = "bench") -> TensorFinding | None:
    """What is settled before the values of a float tensor are looked at; None for a float tensor to judge by the
    numbers of this bench."""
    if count_of(evidence) == 0:
        return not_compared(evidence, "an empty tensor is skipped")
    if "dropout" in case.api:
        return dropout_finding(evidence, "bench")
    if evidence.exact:
        return equal_finding(evidence, "bench")
    if evidence.dtype not in (*HALF, *SINGLE):
        return not_compared(evidence, f"the rule says nothing of {evidence.dtype}")
    return missing(evidence, (*cosine_names(bench), f"{bench}_max_abs", *share_names(bench)))


def cosine_score(cosine: float) -> float:
    return math.inf if math.isnan(cosine) else (1.0 - cosine) / (1.0 - COSINE)


def chain(evidence: Evidence, reference: str, *, nan_passes: bool = True) -> TensorFinding:
    """Cosine, then the absolute shortcut, then the shares. ``nan_passes``: whether a cosine that is NaN lets the rest
    decide, as in the Ascend tools, or fails, as in PaddleAPEX."""
    cosine, words = cosine_of(evidence, reference)
    undecided = cosine is None or (nan_passes and math.isnan(cosine))
    if not undecided and cosine is not None and not cosine > COSINE:
        return failed(evidence, f"{words}; a cosine above {COSINE} is asked for", cosine_score(cosine))
    largest = evidence.numbers[f"{reference}_max_abs"]
    if largest < LARGEST:
        reason = f"the largest absolute error {largest:.3g} is below {LARGEST}, nothing else is looked at"
        return passed(evidence, reason, largest / LARGEST)
    half = evidence.dtype in HALF
    fails, warns = (HUNDREDTH, THOUSANDTH) if half else (THOUSANDTH, TEN_THOUSANDTH)
    score = off_share(evidence, reference, fails)
    if share_fails(evidence, reference, fails):
        return failed(evidence, share_words(evidence, reference, fails), score)
    if share_fails(evidence, reference, warns):
        return warned(evidence, share_words(evidence, reference, warns), score)
    return passed(evidence, share_words(evidence, reference, warns), score)
