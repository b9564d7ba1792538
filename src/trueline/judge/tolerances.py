"""``allclose``, ``assert-close`` and ``bitwise``: the candidate against the honest implementation in its dtype.

``allclose``      ``|candidate - honest| <= atol + rtol * |honest|`` for every element, by default with the 1e-5 and
                  1e-8 of torch and numpy: ``allclose(rtol=1e-3, atol=1e-3)``. NaN is equal to nothing, unless
                  ``equal_nan=true``
``assert-close``  the same with the tolerances of ``torch.testing.assert_close`` for each dtype
``bitwise``       equal to the last bit; NaN are alike whatever their payload

The comparison is made in float64, so that the rounding of the comparison itself decides nothing. Which tolerances are
asked for need not be known when the tensors are measured (see ``numerics.envelope``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trueline.cases import Case, Evidence, TensorFinding
from trueline.errors import UsageError
from trueline.judge.findings import count_of, failed, missing, not_compared, passed
from trueline.numerics.envelope import from_numbers, needed_atol

ASSERT_CLOSE = {  # dtype: (rtol, atol); everything else must be equal
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex32": (1e-3, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


@dataclass(frozen=True)
class Allclose:
    """``torch.allclose`` with any tolerances."""

    rtol: float = 1e-5
    atol: float = 1e-8
    equal_nan: bool = False

    def __post_init__(self) -> None:
        for name, value in (("rtol", self.rtol), ("atol", self.atol)):
            if not value >= 0.0:
                raise UsageError(f"{name} must be a number that is not negative, got {value}")

    @property
    def name(self) -> str:
        if self == Allclose():
            return "allclose"
        nan = ", equal_nan=true" if self.equal_nan else ""
        return f"allclose(rtol={self.rtol:g}, atol={self.atol:g}{nan})"

    def judge_tensor(self, evidence: Evidence, case: Case) -> TensorFinding:
        return close_finding(evidence, self.rtol, self.atol, self.equal_nan)


@dataclass(frozen=True)
class AssertClose:
    """``torch.testing.assert_close`` with its defaults."""

    equal_nan: bool = False

    @property
    def name(self) -> str:
        return "assert-close(equal_nan=true)" if self.equal_nan else "assert-close"

    def judge_tensor(self, evidence: Evidence, case: Case) -> TensorFinding:
        rtol, atol = ASSERT_CLOSE.get(evidence.dtype, (0.0, 0.0))
        return close_finding(evidence, rtol, atol, self.equal_nan)


@dataclass(frozen=True)
class Bitwise:
    """Equal to the last bit."""

    name: str = "bitwise"

    def judge_tensor(self, evidence: Evidence, case: Case) -> TensorFinding:
        if finding := _without_values(evidence):
            return finding
        if finding := missing(evidence, ("direct_bits_differ",)):
            return finding
        differ = int(evidence.numbers["direct_bits_differ"])
        if differ == 0:
            return passed(evidence, "equal to the last bit", 0.0)
        return failed(evidence, f"{differ:,} of {count_of(evidence):,} elements differ", math.inf)


def close_finding(evidence: Evidence, rtol: float, atol: float, equal_nan: bool = False) -> TensorFinding:
    """Whether every element is within the tolerances."""
    if finding := _without_values(evidence):
        return finding
    found = evidence.direct
    assert found is not None
    if unlike := found.nan_mismatch + found.infinity_mismatch:
        return failed(evidence, f"NaN or Inf in other places than in the honest result ({unlike:,})", math.inf)
    if finding := missing(evidence, ("direct_unequal",)):
        return finding
    if not equal_nan and (both := evidence.numbers.get("direct_both_nan", 0.0)):
        return failed(evidence, f"NaN is equal to nothing, and there are {int(both):,} on both sides", math.inf)
    corners = from_numbers(evidence.numbers, "direct")
    needed = max(needed_atol(corners, rtol), 0.0)
    words = f"with rtol {rtol:g} it needs atol {needed:.3g}, allowed is {atol:g}"
    score = max((_score(error, atol + rtol * size) for size, error in corners), default=0.0)
    return passed(evidence, words, score) if needed <= atol else failed(evidence, words, score)


def _without_values(evidence: Evidence) -> TensorFinding | None:
    if evidence.direct is None:
        return not_compared(evidence, "there is no honest result in the same dtype to compare with")
    if count_of(evidence) == 0:
        return passed(evidence, "empty, as the honest result is", 0.0)
    return None


def _score(needed: float, allowed: float) -> float:
    if needed <= 0.0:
        return 0.0
    return needed / allowed if allowed else math.inf
