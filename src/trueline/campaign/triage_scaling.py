"""How the time and the memory of a case grow with its size, by doing parts of it that get larger.

The largest size among the dimensions of a case is made smaller wherever it stands, in tensors and arguments. Parts are
done from small to large, short ones several times, until one takes too long; the last of them give the power of growth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from trueline.campaign.shrink import elements, resized
from trueline.cases import Case, CaseMeasured, Status
from trueline.groups import Timing
from trueline.replay.reduce import Reduction

Measure = Callable[[Reduction], CaseMeasured | None]
"""Does what is left of a case; None where that cannot be done."""

SLOW_SECONDS = 3.0
"""No larger part is tried after one that took as long."""
_LEAST_SECONDS = 2e-3
"""Shorter times are those of the overhead of a call."""
_SMALLEST = 16
_POINTS = 4
_AGAIN = 2
"""Short parts are done so many times more, and the shortest time counts: others are at work on the machine as well."""
_MOST_STEPS = 10


def scaled(case: Case, size: int, left: int) -> Reduction:
    """A case in which ``left`` is left of the dimensions of a size."""
    cuts = {
        spec.path: tuple((0, left if found == size else found) for found in spec.shape)
        for spec in case.tensors
        if size in spec.shape
    }
    return Reduction(resized(case.arguments, size, left), cuts, within=True)


def parts(case: Case) -> list[Reduction]:
    """Parts of a case, from small to large, each twice the one before; none where all its dimensions are small."""
    size = max((size for spec in case.tensors for size in spec.shape), default=0)
    steps = max(0, int(math.log2(size / _SMALLEST))) if size > _SMALLEST else 0
    return [scaled(case, size, size >> step) for step in range(min(steps, _MOST_STEPS), 0, -1)]


def time_parts(case: Case, measure: Measure, *, slow: float = SLOW_SECONDS) -> tuple[list[Timing], Status | None]:
    """Times of growing parts, and how the first part that did not return ended, None where all did."""
    timings: list[Timing] = []
    for part in parts(case):
        first = measure(part)
        if first is None:
            continue
        if first.candidate.status is not Status.RETURNED:
            return timings, first.candidate.status
        more = [measure(part) for _ in range(_AGAIN if first.candidate.seconds < slow / 8 else 0)]
        done = [first, *(one for one in more if one is not None and one.candidate.status is Status.RETURNED)]
        target = min(one.candidate.seconds for one in done)
        reference = min((one.reference.seconds for one in done if one.reference is not None), default=0.0)
        timings.append(Timing(elements(case, part), target, reference))
        if target > slow / 4:  # the next one may take four times as long, or more
            break
    return timings, None


def exponent_of(timings: Sequence[Timing], side: Callable[[Timing], float]) -> float | None:
    """The power of the number of elements by which the time of a side grows at the end; None where the times are too
    short to tell."""
    points = [(math.log(one.elements), math.log(side(one))) for one in timings if side(one) >= _LEAST_SECONDS]
    points = points[-_POINTS:]
    if len(points) < 3:
        return None
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else None


def expected_seconds(timings: Sequence[Timing], exponent: float, whole: int) -> float:
    """How long the whole case will take, going on like this."""
    last = timings[-1]
    return last.target * float(whole / last.elements) ** exponent
