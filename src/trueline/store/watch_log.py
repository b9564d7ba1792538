"""What a watch keeps of every call over thousands of steps: how near its numbers came to the limits of their dtype.

A **Series** is one tensor of one call, step after step; a **point** is one look at it. The log is a journal of checked
frames (``watch.bin`` in the folder of a rank), so a kill costs at most the frame that was being written:

    N   series: [[number, api, nth, phase, role, module, class, context, path, dtype, source], ...]
    P   rows of ``POINT``
    E   something that happened, as JSON

Its size is bounded. When there are too many points, the older ones of each series are thinned out, evenly over their
steps, and the file is written anew; the newest are all there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trueline.errors import CorruptRunError
from trueline.store.interrupts import shielded
from trueline.store.journal import JournalWriter, read_frames

WATCH_FILE = "watch.bin"
MOST_POINTS = 128
"""Of each series on the average, before the older ones are thinned out."""
LEAST_POINTS = 1 << 16
"""In all; a log with fewer is left alone."""
RECENT = 64
"""The newest points of each series, which lie apart for those who look for trends while the program runs."""

POINT = np.dtype(
    [
        ("series", "<i4"),
        ("step", "<i4"),
        ("size", "<f4"),
        ("zeros", "<f4"),
        ("subnormals", "<f4"),
        ("saturated", "<f4"),
        ("nan", "<i8"),
        ("infinite", "<i8"),
    ]
)
"""``size`` is the base-2 logarithm of the largest finite magnitude, -inf where all is zero, NaN where it is not known.
``zeros``, ``subnormals`` and ``saturated`` are shares of the elements; ``nan`` and ``infinite`` are counts."""

Points = np.ndarray[Any, np.dtype[np.void]]


@dataclass(frozen=True, slots=True)
class Series:
    """Which tensor of which call a series is about; ``source`` is a line of the program, empty where it is unknown."""

    api: str
    nth: int
    phase: str
    role: str
    module: str
    module_class: str
    context: str
    path: str
    dtype: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class WatchHistory:
    """A log, read back: the series by their numbers, all points in the order of their steps, and the events."""

    series: Mapping[int, Series]
    points: Points
    events: tuple[Mapping[str, Any], ...] = ()


class Recent:
    """The last points of each series, as two matrices with a row for each; the newest stands where ``count`` says."""

    def __init__(self) -> None:
        self.steps = np.zeros((64, RECENT), dtype=np.int32)
        self.sizes = np.full((64, RECENT), np.nan, dtype=np.float32)
        self.count = np.zeros(64, dtype=np.int64)

    def add(self, points: Points) -> None:
        """Points of some series, those of each in the order of their steps."""
        while len(points) and int(points["series"].max()) >= len(self.count):
            self._grow()
        points = points[np.argsort(points["series"], kind="stable")]
        series = points["series"]
        first = np.flatnonzero(np.diff(series, prepend=-1))
        times = np.diff(np.append(first, len(series)))
        place = (self.count[series] + np.arange(len(series)) - np.repeat(first, times)) % RECENT
        self.steps[series, place] = points["step"]
        self.sizes[series, place] = points["size"]
        self.count[series[first]] += times

    def of(self, number: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Steps and sizes of one series, the oldest first."""
        count = int(self.count[number])
        order = np.arange(max(count - RECENT, 0), count) % RECENT
        return self.steps[number, order], self.sizes[number, order]

    def _grow(self) -> None:
        self.steps = np.concatenate([self.steps, np.zeros_like(self.steps)])
        self.sizes = np.concatenate([self.sizes, np.full_like(self.sizes, np.nan)])
        self.count = np.concatenate([self.count, np.zeros_like(self.count)])


class WatchLog:
    """Collects points and writes them down. Without a folder everything stays in memory until ``settle`` gives one."""

    def __init__(self, folder: Path | None = None) -> None:
        self._path: Path | None = None
        self._journal: JournalWriter | None = None
        self._numbers: dict[Series, int] = {}
        self._fresh: list[list[Any]] = []
        self._parts: list[Points] = []
        self._held = 0
        self._events: list[dict[str, Any]] = []
        self.recent = Recent()
        if folder is not None:
            self.settle(folder)

    @property
    def series(self) -> Mapping[int, Series]:
        return {number: one for one, number in self._numbers.items()}

    def settle(self, folder: Path) -> None:
        """Begins to write into a folder, with all that was collected before."""
        self._path = folder / WATCH_FILE
        self._rewrite()

    def number(self, series: Series) -> int:
        """The number of a series, given at its first sight."""
        number = self._numbers.get(series)
        if number is None:
            number = len(self._numbers)
            self._fresh.append([number, *astuple(series)])  # first: a signal may end this between the two
            self._numbers[series] = number
        return number

    def add(self, points: Points) -> None:
        """The points of some steps, in their order."""
        if not len(points):
            return
        self.recent.add(points)
        self._parts.append(points)
        self._held += len(points)
        if self._journal is not None:
            self._append(self._journal, (b"P", (np.ascontiguousarray(points).view(np.uint8),)))
        if self._held > 2 * max(LEAST_POINTS, MOST_POINTS * len(self._numbers)):
            self._thin()

    def event(self, content: dict[str, Any]) -> None:
        """Something that happened, on disk when this returns."""
        self._events.append(content)
        if self._journal is not None:
            self._append(self._journal, (b"E", (_text(content),)))
            self._journal.sync()

    def history(self) -> WatchHistory:
        """Everything that is known now."""
        return WatchHistory(self.series, self._all(), tuple(self._events))

    def close(self) -> None:
        if self._journal is None:
            return
        journal, self._journal = self._journal, None
        try:
            self._append(journal)
        finally:
            journal.close()

    def _all(self) -> Points:
        if len(self._parts) > 1:
            self._parts = [np.concatenate(self._parts)]
        return self._parts[0] if self._parts else np.empty(0, POINT)

    def _thin(self) -> None:
        """Leaves of each series the newest points, and of the older ones so many, evenly over their steps."""
        points = self._all()
        order = np.lexsort((points["step"], points["series"]))
        series, step = points["series"][order], points["step"][order].astype(np.int64)
        first = np.flatnonzero(np.diff(series, prepend=-1))
        counts = np.diff(np.append(first, len(series)))
        place = np.arange(len(series)) - np.repeat(first, counts)
        new = place >= np.repeat(counts - MOST_POINTS // 4, counts)
        since = step - np.repeat(step[first], counts)
        span = np.repeat(step[first + counts - 1] - step[first] + 1, counts)
        part = since * (MOST_POINTS // 2) // span
        kept = new | (place == 0) | (np.diff(part, prepend=-1) != 0)
        self._parts = [points[np.sort(order[kept])]]
        self._held = len(self._parts[0])
        if self._journal is not None:
            self._rewrite()

    @shielded
    def _rewrite(self) -> None:
        """Writes the whole log into a new file and puts it in the place of the old one."""
        assert self._path is not None
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        draft.unlink(missing_ok=True)
        journal = JournalWriter(draft)
        rows = [[number, *astuple(one)] for one, number in self._numbers.items()]
        frames: list[tuple[bytes, tuple[Any, ...]]] = [(b"N", (_text(rows),))] if rows else []
        frames += [(b"E", (_text(one),)) for one in self._events]
        points = self._all()
        if len(points):
            frames.append((b"P", (np.ascontiguousarray(points).view(np.uint8),)))
        try:
            journal.append_all(frames)
            os.replace(draft, self._path)
        except OSError:
            journal.close()
            draft.unlink(missing_ok=True)
            raise
        if self._journal is not None:
            self._journal.close()
        self._journal, self._fresh = journal, []

    def _append(self, journal: JournalWriter, *frames: tuple[bytes, tuple[Any, ...]]) -> None:
        """Writes frames, and before them the series that are new."""
        fresh = self._fresh[:]
        journal.append_all([*([(b"N", (_text(fresh),))] if fresh else []), *frames])
        del self._fresh[: len(fresh)]


def read_watch_log(folder: Path) -> WatchHistory | None:
    """The log in the folder of a rank; None where there is none."""
    path = folder / WATCH_FILE
    if not path.exists():
        return None
    series: dict[int, Series] = {}
    parts: list[Points] = []
    events: list[Mapping[str, Any]] = []
    try:
        for kind, payload in read_frames(path):
            if kind == b"N":
                series.update((row[0], Series(*row[1:])) for row in json.loads(payload))
            elif kind == b"P":
                parts.append(np.frombuffer(payload, dtype=POINT))
            elif kind == b"E":
                events.append(json.loads(payload))
    except (ValueError, TypeError) as error:
        raise CorruptRunError(f"{path} is damaged: {error}") from error
    points = np.concatenate(parts) if parts else np.empty(0, POINT)
    known = np.isin(points["series"], np.fromiter(series, dtype=np.int64, count=len(series)))
    return WatchHistory(series, points[known], tuple(events))


def watched_ranks(folders: Iterable[tuple[int, Path]]) -> dict[int, WatchHistory]:
    """The logs of all ranks that have one."""
    found = {rank: read_watch_log(folder) for rank, folder in folders}
    return {rank: history for rank, history in found.items() if history is not None}


def _text(content: Any) -> bytes:
    return json.dumps(content).encode()
