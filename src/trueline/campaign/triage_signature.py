"""What a failed case looks like, from the numbers that were kept of it. Pure: nothing is executed.

The tensor that is most wrong speaks for the case, outputs before gradients. Its errors tell much without the tensors:
a constant factor leaves the direction of a tensor as it was, a constant offset makes all errors equal to their mean,
one bad element makes the largest error the sum of all.
"""

from __future__ import annotations

import math
import re

from trueline.cases import CaseResult, Ending, Evidence, TensorFinding
from trueline.dtypes import dtype_named
from trueline.groups import Look, Signature
from trueline.ops.names import canonical
from trueline.records import Measurement, Verdict
from trueline.report.check_groups import stripped

FAILURES = (
    Ending.MISMATCH,
    Ending.TARGET_RAISES,
    Ending.CRASHED,
    Ending.TIMED_OUT,
    Ending.OUT_OF_MEMORY,
    Ending.REFERENCE_RAISES,
    Ending.HARNESS_ERROR,
    Ending.UNSUPPORTED,
)
"""The endings that are grouped."""

_PLAIN = {
    Ending.TARGET_RAISES: Look.RAISES,
    Ending.REFERENCE_RAISES: Look.REFERENCE_RAISES,
    Ending.CRASHED: Look.CRASH,
    Ending.TIMED_OUT: Look.TIMEOUT,
    Ending.OUT_OF_MEMORY: Look.MEMORY,
    Ending.HARNESS_ERROR: Look.TOOL,
    Ending.UNSUPPORTED: Look.MISSING_KERNEL,
}
_ANY = "*"
_MOST_DETAIL = 120
_ALIKE = 0.02
"""Errors are all alike where their spread is below this share of them."""
_FEW_SHARE, _FEW_MOST = 0.05, 16
_NARROWER = {"float64": (1e-11, 3e-5), "complex128": (1e-11, 3e-5), "float32": (1e-4, 8e-3), "complex64": (1e-4, 8e-3)}
"""Relative errors, in the L2 norm, that computing in float32 inside float64, or in half precision inside float32,
leaves in most tensors; some cancel a little."""
_DIGITS_OF_SINGLE = 24
_ROUNDING_ULP = 1000.0

_ANY_KERNEL = re.compile(r"no kernel \w+")


def signature_of(result: CaseResult) -> Signature | None:
    """The signature of a case that failed; None where it did not."""
    ending = result.ending
    if ending not in FAILURES:
        return None
    family, dtype = canonical(result.case.api), dtype_of(result)
    if ending is Ending.MISMATCH:
        return _of_numbers(result, family, dtype)
    reason = result.measured.skipped or result.measured.candidate.reason
    if ending is Ending.REFERENCE_RAISES and result.measured.reference is not None:
        reason = result.measured.reference.reason
    if ending in (Ending.TIMED_OUT, Ending.OUT_OF_MEMORY):
        return Signature(family, dtype, "", _PLAIN[ending])
    if ending is Ending.UNSUPPORTED:  # one hole in a library, whatever is asked of it
        hole = _ANY_KERNEL.sub("no kernel", reason.partition(";")[0])
        return Signature(_ANY, dtype, "", Look.MISSING_KERNEL, stripped(hole)[:_MOST_DETAIL])
    return Signature(family, dtype, "", _PLAIN[ending], stripped(reason)[:_MOST_DETAIL])


def dtype_of(result: CaseResult) -> str:
    """The dtype that a case is about: of the wrong tensor, else the coarsest floating one among its inputs."""
    finding = worst_finding(result)
    if finding is not None:
        return finding.evidence.dtype
    kinds = [dtype_named(spec.dtype) for spec in result.case.tensors]
    floats = [kind for kind in kinds if not kind.is_exact]
    if floats:
        return min(floats, key=lambda kind: kind.digits).name
    return kinds[0].name if kinds else ""


def worst_finding(result: CaseResult) -> TensorFinding | None:
    """The tensor that is most wrong, outputs before gradients: a wrong output makes wrong gradients."""
    wrong = [finding for finding in result.findings if finding.verdict >= Verdict.FAIL]
    outputs = [finding for finding in wrong if finding.evidence.part == "output"]
    return max(outputs or wrong, key=lambda finding: finding.score or 0.0, default=None)


def _of_numbers(result: CaseResult, family: str, dtype: str) -> Signature:
    finding = worst_finding(result)
    assert finding is not None, "a mismatch has a tensor that fails"
    evidence = finding.evidence
    direction = "backward" if evidence.part == "gradient" else "forward"
    look, detail = look_of(evidence)
    return Signature(family, dtype, direction, look, detail)


def look_of(evidence: Evidence) -> tuple[Look, str]:
    """What the errors of a tensor look like, and what there is to say about them."""
    if evidence.structure:
        missing = evidence.part == "gradient" and "missing" in evidence.structure
        return (Look.NO_GRADIENT if missing else Look.STRUCTURE), stripped(evidence.structure)[:_MOST_DETAIL]
    measurement = evidence.gold or evidence.direct
    if measurement is None or not measurement.count:
        return Look.GROSS, "no numbers were kept"
    if measurement.nan_mismatch or measurement.infinity_mismatch:
        return Look.NOT_FINITE, "NaN" if measurement.nan_mismatch else "infinity"
    if evidence.exact:
        share = (measurement.count - measurement.equal) / measurement.count
        return Look.EXACT, "most of them" if share > 0.5 else "some of them"
    return _look_of_errors(measurement, evidence.dtype)


def _look_of_errors(measurement: Measurement, dtype: str) -> tuple[Look, str]:
    size = measurement.normalized
    low, high = _NARROWER.get(dtype, (math.inf, 0.0))
    if dtype_named(dtype).digits > _DIGITS_OF_SINGLE and low <= size <= high:
        return Look.NARROWER, "float32"
    bad = bad_elements(measurement)
    if measurement.count >= 8 and bad <= min(_FEW_MOST, max(1.5, _FEW_SHARE * measurement.count)):
        return (Look.ONE_ELEMENT if bad < 1.5 else Look.FEW_ELEMENTS), ""
    factor = factor_of(measurement)
    if factor is not None:
        return Look.FACTOR, f"times {_rounded(factor)}"
    offset = offset_of(measurement)
    if offset is not None:
        return Look.OFFSET, f"plus {offset:.2g}"
    if low <= size <= high:
        return Look.NARROWER, "half precision"
    if measurement.max_ulp <= _ROUNDING_ULP:
        return Look.ROUNDING, ""
    return Look.GROSS, ""


def bad_elements(measurement: Measurement) -> float:
    """How many elements carry the errors, at the least: the sum of all errors in units of the largest."""
    if not measurement.max_abs > 0.0:
        return float(measurement.count)
    return measurement.mean_abs * measurement.count / measurement.max_abs


def factor_of(measurement: Measurement) -> float | None:
    """By what all elements were multiplied; None where that is not what happened."""
    if not (measurement.reference_norm > 0.0 and math.isfinite(measurement.candidate_norm)) or measurement.count < 4:
        return None
    sign = 1.0 if measurement.cosine >= 0.0 else -1.0
    factor = sign * measurement.candidate_norm / measurement.reference_norm
    apart = abs(factor - 1.0)
    if not apart > 1e-6 or not factor:
        return None
    # What is left of the error when the factor is taken out: |c - f r| / |r|, from norms and cosine.
    left = abs(factor) * math.sqrt(max(0.0, 2.0 * (1.0 - abs(measurement.cosine))))
    return factor if left <= _ALIKE * apart else None


def offset_of(measurement: Measurement) -> float | None:
    """What was added to all elements; None where that is not what happened."""
    bias = abs(measurement.bias)
    if measurement.count < 4 or not bias > 0.0:
        return None
    alike = measurement.max_abs - bias <= _ALIKE * bias and measurement.rmse - bias <= _ALIKE * bias
    return measurement.bias if alike else None


def _rounded(factor: float) -> str:
    """A factor with as many digits as tell it from 1."""
    apart = abs(factor - 1.0)
    digits = 2 if apart >= 0.1 else min(9, 1 - math.floor(math.log10(apart)))
    return f"{factor:.{digits}f}"
