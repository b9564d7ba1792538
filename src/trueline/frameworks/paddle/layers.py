"""Knows which Layer is running, and records calls of Layers if asked to.

Paths are found from the outermost Layer that is called: ``layers.2.attention``, as in its state dict.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import paddle

from trueline.frameworks.paddle.calls import MODULE
from trueline.frameworks.paddle.names import Trait
from trueline.frameworks.states import is_outermost
from trueline.records import Level
from trueline.store.columns import NONE

if TYPE_CHECKING:
    from trueline.frameworks.paddle.calls import OpenCall, Watch
    from trueline.frameworks.paddle.states import States


class LayerWatch:
    """Stands in for the call of every Layer."""

    def __init__(self, watch: Watch, states: States | None = None) -> None:
        self._watch = watch
        self._states = states
        self._paths: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._numbers: dict[int, tuple[Any, int]] = {}
        self._traits: dict[str, Trait] = {}
        self._record = Level.MODULE in watch.scope.levels
        self._stacks_wanted = watch.scope.stacks

    def handle(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a Layer; one that no other Layer has called is a moment at which the state of the program is written
        down."""
        watch, states, left = self._watch, self._states, None
        if not watch.looking:
            return original(*args, **kwargs)
        modules, call, entered = watch.state.modules, None, False
        if states is not None and not states.inside and is_outermost(modules):
            left = states.entered(args[0], args[1:], kwargs)
        try:
            self._enter(args[0])
            entered = True
            if self._record and not watch.state.open:
                call = self._begin(args[0], args[1:], kwargs)
        except Exception as error:
            watch.notebook.trouble(error)
        depth = len(modules)
        try:
            if left is not None:
                states.inside = True  # type: ignore[union-attr]  # else nobody was left
            result = original(*args, **kwargs)
        except BaseException as error:
            if call is not None:
                watch.abort(call, error)
            raise
        else:
            if call is not None:
                self._end(call, result)
        finally:
            if entered:
                del modules[depth - 1 :]
            if left is not None:
                states.inside = False  # type: ignore[union-attr]
        if left is not None:
            left(result)
        return result

    def _begin(self, layer: Any, args: Any, kwargs: dict[str, Any]) -> OpenCall | None:
        parameters = {name: value for name, value in layer._parameters.items() if value is not None}
        parameters.update(
            (name, value) for name, value in layer._buffers.items() if isinstance(value, paddle.Tensor)
        )
        watch = self._watch
        watch.state.open += 1
        try:
            return watch.begin(MODULE, self._trait(type(layer)), args, kwargs, parameters)
        finally:
            watch.state.open -= 1

    def _end(self, call: OpenCall, result: Any) -> None:
        watch = self._watch
        watch.state.open += 1
        try:
            watch.end(call, result)
        except Exception as error:
            watch.notebook.trouble(error)
        finally:
            watch.state.open -= 1

    def _trait(self, kind: type) -> Trait:
        name = f"{kind.__module__}.{kind.__qualname__}"
        trait = self._traits.get(name)
        if trait is None:
            trait = self._traits[name] = self._watch.enter_trait(Trait(name))
        return trait

    def _enter(self, layer: Any) -> None:
        modules = self._watch.state.modules
        above = modules[-1][1] if modules else NONE
        stack = self._watch.stacks.here(2, above) if self._stacks_wanted else NONE
        known = self._numbers.get(id(layer))
        number = known[1] if known is not None and known[0]() is layer else self._learn(layer)
        modules.append((number, stack, layer))

    def _learn(self, layer: Any) -> int:
        """Numbers a Layer that was not seen before; the outermost one names all that are in it."""
        modules = self._watch.state.modules
        if not modules:
            for name, child in layer.named_sublayers(include_self=True):
                self._paths.setdefault(child, name)
        path = self._paths.get(layer)
        if path is None:
            parent = modules[-1][2] if modules else None
            path = f"{self._paths.get(parent, '') if parent is not None else ''}.<{type(layer).__name__}>".lstrip(".")
            self._paths[layer] = path
        kind = type(layer).__qualname__
        number = self._watch.notebook.define("modules", (path, kind), lambda: [path, kind])
        self._watch.selection.module(number, path)
        self._numbers[id(layer)] = (weakref.ref(layer), number)
        return number
