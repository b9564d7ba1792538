"""The two modes by which torch tells us of calls: function mode for the Python API, dispatch mode for kernels."""

from __future__ import annotations

import contextlib
import functools
import types
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from trueline.frameworks.torch.graph import MARK
from trueline.frameworks.torch.names import RECORD, SKIP, Names, Trait

if TYPE_CHECKING:
    from trueline.frameworks.torch.watch import Watch

_push = torch._C._push_on_torch_function_stack
_pop = torch._C._pop_torch_function_stack
_depth = torch._C._len_torch_function_stack
_current_node = torch._C._current_autograd_node
NoTorchFunction = torch._C.DisableTorchFunction


class Traits:
    """The traits of functions seen so far, with their names entered in the notebook."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._names = Names()
        self.known: dict[Any, Trait] = {}

    def learn(self, function: Any) -> Trait:
        trait = self.enter(self._names.trait(function))
        with contextlib.suppress(TypeError):  # one that cannot be hashed is decided anew each time
            self.known[function] = trait
        return trait

    def learn_kernel(self, function: Any) -> Trait:
        trait = self.known[function] = self.enter(self._names.kernel(function))
        return trait

    def enter(self, trait: Trait) -> Trait:
        if trait.treatment == RECORD:
            trait.name_id = self._watch.notebook.define("names", trait.name, lambda: [trait.name])
        trait.wanted = self._watch.selection.api(trait.name)
        if self._watch.fast is not None:
            return self._watch.fast.Trait(trait)  # type: ignore[no-any-return]  # has the same attributes
        return trait

    def named(self, name: str, *, mutates: bool = False, hides_all: bool = False) -> Trait:
        """The trait of something that is no torch function: a collective, a custom Function, a module."""
        trait = self.known.get(name)
        if trait is None:
            trait = self.known[name] = self.enter(Trait(name, RECORD, mutates, hides_all=hides_all))
        return trait


class ApiMode(TorchFunctionMode):
    """Hands every call of torch's Python API to a Watch: to be recorded, or only to be made."""

    def __init__(self, watch: Watch, traits: Traits, *, record: bool) -> None:
        super().__init__()
        self._traits = traits
        self._known = traits.known
        self._call = watch.call if record else watch.call_unrecorded
        self._inside: list[Any] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        trait = self._known.get(func)
        if trait is None:
            trait = self._traits.learn(func)
        treatment = trait.treatment
        if treatment == RECORD:
            return self._call(trait, func, args, kwargs)
        if treatment == SKIP:
            return func(*args, **kwargs) if kwargs else func(*args)
        return self.pass_through(func, args, kwargs)

    def pass_through(self, func: Any, args: Any, kwargs: dict[str, Any] | None) -> Any:
        """Makes a call that is not recorded itself, with the mode on so that the calls inside it are."""
        kwargs = kwargs or {}
        if func in self._inside:  # it asked again in a way that we cannot answer for it: let it be
            return func(*args, **kwargs)
        inner = _without_question(func)
        self._inside.append(func)
        _push(self)
        try:
            return inner(*args, **kwargs)
        finally:
            remove(self)
            self._inside.remove(func)


def api_mode(watch: Watch, traits: Traits, *, record: bool) -> ApiMode:
    """The function mode; where the C extension is there, one that decides there what to do with a call."""
    if watch.fast is None:
        return ApiMode(watch, traits, record=record)
    mode = _fast_mode(watch.fast)(watch, traits, record=record)
    make = watch.call if record else watch.call_unrecorded
    mode.arm(traits.known, traits.learn, make, mode.pass_through, watch.recorder if record else None)
    return mode  # type: ignore[no-any-return]


@functools.cache
def _fast_mode(calls: Any) -> Any:
    return type("FastApiMode", (calls.Api, ApiMode), {})


@functools.cache
def _without_question(function: Any) -> Any:
    """The same function without its opening question whether a mode wants the call: the mode that is on should see
    the calls inside, not this one again."""
    if not isinstance(function, types.FunctionType):
        return function
    questions = [name for name in function.__globals__ if name.startswith("has_torch_function")]
    space = {**function.__globals__, **dict.fromkeys(questions, lambda *values: False)}
    copy = types.FunctionType(function.__code__, space, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def remove(mode: TorchFunctionMode) -> None:
    """Takes the topmost occurrence of a mode off this thread's stack, wherever it is; others stay as they are."""
    above = []
    while _depth():
        top = _pop()
        if top is mode:
            break
        above.append(top)
    for other in reversed(above):
        _push(other)


def push(mode: TorchFunctionMode) -> None:
    _push(mode)


class StackLifted:
    """Takes all function modes off while a compiled region runs: the compiler would otherwise look into ours."""

    def __enter__(self) -> None:
        self._modes = [_pop() for _ in range(_depth())]

    def __exit__(self, *exception: object) -> None:
        for mode in reversed(self._modes):
            _push(mode)


class KernelMode(TorchDispatchMode):
    """Sees every kernel: records it (level kernel), or counts whether it ran inside a recorded call (witness)."""

    def __init__(self, watch: Watch, traits: Traits, *, record: bool, witness: bool) -> None:
        super().__init__()
        self._watch = watch
        self._traits = traits
        self._record = record
        self._witness = witness

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self._witness:
            self._count(func)
        with NoTorchFunction():  # in the backward the function mode is on, and would take our call for the user's
            if not self._record:
                return func(*args, **kwargs)
            return self._recorded(func, args, kwargs)

    def _count(self, func: Any) -> None:
        watch = self._watch
        tally = watch.notebook.tally
        if watch.state.open:
            tally.kernels_inside += 1
            return
        name = str(func)
        if torch._C._current_graph_task_id() != -1:
            node = _current_node()
            if node is None or node.name() == "torch::autograd::AccumulateGrad":
                tally.gradient_sums += 1
                return
            if MARK in node.metadata:
                tally.kernels_inside += 1
                return
            name = f"{name} in {node.name()}"
        if func in _BOOKKEEPING or name.startswith("profiler."):
            return
        tally.kernels_outside[name] = tally.kernels_outside.get(name, 0) + 1

    def _recorded(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        trait = self._traits.known.get(func)
        if trait is None:
            trait = self._traits.learn_kernel(func)
        return self._watch.kernel(trait, func, args, kwargs)


_BOOKKEEPING = frozenset({torch.ops.aten.detach.default, torch.ops.aten.alias.default})
"""Give another handle to the same memory (``.data``, ``.grad``, parameters being made): no number is computed."""
