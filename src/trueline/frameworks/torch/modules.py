"""Knows which module is running, by torch's global module hooks, and records calls of modules if asked to.

Paths are found from the outermost module that is called: ``layers.2.attention``, as in its state dict.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch

from trueline.frameworks.torch.modes import Traits
from trueline.frameworks.torch.watch import MODULE, NoTorchFunction
from trueline.records import Level

if TYPE_CHECKING:
    from trueline.frameworks.torch.watch import OpenCall, Watch


class ModuleWatch:
    """The two global hooks."""

    def __init__(self, watch: Watch, traits: Traits) -> None:
        self._watch = watch
        self._traits = traits
        self._paths: weakref.WeakKeyDictionary[torch.nn.Module, str] = weakref.WeakKeyDictionary()
        self._numbers: dict[int, tuple[Any, int]] = {}
        self._record = Level.MODULE in watch.scope.levels
        self._stacks_wanted = watch.scope.stacks
        self._open: dict[int, list[OpenCall | None]] = {}

    def before(self, module: torch.nn.Module, args: Any) -> None:
        watch = self._watch
        try:
            state = watch.state
            modules = state.modules
            above = modules[-1][1] if modules else -1
            stack = watch.stacks.here(3, above) if self._stacks_wanted else -1
            known = self._numbers.get(id(module))
            number = known[1] if known is not None and known[0]() is module else self._enter(module)
            modules.append((number, stack, module))
            if self._record:
                self._begin(module, args)
        except Exception as error:
            watch.notebook.trouble(error)

    def after(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        watch = self._watch
        try:
            if self._record:
                self._end(output)
            modules = watch.state.modules
            while modules:  # a module that raised without our hearing of it is left behind: drop it too
                if modules.pop()[2] is module:
                    break
        except Exception as error:
            watch.notebook.trouble(error)

    def _begin(self, module: torch.nn.Module, args: Any) -> None:
        kind = type(module)
        trait = self._traits.named(f"{kind.__module__}.{kind.__qualname__}")
        parameters = {name: value for name, value in module._parameters.items() if value is not None}
        parameters.update((name, value) for name, value in module._buffers.items() if value is not None)
        with NoTorchFunction():
            call = self._watch.begin(MODULE, trait, args, None, 5, parameters)
        self._open.setdefault(self._watch.state.number, []).append(call)

    def _end(self, output: Any) -> None:
        calls = self._open.get(self._watch.state.number)
        call = calls.pop() if calls else None
        if call is not None:
            with NoTorchFunction():
                self._watch.end(call, output)

    def _enter(self, module: torch.nn.Module) -> int:
        """Numbers a module that was not seen before; the outermost one names all that are in it."""
        path = self._paths.get(module)
        if path is None or not self._watch.state.modules:
            if not self._watch.state.modules:
                for name, child in module.named_modules():
                    self._paths.setdefault(child, name)
            path = self._paths.get(module)
        if path is None:
            parent = self._watch.state.modules[-1][2]
            path = f"{self._paths.get(parent, '') if parent is not None else ''}.<{type(module).__name__}>".lstrip(".")
            self._paths[module] = path
        kind = type(module).__qualname__
        number = self._watch.notebook.define("modules", (path, kind), lambda: [path, kind])
        self._watch.selection.module(number, path)
        self._numbers[id(module)] = (weakref.ref(module), number)
        return number
