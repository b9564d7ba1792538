"""Hears of optimizers by torch's global hooks, which are taken away while a compiler is at work: it would make them a
part of the graph of an optimizer's step."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from torch.optim import optimizer as torch_optimizer


class OptimizerHooks:
    """Has ``begins`` and ``ends`` called with each optimizer, before and after its step, while it is on."""

    def __init__(self, begins: Callable[[Any], None], ends: Callable[[Any], None]) -> None:
        self._begins = lambda instance, args, kwargs: begins(instance)
        self._ends = lambda instance, args, kwargs: ends(instance)
        self._handles: list[Any] = []

    def on(self) -> None:
        with _lock:
            _open.append(self)
            self._register()

    def off(self) -> None:
        with _lock:
            if self in _open:
                _open.remove(self)
            self._remove()

    def _register(self) -> None:
        if _away == 0 and not self._handles:
            self._handles.append(torch_optimizer.register_optimizer_step_pre_hook(self._begins))
            self._handles.append(torch_optimizer.register_optimizer_step_post_hook(self._ends))

    def _remove(self) -> None:
        while self._handles:
            self._handles[-1].remove()
            self._handles.pop()


_open: list[OptimizerHooks] = []
_lock = threading.RLock()
_away = 0


@contextlib.contextmanager
def hooks_away() -> Iterator[None]:
    """None of ours is there meanwhile, for all threads."""
    global _away
    with _lock:
        _away += 1
        for one in _open:
            one._remove()
    try:
        yield
    finally:
        with _lock:
            _away -= 1
            for one in _open:
                one._register()
