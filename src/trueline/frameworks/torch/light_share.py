"""Which steps are put on a tape, so that the watch stays within its share of the program's time.

In the others the program runs without our mode, and only what it gives away is looked at. What a call on the tape
costs is measured: one in some is timed, and what torch needs to ask a mode at all is timed once. As long as numbers
grow quickly, or one has just been bad, every step is on the tape.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from trueline.frameworks.light import LooksArray, Sink, is_bad
from trueline.frameworks.torch.unseen import Alone, Unseen

FIRST = 3
"""So many steps are on the tape before any is left out."""
ALERT = 64
"""So many steps are all on the tape once something is odd."""
GROWTH = 4.0
"""By so many powers of two the largest number given away must exceed the usual one."""
MOST_LEFT_OUT = 32
_ASKED = 64


class Share:
    """Decides step by step."""

    def __init__(self, budget: float) -> None:
        self.every = 1
        """One step in so many is on the tape."""
        self.dispatch = 0.0
        """Seconds that torch needs to ask our mode about a call."""
        self._budget = budget
        self._costs: deque[float] = deque(maxlen=5)
        self._taped = 0
        self._left_out = 0
        self._alert = 0
        self._usual = math.nan

    def measure(self, mode: Any) -> None:
        """Times what it takes to ask our mode; the program's own modes, which would be asked as well, hear nothing."""
        with Unseen():
            one = torch.zeros(())
        with Alone():
            not_asked = _seconds(one.dim)
            torch._C._push_on_torch_function_stack(mode)
            try:
                asked = _seconds(one.dim)
            finally:
                torch._C._pop_torch_function_stack()
        self.dispatch = max(0.0, asked - not_asked)

    def ended(self, calls: int, spent: int, seconds: float) -> None:
        """A step that was on the tape has ended: so many calls, which took us so many nanoseconds."""
        self._taped += 1
        cost = spent * 1e-9 + calls * self.dispatch
        if seconds > cost:
            self._costs.append(cost / (seconds - cost))
        self.every = 1
        if self._taped >= FIRST and self._costs:
            self.every = min(MOST_LEFT_OUT, max(1, math.ceil(statistics.median(self._costs) / self._budget)))

    def wants_next(self) -> bool:
        """Whether the next step is to be put on the tape."""
        if self._alert > 0:
            self._alert -= 1
            self._left_out = 0
            return True
        self._left_out += 1
        if self._left_out < self.every:
            return False
        self._left_out = 0
        return True

    def hear(self, rows: LooksArray) -> None:
        """What the program gave away in a step."""
        sinks = rows["key"] % 8
        given = rows[(sinks == Sink.LOSS) | (sinks == Sink.GRADIENT)]
        if not len(given):
            return
        if bool(is_bad(given).any()):
            self._alert = ALERT
            return
        largest = float(np.nanmax(given["largest"], initial=0.0))
        if not largest > 0:
            return
        size = math.log2(largest)
        if size > self._usual + GROWTH:
            self._alert = ALERT
        self._usual = size if math.isnan(self._usual) else 0.9 * self._usual + 0.1 * size


def _seconds(call: Callable[[], Any]) -> float:
    """The least time that a call took."""
    least = math.inf
    for _ in range(5):
        begun = time.perf_counter()
        for _ in range(_ASKED):
            call()
        least = min(least, time.perf_counter() - begun)
    return least / _ASKED
