"""Knows which module is running, and records calls of modules if asked to.

Paths are found from the outermost module that is called: ``layers.2.attention``, as in its state dict.
"""

from __future__ import annotations

import sys
import weakref
from functools import cache
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules import module as torch_modules

from trueline.frameworks.torch.modes import Traits
from trueline.frameworks.torch.splice import Splice
from trueline.frameworks.torch.watch import MODULE, NoTorchFunction
from trueline.records import Level

if TYPE_CHECKING:
    from trueline.frameworks.torch.opencalls import OpenCall
    from trueline.frameworks.torch.watch import Watch


_FRAMES_AROUND = 3
"""How many frames lie between the splice's own and the caller of a module: the gate, torch's ``_wrapped_call_impl``."""


class ModuleWatch:
    """Hears of every module before and after it runs."""

    def __init__(self, watch: Watch, traits: Traits) -> None:
        self._watch = watch
        self._traits = traits
        self._paths: weakref.WeakKeyDictionary[torch.nn.Module, str] = weakref.WeakKeyDictionary()
        self._numbers: dict[int, tuple[Any, int]] = {}
        self._record = Level.MODULE in watch.scope.levels
        self._stacks_wanted = watch.scope.stacks
        self._open: dict[int, list[tuple[OpenCall | None, BaseException | None]]] = {}
        """By thread, the calls of modules that are running, each with the error that was being handled as it began."""
        self._hooks: list[Any] = []
        self._splice: Splice | None = None

    def open(self) -> None:
        """Begins to hear of modules: by torch's hooks where their calls are recorded, else by standing around torch's
        own function that calls a module. For as long as there is any hook, torch calls every module in a way that
        takes longer than many a module."""
        if self._record:
            self._hooks = [
                torch_modules.register_module_forward_pre_hook(self.before),
                torch_modules.register_module_forward_hook(self.after, always_call=True),
            ]
            return
        if self._splice is None:
            self._splice = Splice(torch.nn.Module._call_impl, self._handler())
        self._splice.on()

    def close(self) -> None:
        """Hears of modules no more."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        if self._splice is not None:
            self._splice.off()

    def _handler(self) -> Any:
        finder = self._watch.stacks.finder
        if self._watch.fast is None or finder is None:
            return self.around
        return self._watch.fast.Modules(
            notebook=self._watch.notebook,
            threads=self._watch.state,
            numbers=self._numbers,
            enter=self._enter,
            finder=finder,
            frames=_FRAMES_AROUND,
            stacks_wanted=self._stacks_wanted,
        ).around

    def around(self, call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Makes the call of a module, the first of the arguments."""
        try:
            self._push(args[0], _FRAMES_AROUND + 3)
        except Exception as error:
            self._watch.notebook.trouble(error)
        try:
            return call(*args, **kwargs)
        finally:
            self.after(args[0], (), None)

    def before(self, module: torch.nn.Module, args: Any) -> None:
        watch = self._watch
        try:
            self._push(module, _frames_to_caller())
            if self._record:
                # The hook is not given keyword arguments; they lie in the frame that calls it.
                self._begin(module, args, sys._getframe(1).f_locals.get("kwargs"))
        except Exception as error:
            watch.notebook.trouble(error)

    def _push(self, module: torch.nn.Module, skip: int) -> None:
        modules = self._watch.state.modules
        above = modules[-1][1] if modules else -1
        stack = self._watch.stacks.here(skip, above) if self._stacks_wanted else -1
        known = self._numbers.get(id(module))
        number = known[1] if known is not None and known[0]() is module else self._enter(module)
        modules.append((number, stack, module))

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

    def _begin(self, module: torch.nn.Module, args: Any, kwargs: dict[str, Any] | None) -> None:
        kind = type(module)
        trait = self._traits.named(f"{kind.__module__}.{kind.__qualname__}")
        parameters = {name: value for name, value in module._parameters.items() if value is not None}
        parameters.update((name, value) for name, value in module._buffers.items() if value is not None)
        with NoTorchFunction():
            call = self._watch.begin(MODULE, trait, args, kwargs, 5, parameters)
        self._open.setdefault(self._watch.state.number, []).append((call, sys.exc_info()[1]))

    def _end(self, output: Any) -> None:
        calls = self._open.get(self._watch.state.number)
        call, earlier = calls.pop() if calls else (None, None)
        if call is None:
            return
        error = sys.exc_info()[1]
        if error is not None and error is not earlier:  # torch calls the hook while it handles what the module raised
            self._watch.abort(call, error)
            return
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


@cache
def _frames_to_caller() -> int:
    """How many frames lie between the stack's search and the caller of a module, when asked from ``before``: torch
    calls its hooks from ``_call_impl`` or, in newer versions, from a function inside it."""
    return _frames_to_call_impl(sys._getframe(1)) + 2


def _frames_to_call_impl(frame: FrameType | None) -> int:
    """How many frames there are from this one up to that in which torch calls a module, both counted."""
    depth = 1
    while frame is not None and frame.f_code is not torch.nn.Module._call_impl.__code__:
        frame = frame.f_back
        depth += 1
    return depth
