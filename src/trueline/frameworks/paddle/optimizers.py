"""Hears of every optimizer step: ``step`` and ``minimize`` of all optimizers there are, or that are made later.

Paddle has no hook for this. The code of these functions is exchanged while a capture is on (``splice``); of calls
inside each other, as when a gradient scaler lets an optimizer step, the outermost counts.
"""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import paddle

from trueline.frameworks.splice import Splice

_METHODS = ("step", "minimize")
_FLEET = "paddle.distributed.fleet.meta_optimizers.dygraph_optimizer"
_WRAPPERS = (
    ("paddle.amp.grad_scaler", "AmpScaler"),
    ("paddle.amp.grad_scaler", "GradScaler"),
    (f"{_FLEET}.hybrid_parallel_optimizer", "HybridParallelOptimizer"),
    (f"{_FLEET}.hybrid_parallel_gradscaler", "HybridParallelGradScaler"),
    (f"{_FLEET}.heter_parallel_optimizer", "HeterParallelOptimizer"),
)
"""Classes that let an optimizer step without being one: a step that they skip, because a gradient overflowed, has
ended too."""


_scaling = threading.local()


def scaler_in_charge() -> bool:
    """Whether this thread is in a step that a loss scaler takes: it looks at the gradients itself, and may skip."""
    return bool(getattr(_scaling, "on", False))


_hearers: list[Callable[[Any], None]] = []


def hear_of_scaled(hear: Callable[[Any], None]) -> Callable[[], None]:
    """Has it called with each optimizer that a loss scaler is about to let step; gives what takes that back."""

    def leave() -> None:
        if hear in _hearers:
            _hearers.remove(hear)

    _hearers.append(hear)
    return leave


class OptimizerSteps:
    """Calls ``begins`` and ``ends`` with each optimizer, before and after its step."""

    def __init__(self, begins: Callable[[Any], None], ends: Callable[[Any], None]) -> None:
        self._begins = begins
        self._ends = ends
        self._inside = threading.local()
        self._splices: dict[int, Splice] = {}
        self._held: list[Any] = []

    def on(self) -> None:
        for kind in _optimizers(paddle.optimizer.Optimizer):
            self._watch(kind)
        for module, name in _WRAPPERS:
            wrapper = getattr(sys.modules.get(module), name, None)
            if isinstance(wrapper, type):
                self._watch(wrapper)
        self._add(vars(paddle.optimizer.Optimizer)["__init__"], self._made)

    def off(self) -> None:
        for splice in self._splices.values():
            splice.off()
        self._splices.clear()
        self._held.clear()

    def _watch(self, kind: type) -> None:
        for name in _METHODS:
            self._add(vars(kind).get(name), self._step)

    def _add(self, function: Any, handler: Any) -> None:
        if type(function) is types.FunctionType and id(function) not in self._splices:
            self._held.append(function)
            splice = self._splices[id(function)] = Splice(function, handler)
            splice.on()

    def _made(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An optimizer is made, perhaps of a class that was not there before."""
        for kind in type(args[0]).__mro__ if args else ():
            if kind is not object:
                self._watch(kind)
        return original(*args, **kwargs)

    def _step(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if getattr(self._inside, "depth", 0) or not args:
            if _hearers and args and scaler_in_charge() and isinstance(args[0], paddle.optimizer.Optimizer):
                for hear in list(_hearers):
                    hear(args[0])
            return original(*args, **kwargs)
        optimizer = _optimizer_in(args, kwargs)
        self._inside.depth = 1
        _scaling.on = "Scaler" in type(args[0]).__name__ and bool(getattr(args[0], "_enable", True))
        try:
            self._begins(optimizer)
            result = original(*args, **kwargs)
        finally:
            self._inside.depth = 0
            _scaling.on = False
        self._ends(optimizer)
        return result


def _optimizers(kind: Any) -> Iterator[type]:
    yield kind
    for lower in kind.__subclasses__():
        yield from _optimizers(lower)


def _optimizer_in(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The optimizer that steps: the one that a scaler is given, else the one that is asked."""
    if isinstance(args[0], paddle.optimizer.Optimizer):
        return args[0]
    given = (*args[1:], *kwargs.values())
    return next((item for item in given if isinstance(item, paddle.optimizer.Optimizer)), args[0])
