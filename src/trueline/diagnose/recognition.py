"""Values that two programs both have, told by what they are: as many elements, the same sketch, the same statistics.

Sketches number elements in their logical order, so that a value is recognised in any shape, and not in another order.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from trueline.numerics.layout import sketch_distance
from trueline.store.trace import Trace

FEWEST = 8
"""Of fewer numbers than this, unrelated values may be alike."""
_EXACT = 1e-6
"""How near integers and flags must be."""


class Recognised:
    """The values of two traces that are the same: ``tokens`` gives a number to each, the same to those that are alike,
    and ``telling`` says which of them are too many numbers to be alike by chance."""

    def __init__(self, traces: tuple[Trace, Trace], values: tuple[Iterable[int], Iterable[int]], within: float) -> None:
        self.tokens: tuple[dict[int, int], dict[int, int]] = ({}, {})
        self.telling: tuple[set[int], set[int]] = (set(), set())
        self._within = within
        rows = [trace.statistics_rows(list(own)) for trace, own in zip(traces, values, strict=True)]
        groups: dict[int, list[tuple[float, int]]] = defaultdict(list)
        for tensor, row in rows[0].items():
            groups[int(row["count"])].append((float(row["norm"]), tensor))
        for group in groups.values():
            group.sort()
        for tensor, row in rows[1].items():
            self._find(tensor, row, groups.get(int(row["count"]), []), rows[0])

    def _find(self, tensor: int, row: Any, group: list[tuple[float, int]], others: dict[int, Any]) -> None:
        norm = float(row["norm"])
        if not math.isfinite(norm):
            return
        slack = self._within * norm + 1e-30
        first = int(np.searchsorted([one[0] for one in group], norm - slack))
        for size, other in group[first:]:
            if size > norm + slack:
                break
            if self._alike(others[other], row):
                self._join(other, tensor, row)

    def _alike(self, left: Any, right: Any) -> bool:
        for name in ("nan", "positive_infinity", "negative_infinity"):
            if left[name] != right[name]:
                return False
        distance = sketch_distance(left["sketch"], right["sketch"])
        if not distance <= self._within:  # NaN where there is no sketch
            return False
        largest = max(abs(float(left["minimum"])), abs(float(left["maximum"])))
        ends = max(abs(float(left[name]) - float(right[name])) for name in ("minimum", "maximum"))
        return ends <= max(16.0 * self._within, _EXACT) * largest

    def _join(self, left: int, right: int, row: Any) -> None:
        known = self.tokens[0].get(left, self.tokens[1].get(right, left))
        self.tokens[0].setdefault(left, known)
        self.tokens[1].setdefault(right, known)
        if int(row["count"]) >= FEWEST and row["minimum"] != row["maximum"]:
            self.telling[0].add(left)
            self.telling[1].add(right)
