"""What is needed where a handler of a signal may raise at any moment: Ctrl-C, an end of our own asking, an alarm.

Python runs such handlers in the main thread, between any two bytecodes; ours are among them. What they raise belongs to
the program and must reach it, and must find us in order. Three things see to that:

- what two threads share is made of single calls in C, which either have happened or have not (``Latch``,
  ``queue.SimpleQueue``). ``threading.Event`` and ``queue.Queue`` are written in Python: an exception in the middle of
  them leaves their lock held, and the next thread that wants it waits for ever;
- what has to be done whole is ``shielded``: a handler is called when it is done;
- what a handler has raised is told from a fault of ours (``from_handler``).
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the same without the enums, which take time
import _thread
import contextlib
import functools
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_ASKED_FOR = tuple(
    int(getattr(signal, name))
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGALRM", "SIGPROF", "SIGUSR1", "SIGUSR2", "SIGCHLD")
    if hasattr(signal, name)
)
"""The signals for which programs have handlers."""


class Latch:
    """Opened once, by one thread; others wait for it. (``with`` takes a lock and is inside: nothing comes between.)"""

    __slots__ = ("_lock", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        self._lock = _thread.allocate_lock()
        self._lock.acquire()

    def open(self) -> None:
        if not self.is_open:
            self.is_open = True
            self._lock.release()

    def wait(self) -> None:
        if not self.is_open:
            with self._lock:
                pass


@contextlib.contextmanager
def _shield() -> Iterator[None]:
    """Has the handlers of signals wait; not for longer than what is inside takes, so nothing inside may wait."""
    came: list[int] = []
    held: list[tuple[int, Any]] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    try:
        for number in _ASKED_FOR:
            handler = _signal.getsignal(number)
            if callable(handler):
                held.append((number, handler))
                _signal.signal(number, note)
        yield
    finally:
        handlers = dict(held)
        _give_back(held)
        for number in came:
            handlers[number](number, sys._getframe())


def _give_back(held: list[tuple[int, Any]]) -> None:
    """Puts handlers back; one that is there again may raise while the others are not."""
    try:
        while held:
            _signal.signal(*held[-1])
            held.pop()
    finally:
        if held:
            _give_back(held)


def shielded(function: Callable[P, R]) -> Callable[P, R]:
    """A function that handlers of signals find not begun or done, never in between. It takes 5 µs longer."""

    @functools.wraps(function)
    def whole(*args: P.args, **kwargs: P.kwargs) -> R:
        if _thread.get_ident() != threading.main_thread().ident:  # handlers run in the main thread alone
            return function(*args, **kwargs)
        with _shield():
            return function(*args, **kwargs)

    return whole


def from_handler(error: BaseException) -> bool:
    """Whether an exception was raised by the handler of a signal: the program means it, wherever it came to light.
    Python calls a handler with the number of the signal and with the very frame from which it calls it."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        if _is_handler(trace.tb_frame):
            return True
        trace = trace.tb_next
    return False


def _is_handler(frame: FrameType) -> bool:
    from inspect import getargvalues

    if frame.f_back is None:
        return False
    known = getargvalues(frame)
    values = [known.locals.get(name) for name in known.args] + list(known.locals.get(known.varargs or "", ()))
    number = any(type(value) in (int, signal.Signals) for value in values)
    return number and any(value is frame.f_back for value in values)
