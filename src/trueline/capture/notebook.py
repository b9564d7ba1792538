"""Collects what a watcher sees and hands it to the writer, a batch at a time.

The hot side (``calls``, ``visits``, ``define``) only appends; making arrays and writing happens in the background.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from trueline.dtypes import DTYPES
from trueline.frameworks.base import Source, Tally
from trueline.store.columns import CALL_COLUMNS, LEVELS, PHASES, VISIT_COLUMNS, Batch, Integers, Payload
from trueline.store.writer import RankWriter

Row = TypeVar("Row")

MOST_TROUBLES = 20
"""Faults of ours after which we stop recording: something is wrong for good."""


class Notebook:
    """What a watcher writes into; see ``frameworks.base.Notebook``."""

    def __init__(self, writer: RankWriter) -> None:
        self._writer = writer
        self.calls: list[int] = []
        self.visits: list[int] = []
        self.sources: list[Source] = []
        self.missing: list[tuple[int, str]] = []
        self.step = 0
        self.tally = Tally()
        self.next_call = itertools.count().__next__
        self.next_tensor = itertools.count().__next__
        self._numbers: dict[str, dict[Any, int]] = {
            table: {} for table in ("names", "modules", "stacks", "trees", "layouts")
        }
        self._fresh: dict[str, list[list[Any]]] = {}
        self._events: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._troubles: dict[str, int] = {}
        self._layout_bytes: list[int] = []

    @property
    def broken(self) -> str:
        """Why nothing can be recorded any more; empty while all is well."""
        if self._writer.failed:
            return self._writer.failed
        if sum(self._troubles.values()) >= MOST_TROUBLES:
            return "; ".join(self._troubles)
        return ""

    def define(self, table: str, key: Any, row: Callable[[], list[Any]]) -> int:
        """The number of something that repeats; ``row`` gives its content the first time."""
        numbers = self._numbers[table]
        number = numbers.get(key)
        return self._enter(table, key, row()) if number is None else number

    def _enter(self, table: str, key: Any, content: list[Any]) -> int:
        numbers = self._numbers[table]
        with self._lock:
            if key in numbers:  # another thread was faster
                return numbers[key]
            number = len(numbers)
            self._fresh.setdefault(table, []).append([number, *content])
            if table == "layouts":
                itemsize = DTYPES[content[0]].itemsize if content[0] in DTYPES else 0
                self._layout_bytes.append(math.prod(content[1]) * itemsize)
            numbers[key] = number
        return number

    def hand_over(
        self,
        statistics: Callable[[], Any] | None = None,
        payloads: list[Payload] | None = None,
        done: Callable[[], None] | None = None,
    ) -> None:
        """Sends tensors to be read and stored, with all calls seen so far."""
        batch = Batch(statistics=statistics, payloads=payloads or [], done=done)
        self._fill(batch)
        self._writer.submit(batch)

    def flush(self) -> None:
        """Sends everything seen so far to the writer."""
        self.hand_over()

    def event(self, kind: str, message: str) -> None:
        self._events.append({"kind": kind, "message": message})

    def trouble(self, error: BaseException) -> None:
        """Notes a fault of ours: the call it happened in is counted as not recorded."""
        text = f"internal fault: {type(error).__name__}: {error}"
        if text not in self._troubles:
            self.event("fault", text)
        self._troubles[text] = self._troubles.get(text, 0) + 1
        self.tally.miss(text)

    def _fill(self, batch: Batch) -> None:
        with self._lock:
            batch.definitions, self._fresh = self._fresh, {}
            calls, visits = _taken(self.calls), _taken(self.visits)
            taken = [source() for source in self.sources]
            batch.missing, batch.events = _taken(self.missing), _taken(self._events)

        def prepare() -> None:
            batch.calls = _rows([one[0] for one in taken], calls, len(CALL_COLUMNS))
            batch.visits = _rows([one[1] for one in taken], visits, len(VISIT_COLUMNS))
            self._count(batch)

        batch.prepare = prepare  # costs time that the program should not wait for

    def _count(self, batch: Batch) -> None:
        tally = self.tally
        tally.visits += len(batch.visits)
        tally.bytes_seen += int(np.array(self._layout_bytes, dtype=np.int64)[batch.visits[:, 4]].sum())
        kinds = np.bincount(batch.calls[:, 1] * len(PHASES) + batch.calls[:, 2])
        for kind in np.flatnonzero(kinds).tolist():
            level, phase = divmod(kind, len(PHASES))
            name = f"{LEVELS[level].value} {PHASES[phase].value}"
            tally.calls[name] = tally.calls.get(name, 0) + int(kinds[kind])


def _rows(parts: list[bytes], integers: list[int], width: int) -> Integers:
    """The rows that lie in these bytes and integers, one part after the other."""
    arrays = [np.frombuffer(part, dtype=np.int64) for part in parts if part]
    if integers:
        arrays.append(np.array(integers, dtype=np.int64))
    whole = arrays[0] if len(arrays) == 1 else np.concatenate(arrays) if arrays else np.empty(0, dtype=np.int64)
    return whole.reshape(-1, width)


def _taken(rows: list[Row]) -> list[Row]:
    """Takes out what a list holds. The list itself stays: another thread may be about to extend it."""
    taken = rows[:]
    del rows[: len(taken)]
    return taken
