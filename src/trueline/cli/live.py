"""The live view of a check: drawn in place on a terminal, plain lines now and then in a log.

    with live(sys.stderr) as view:
        check(..., on_case=view.on_case, progress=view.advance)

What is told is only counted; a thread draws, so that a long case does not look like a standstill and a short one does
not pay for the drawing. On a terminal at most five times a second; elsewhere a line every ten seconds and one at the
end. Work of less than two seconds shows nothing. Nothing beyond the standard library is needed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from trueline.cli.live_view import Look, Tally, frame, log_line
from trueline.events import CaseEnded

QUIET_SECONDS = 2.0
TERMINAL_SECONDS = 0.25
LOG_SECONDS = 10.0
_STYLES = re.compile(r"\x1b\[[0-9;]*m")


@contextlib.contextmanager
def live(
    stream: TextIO,
    *,
    clock: Callable[[], float] = time.monotonic,
    quiet: float = QUIET_SECONDS,
    interval: float | None = None,
) -> Iterator[Live]:
    """A view for the time of the ``with``; afterwards a terminal is as it was, and a log has a last line."""
    view = Live(stream, clock=clock, quiet=quiet, interval=interval)
    try:
        yield view
    finally:
        view.close()


class Live:
    """Told of every case by ``on_case`` and of other work by ``advance``."""

    def __init__(
        self, stream: TextIO, *, clock: Callable[[], float], quiet: float, interval: float | None = None
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._terminal = _is_terminal(stream)
        self._interval = interval or (TERMINAL_SECONDS if self._terminal else LOG_SECONDS)
        self._lock = threading.Lock()
        self._tally = Tally(clock())
        self._drawn: list[str] = []
        self._said = -1
        self._shown = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, args=(quiet,), name="live view", daemon=True)
        self._thread.start()

    def on_case(self, event: CaseEnded) -> None:
        with self._lock:
            self._tally.add(event, self._clock())

    def advance(self, what: str, done: int, total: int) -> None:
        with self._lock:
            self._tally.turn_to(what, done, total, self._clock())

    def close(self) -> None:
        """Ends the drawing. May be called again."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._thread.join()
        with contextlib.suppress(OSError, ValueError):
            if self._terminal:
                self._write(_erasing(self._drawn, _size(self._stream)[0]) if self._drawn else "")
            elif self._shown:
                self._say()

    def _watch(self, quiet: float) -> None:
        """The life of the thread. A stream that is gone ends it: nobody looks any more."""
        wait = quiet
        while not self._stop.wait(wait):
            try:
                self._draw() if self._terminal else self._say()
            except (OSError, ValueError):
                return
            self._shown = True
            wait = self._interval

    def _draw(self) -> None:
        columns, rows = _size(self._stream)
        look = Look(columns, rows, _has_colour(), _is_unicode(self._stream))
        lines = self._lines(lambda tally, now: frame(tally, now, look))
        before = _erasing(self._drawn, columns) if self._drawn else ""
        self._write(before + "".join(f"{line}\n" for line in lines))
        self._drawn = lines

    def _say(self) -> None:
        """A line in a log; at the end only where something was done since the last one."""
        if self._stop.is_set() and self._said == self._tally.done:
            return
        self._write("".join(f"{line}\n" for line in self._lines(lambda tally, now: [log_line(tally, now)])))
        self._said = self._tally.done

    def _lines(self, make: Callable[[Tally, float], list[str]]) -> list[str]:
        with self._lock:
            now = self._clock()
            self._tally.sample(now)
            return make(self._tally, now) if self._tally.done or self._tally.total else []

    def _write(self, text: str) -> None:
        """All of a frame at once, so that no half of it is seen."""
        if text:
            self._stream.write(text)
            self._stream.flush()


def _erasing(lines: list[str], columns: int) -> str:
    """Moves to the first of the lines that were drawn and clears from there on. A terminal that was made narrower in
    the meantime shows them on more rows."""
    rows = sum(max(1, -(-len(_STYLES.sub("", line)) // max(columns, 1))) for line in lines)
    return f"\x1b[{rows}A\r\x1b[J"


def _is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM", "") != "dumb"


def _has_colour() -> bool:
    return not os.environ.get("NO_COLOR")


def _is_unicode(stream: TextIO) -> bool:
    return (getattr(stream, "encoding", "") or "").lower().replace("-", "") in ("utf8", "utf16", "utf32")


def _size(stream: TextIO) -> tuple[int, int]:
    try:
        size = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        size = shutil.get_terminal_size()
    return (size.columns or 80), (size.lines or 24)
