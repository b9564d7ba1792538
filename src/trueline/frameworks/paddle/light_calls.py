"""Sees the calls of a Paddle program and holds them, as they are, for the time of a step."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

import paddle

from trueline.frameworks.base import Scope
from trueline.frameworks.paddle.calls import ThreadState
from trueline.frameworks.paddle.flatten import PLAIN_TENSORS, flatten
from trueline.frameworks.paddle.light_held import Kept, Ring, Tensor
from trueline.frameworks.paddle.names import Trait
from trueline.frameworks.selection import Selection
from trueline.frameworks.stacks import ours_of
from trueline.store.columns import NONE

_OURS = ours_of(paddle)
_UNSCALE = "check_finite_and_unscale"
_ATOMS = frozenset({int, float, bool, str, type(None)})

_version = paddle.Tensor._inplace_version
_hook = paddle.Tensor._register_grad_hook
_is_dynamic = paddle.in_dynamic_mode


class LightWatch:
    """What the doors lead to: holds each call in a ring. It has the shape of ``calls.Watch`` as far as doors ask."""

    def __init__(self, ring: Ring, *, backward: bool) -> None:
        self.ring = ring
        self.notebook = ring.book
        self.scope = Scope(stacks=False)
        self.state = ThreadState()
        self.selection = Selection(self.scope)
        self.witness = None
        self.remember_context: Callable[..., None] = lambda *call: None
        self.looking = False
        self.losses: list[Tensor] = []
        self.found_inf: bool | None = None
        self._backward = backward
        self._epoch = 0
        self._foreign: dict[int, tuple[CodeType, bool]] = {}

    def enter_trait(self, trait: Trait) -> Trait:
        return trait

    def call(self, trait: Trait, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        return self.make(0, trait, function, args, kwargs, args)

    kernel = call

    def make(
        self,
        level: int,
        trait: Trait,
        function: Callable[..., Any],
        args: Any,
        kwargs: dict[str, Any],
        shown: Any,
        inside: int = 1,
    ) -> Any:
        """Makes a call and holds it, without what is called inside."""
        state = self.state
        if not _is_dynamic() or (state.optimizer != NONE and _UNSCALE not in trait.name):
            return function(*args, **kwargs)  # an optimizer is told by what it leaves in the parameters
        inputs: list[Tensor] = []
        versions: list[int] = []
        try:
            gather(shown, inputs)
            if kwargs:
                gather(kwargs.values(), inputs)
            versions = [_version(tensor) for tensor in inputs]
        except Exception as error:
            self.notebook.trouble(error)
        state.open += inside
        try:
            result = function(*args, **kwargs)
        finally:
            state.open -= inside
        state.open += 1
        try:
            self._hold(trait, shown, kwargs, result, inputs, versions)
        except Exception as error:
            self.notebook.trouble(error)
        finally:
            state.open -= 1
        return result

    def _hold(
        self, trait: Trait, args: Any, kwargs: dict[str, Any], result: Any, inputs: list[Tensor], versions: list[int]
    ) -> None:
        outputs: list[Tensor] = []
        gather((result,), outputs)
        returned = len(outputs)
        changed = self._changed(trait, inputs, versions, outputs)
        outputs += [inputs[position] for position in changed]
        if not outputs:
            return  # a question, or something between objects
        if trait.step != self._epoch:
            trait.step, trait.count = self._epoch, 0
        state = self.state
        kept = Kept(
            self.ring.next(), trait.name, trait.count, state.modules[-1][0] if state.modules else NONE, self._context(),
            state.number, self._frame(), args, kwargs, result, inputs, versions, outputs,
            [_version(tensor) for tensor in outputs], returned, changed,
        )  # fmt: skip
        trait.count += 1
        self.ring.add(kept)
        if _UNSCALE in trait.name:
            self._unscaled(outputs)
        if self._backward and not state.backwards:
            for position, tensor in enumerate(outputs[:returned]):
                if not tensor.stop_gradient and not tensor.is_leaf:
                    _hook(tensor, _Arrival(self, kept, position))

    def _changed(
        self, trait: Trait, inputs: list[Tensor], versions: list[int], outputs: list[Tensor]
    ) -> tuple[int, ...]:
        """Which inputs the call changed and did not return."""
        if not trait.mutates and _UNSCALE not in trait.name:
            return ()
        found = {position for position, old in enumerate(versions) if _version(inputs[position]) != old}
        if trait.writes_first and inputs:
            found.add(0)
        if trait.hides_all or _UNSCALE in trait.name:
            found.update(range(len(inputs)))
        for position in found:
            if _version(inputs[position]) == versions[position]:
                self.ring.written(inputs[position])
        returned = {id(tensor) for tensor in outputs}
        return tuple(position for position in sorted(found) if id(inputs[position]) not in returned)

    def _unscaled(self, outputs: list[Tensor]) -> None:
        """What a loss scaler found is a tensor of one truth value."""
        flags = [tensor for tensor in outputs if tensor.dtype == paddle.bool]  # before 3.3 each is asked anew: no "is"
        self.found_inf = bool(self.found_inf) or any(bool(tensor.numpy().any()) for tensor in flags)

    def _context(self) -> str:
        if self.state.backwards:
            return "backward"
        return "" if self.state.optimizer == NONE else "optimizer"

    def _frame(self) -> tuple[CodeType, int] | None:
        """The innermost line of the user's own code."""
        frame = sys._getframe(3)
        foreign = self._foreign
        while frame is not None:
            code = frame.f_code
            known = foreign.get(id(code))
            if known is None:
                known = foreign[id(code)] = (code, not code.co_filename.startswith(_OURS))
            if known[1]:
                return code, frame.f_lineno
            frame = frame.f_back  # type: ignore[assignment]
        return None

    def written(self, result: Any) -> None:
        """A kernel inside of a call has changed something; the call itself is told by version counters."""

    def backward_begins(self, roots: Any) -> None:
        tensors: list[Tensor] = []
        gather(roots if isinstance(roots, list | tuple) else (roots,), tensors)
        self.losses += tensors

    def backward_ends(self, *, outermost: bool) -> None: ...

    def end_step(self) -> None:
        self._epoch += 1
        self.losses, self.found_inf = [], None

    def enter_optimizer(self, optimizer: Any) -> None:
        state = self.state
        state.optimizer = 0
        number = self.notebook.define("modules", ("optimizer", type(optimizer).__qualname__), lambda: [])
        state.modules.append((number, NONE, None))

    def leave_optimizer(self) -> None:
        state = self.state
        state.optimizer = NONE
        if state.modules and state.modules[-1][2] is None:
            state.modules.pop()


class _Arrival:
    """Holds the gradient that arrives at an output. It must give back nothing, whatever happens."""

    __slots__ = ("_kept", "_position", "_watch")

    def __init__(self, watch: LightWatch, kept: Kept, position: int) -> None:
        self._watch = watch
        self._kept = kept
        self._position = position

    def __call__(self, gradient: Tensor | None) -> None:
        if gradient is None or not self._watch.looking:
            return
        try:
            self._watch.ring.arrive(self._kept, self._position, gradient)
        except Exception as error:
            self._watch.notebook.trouble(error)


def gather(values: Any, leaves: list[Tensor]) -> None:
    """The tensors among some values, in the order in which ``flatten`` finds them."""
    for value in values:
        kind = type(value)
        if kind in PLAIN_TENSORS:
            leaves.append(value)
        elif kind not in _ATOMS:
            flatten(value, leaves)
