"""The two modes by which torch tells us of calls: function mode for the Python API, dispatch mode for kernels."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import types
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from trueline.frameworks import depth
from trueline.frameworks.torch.flatten import PLAIN_TENSORS
from trueline.frameworks.torch.graph import MARK
from trueline.frameworks.torch.kernels import made
from trueline.frameworks.torch.names import EXCHANGED, KERNEL, RECORD, SKIP, Names, Trait
from trueline.store.interrupts import shielded

if TYPE_CHECKING:
    from trueline.frameworks.torch.watch import Watch

_push = torch._C._push_on_torch_function_stack
_pop = torch._C._pop_torch_function_stack
_depth = torch._C._len_torch_function_stack
_push_kernel: Any = torch._C._push_on_torch_dispatch_stack
_pop_kernel: Any = functools.partial(torch._C._pop_torch_dispatch_stack, None)
_kernel_depth = torch._C._len_torch_dispatch_stack
_graph_task = torch._C._current_graph_task_id
_current_node = torch._C._current_autograd_node




def _frames_to_us(func: Any) -> int:
    """What lies between the program's call of this function and the mode that is asked about it."""
    if type(func) is types.FunctionType:  # itself, and ``handle_torch_function``
        return 2
    if isinstance(func, torch._ops.OpOverload | torch._ops.OpOverloadPacket):  # its ``__call__``
        return 1 + 2 * depth.C_CALL
    return depth.C_CALL


_KERNEL_CALL = 3 + 2 * depth.C_CALL
"""What it counts for to call a kernel by its name, as ``made`` does."""


class Traits:
    """The traits of functions seen so far, with their names entered in the notebook."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._names = Names()
        self.known: dict[Any, Trait] = {}

    def learn(self, function: Any) -> Trait:
        plain = self._names.trait(function)
        if plain.treatment == RECORD and self._names.who_asks(function) is not None:
            plain.treatment = EXCHANGED
        trait = self.enter(plain)
        with contextlib.suppress(TypeError):  # one that cannot be hashed is decided anew each time
            self.known[function] = trait
        return trait

    def learn_kernel(self, function: Any) -> Trait:
        trait = self.known[function] = self.enter(self._names.kernel(function))
        return trait

    def who_asks(self, function: Any) -> Any:
        """The function of torch's that really asks; this one where it is the same."""
        return self._names.who_asks(function) or function

    def enter(self, trait: Trait) -> Trait:
        if trait.treatment in (RECORD, KERNEL):
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
        self._inside = _Inside()
        self._miss = watch.notebook.tally.miss

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        left = depth.left() + 1 + _frames_to_us(func)
        with depth.Roomy():
            trait = self._known.get(func)
            if trait is None:
                trait = self._traits.learn(func)
            treatment = trait.treatment
            if treatment == RECORD:
                return self._call(trait, depth.Called(func, left), args, kwargs)
            if treatment == SKIP:
                return depth.Called(func, left)(*args, **kwargs or {})
            return self.pass_through(func, args, kwargs, left)

    def pass_through(self, func: Any, args: Any, kwargs: dict[str, Any] | None, left: int) -> Any:
        """Makes a call that is not recorded itself, with the mode on so that the calls inside it are; those of the
        program that ask to be told of it are told. The program made it where so many frames were ``left``."""
        kwargs = kwargs or {}
        trait = self._known.get(func)
        if trait is not None and trait.treatment == KERNEL:
            called = depth.Called(func, left)
            return called(*args, **kwargs) if _answers_kernels() else self._call(trait, called, args, kwargs)
        if trait is not None and trait.treatment == EXCHANGED:
            func = self._traits.who_asks(func)
            trait = self._known.get(func) or self._traits.learn(func)
            if trait.treatment == RECORD:
                return self._call(trait, depth.Called(func, left), args, kwargs)
        if any(_has_a_say(value) for value in args):  # who has it sees the call, and we nothing of what is inside
            self._miss(f"inside of {trait.name if trait is not None else func}, of a tensor subclass")
            return depth.Called(func, left)(*args, **kwargs)
        make = self._below_others if _others_below() else self._alone
        return make(func, args, kwargs, left)

    def _below_others(self, func: Any, args: Any, kwargs: dict[str, Any], left: int) -> Any:
        """The program's own modes are asked as without us; then we are, and stay on for what is inside."""
        push(self)
        try:
            return depth.Called(func, left)(*args, **kwargs)
        finally:
            remove(self)

    def _alone(self, func: Any, args: Any, kwargs: dict[str, Any], left: int) -> Any:
        if func in self._inside.functions:  # it asked again in a way that we cannot answer for it: let it be
            return depth.Called(func, left)(*args, **kwargs)
        inner = depth.Called(_without_question(func), left)
        self._enter(func)
        try:
            return inner(*args, **kwargs)
        finally:
            self._leave(func)

    @shielded
    def _enter(self, func: Any) -> None:
        self._inside.functions.append(func)
        _push(self)

    @shielded
    def _leave(self, func: Any) -> None:
        remove(self)
        self._inside.functions.remove(func)


class _Inside(threading.local):
    """The functions that a thread is inside of."""

    def __init__(self) -> None:
        self.functions: list[Any] = []


def _has_a_say(value: Any) -> bool:
    """Whether a tensor is of a kind that is asked about calls."""
    kind: Any = type(value)
    own = torch._C._disabled_torch_function_impl
    return kind not in PLAIN_TENSORS and isinstance(value, torch.Tensor) and kind.__torch_function__ is not own


def _answers_kernels() -> bool:
    """Whether we are called from code of the program's that answers kernels. In a backward the function modes are on
    when kernels come to it, and what it passes on is not called by the program."""
    frame = sys._getframe(2) if _graph_task() != -1 else None
    while frame is not None:
        if frame.f_code.co_name == "__torch_dispatch__":
            return True
        frame = frame.f_back
    return False


def api_mode(watch: Watch, traits: Traits, *, record: bool) -> ApiMode:
    """The function mode; where the C extension is there, one that decides there what to do with a call."""
    if watch.fast is None:
        return ApiMode(watch, traits, record=record)
    mode = _fast_mode(watch.fast)(watch, traits, record=record)
    opened = watch.opened if record else watch.opened_unrecorded
    mode.arm(traits.known, traits.learn, opened, mode.pass_through, watch.recorder if record else None)
    return mode  # type: ignore[no-any-return]


@functools.cache
def _fast_mode(calls: Any) -> Any:
    return type("FastApiMode", (calls.Api, ApiMode), {})


class _Globals(dict[str, Any]):
    """The names that a function finds, with a few of ours; the others as they are when it looks, since a program may
    exchange some."""

    def __init__(self, own: dict[str, Any], ours: dict[str, Any]) -> None:
        super().__init__(ours, __builtins__=own["__builtins__"], __name__=own.get("__name__", ""))
        self._own = own

    def __missing__(self, name: str) -> Any:
        return self._own[name]


@functools.cache
def _without_question(function: Any) -> Any:
    """The same function without its opening question whether a mode wants the call: the mode that is on should see
    the calls inside, not this one again."""
    if not isinstance(function, types.FunctionType):
        return function
    questions = [name for name in function.__globals__ if name.startswith("has_torch_function")]
    space = _Globals(function.__globals__, dict.fromkeys(questions, lambda *values: False))
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
    """Puts a mode at the bottom of this thread's stack: whoever leaves another one takes off the topmost. Below it are
    only those that :func:`_stays_below` names."""
    stack = _taken(_depth, _pop)
    place = next((at for at, one in enumerate(stack) if not _stays_below(one)), len(stack))
    for one in (*stack[:place], mode, *stack[place:]):
        _push(one)


def _stays_below(mode: Any) -> bool:
    """Whether a mode is asked after us: that of ``torch.set_default_device``, which torch looks for at the bottom, and
    those of the program that say by ``below_recorders`` that they stand in for kernels."""
    default = getattr(getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None), "device_context", None)
    return mode is default or getattr(mode, "below_recorders", False) is True


def _others_below() -> bool:
    """Whether modes of the program, asked after us, want to be told of calls that hold others. Another observer of ours
    does not: it is on for what is inside, and each would lie down below the other for ever."""
    below = [torch._C._get_function_stack_at(place) for place in range(_depth())]
    return any(not (isinstance(one, ApiMode) or _stays_below(one)) for one in below)


class Lifted:
    """Takes our modes off this thread and puts them back where they were; those of the program stay."""

    def __init__(self, *ours: Any) -> None:
        self._ours = ours

    def __enter__(self) -> None:
        self._functions = _lift(self._ours, _depth, _pop, _push)
        self._kernels = _lift(self._ours, _kernel_depth, _pop_kernel, _push_kernel)

    def __exit__(self, *exception: object) -> None:
        _put_back(self._kernels, _kernel_depth, _pop_kernel, _push_kernel)
        _put_back(self._functions, _depth, _pop, _push)


Places = list[tuple[int, Any]]


def _lift(ours: tuple[Any, ...], depth: Any, pop: Any, push: Any) -> Places:
    """Takes some modes off a stack; gives them with their places, the lowest first."""
    stack = _taken(depth, pop)
    for mode in stack:
        if not any(mode is one for one in ours):
            push(mode)
    return [(place, mode) for place, mode in enumerate(stack) if any(mode is one for one in ours)]


def _put_back(places: Places, depth: Any, pop: Any, push: Any) -> None:
    if not places:
        return
    stack = _taken(depth, pop)
    for place, mode in places:
        stack.insert(place, mode)
    for mode in stack:
        push(mode)


def _taken(depth: Any, pop: Any) -> list[Any]:
    return [pop() for _ in range(depth())][::-1]


def remove_all(mode: TorchFunctionMode) -> None:
    """Takes a mode off this thread's stack, however often it is there: a signal may have ended a call that had put it
    there once more."""
    _lift((mode,), _depth, _pop, _push)


def remove_kernels(mode: TorchDispatchMode) -> None:
    """Takes a dispatch mode off this thread's stack, wherever it is."""
    _lift((mode,), _kernel_depth, _pop_kernel, _push_kernel)


def push_kernels(mode: TorchDispatchMode) -> None:
    """Not by entering it: torch then notes for all threads that somebody has a mode, and decides by that."""
    _put_back([(0, mode)], _kernel_depth, _pop_kernel, _push_kernel)


class KernelMode(TorchDispatchMode):
    """Sees every kernel: records it (level kernel), or counts whether it ran inside a recorded call (witness)."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """The compiler never sees us; to be hidden from it would import it."""
        return False

    def __init__(self, watch: Watch, traits: Traits, *, record: bool, witness: bool) -> None:
        super().__init__()
        self._watch = watch
        self._traits = traits
        self._record = record
        self._witness = witness
        self.__torch_dispatch__ = depth.asked(self._asked)  # type: ignore[method-assign]  # torch asks the object for it

    def _asked(self, left: int, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs, kernel = kwargs or {}, depth.Called(made(func), left + _KERNEL_CALL)
        if not self._watch.looking:  # a thread that outlives the capture still has the mode on
            return kernel(*args, **kwargs)
        if self._witness:
            self._count(func)
        if not self._record:
            return kernel(*args, **kwargs)
        return self._recorded(func, kernel, args, kwargs)

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

    def _recorded(self, func: Any, kernel: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        trait = self._traits.known.get(func)
        if trait is None:
            if not isinstance(func, torch._ops.OpOverload):
                self._watch.notebook.tally.miss("inside of a higher-order operator")
                return func(*args, **kwargs)
            trait = self._traits.learn_kernel(func)
        return self._watch.kernel(trait, kernel, args, kwargs)


_BOOKKEEPING = frozenset({torch.ops.aten.detach.default, torch.ops.aten.alias.default})
"""Give another handle to the same memory (``.data``, ``.grad``, parameters being made): no number is computed."""
