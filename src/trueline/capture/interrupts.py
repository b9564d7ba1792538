"""Lets what must be finished be finished: an interrupt that comes meanwhile is heard afterwards.

A Run that is being closed, or a step between two others, would be left half done by Ctrl-C or by a handler that raises.
So the program's own handlers wait until we are done; asked a second time they are called at once, for whoever insists.
"""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType
from typing import Any


class HeldSignals:
    """Holds back the handlers of the program that are written in Python; they are called in the main thread."""

    def __init__(self) -> None:
        self._handlers: dict[int, Any] = {}
        self._come: list[int] = []

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number in signal.valid_signals():
            handler = signal.getsignal(number)
            if callable(handler):
                self._handlers[number] = handler
                signal.signal(number, self._note)

    def __exit__(self, *exception: object) -> None:
        handlers, self._handlers = self._handlers, {}
        for number, handler in handlers.items():
            if signal.getsignal(number) == self._note:
                signal.signal(number, handler)
        for number in self._come:  # with our frame, by which whoever catches what it raises knows it for a handler's
            handlers[number](number, sys._getframe())

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number in self._come:
            self._handlers[number](number, frame)
        self._come.append(number)
