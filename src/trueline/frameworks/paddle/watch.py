"""Opens and closes every way by which calls reach a Watch, and is the Watcher that a capture drives.

public functions      their code is exchanged, so that whoever imported them before is seen
builtin functions     replaced in every module that holds them: kernels (``paddle._C_ops``) and a few public ones
tensors               methods and operators replaced in the class; getters of properties exchanged
Layers                the code of ``Layer.__call__`` is exchanged
PyLayers, backward    see ``pylayers``; the builtin functions that run a backward are replaced

Of calls inside each other the outermost is recorded: it is the one that the program made. What a Layer computes is
never inside a call. A kernel that nobody public has called is a call itself.
"""

from __future__ import annotations

import inspect
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import paddle
from paddle.base import core

from trueline.frameworks.base import Notebook, Scope
from trueline.frameworks.imports import on_import
from trueline.frameworks.paddle import names
from trueline.frameworks.paddle.calls import Watch
from trueline.frameworks.paddle.doors import Doors
from trueline.frameworks.paddle.layers import LayerWatch
from trueline.frameworks.paddle.names import Trait
from trueline.frameworks.paddle.optimizers import hear_of_scaled
from trueline.frameworks.paddle.pylayers import PyLayerWatch
from trueline.frameworks.paddle.states import States
from trueline.frameworks.paddle.witness import Witness
from trueline.frameworks.selection import is_narrow
from trueline.frameworks.splice import Splice
from trueline.frameworks.switch import Undo
from trueline.records import Level

_BACKWARDS = ("run_backward", "run_partial_grad")


class PaddleWatcher:
    """Looks at a Paddle program. ``watch`` is what the doors lead to, where it is not to be a ``Watch``."""

    def __init__(self, notebook: Notebook, scope: Scope, watch: Any = None) -> None:
        self.watch = Watch(notebook, scope) if watch is None else watch
        self._scope = scope
        self._states = States(self.watch) if watch is None and not is_narrow(scope) else None
        """What writes down the named state of the program; nobody where only a part of the calls is wanted."""
        self._layers = LayerWatch(self.watch, self._states)
        self._pylayers: PyLayerWatch | None = None
        self._doors = Doors()
        self._splices: dict[int, Splice] = {}
        self._held: list[Any] = []
        self._ready = False
        self._undo, self._ends = Undo(), Undo()
        """What closes the doors of a step, and what ends the looking for good."""
        self._waiting: list[str] = []
        """Targets whose modules the program has not imported yet."""
        if scope.witness and Level.API in scope.levels:
            self.watch.witness = Witness(notebook.tally)

    def start(self) -> None:
        if self.watch.looking:
            return
        try:
            self._open()
        except BaseException:
            self._stop_looking()
            raise

    def _open(self) -> None:
        """Opens every door; what undoes one is noted before it is opened."""
        if not self._ready:
            self._make_doors()
            self._ready = True
        self.watch.selection.new_step()
        self._undo.add(self.watch.state.modules.clear)
        self.watch.looking = True
        for splice in self._splices.values():
            self._undo.add(splice.off)
            splice.on()
        self._undo.add(self._doors.close)
        self._doors.open()
        if self._pylayers is not None:
            self._undo.add(self._pylayers.off)
            self._pylayers.on()
        if self._states is not None:
            self._undo.add(hear_of_scaled(self._states.scaled))
        if self.watch.witness is not None:
            self._undo.add(self.watch.witness.off)
            self.watch.witness.on()

    def pause(self) -> None:
        if not self.watch.looking:
            return
        self._end_states()
        self._stop_looking()
        self.watch.end_step()

    def turn(self) -> None:
        """A wanted step ends and the next one is wanted too: to set two thousand names back and forth takes longer than
        a small step."""
        if not self.watch.looking:
            self.start()
            return
        self._end_states()
        if self.watch.witness is not None:
            self.watch.witness.off()
        self.watch.state.modules.clear()
        self.watch.end_step()
        self.watch.selection.new_step()
        if self.watch.witness is not None:
            self.watch.witness.on()

    def _end_states(self) -> None:
        if self._states is not None:
            self._states.end_step()

    def abandon(self) -> None:
        """Stops looking and records nothing more; in a forked child the notebook is somebody else's."""
        self._stop_looking()
        self._ends.all()

    def close(self) -> None:
        """Ends the looking for good."""
        try:
            self.pause()
        finally:
            self._ends.all()
            self._doors.take_back()
        for name in self._waiting:
            self._not_found(name, f"the program imported no module of its name ({name.rpartition('.')[0] or name})")
        self._waiting = []

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

    def _stop_looking(self) -> None:
        self.watch.looking = False
        self._undo.all()

    def _make_doors(self) -> None:
        """Finds, once, everything that may be called."""
        levels = self._scope.levels
        self._splice(vars(paddle.nn.Layer)["__call__"], self._layers.handle)
        for name in _BACKWARDS:
            if hasattr(core.eager, name):
                self._doors.add(core.eager, name, self._backward(getattr(core.eager, name)))
        if Level.API in levels:
            self._open_api()
        elif Level.KERNEL in levels:
            self._open_kernels(self.watch.kernel)
            self._open_tensor(only_builtin=True, make=self.watch.kernel)
        else:  # what happens between Layers is not recorded, but may change what was
            self._open_kernels(None)

    def _open_api(self) -> None:
        functions = names.public_functions()
        ignored = frozenset(self._scope.ignored)
        for name, function in functions.values():
            if name in ignored:
                continue
            trait = self.watch.enter_trait(names.function_trait(name))
            if isinstance(function, types.FunctionType):
                self._splice(function, self._function(trait))
            else:
                self._doors.add_everywhere(function, self._wrapped(trait, function, self.watch.call))
        self._open_kernels(self.watch.call)
        self._open_tensor(only_builtin=False, make=self.watch.call)
        for name, getter in names.tensor_properties().items():
            self._splice(getter, self._function(self.watch.enter_trait(Trait(f"paddle.Tensor.{name}"))))
        self._open_targets()
        self._pylayers = PyLayerWatch(self.watch)
        self.watch.remember_context = self._pylayers.remember

    def _open_kernels(self, make: Callable[..., Any] | None) -> None:
        """Has all kernels lead to us; without ``make`` only those that change what they are given."""
        for module_name, kernels in names.kernels().items():
            module = sys.modules[module_name]
            for name, kernel in kernels.items():
                trait = names.kernel_trait(module_name, name)
                if make is None and not trait.mutates:
                    continue
                if name == "_run_custom_op" and make is not None:
                    wrapper = self._custom(kernel, make)
                else:
                    wrapper = self._wrapped(self.watch.enter_trait(trait), kernel, make)
                self._doors.add(module, name, wrapper)
                if id(kernel) not in self._doors.builtins:  # a public name is the better one
                    self._doors.add_everywhere(kernel, wrapper)

    def _open_tensor(self, *, only_builtin: bool, make: Callable[..., Any]) -> None:
        for name, method in names.tensor_methods().items():
            if not only_builtin or not isinstance(method, types.FunctionType):
                trait = self.watch.enter_trait(names.method_trait(name))
                self._doors.add(paddle.Tensor, name, self._wrapped(trait, method, make))

    def _open_targets(self) -> None:
        """Has the functions that the user named lead to us, now or when the program imports their modules: a list of
        names has nothing imported."""
        self._waiting = [name for name in self._scope.targets if not self._open_target(name)]
        modules = {name.rsplit(".", count)[0] for name in self._waiting for count in range(1, name.count(".") + 1)}
        missing = modules - set(sys.modules)
        if missing:
            self._ends.add(on_import(missing, self._imported))

    def _imported(self, module: str) -> None:
        """Looks for the targets again that still wait for their modules."""
        known = set(self._splices)
        self._waiting = [name for name in self._waiting if not self._open_target(name)]
        if self.watch.looking:
            for key in set(self._splices) - known:
                self._undo.add(self._splices[key].off)
                self._splices[key].on()
            self._doors.open()

    def _open_target(self, name: str) -> bool:
        """Has a function lead to us; whether its module was there. A name that leads nowhere in it is one warning."""
        try:
            found = _find(name)
        except LookupError as error:
            self._not_found(name, str(error))
            return True
        if found is None:
            return False
        owner, function = found
        trait = self.watch.enter_trait(names.function_trait(name))
        if isinstance(function, types.FunctionType):
            self._splice(function, self._function(trait))
        elif vars(owner).get(name.rpartition(".")[2]) is function and id(function) not in self._doors.builtins:
            wrapper = self._wrapped(trait, function, self.watch.call)
            self._doors.add(owner, name.rpartition(".")[2], wrapper)
            self._doors.add_everywhere(function, wrapper)
        return True

    def _not_found(self, name: str, reason: str) -> None:
        warnings.warn(f"trueline does not record {name}: {reason}", RuntimeWarning, stacklevel=2)
        self.watch.notebook.tally.miss(f"target {name}: {reason}")

    def _splice(self, function: types.FunctionType, handler: Any) -> None:
        if id(function) not in self._splices:
            self._held.append(function)
            self._splices[id(function)] = Splice(function, handler)

    # What stands in for the functions.

    def _function(self, trait: Trait) -> Any:
        watch, call = self.watch, self.watch.call
        state = watch.state

        def handle(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if state.open or not watch.looking:
                return original(*args, **kwargs)
            return call(trait, original, args, kwargs)

        return handle

    def _wrapped(self, trait: Trait, original: Any, make: Callable[..., Any] | None) -> Any:
        watch = self.watch
        state, mutates, written = watch.state, trait.mutates, watch.written

        def stand_in(*args: Any, **kwargs: Any) -> Any:
            if watch.looking and not state.open and make is not None:
                return make(trait, original, args, kwargs)
            result = original(*args, **kwargs)
            if mutates and watch.looking:
                written(result)
            return result

        return self._doors.wrapper(original, stand_in)

    def _custom(self, original: Any, make: Callable[..., Any]) -> Any:
        watch = self.watch
        traits: dict[str, Trait] = {}

        def stand_in(*args: Any, **kwargs: Any) -> Any:
            if not watch.looking or watch.state.open or not args:
                return original(*args, **kwargs)
            name = f"custom_op.{args[0]}"
            if name not in traits:
                traits[name] = watch.enter_trait(Trait(name, mutates=True))
            return make(traits[name], original, args, kwargs)

        return self._doors.wrapper(original, stand_in)

    def _backward(self, original: Any) -> Any:
        watch, states = self.watch, self._states
        state = watch.state

        def stand_in(*args: Any, **kwargs: Any) -> Any:
            if not watch.looking:
                return original(*args, **kwargs)
            if states is not None:
                states.backward_begins(args[0] if args else ())
            watch.backward_begins(args[0] if args else ())
            state.backwards += 1
            try:
                return original(*args, **kwargs)
            finally:
                state.backwards -= 1
                if watch.looking:
                    watch.backward_ends(outermost=not state.backwards)

        return self._doors.wrapper(original, stand_in)


def _find(name: str) -> tuple[Any, Any] | None:
    """The module or class that holds a function, and the function; None where no module of this name is imported, and
    LookupError with the reason where it is no function."""
    parts = name.split(".")
    lengths = range(len(parts) - 1, 0, -1)
    length = next((length for length in lengths if ".".join(parts[:length]) in sys.modules), 0)
    if not length:
        return None
    owner: Any = sys.modules[".".join(parts[:length])]
    for part in parts[length:-1]:
        owner = inspect.getattr_static(owner, part, None)
    found = inspect.getattr_static(owner, parts[-1], None)
    if found is None and hasattr(owner, "__path__"):
        return None  # a package, of which the program may import more
    if found is None:
        raise LookupError(f"{'.'.join(parts[:-1])} has no {parts[-1]!r}")
    if isinstance(found, type) or not callable(found):
        raise LookupError("it is not a function")
    return owner, found
