"""Names in modules and classes that lead to us while a capture is on, and what is put back after it.

A Python function keeps its identity and has its code exchanged (``splice``): whoever holds it comes to us. Builtin
functions and the methods of tensors cannot be changed; for them a function of ours is set in their place, in every
module that holds them. Whoever takes such a function during the capture and keeps it is given the original at its end.
"""

from __future__ import annotations

import functools
import gc
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from trueline.frameworks.holders import replace

_NOT_OURS = ("paddle.base.libpaddle", "paddle._pir_ops", "paddle.decomposition", "paddle.incubate.autograd")
"""Modules that hold the same builtin functions to build static graphs with them; and those in which Paddle's own
library keeps them."""


class Doors:
    """The names that were set, with what they were. Of several observers that are on each may end at any time: who has
    laid a name over one of ours then gives back what was below it."""

    _all: weakref.WeakSet[Doors] = weakref.WeakSet()

    def __init__(self) -> None:
        self._all.add(self)
        self._places: list[tuple[Any, str, Any, Any]] = []
        """(module or class, name, original, ours)"""
        self._wrappers: dict[int, tuple[Any, Any]] = {}
        """By identity: (ours, original)."""
        self.builtins: dict[int, Any] = {}
        """What stands in for a builtin function, by its identity, in any module that holds it."""
        self._seen: set[str] = set()
        self._known: set[tuple[int, str]] = set()

    def wrapper(self, original: Any, body: Callable[..., Any]) -> Any:
        """Makes what stands in for a function."""
        functools.update_wrapper(body, original, updated=())
        self._wrappers[id(body)] = body, original
        return body

    def add(self, owner: Any, name: str, wrapper: Any) -> None:
        """Has a name of a module or class lead to us."""
        self._places.append((owner, name, vars(owner)[name], wrapper))
        self._known.add((id(owner), name))

    def add_everywhere(self, original: Any, wrapper: Any) -> None:
        """Has a builtin function lead to us in every module that holds it, now or when the doors are opened again."""
        self.builtins[id(original)] = wrapper

    def open(self) -> None:
        for name, module in list(sys.modules.items()):
            if name not in self._seen:
                self._seen.add(name)
                self._places.extend(self._held_by(name, module))
        for owner, name, original, wrapper in self._places:
            if vars(owner).get(name) is original:  # the program may have set it to something else meanwhile
                setattr(owner, name, wrapper)

    def close(self) -> None:
        for owner, name, original, wrapper in self._places:
            if vars(owner).get(name) is wrapper:
                setattr(owner, name, original)
        for other in list(self._all):
            if other is not self:
                other._fall_to({id(place[3]): place[2] for place in self._places})

    def _fall_to(self, below: dict[int, Any]) -> None:
        """Has the names that lie over those of another observer, which has ended, give back what was below it."""
        for index, (owner, name, original, wrapper) in enumerate(self._places):
            if id(original) in below:
                self._places[index] = owner, name, below[id(original)], wrapper

    def take_back(self) -> None:
        """Gives the originals to whoever took something of ours while the doors were open."""
        mine: dict[int, int] = {}
        for wrapper in (*(place[3] for place in self._places), *self.builtins.values()):
            mine[id(wrapper)] = mine.get(id(wrapper), 0) + 1
        nobodys = self.wrapper(len, lambda: None)  # held by us alone: tells what the counting itself adds
        counts = {key: sys.getrefcount(ours) for key, (ours, _) in self._wrappers.items()}
        usual = counts[id(nobodys)] - 1
        kept = [ours for key, (ours, _) in self._wrappers.items() if counts[key] > usual + mine.get(key, 0)]
        kept = [ours for ours in kept if ours is not nobodys]
        if not kept:
            return
        originals = {id(ours): self._wrappers[id(ours)][1] for ours in kept}
        holders = gc.get_referrers(*kept)
        own = {id(kept), id(self._places), id(self._wrappers), id(self.builtins), id(holders)}
        for holder in holders:
            if id(holder) not in own:
                replace(holder, originals)

    def _held_by(self, name: str, module: Any) -> Iterator[tuple[Any, str, Any, Any]]:
        if name.startswith(_NOT_OURS) or not isinstance(module, types.ModuleType):
            return
        for attribute, item in list(vars(module).items()):
            if type(item) is types.BuiltinFunctionType and (id(module), attribute) not in self._known:
                wrapper = self.builtins.get(id(item))
                if wrapper is not None:
                    yield module, attribute, item, wrapper
