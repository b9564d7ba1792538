"""Opens and closes every way by which calls reach a Watch, and is the Watcher that a capture drives.

function mode   torch's Python API
dispatch mode   kernels (level kernel, or the witness)
splices         modules, autograd.Function.apply, collectives, compiled and scripted functions, new threads, and
                whatever takes the program apart: compilers, exporters, tracers

Opening is all or nothing: what undoes a door is noted before the door is opened, and when one fails all are undone.
While a compiler or tracer is at work on a thread, or what it made runs, our modes are off there and no splice of ours
lies in its way: it must find what it would find without us.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import types
from collections.abc import Iterator
from typing import Any

import torch

from trueline.frameworks import depth
from trueline.frameworks.base import Notebook, Scope
from trueline.frameworks.imports import on_import
from trueline.frameworks.selection import is_narrow
from trueline.frameworks.switch import Laid, Switch, Undo
from trueline.frameworks.torch import compiler, regions
from trueline.frameworks.torch.asking import quick_asking
from trueline.frameworks.torch.borders import Borders
from trueline.frameworks.torch.calls import quick_registration
from trueline.frameworks.torch.functions import custom_functions
from trueline.frameworks.torch.modes import (
    KernelMode,
    Lifted,
    Traits,
    api_mode,
    push,
    push_kernels,
    remove,
    remove_all,
    remove_kernels,
)  # fmt: skip
from trueline.frameworks.torch.modules import ModuleWatch
from trueline.frameworks.torch.optimizers import hooks_away
from trueline.frameworks.torch.quiet import quiet_properties
from trueline.frameworks.torch.splice import Splice
from trueline.frameworks.torch.states import States
from trueline.frameworks.torch.unseen import Unseen
from trueline.frameworks.torch.warned import WarningsInPlace
from trueline.frameworks.torch.watch import Watch
from trueline.records import Level
from trueline.store.interrupts import shielded

COMPILED = "inside of a torch.compile region (its inputs and outputs are recorded)"
WHOLE_BACKWARD = "gradients of calls whose backward is compiled as a whole (compiled autograd)"
SCRIPTED = "inside of a torch.jit function (its inputs and outputs are recorded)"
OTHER_THREADS = "modules that other threads called while a compiled region ran"


class TorchWatcher:
    """Looks at a PyTorch program."""

    def __init__(self, notebook: Notebook, scope: Scope) -> None:
        self.watch: Any = Watch(notebook, scope)
        self._scope = scope
        self._traits = Traits(self.watch)
        self._states = None if is_narrow(scope) else States(self.watch)
        self._prepare(record=Level.API in scope.levels)
        self._listen()

    _states: States | None = None
    """What writes down the named state of the program; nobody where only a part of the calls is wanted."""

    def _prepare(self, *, record: bool) -> None:
        scope = self._scope
        self._mode = api_mode(self.watch, self._traits, record=record)
        self._modules = ModuleWatch(self.watch, self._traits, self._states)
        self._kernels: KernelMode | None = None
        if Level.KERNEL in scope.levels or scope.witness:
            self._kernels = KernelMode(
                self.watch, self._traits, record=Level.KERNEL in scope.levels, witness=scope.witness
            )
        self._records = Level.API in scope.levels
        self._has_mode = bool(scope.levels & {Level.API, Level.MODULE})
        """Between modules nothing is recorded, but what happens there may change what was."""
        self._inside, self._around = Switch(), Switch()
        """What a compiler must not come across; and the ways into compilers, which stay."""
        self._found = False
        self._threads: set[int] = set()
        self._undo = Undo()
        self._undo_last = Undo()
        """What stays between captured steps, when it does nothing."""
        self._borders = Borders(self.watch, self._traits, self._splice_border)

    def _listen(self) -> None:
        """Hears of graphs that are compiled, also before the first step that is wanted: later nobody has them."""
        there = {name for name in compiler.LISTENED if regions.is_there(name)}
        for name in sorted(there):
            self._compiler_found(name)
        self._undo_last.add(on_import(compiler.LISTENED - there, self._compiler_found))
        for function in compiler.compiled_graphs():
            self._borders.found(function)

    def _compiler_found(self, name: str) -> None:
        borders = self._borders
        found: list[tuple[Any, Any]] = []
        if name == compiler.GRAPHS:
            found += [(function, borders.compiles) for function in compiler.compiles()]
            found += [(function, borders.installs) for function in compiler.installs()]
        else:
            found += [(function, borders.stage(stages)) for function, stages in compiler.logs()]
        for function, handler in found:
            self._splice_border(function, handler)

    def _splice_border(self, function: Any, handler: Any) -> None:
        splice = Splice(function, handler)
        self._undo_last.add(splice.off)
        splice.on()

    def start(self) -> None:
        if self.watch.looking:
            return
        self._open()

    @shielded
    def _open(self) -> None:
        try:
            self._undo.add(self._stop_looking)
            self.watch.looking = True
            self.watch.selection.new_step()
            self._find()
            for switch in (self._around, self._inside):
                self._undo.add(switch.off)
                switch.on()
            self._open_modes()
        except BaseException:
            self._shut()
            raise

    def _stop_looking(self) -> None:
        self.watch.looking = False
        self.watch.state.modules.clear()

    def _open_modes(self) -> None:
        if self._kernels is not None:
            kernels = self._kernels
            self._undo.add(lambda: remove_kernels(kernels))
            push_kernels(kernels)
        if self._has_mode:
            self._undo.add(lambda: remove_all(self._mode))
            push(self._mode)
        if self.watch.recorder is not None and self.watch.scope.backward:
            self._undo.add(quick_registration(self.watch.fast))

    @shielded
    def _close_doors(self) -> None:
        self._undo.all()

    @shielded
    def _shut(self) -> None:
        """Closes every door."""
        try:
            self._undo.all()
        finally:
            self._undo_last.all()
            self._found = False
            self._inside, self._around = Switch(), Switch()  # they hold functions of the program

    def pause(self) -> None:
        if not self.watch.looking:
            return
        self._end_states()
        self._close_doors()
        self.watch.end_step()

    def turn(self) -> None:
        """A wanted step ends and the next one is wanted too: the doors stay open."""
        if not self.watch.looking:
            self.start()
            return
        self._end_states()
        self.watch.state.modules.clear()
        self.watch.end_step()
        self.watch.selection.new_step()

    def _end_states(self) -> None:
        if self._states is not None:
            self._states.end_step()

    def abandon(self) -> None:
        """Stops looking and records nothing more; in a forked child the notebook is somebody else's."""
        self._shut()

    def close(self) -> None:
        """Ends the looking for good."""
        try:
            self.pause()
        finally:
            self._shut()

    # What is exchanged, found once.

    def _find(self) -> None:
        if self._found:
            return
        self._inside, self._around = Switch(), Switch()
        self._undo_last.add(self._around.off)
        self._undo_last.add(self._inside.off)
        self._inside.add(self._modules.splice())
        self._inside.add(WarningsInPlace())
        self._inside.add(custom_functions(self._custom_function))
        if self._kernels is not None:
            for function in regions.rules():
                self._splice(self._inside, function, _rule)
        if self._states is not None:
            for function in regions.backwards():
                self._splice(self._inside, function, self._states.backward)
        self._splice_methods()
        self._splice(self._around, threading.Thread._bootstrap_inner, self._thread)  # type: ignore[attr-defined]
        for kind in (torch._C.ScriptFunction, torch._C.ScriptMethod):
            self._inside.add(Laid(kind, "__call__", self._scripted(kind)))
        if self._has_mode:
            own = torch.overrides.has_torch_function
            self._inside.add(Laid(torch.overrides, "has_torch_function", self._asks_fast_path(own)))
            # once: Python gives up remembering attributes of a class that is changed too often
            self._undo_last.add(quiet_properties(self.watch.fast, self._mode))
            asking = quick_asking(self._mode)
            if asking is not None:
                self._inside.add(asking)
        there = [name for name in regions.LATE if regions.is_there(name)]
        for name in there:
            self._found_module(name)
        self._undo_last.add(on_import(regions.LATE - set(there), self._imported))
        self._found = True

    def _splice_methods(self) -> None:
        for name in ("apply", "apply_boxed"):
            function = vars(torch.autograd.function.BackwardCFunction).get(name)
            if isinstance(function, types.FunctionType):
                self._splice(self._around, function, self._custom_backward)

    def _splice(self, switch: Switch, function: Any, handler: Any) -> None:
        switch.add(Splice(function, handler))

    def _imported(self, name: str) -> None:
        try:
            with Unseen():
                self._found_module(name)
        except Exception as error:
            self.watch.notebook.trouble(error)

    def _found_module(self, name: str) -> None:
        """Looks through a module that the program has imported."""
        if name == regions.COLLECTIVES:
            for function in regions.collectives():
                self._splice(self._inside, function, self._collective)
        for function in regions.tracers(name):
            self._splice(self._around, function, self._traced(f"{function.__module__}.{function.__qualname__}"))
        for function in regions.whole_backward() if name == regions.WHOLE_BACKWARD else ():
            self._splice(self._around, function, self._whole_backward)
        if name == regions.COMPILER:
            self._find_compiler()

    def _find_compiler(self) -> None:
        for function in regions.compiled_functions():
            self._splice_compiled(function)
        for function in regions.compiled_modules():
            self._splice(self._around, function, self._compiled_module)
        exporter = regions.exporter()
        if exporter is not None:
            self._splice(self._around, exporter, self._exporter)
        maker = regions.compiler()
        if maker is not None:  # stays on between captured steps too: compiling is rare, and what it makes is wanted
            made = Splice(maker, self._compile)
            self._undo_last.add(made.off)
            made.on()
        regions.hide_from_compiler(self._own_codes())

    def _splice_compiled(self, function: Any) -> None:
        self._splice(self._around, function, functools.partial(self._compiled, regions.compiled_module(function)))

    def _own_codes(self) -> list[types.CodeType]:
        """What of us runs within a compiled region, where one region is entered from another."""
        methods: tuple[Any, ...] = (self._compiled, self._compiled_module, self._region, self._custom_backward)
        traced: Any = self._traced("")
        own = [traced.__code__, *self._borders.codes(), *Splice.own_codes()]
        return [method.__func__.__code__ for method in methods] + own

    def _asks_fast_path(self, own: Any) -> Any:
        """Some modules of torch take a faster way if no tensor would be asked about its calls; ours asks about none."""

        def has_torch_function(values: Any) -> bool:
            with Lifted(self._mode):
                return bool(own(values))

        return has_torch_function

    def optimizer_begins(self, optimizer: Any) -> None:
        if self.watch.looking:
            if self._states is not None:
                self._states.optimizer_begins(optimizer)
            self.watch.enter_optimizer(optimizer)

    def optimizer_ends(self, optimizer: Any) -> None:
        if self.watch.looking:
            self.watch.leave_optimizer()
            if self._states is not None:
                self._states.optimizer_ends(optimizer)

    # The handlers below run in the place of a function, in the user's context: modes are on.

    def _custom_function(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        kind = args[0]
        if regions.is_compiled_backward(kind):
            with self._lifted():
                return original(*args, **kwargs)
        if not self._records:
            return original(*args, **kwargs)
        name = f"{kind.__module__}.{kind.__qualname__}.apply"
        trait = self._traits.named(name, mutates=True)
        state = self.watch.state
        state.functions += 1
        try:
            return self.watch.call_outside(trait, original, args, kwargs, skip_first=True)
        finally:
            state.functions -= 1

    def _custom_backward(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.watch.state.region or not regions.is_compiled_backward(getattr(args[0], "_forward_cls", None)):
            return original(*args, **kwargs)
        with self._lifted():
            return original(*args, **kwargs)

    def _whole_backward(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._without_hooks(original(*args, **kwargs))

    @contextlib.contextmanager
    def _without_hooks(self, context: Any) -> Iterator[Any]:
        """Within what compiles backwards as a whole no hook is put at a node: it would be compiled too."""
        before = self.watch.backward_wanted
        self.watch.backward_wanted = False
        if before:
            self.watch.notebook.tally.miss(WHOLE_BACKWARD)
        try:
            with context as entered:
                yield entered
        finally:
            self.watch.backward_wanted = before

    def _collective(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        state = self.watch.state
        if state.in_collective or not self._records:  # one that is made of another, or torch asking about it once more
            return original(*args, **kwargs)
        trait = self._traits.named(f"torch.distributed.{original.__name__}", mutates=True, hides_all=True)
        wait = original.__name__ not in regions.POINT_TO_POINT
        state.in_collective = True
        try:
            return self.watch.call_outside(trait, original, args, kwargs, wait=wait)
        finally:
            state.in_collective = False

    # Regions.

    @contextlib.contextmanager
    def _lifted(self) -> Iterator[None]:
        """Nothing of ours is in the way: no mode on this thread, no splice that a compiler would look into."""
        state = self.watch.state
        if Level.MODULE in self._scope.levels and self._threads - {threading.get_ident()}:
            self.watch.notebook.tally.miss(OTHER_THREADS)
        state.region = True
        try:
            with hooks_away(), self._inside.away(), Lifted(self._mode, self._kernels):
                yield
        finally:
            state.region = False

    def _compiled(self, module: Any, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.watch.state.region:  # a compiled module is called through a compiled function: one region
            return original(*args, **kwargs)
        name = regions.compiled_name(original)
        if module is None or not self.watch.looking:
            return self._region(name, original, args, kwargs)

        def run(_: Any, *inner: Any, **named: Any) -> Any:
            return self._region(name, original, inner, named)

        return self._modules.around(run, (module, *args), kwargs)

    def _compiled_module(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.watch.state.region:
            return original(*args, **kwargs)
        module = getattr(args[0], "_orig_mod", args[0])
        name = type(module).__qualname__
        if not self.watch.looking:
            return original(*args, **kwargs)

        def run(_: Any, *inner: Any, **named: Any) -> Any:
            return self._region(name, original, (args[0], *inner), named, skip_first=True)

        return self._modules.around(run, (module, *args[1:]), kwargs)

    def _region(
        self, name: str, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, skip_first: bool = False
    ) -> Any:
        """Records what goes in and out of a compiled region; where it is one graph, the graph's own call says it."""

        def run(*inner: Any, **named: Any) -> Any:
            with self._lifted():
                return original(*inner, **named)

        if not self.watch.looking:
            return original(*args, **kwargs)
        self.watch.notebook.tally.miss(COMPILED)
        self._settle()
        trait = self._traits.named(f"torch.compile.{name}", mutates=True)
        before = self._borders.entered()
        return self.watch.call_outside(
            trait, run, args, kwargs, skip_first=skip_first, unless=lambda: self._borders.entered() == before + 1
        )

    def _settle(self) -> None:
        """Has what waits read: unseen code may change any of it."""
        try:
            with Unseen():
                self.watch.desk.settle()
        except Exception as error:
            self.watch.notebook.trouble(error)

    def _compile(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        made = original(*args, **kwargs)
        function = made if isinstance(made, types.FunctionType) else getattr(made, "forward", None)
        if regions.is_compiled(function):
            self._splice_compiled(function)
        return made

    def _exporter(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        handler = self._traced("torch._dynamo.export")
        made = handler(original, args, kwargs)
        if isinstance(made, types.FunctionType):
            self._splice(self._around, made, handler)
        return made

    def _traced(self, name: str) -> Any:
        """Stands in for a function that takes a program apart: what is called in there is nobody's computation."""

        def handler(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if self.watch.state.region or not self.watch.looking:
                return original(*args, **kwargs)
            self.watch.notebook.tally.miss(f"inside of {name}")
            self._settle()
            with self._lifted():
                return original(*args, **kwargs)

        return handler

    def _scripted(self, kind: Any) -> Any:
        """Stands in for the call of a scripted or traced function, which torch asks no mode about."""
        own = vars(kind)["__call__"]

        def __call__(*args: Any, **kwargs: Any) -> Any:
            original = depth.Called(own.__get__(None, kind), depth.left() + 1 + depth.C_CALL)
            if not (self.watch.looking and self._records) or self.watch.state.region or _is_tracing() is not None:
                return original(*args, **kwargs)
            self.watch.notebook.tally.miss(SCRIPTED)
            self._settle()
            trait = self._traits.named(f"torch.jit.{getattr(args[0], 'name', 'function')}", mutates=True)
            state = self.watch.state
            state.open += 1
            try:
                with depth.Roomy():
                    return self.watch.call_outside(trait, original, args, kwargs, skip_first=True, frames=2)
            finally:
                state.open -= 1

        return __call__

    def _thread(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self.watch.looking or args[0].name.startswith("trueline"):
            return original(*args, **kwargs)
        self._threads.add(threading.get_ident())
        try:
            if self._has_mode:
                push(self._mode)
            if self._kernels is not None:
                push_kernels(self._kernels)
            return original(*args, **kwargs)
        finally:
            self._threads.discard(threading.get_ident())
            remove(self._mode)
            if self._kernels is not None:
                remove_kernels(self._kernels)


def _rule(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Stands in for what torch asks, for each kernel, whether an operator has a rule for a mode: none has for ours."""
    return None if KernelMode in args else original(*args, **kwargs)


_is_tracing = torch._C._get_tracing_state
