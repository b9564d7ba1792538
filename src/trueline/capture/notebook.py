"""Collects what a watcher sees and hands it to the writer, a batch at a time.

The hot side (``calls``, ``visits``, ``define``) only appends; taking the rows, making arrays and writing happens in the
background, where no signal disturbs: the program may be interrupted at any moment, and loses none of them.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from trueline.dtypes import DTYPES
from trueline.frameworks.base import Source, Tally
from trueline.store.columns import CALL_COLUMNS, LEVELS, PHASES, STATE, VISIT_COLUMNS, Batch, Integers, Payload
from trueline.store.interrupts import from_handler
from trueline.store.writer import RankWriter

Row = TypeVar("Row")

MOST_TROUBLES = 20
"""Faults of ours after which we stop recording: something is wrong for good."""

MOST_PUT_OFF = 1 << 14
"""So often rows alone are not handed over because it was asked for already; then the program waits for the writer."""

_TABLES = ("names", "modules", "stacks", "trees", "layouts")


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
        self.models_entered = 0
        """How often an outermost module was about to run in this step."""
        self.on_model: Callable[[], None] | None = None
        """Called before an outermost module runs that is trained."""
        self.next_call = itertools.count().__next__
        self.next_tensor = itertools.count().__next__
        self._numbers: dict[str, dict[Any, int]] = {table: {} for table in _TABLES}
        self._next = {table: itertools.count().__next__ for table in _TABLES}
        self._fresh: list[tuple[str, list[Any]]] = []
        self._events: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._troubles: dict[str, int] = {}
        self._layout_bytes = np.zeros(64, dtype=np.int64)
        self._asked = False
        """Whether the writer has been asked for rows and has not come yet."""
        self._put_off = 0

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
            # Each line is whole: where a signal ends this between two of them, a number is never used, or a row twice.
            number = self._next[table]()
            self._fresh.append((table, [number, *content]))
            numbers[key] = number
        return number

    def model_enters(self, *, trains: bool) -> None:
        if trains and self.on_model is not None:
            self.on_model()
        self.models_entered += 1

    def hand_over(
        self,
        statistics: Callable[[], Any] | None = None,
        payloads: list[Payload] | None = None,
        done: Callable[[], None] | None = None,
    ) -> None:
        """Sends tensors to be read and stored, with all calls seen until then. Where it is about calls alone, asking
        once is enough, unless the writer has stayed away for long."""
        if statistics is None and payloads is None and done is None:
            if self._asked and self._put_off < MOST_PUT_OFF:
                self._put_off += 1
                return
            self._asked = True
        self._send(Batch(statistics=statistics, payloads=payloads or [], done=done))

    def flush(self) -> None:
        """Sends everything seen so far to the writer."""
        self._send(Batch())

    def wait_for_room(self) -> None:
        """Waits while the writer has much to do; what is handed over next goes at once."""
        self._writer.wait_for_room()

    def _send(self, batch: Batch) -> None:
        batch.prepare = lambda: self._fill(batch)
        self._writer.submit(batch)

    def event(self, kind: str, message: str) -> None:
        self._events.append({"kind": kind, "message": message})

    def evidence(self, event: dict[str, Any]) -> None:
        """Keeps something that belongs to no call alone, as plain data."""
        self._events.append(event)

    def trouble(self, error: BaseException) -> None:
        """Notes a fault of ours: the call it happened in is counted as not recorded. What the handler of a signal has
        raised is none: it goes on to the program."""
        if from_handler(error):
            raise error
        text = f"internal fault: {type(error).__name__}: {error}"
        if text not in self._troubles:
            self.event("fault", text)
        self._troubles[text] = self._troubles.get(text, 0) + 1
        self.tally.miss(text, lost=True)

    def _fill(self, batch: Batch) -> None:
        """Takes all that was seen into a batch; called by the thread that writes."""
        self._asked, self._put_off = False, 0
        calls, visits = _taken(self.calls), _taken(self.visits)
        taken = [source() for source in self.sources]
        batch.missing, batch.events = _taken(self.missing), _taken(self._events)
        for table, row in _taken(self._fresh):  # after the rows: what those refer to is among these, or went before
            batch.definitions.setdefault(table, []).append(row)
        batch.calls = _rows([one[0] for one in taken], calls, len(CALL_COLUMNS))
        batch.visits = _rows([one[1] for one in taken], visits, len(VISIT_COLUMNS))
        self._measure_layouts(batch.definitions.get("layouts", ()))
        self._count(batch)

    def _measure_layouts(self, rows: Sequence[list[Any]]) -> None:
        for number, dtype, shape, *_ in rows:
            while number >= len(self._layout_bytes):
                self._layout_bytes = np.concatenate([self._layout_bytes, np.zeros_like(self._layout_bytes)])
            self._layout_bytes[number] = math.prod(shape) * DTYPES[dtype].itemsize if dtype in DTYPES else 0

    def _count(self, batch: Batch) -> None:
        tally = self.tally
        calls, visits = batch.calls, batch.visits
        tally.bytes_seen += int(self._layout_bytes[visits[:, 4]].sum())
        states = calls[:, 1] == STATE
        if states.any():  # they are no calls
            visits = visits[~np.isin(visits[:, 0], calls[states, 0])]
            calls = calls[~states]
        tally.visits += len(visits)
        kinds = np.bincount(calls[:, 1] * len(PHASES) + calls[:, 2])
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
