"""What can be said of errors of which a sample was seen: quantiles with intervals, and tolerances with a coverage.

Nothing is assumed of how errors are distributed. A quantile lies between two order statistics with a probability that
is binomial; and of all tensors, a share of at least ``(1 - confidence) ** (1 / n)`` stays below the largest of n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

from trueline.numerics.envelope import Corner, needed_atol

_MANY = 1000
"""From so many on the binomial is taken for normal: its tails cost more and say the same."""


def rank_of(share: float, count: int) -> int:
    """The place, from 1, of the value that a share of ``count`` sorted values does not exceed."""
    return min(count, max(1, math.ceil(share * count)))


@lru_cache(maxsize=4096)
def interval(share: float, count: int, confidence: float) -> tuple[int | None, int | None]:
    """The places between which the quantile of the population lies with at least this confidence; None for an end of
    which so few values say nothing. Half of the doubt is given to each end."""
    doubt = (1.0 - confidence) / 2
    if count > _MANY and count * min(share, 1 - share) > 10:
        return _normal_interval(share, count, doubt)
    below = _cumulative(share, count)
    # Fewer than k values lie below the quantile with probability P(B < k): the k-th bounds it where that is rare.
    low = max((place for place in range(1, count + 1) if below[place - 1] <= doubt), default=None)
    high = min((place for place in range(1, count + 1) if below[place - 1] >= 1 - doubt), default=None)
    return low, high


def _cumulative(share: float, count: int) -> list[float]:
    """P(B <= k) for k from 0 to count - 1, of B successes with this share in ``count`` trials."""
    found, total = [], 0.0
    logarithms = math.log(share), math.log1p(-share)
    for successes in range(count):
        chance = math.lgamma(count + 1) - math.lgamma(successes + 1) - math.lgamma(count - successes + 1)
        total += math.exp(chance + successes * logarithms[0] + (count - successes) * logarithms[1])
        found.append(min(total, 1.0))
    return found


def _normal_interval(share: float, count: int, doubt: float) -> tuple[int | None, int | None]:
    reach = NormalDist().inv_cdf(1 - doubt) * math.sqrt(count * share * (1 - share))
    low, high = math.floor(share * count - reach), math.ceil(share * count + reach) + 1
    return (low if low >= 1 else None), (high if high <= count else None)


def coverage_of(count: int, confidence: float) -> float:
    """The share of all tensors that, with this confidence, at least stays below the largest of ``count``."""
    return math.pow(1.0 - confidence, 1.0 / count) if count else 0.0


def tightest(corners: Sequence[Corner], scale: float) -> tuple[float, float]:
    """The rtol and atol that hold for all corners (see ``numerics.envelope``) and are least for an element of magnitude
    ``scale``. The sum ``rtol * scale + atol`` is convex and bends where the deciding corner changes."""
    if not corners:
        return 0.0, 0.0
    slopes = [0.0]
    before = (0.0, 0.0)
    for corner in corners:
        if corner[0] > before[0]:
            slopes.append((corner[1] - before[1]) / (corner[0] - before[0]))
        before = corner
    best = min(slopes, key=lambda slope: slope * scale + max(0.0, needed_atol(corners, slope)))
    return best, max(0.0, needed_atol(corners, best))


def rounded_up(value: float, digits: int = 2) -> float:
    """The next number of so few digits that is not less."""
    if value <= 0.0 or not math.isfinite(value):
        return value
    step = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    found = float(f"{math.ceil(value / step * (1 - 1e-12)) * step:.{digits}g}")
    return found if found >= value else float(f"{found + step:.{digits}g}")

