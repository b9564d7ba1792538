"""Records custom operations that are written in Python (``paddle.autograd.PyLayer``), forward and backward.

``apply`` is a builtin that is looked up through the class, so the class is given one of ours while a capture is on.
Somebody may hold the builtin itself (``swish = Swish.apply``, taken before); so the ``forward`` of every such class is
listened to as well. Paddle gives no hook at the node of a PyLayer: its gradients are what its ``backward`` is given and
gives back, and the context object says to which call they belong.
"""

from __future__ import annotations

import inspect
import types
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import paddle
from paddle.base import core

from trueline.frameworks.paddle.backward import BackwardWatch
from trueline.frameworks.paddle.calls import API
from trueline.frameworks.paddle.names import Trait
from trueline.frameworks.paddle.reading import Tensor
from trueline.frameworks.paddle.tensors import Look
from trueline.frameworks.splice import Splice
from trueline.frameworks.switch import Laid

if TYPE_CHECKING:
    from trueline.frameworks.paddle.calls import OpenCall, Watch

_builtin_apply = vars(core.eager.PyLayer)["apply"]


class PyLayerWatch:
    """Stands in for ``apply``, ``forward`` and ``backward`` of PyLayers."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._traits: dict[type, Trait] = {}
        self._splices: dict[int, Splice] = {}
        self._classes: dict[int, type] = {}
        self._held: list[Any] = []
        self._calls: weakref.WeakKeyDictionary[Any, tuple[BackwardWatch, list[int], list[int]]]
        self._calls = weakref.WeakKeyDictionary()
        self._looking = False
        self._apply = Laid(paddle.autograd.PyLayer, "apply", classmethod(self._class_apply))

    def on(self) -> None:
        self._looking = True
        for splice in self._splices.values():
            splice.on()
        for kind in _below(paddle.autograd.PyLayer):
            self._listen(kind)
        self._apply.on()

    def off(self) -> None:
        self._looking = False
        self._apply.off()
        for splice in self._splices.values():
            splice.off()

    def _class_apply(self, kind: type, *args: Any, **kwargs: Any) -> Any:
        original = _builtin_apply.__get__(None, kind)
        watch = self._watch
        if watch.state.open or not watch.looking:
            return original(*args, **kwargs)
        self._listen(kind)
        watch.state.contexts.append(None)
        try:
            return watch.make(API, self._trait(kind), original, args, kwargs, args, inside=0)
        finally:
            watch.state.contexts.pop()

    def _forward(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        watch = self._watch
        contexts = watch.state.contexts
        if watch.state.open or not watch.looking or not args:
            return original(*args, **kwargs)
        if contexts and contexts[-1] is None:
            contexts[-1] = args[0]
            return original(*args, **kwargs)
        kind = self._classes[id(original.__code__)]
        contexts.append(args[0])
        try:
            return watch.make(API, self._trait(kind), original, args, kwargs, args[1:], inside=0)
        finally:
            contexts.pop()

    def remember(self, call: OpenCall, result: int, outputs: list[Tensor], first: int) -> None:
        """A PyLayer has been applied: its backward will be told by its context."""
        context = self._watch.state.contexts[-1]
        if context is None:
            return
        if self._watch.witness is not None:
            self._watch.witness.custom.update(node_names(call.trait.name.split(".")[-2]))
        for tensor in call.inputs:
            if not tensor.stop_gradient and tensor.is_leaf:
                self._watch.desk.collects(tensor)
        backward = BackwardWatch(self._watch, call, result)
        arriving = [first + position for position in range(len(outputs))]
        self._calls[context] = backward, arriving, list(range(len(call.inputs)))

    def _backward(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        watch = self._watch
        known = self._calls.get(args[0]) if watch.looking and args else None
        if known is None:
            return original(*args, **kwargs)
        backward, arriving, leaving = known
        watch.desk.changed([item for item in args[1:] if isinstance(item, paddle.Tensor)])  # perhaps added up in place
        self._take(arriving, args[1:], backward.arrived)
        result = original(*args, **kwargs)
        self._take(leaving, result if isinstance(result, tuple | list) else (result,), backward.departed)
        try:
            backward.crossed()
        except Exception as error:
            watch.notebook.trouble(error)
        return result

    def _take(self, leaves: list[int], gradients: Any, found: dict[int, Look]) -> None:
        watch = self._watch
        watch.state.open += 1
        try:
            for leaf, gradient in zip(leaves, gradients, strict=False):
                if isinstance(gradient, paddle.Tensor):
                    found[leaf] = watch.desk.look(gradient)
        except Exception as error:
            watch.notebook.trouble(error)
        finally:
            watch.state.open -= 1

    def _listen(self, kind: type) -> None:
        for name, handler in (("forward", self._forward), ("backward", self._backward)):
            item = inspect.getattr_static(kind, name, None)
            function = item.__func__ if isinstance(item, staticmethod | classmethod) else item
            if type(function) is not types.FunctionType or id(function) in self._splices:
                continue
            if function.__module__ == "paddle.autograd.py_layer":  # the one that only says: write your own
                continue
            self._held.append(function)
            self._classes[id(function.__code__)] = kind
            splice = self._splices[id(function)] = Splice(function, handler)
            if self._looking:
                splice.on()

    def _trait(self, kind: type) -> Trait:
        trait = self._traits.get(kind)
        if trait is None:
            trait = Trait(f"{kind.__module__}.{kind.__qualname__}.apply", mutates=True, by_context=True)
            self._traits[kind] = self._watch.enter_trait(trait)
        return trait


def node_names(kind: str) -> tuple[str, str]:
    """What the node of a PyLayer may be called: after its class since Paddle 3.3, before that after its context."""
    return f"GradNodePyLayer_{kind}", f"GradNodePyLayer_{kind}_backward"


def _below(kind: Any) -> Iterator[type]:
    for lower in kind.__subclasses__():
        yield lower
        yield from _below(lower)
