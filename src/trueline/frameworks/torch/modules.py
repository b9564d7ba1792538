"""Knows which module is running, and records calls of modules if asked to.

Paths are found from the outermost module that is called: ``layers.2.attention``, as in its state dict.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch

from trueline.frameworks.states import is_outermost
from trueline.frameworks.torch.modes import Traits
from trueline.frameworks.torch.splice import FRAMES, Splice
from trueline.frameworks.torch.watch import MODULE
from trueline.records import Level

if TYPE_CHECKING:
    from trueline.frameworks.torch.opencalls import OpenCall
    from trueline.frameworks.torch.states import States
    from trueline.frameworks.torch.watch import Watch


_FRAMES_AROUND = FRAMES + 1
"""Frames between what hears of a module and its caller: those of a splice, and torch's ``_wrapped_call_impl``."""


class ModuleWatch:
    """Hears of every module before and after it runs."""

    def __init__(self, watch: Watch, traits: Traits, states: States | None = None) -> None:
        self._watch = watch
        self._states = states
        self._traits = traits
        self._paths: weakref.WeakKeyDictionary[torch.nn.Module, str] = weakref.WeakKeyDictionary()
        self._numbers: dict[int, tuple[Any, int]] = {}
        self._record = Level.MODULE in watch.scope.levels
        self._stacks_wanted = watch.scope.stacks

    def splice(self) -> Splice:
        """What hears of modules while it is on, by standing around torch's own function that calls one. Not by torch's
        hooks: for as long as there is any, torch calls every module in a way that takes longer than many a module, and
        the compiler makes another graph of it."""
        return Splice(torch.nn.Module._call_impl, self._handler())

    def _handler(self) -> Any:
        finder = self._watch.stacks.finder
        if self._record or self._watch.fast is None or finder is None:
            return self.around
        return self._watch.fast.Modules(
            notebook=self._watch.notebook,
            threads=self._watch.state,
            numbers=self._numbers,
            enter=self._enter,
            outermost=None if self._states is None else self.around,
            finder=finder,
            frames=_FRAMES_AROUND,
            stacks_wanted=self._stacks_wanted,
        ).around

    def around(self, call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Makes the call of a module, the first of the arguments; one that no other module has called is a moment at
        which the state of the program is written down."""
        module, opened, left, states = args[0], None, None, self._states
        if states is not None and not states.inside and is_outermost(self._watch.state.modules):
            left = states.entered(module, args[1:], kwargs)
        try:
            self._push(module, _FRAMES_AROUND + 3)
            if self._record:
                opened = self._begin(module, args[1:], kwargs)
        except Exception as error:
            self._watch.notebook.trouble(error)
        try:
            if left is not None:
                states.inside = True  # type: ignore[union-attr]  # else nobody was left
            result = call(*args, **kwargs)
            if opened is not None:
                self._watch.ended(opened, result)
        except BaseException as error:
            if opened is not None:
                self._watch.abort(opened, error)
            raise
        finally:
            self._pop(module)
            if left is not None:
                states.inside = False  # type: ignore[union-attr]
        if left is not None:
            left(result)
        return result

    def _push(self, module: torch.nn.Module, skip: int) -> None:
        modules = self._watch.state.modules
        above = modules[-1][1] if modules else -1
        stack = self._watch.stacks.here(skip, above) if self._stacks_wanted else -1
        known = self._numbers.get(id(module))
        number = known[1] if known is not None and known[0]() is module else self._enter(module)
        modules.append((number, stack, module))

    def _pop(self, module: torch.nn.Module) -> None:
        modules = self._watch.state.modules
        while modules:  # a module that raised without our hearing of it is left behind: drop it too
            if modules.pop()[2] is module:
                break

    def _begin(self, module: torch.nn.Module, args: Any, kwargs: dict[str, Any]) -> OpenCall | None:
        kind = type(module)
        trait = self._traits.named(f"{kind.__module__}.{kind.__qualname__}")
        parameters = {name: value for name, value in module._parameters.items() if value is not None}
        parameters.update((name, value) for name, value in module._buffers.items() if value is not None)
        return self._watch.begin(MODULE, trait, args, kwargs, _FRAMES_AROUND + 2, parameters)

    def _enter(self, module: torch.nn.Module) -> int:
        """Numbers a module that was not seen before; the outermost one names all that are in it."""
        path = self._paths.get(module)
        if path is None or not self._watch.state.modules:
            if not self._watch.state.modules:
                for name, child in module.named_modules():
                    self._paths.setdefault(child, _without_wrappers(name))
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


def _without_wrappers(path: str) -> str:
    """The path of a module in the model as it was written: one that torch.compile wraps has its wrapper's place."""
    return ".".join(part for part in path.split(".") if part != "_orig_mod")
