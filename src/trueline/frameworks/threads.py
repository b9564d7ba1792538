"""Threads by small numbers: 0 is the main one, the others in the order in which they were first asked for."""

from __future__ import annotations

import threading

_numbers: dict[int, int] = {}


def thread_number() -> int:
    """The number of the thread that asks."""
    if threading.current_thread() is threading.main_thread():
        return 0
    return _numbers.setdefault(threading.get_ident(), len(_numbers) + 1)
