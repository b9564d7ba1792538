"""Looks of a watch -> points of its log."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trueline.frameworks.light import LookName, StepLooks
from trueline.store.watch_log import POINT, Points, Series, WatchLog

TOGETHER = 32
"""Steps, or parts of steps, whose looks are turned into points at a time: one by one would cost ten times as much."""


class PointMaker:
    """Turns looks into points; the names of a watcher are numbered once."""

    def __init__(self, log: WatchLog) -> None:
        self._log = log
        self._waiting: list[StepLooks] = []
        self._tables: dict[int, tuple[Sequence[LookName], np.ndarray[tuple[int], np.dtype[np.int64]]]] = {}

    def add(self, step: StepLooks) -> None:
        if len(step.looks):
            self._waiting.append(step)
        if len(self._waiting) >= TOGETHER:
            self.flush()

    def flush(self) -> None:
        """Puts everything that waits into the log."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._log.add(self._points(waiting))

    def _points(self, steps: Sequence[StepLooks]) -> Points:
        looks = np.concatenate([step.looks for step in steps])
        points = np.zeros(len(looks), POINT)
        points["series"] = np.concatenate([self._series(step.names)[step.looks["name"]] for step in steps])
        points["step"] = np.repeat([step.step for step in steps], [len(step.looks) for step in steps])
        with np.errstate(divide="ignore", invalid="ignore"):
            count = np.maximum(looks["count"], 1)
            largest = looks["largest"]
            nothing = np.isnan(largest) & (looks["zeros"] == looks["count"])
            points["size"] = np.where(nothing, -np.inf, np.log2(largest))
            for name in ("zeros", "subnormals", "saturated"):
                points[name] = looks[name] / count
        points["nan"] = looks["nan"]
        points["infinite"] = looks["positive_infinity"] + looks["negative_infinity"]
        return points

    def _series(self, names: Sequence[LookName]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The number of the series of each name of a watcher."""
        _, numbers = self._tables.get(id(names), (names, np.empty(0, dtype=np.int64)))
        if len(numbers) < len(names):
            fresh = [self._log.number(_series_of(name)) for name in names[len(numbers) :]]
            numbers = np.concatenate([numbers, np.array(fresh, dtype=np.int64)])
            self._tables[id(names)] = (names, numbers)  # the list is held, so that its identity stays its own
        return numbers


def _series_of(name: LookName) -> Series:
    return Series(
        name.api, name.nth, name.phase.value, name.role.value, name.module, name.module_class, name.context, name.path,
        name.dtype,
    )  # fmt: skip
