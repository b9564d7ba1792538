"""How far a long command has come: one line that is rewritten on a terminal, a plain line now and then in a log."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from trueline.events import Progress

_QUIET_SECONDS = 2.0
"""Short work says nothing."""
_TERMINAL_SECONDS = 0.1
_LOG_SECONDS = 10.0


@contextlib.contextmanager
def progress(stream: TextIO, clock: Callable[[], float] = time.monotonic) -> Iterator[Progress]:
    """Gives a function to report progress with; cleans the line up at the end."""
    line = _Line(stream, clock)
    try:
        yield line.advance
    finally:
        line.clear()


class _Line:
    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        self._stream = stream
        self._clock = clock
        self._terminal = stream.isatty()
        self._next = clock() + _QUIET_SECONDS
        self._width = 0

    def advance(self, what: str, done: int, total: int) -> None:
        now = self._clock()
        if now < self._next:
            return
        self._next = now + (_TERMINAL_SECONDS if self._terminal else _LOG_SECONDS)
        share = f" {100 * done / total:.0f} %" if total else ""
        amount = f"{done:,} of {total:,}" if total else f"{done:,}"
        text = f"{what}: {amount}{share}"
        if self._terminal:
            self._stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

    def clear(self) -> None:
        if self._terminal and self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
