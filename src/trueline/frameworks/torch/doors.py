"""Opens and closes every way by which calls reach a Watch, and is the Watcher that a capture drives.

function mode         torch's Python API
splice, module hooks  which module is running; calls of modules themselves
dispatch mode         kernels (level kernel, or the witness)
splices               autograd.Function.apply, collectives, compiled functions, new threads
"""

from __future__ import annotations

import threading
import types
from collections.abc import Callable
from typing import Any

import torch

from trueline.frameworks.base import Notebook, Scope
from trueline.frameworks.torch import regions
from trueline.frameworks.torch.calls import quick_registration
from trueline.frameworks.torch.modes import KernelMode, StackLifted, Traits, api_mode, push, remove
from trueline.frameworks.torch.modules import ModuleWatch
from trueline.frameworks.torch.quiet import quiet_properties
from trueline.frameworks.torch.splice import Splice
from trueline.frameworks.torch.watch import NoTorchFunction, Watch
from trueline.records import Level


class TorchWatcher:
    """Looks at a PyTorch program."""

    def __init__(self, notebook: Notebook, scope: Scope) -> None:
        self.watch = Watch(notebook, scope)
        self._scope = scope
        self._traits = Traits(self.watch)
        self._mode = api_mode(self.watch, self._traits, record=Level.API in scope.levels)
        self._modules = ModuleWatch(self.watch, self._traits)
        self._kernels: KernelMode | None = None
        self._splices: list[Splice] | None = None
        self._undo: list[Callable[[], Any]] = []
        self._undo_last: list[Callable[[], Any]] = []
        """What stays between captured steps, when it does nothing."""

    def start(self) -> None:
        if self.watch.looking:
            return
        self.watch.looking = True
        self.watch.selection.new_step()
        levels = self._scope.levels
        self._modules.open()
        self._undo += [self._modules.close, self.watch.state.modules.clear]
        if Level.KERNEL in levels or self._scope.witness:
            self._kernels = KernelMode(
                self.watch, self._traits, record=Level.KERNEL in levels, witness=self._scope.witness
            )
            self._kernels.__enter__()
            self._undo.append(self._leave_kernels)
        if Level.API in levels:
            self._open_api()
        elif Level.MODULE in levels:  # what happens between modules is not recorded, but may change what was
            self._open_mode()

    def pause(self) -> None:
        if not self.watch.looking:
            return
        self.watch.looking = False
        while self._undo:
            self._undo.pop()()
        with NoTorchFunction():
            self.watch.end_step()

    def turn(self) -> None:
        """A wanted step ends and the next one is wanted too: the doors stay open."""
        if not self.watch.looking:
            self.start()
            return
        self.watch.state.modules.clear()
        with NoTorchFunction():
            self.watch.end_step()
        self.watch.selection.new_step()

    def abandon(self) -> None:
        """Stops looking and records nothing more; in a forked child the notebook is somebody else's."""
        self.watch.looking = False
        while self._undo:
            self._undo.pop()()
        self._leave()

    def close(self) -> None:
        """Ends the looking for good."""
        self.pause()
        self._leave()

    def _leave(self) -> None:
        while self._undo_last:
            self._undo_last.pop()()

    def _open_mode(self) -> None:
        push(self._mode)
        self._undo.append(lambda: remove(self._mode))
        if not self._undo_last:  # once: Python gives up remembering attributes of a class that is changed too often
            self._undo_last.append(quiet_properties(self.watch.fast, self._mode))

    def _open_api(self) -> None:
        self._open_mode()
        if self.watch.recorder is not None and self._scope.backward:
            self._undo.append(quick_registration(self.watch.fast))
        if self._splices is None:
            self._splices = self._make_splices()
        for splice in self._splices:
            splice.on()
            self._undo.append(splice.off)

    def _make_splices(self) -> list[Splice]:
        """Finds, once, what has no hook of torch's own."""
        doors = [(torch.autograd.Function.apply.__func__, self._custom_function)]  # type: ignore[attr-defined]
        doors += [(function, self._collective) for function in regions.collectives()]
        doors += [(function, self._compiled) for function in regions.compiled_functions()]
        doors += [(function, self._compiled_module) for function in regions.compiled_modules()]
        doors.append((threading.Thread._bootstrap_inner, self._thread))  # type: ignore[attr-defined]
        maker = regions.compiler()
        if maker is not None:  # stays on between captured steps too: compiling is rare, and what it makes is wanted
            made = Splice(maker, self._compile)
            made.on()
            self._undo_last.append(made.off)
        return [Splice(function, handler) for function, handler in doors]

    def _leave_kernels(self) -> None:
        assert self._kernels is not None, "left once, after entering"
        self._kernels.__exit__(None, None, None)
        self._kernels = None

    def optimizer_begins(self, optimizer: Any) -> None:
        if self.watch.looking:
            self.watch.enter_optimizer(optimizer)

    def optimizer_ends(self, optimizer: Any) -> None:
        if self.watch.looking:
            self.watch.leave_optimizer()

    # The handlers below run in the place of a function, in the user's context: modes are on.

    def _custom_function(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        kind = args[0]
        name = f"{kind.__module__}.{kind.__qualname__}.apply"
        trait = self._traits.named(name, mutates=True)
        state = self.watch.state
        state.functions += 1
        try:
            return self.watch.call_outside(trait, original, args, kwargs, skip_first=True)
        finally:
            state.functions -= 1

    def _collective(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        state = self.watch.state
        if state.in_collective:  # one that is made of another, or torch asking about it once more
            return original(*args, **kwargs)
        trait = self._traits.named(f"torch.distributed.{original.__name__}", mutates=True, hides_all=True)
        wait = original.__name__ not in regions.POINT_TO_POINT
        state.in_collective = True
        try:
            return self.watch.call_outside(trait, original, args, kwargs, wait=wait)
        finally:
            state.in_collective = False

    def _compiled(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._region(regions.compiled_name(original), original, args, kwargs)

    def _compiled_module(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = type(getattr(args[0], "_orig_mod", args[0])).__qualname__
        return self._region(name, original, args, kwargs, skip_first=True)

    def _region(
        self, name: str, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, skip_first: bool = False
    ) -> Any:
        """Records what goes in and out of a compiled region."""
        state = self.watch.state
        if state.region:  # a compiled module is called through a compiled function: one region
            return original(*args, **kwargs)
        self.watch.notebook.tally.miss("inside of a torch.compile region (its inputs and outputs are recorded)")
        with NoTorchFunction():
            self.watch.desk.settle()
        trait = self._traits.named(f"torch.compile.{name}", mutates=True)

        def run(*inner: Any, **named: Any) -> Any:
            self._modules.close()  # the compiler would look into hooks and modes of ours
            state.region = True
            try:
                with StackLifted():
                    return original(*inner, **named)
            finally:
                state.region = False
                self._modules.open()

        return self.watch.call_outside(trait, run, args, kwargs, skip_first=skip_first)

    def _compile(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        made = original(*args, **kwargs)
        function = made if isinstance(made, types.FunctionType) else getattr(made, "forward", None)
        if regions.is_compiled(function) and self._splices is not None:
            splice = Splice(function, self._compiled)  # type: ignore[arg-type]
            self._splices.append(splice)
            if self.watch.looking:
                splice.on()
                self._undo.append(splice.off)
        return made

    def _thread(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self.watch.looking or args[0].name.startswith("trueline"):
            return original(*args, **kwargs)
        push(self._mode)
        try:
            return original(*args, **kwargs)
        finally:
            remove(self._mode)
