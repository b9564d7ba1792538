"""The tensors of one row of tolerance statistics, as they add up: counts, the worst element, and the hull of errors
from which tolerances are recommended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from trueline.campaign.tolerance_math import coverage_of, rounded_up, tightest
from trueline.cases import Evidence
from trueline.dtypes import DTYPES
from trueline.numerics.envelope import Corner, corners_of, from_numbers
from trueline.ops.binding import signature
from trueline.ops.mapping.rows import row_for
from trueline.records import Measurement
from trueline.report.tolerance_rows import METRICS, Recommended, Worst


def errors_of(found: Measurement, dtype: str) -> tuple[float, float, float, float]:
    """The errors of a tensor, in the order of METRICS; NaN for what it has none of: nothing was finite on both sides,
    or the dtype has no last place."""
    kind = DTYPES.get(dtype)
    if found.max_abs != found.max_abs:
        return (math.nan,) * 4
    if kind is None or kind.is_exact:
        return found.max_abs, found.max_rel, math.nan, math.nan
    unit = kind.epsilon * found.reference_max
    eps = 0.0 if found.max_abs == 0.0 else found.max_abs / unit if unit > 0.0 else math.inf
    return found.max_abs, found.max_rel, found.max_ulp, eps


@lru_cache(maxsize=1 << 16)
def output_name(api: str, path: str) -> str:
    """The path of an output or of an input, the latter by the name of its parameter, so that what one config passes by
    position and another by keyword is the same."""
    head, *rest = path.split(".")
    if head == "kwargs" and rest:
        return ".".join(rest)
    if head != "args" or not rest[0].isdigit():
        return path
    row = row_for(api) if api.startswith("paddle.") else None
    names = [name for name, _ in signature(api)] if row is None else list(row.names)
    place = int(rest[0])
    return ".".join([names[place], *rest[1:]]) if place < len(names) else path


@dataclass(slots=True)
class Group:
    """What adds up over the tensors of one row."""

    api: str
    dtype: str
    direction: str
    path: str
    prefix: str
    tensors: int = 0
    configs: int = 0
    equal: int = 0
    wrong: int = 0
    nan_tensors: int = 0
    nan_elements: int = 0
    infinity_tensors: int = 0
    infinity_elements: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    worst_error: float = -1.0
    worst: Worst | None = None
    right: int = 0
    corners: list[Corner] = field(default_factory=list)
    logarithms: float = 0.0
    scaled: int = 0

    def add(
        self, evidence: Evidence, found: Measurement, errors: Sequence[float], config: str, *, wrong: bool
    ) -> None:
        """One tensor more. ``wrong`` ones count, and recommend nothing."""
        self.tensors += 1
        self.wrong += wrong
        self.equal += found.equal == found.count
        self.nan_tensors += found.nan_mismatch > 0
        self.nan_elements += found.nan_mismatch
        self.infinity_tensors += found.infinity_mismatch > 0
        self.infinity_elements += found.infinity_mismatch
        for metric, value in zip(METRICS, errors, strict=True):
            if not math.isnan(value):
                self.counts[metric] = self.counts.get(metric, 0) + 1
        error = errors[0] if math.isnan(errors[3]) else errors[3]
        if error > self.worst_error:
            self.worst_error = error
            self.worst = _worst_of(evidence, found, config)
        if not wrong:
            self._widen(evidence, found)

    def _widen(self, evidence: Evidence, found: Measurement) -> None:
        """Takes the errors of a tensor into the hull."""
        self.right += 1
        size = found.reference_norm / math.sqrt(found.count)
        if size > 0.0 and math.isfinite(size):
            self.logarithms += math.log(size)
            self.scaled += 1
        if not found.max_abs > 0.0:
            return
        # Where no corners were kept, the largest error may have been that of the smallest element.
        corners = from_numbers(evidence.numbers, "direct") or [(0.0, found.max_abs)]
        points = np.array(corners, dtype=np.float64)
        self.corners = corners_of(points[:, 0], points[:, 1], self.corners)

    @property
    def scale(self) -> float:
        """The magnitude of a typical element: the geometric mean of the root mean squares of all tensors."""
        return math.exp(self.logarithms / self.scaled) if self.scaled else 1.0

    def recommended(self, margin: float, confidence: float) -> Recommended | None:
        """At least one rounding is allowed to floating-point types, whatever was seen; to exact ones nothing that was
        not seen."""
        if not self.right:
            return None
        rtol, atol = tightest(self.corners, self.scale)
        kind = DTYPES.get(self.dtype)
        if kind is not None and not kind.is_exact:
            rtol, atol = max(margin * rtol, kind.epsilon), margin * atol
        return Recommended(rounded_up(rtol), rounded_up(atol), self.right, coverage_of(self.right, confidence))


def _worst_of(evidence: Evidence, found: Measurement, config: str) -> Worst:
    place = np.unravel_index(found.worst, evidence.shape) if evidence.shape and found.worst >= 0 else ()
    return Worst(config, tuple(int(index) for index in place), found.worst_reference, found.worst_candidate)
