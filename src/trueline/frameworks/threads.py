"""Threads by small numbers: 0 is the main one, the others in the order in which they were first asked for."""

from __future__ import annotations

import itertools
import threading
from weakref import WeakKeyDictionary

_numbers: WeakKeyDictionary[threading.Thread, int] = WeakKeyDictionary()
_next = itertools.count(1)


def thread_number() -> int:
    """The number of the thread that asks. The system gives the identity of a thread that has ended to another one, so
    it is the Python object that counts."""
    thread = threading.current_thread()
    if thread is threading.main_thread():
        return 0
    number = _numbers.get(thread)
    if number is None:
        number = _numbers[thread] = next(_next)
    return number
