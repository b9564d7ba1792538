"""Standards of the modes of a check that do not ask whether numbers are right.

Ran          target-only: it ran; what came out that is not finite is told. Nothing is compared
Repeatable   stability: every run gave the same bits
Collected    tolerance: errors are collected, none is judged
"""

from __future__ import annotations

import math

import numpy as np

from trueline.cases import Case, Evidence, TensorFinding
from trueline.records import Verdict

_REFERENCE = "reference "


class Ran:
    """Nothing is compared. NaN and infinities that the inputs do not explain are to be looked at."""

    name = "ran"
    needs_no_reference = True

    def judge_tensor(self, evidence: Evidence, case: Case) -> TensorFinding:
        numbers = evidence.numbers
        if "elements" not in numbers:
            return TensorFinding(evidence, Verdict.NOT_COMPARED, "was not run by itself (mode target-only)")
        bad = numbers.get("nan", 0.0) + numbers.get("infinity", 0.0)
        if not bad or numbers.get("given_not_finite"):
            return TensorFinding(evidence, Verdict.PASS, "it ran; nothing was compared")
        kinds = [f"{numbers[name]:.0f} {word}" for name, word in _KINDS if numbers.get(name)]
        place = _place(evidence, numbers["not_finite_at"])
        reason = f"{' and '.join(kinds)} of {numbers['elements']:.0f} elements, the first at {place}, of finite inputs"
        return TensorFinding(evidence, Verdict.WARN, reason)


_KINDS = (("nan", "NaN"), ("infinity", "infinite"))


class Repeatable:
    """Every run with the same inputs must give the same bits. A reference that does not is to be looked at."""

    name = "repeatable"

    def judge_tensor(self, evidence: Evidence, case: Case) -> TensorFinding:
        numbers = evidence.numbers
        if "repeats" not in numbers:
            return TensorFinding(evidence, Verdict.NOT_COMPARED, "was not run repeatedly (mode stability)")
        runs, differs = numbers["repeats"], numbers["differs"]
        if not differs:
            return TensorFinding(evidence, Verdict.PASS, f"the same bits in {runs:.0f} runs", 0.0)
        place = _place(evidence, numbers["differs_at"])
        values = f"{numbers['first_value']:.9g} and then {numbers['other_value']:.9g}"
        reason = (
            f"run {numbers['differs_in']:.0f} of {runs:.0f} differs from the first in {differs:.0f} of "
            f"{math.prod(evidence.shape)} elements, the first at {place}: {values}"
        )
        verdict = Verdict.WARN if evidence.path.startswith(_REFERENCE) else Verdict.FAIL
        return TensorFinding(evidence, verdict, reason, math.inf)


class Collected:
    """Errors are told and none is judged; what is not of the right dtype or shape has no error, and is wrong."""

    name = "collected"

    def judge_tensor(self, evidence: Evidence, case: Case) -> TensorFinding:
        found = evidence.direct or evidence.gold
        if found is None:
            return TensorFinding(evidence, Verdict.NOT_COMPARED, "nothing was measured")
        against = "the reference" if evidence.direct is not None else "the gold"
        reason = f"largest error against {against} {found.max_abs:.3g}, relative {found.max_rel:.3g}; not judged"
        if odd := found.nan_mismatch + found.infinity_mismatch:
            reason += f"; {odd} NaN or infinities on one side only"
        return TensorFinding(evidence, Verdict.PASS, reason)


def _place(evidence: Evidence, flat: float) -> str:
    if not evidence.shape:
        return "[]"
    return str([int(index) for index in np.unravel_index(int(flat), evidence.shape)])
