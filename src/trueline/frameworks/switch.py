"""What a watcher opens it also closes, whatever happens in between.

``Undo`` holds what must be done to leave nothing behind. Each step is entered *before* what it undoes is done, so that
an error or an interrupt leaves nothing that nobody would take away; steps therefore also work where nothing is to be
undone. ``Switch`` holds what is put on and off together: splices, and names laid over others.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol


class Undo:
    """Steps that are done once, the youngest first."""

    def __init__(self) -> None:
        self._steps: list[Callable[[], Any]] = []

    def add(self, step: Callable[[], Any]) -> None:
        self._steps.append(step)

    def __bool__(self) -> bool:
        return bool(self._steps)

    def all(self) -> None:
        """Does every step, also when one fails; the first error is raised when all are done. A step that is interrupted
        stays, and with it those before it: ``all`` may be called again."""
        first: Exception | None = None
        while self._steps:
            try:
                self._steps[-1]()
            except Exception as error:
                first = first or error
            self._steps.pop()
        if first is not None:
            raise first


class Exchange(Protocol):
    """Something that is put in the place of something else and taken away; doing either twice does no harm."""

    def on(self) -> None: ...
    def off(self) -> None: ...


_INHERITED = object()
"""Stands for what a class has of another one, where it has no such name itself."""


class Laid:
    """A name of an object or a class that stands for something of ours while it is on. Of several that are laid over
    one another each may be taken away at any time: the one above it then leads to what was below."""

    _all: list[Laid] = []
    """Those that are on, the oldest first."""

    def __init__(self, owner: Any, name: str, value: Any) -> None:
        self._owner, self._name, self._value = owner, name, value
        self._before: Any = _INHERITED

    def on(self) -> None:
        if self not in self._all:
            self._before = vars(self._owner).get(self._name, _INHERITED)
            self._all.append(self)
        setattr(self._owner, self._name, self._value)

    def off(self) -> None:
        if self not in self._all:
            return
        above = [one for one in self._all if one._is_over(self)]
        if above:
            above[0]._before = self._before
        elif vars(self._owner).get(self._name) is self._value:
            if self._before is _INHERITED:
                delattr(self._owner, self._name)
            else:
                setattr(self._owner, self._name, self._before)
        self._all.remove(self)

    def _is_over(self, other: Laid) -> bool:
        return self._owner is other._owner and self._name == other._name and self._before is other._value


class Switch:
    """Exchanges that are on together."""

    def __init__(self) -> None:
        self._all: list[Exchange] = []
        self._lock = threading.RLock()
        self._wanted = False
        self._away = 0

    def add(self, one: Exchange) -> None:
        with self._lock:
            self._all.append(one)
            if self._wanted and not self._away:
                one.on()

    def on(self) -> None:
        with self._lock:
            self._wanted = True
            self._set()

    def off(self) -> None:
        with self._lock:
            self._wanted = False
            self._set()

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """Off for a while, for all threads."""
        with self._lock:
            self._away += 1
            self._set()
        try:
            yield
        finally:
            with self._lock:
                self._away -= 1
                self._set()

    def _set(self) -> None:
        is_on = self._wanted and not self._away
        for one in self._all:
            (one.on if is_on else one.off)()
