"""The way into custom functions: ``torch.autograd.Function.apply``.

Where torch has written it in Python its code is exchanged, like that of other functions. From torch 2.15 on it is a
builtin, looked up through the class: then the class is given one of ours for the time of a capture. Whoever took the
builtin before (``swish = Swish.apply``) is given a method of ours in its place, and gets it back; whoever took one of
ours is given the builtin.
"""

from __future__ import annotations

import gc
import sys
import types
from typing import Any, Protocol

import torch

from trueline.frameworks import depth
from trueline.frameworks.holders import replace
from trueline.frameworks.torch.splice import Handler, Splice


class Door(Protocol):
    """Something that can be open or closed."""

    def on(self) -> None: ...
    def off(self) -> None: ...


def custom_functions(handler: Handler) -> Door:
    """What leads every call of ``apply`` to a handler while it is on."""
    apply: Any = vars(torch.autograd.Function)["apply"]
    function = getattr(apply, "__func__", None)
    return _Builtin(apply, handler) if function is None else Splice(function, handler)


class _Builtin:
    """Stands in for an ``apply`` that is no Python function."""

    def __init__(self, descriptor: Any, handler: Handler) -> None:
        self._descriptor = descriptor
        self._is_on = False
        self._replaced: list[Any] = []
        """Those who held the builtin."""
        self._builtins: dict[int, Any] = {}
        """By the identity of what they were given in its place."""

        original = descriptor if callable(descriptor) else self._original
        enter = depth.door(handler, original)

        def apply(*args: Any, **kwargs: Any) -> Any:
            return enter(args, kwargs) if self._is_on else original(*args, **kwargs)

        self._apply = apply

    def _original(self, kind: type, *args: Any, **kwargs: Any) -> Any:
        return self._descriptor.__get__(None, kind)(*args, **kwargs)

    def on(self) -> None:
        if self._is_on:
            return
        self._is_on = True
        self._uses = self._count()
        self._give()
        torch.autograd.Function.apply = classmethod(self._apply)  # type: ignore[assignment]

    def off(self) -> None:
        if not self._is_on:
            return
        self._is_on = False
        torch.autograd.Function.apply = self._descriptor
        for holder in self._replaced:
            replace(holder, self._builtins)
        self._replaced, self._builtins = [], {}
        if self._count() > self._uses:
            self._take_back()

    def _count(self) -> int:
        return sys.getrefcount(self._apply)

    def _give(self) -> None:
        """Gives methods of ours to those who hold the builtin, bound to one of their classes."""
        # Not by gc.get_referrers of the classes: that compares all that there is with each of them.
        held = [item for item in gc.get_objects() if type(item) is types.BuiltinMethodType and self._is_apply(item)]
        if not held:
            return
        ours = {id(item): types.MethodType(self._apply, item.__self__) for item in held}
        self._builtins = {id(ours[id(item)]): item for item in held}
        own = {id(held), id(self._builtins)}
        self._replaced = [holder for holder in gc.get_referrers(*held) if id(holder) not in own]
        for holder in self._replaced:
            replace(holder, ours)

    def _is_apply(self, item: Any) -> bool:
        kind = item.__self__
        own = isinstance(kind, type) and issubclass(kind, torch.autograd.Function)
        return own and item == self._descriptor.__get__(None, kind)

    def _take_back(self) -> None:
        """Gives the builtin to those who took ours while it was in its place."""
        kept = [item for item in gc.get_referrers(self._apply) if type(item) is types.MethodType]
        if not kept:
            return
        builtins = {id(item): self._descriptor.__get__(None, item.__self__) for item in kept}
        for holder in gc.get_referrers(*kept):
            if holder is not kept:
                replace(holder, builtins)
