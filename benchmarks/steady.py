"""How fast a campaign is in steady state, from when its cases ended and how long workers were busy with them.

Four rates, all of config lines a second and core, each worker having one core:

    middle      while the middle four fifths of the lines end: without the first, which are the longest (a campaign
                begins with these), and without the end, when workers wait for each other
    all         while all workers work and lines still wait: from the first moment at which as many cases as there are
                workers are being worked at, to the moment at which the last case is begun. A case counts with the share
                of it that lies between.
    busy        of all seconds that workers were busy with cases, start to end
    ordinary    the same without the lines of which the target's own kernels, forward and backward, take more than
                ``SLOW`` seconds: these lines are named, with what each took
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SLOW = 1.0
_MOST_NAMED = 10
_EDGE = 10
"""One line in so many, on either side, is none of the middle."""


@dataclass(frozen=True, slots=True)
class Span:
    """One case: when its end was heard of, how long a worker was busy with it, how long of that the target itself."""

    ended: float
    worked: float
    target: float
    line: str

    @property
    def begun(self) -> float:
        return self.ended - self.worked


def window(spans: Sequence[Span], workers: int) -> tuple[float, float]:
    """From when all are at work to when nothing waits any more."""
    steps = sorted([(span.begun, 1) for span in spans] + [(span.ended, -1) for span in spans])
    at_work, start = 0, steps[0][0]
    for moment, step in steps:
        at_work += step
        if at_work >= workers:
            start = moment
            break
    return start, max(span.begun for span in spans)


def middle_rate(spans: Sequence[Span], workers: int) -> float:
    """Of the lines without the first and the last tenth, by when they ended."""
    ends = sorted(span.ended for span in spans)
    edge = len(ends) // _EDGE
    first, last = ends[edge - 1] if edge else ends[0], ends[-1 - edge]
    return (len(ends) - 2 * edge) / (last - first) / workers if last > first else 0.0


def share_between(span: Span, start: float, end: float) -> float:
    """How much of a case lies between two moments."""
    if span.worked <= 0.0:
        return 1.0 if start <= span.ended <= end else 0.0
    return max(0.0, min(span.ended, end) - max(span.begun, start)) / span.worked


def rates(spans: Sequence[Span], workers: int) -> dict[str, Any]:
    """The rates, with what they are made of."""
    worked = [span for span in spans if span.worked > 0.0]
    start, end = window(worked, workers)
    slow = sorted((span for span in worked if span.target > SLOW), key=lambda span: -span.worked)
    busy, busy_slow = sum(span.worked for span in worked), sum(span.worked for span in slow)
    counted = sum(share_between(span, start, end) for span in worked)
    return {
        "middle": middle_rate(worked, workers),
        "all": counted / (end - start) / workers if end > start else 0.0,
        "all seconds": end - start,
        "busy": len(worked) / busy,
        "busy seconds": busy,
        "ordinary": (len(worked) - len(slow)) / (busy - busy_slow) if busy > busy_slow else 0.0,
        "slow": [
            {"line": span.line, "target seconds": span.target, "worker seconds": span.worked}
            for span in slow[:_MOST_NAMED]
        ],
        "slow lines": len(slow),
        "ended their worker": len(spans) - len(worked),
    }
