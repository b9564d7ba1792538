"""Writes down the named state of a Paddle program: what outermost Layers are given and give, parameters and buffers,
the losses that backwards begin with, gradients and accumulators of optimizers. See ``frameworks.moments``."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import paddle
from paddle.base.dygraph import base as dygraph

from trueline.frameworks.moments import Moments, Share
from trueline.frameworks.paddle.named import NAMING
from trueline.frameworks.paddle.optimizers import scaler_in_charge
from trueline.frameworks.states import Named, StateWriter
from trueline.store.columns import NONE

if TYPE_CHECKING:
    from trueline.frameworks.paddle.calls import ThreadState, Watch

_INNER = ("_inner_opt", "_optim", "inner_optimizer")
"""Where optimizers that stand around another one keep it."""
_DEEPEST = 8

_is_dynamic = paddle.in_dynamic_mode
_in_graph = getattr(dygraph, "in_to_static_mode", lambda: False)
_gradient = paddle.Tensor._grad_ivar


class States(Moments):
    """Hears when something of the program's is worth a name."""

    def __init__(self, watch: Watch) -> None:
        writer = StateWriter(watch.notebook, watch.desk.look_all, watch.write_row, lambda: watch.state.number)
        super().__init__(watch.notebook, writer, NAMING)
        self._watch = watch
        self._waiting = _Waiting()

    def optimizer_begins(self, optimizer: Any) -> None:
        """A loss scaler divides the gradients first, and then lets the optimizer step or not: see ``scaled``."""
        self._waiting.on = scaler_in_charge()
        if not self._waiting.on:
            super().optimizer_begins(optimizer)

    def scaled(self, optimizer: Any) -> None:
        """A loss scaler lets an optimizer step."""
        if self._waiting.on:
            self._waiting.on = False
            super().optimizer_begins(optimizer)

    def optimizer_ends(self, optimizer: Any) -> None:
        if not self._waiting.on:  # else the scaler did not let it
            super().optimizer_ends(optimizer)
        self._waiting.on = False

    def _updated(self, optimizer: Any) -> None:
        super()._updated(optimizer)
        # clear_grad writes zeros, of which no counter of versions tells
        parameters = (parameter for group in self._groups_of(optimizer) for parameter in group)
        found = (self._gradient_of(parameter) for parameter in parameters)
        self._watch.desk.changed([gradient for gradient in found if gradient is not None])

    def _shared(self, optimizer: Any) -> list[Share]:
        """Whoever gives all parameters to an optimizer gives it running statistics too, which it leaves alone."""
        shares = super()._shared(optimizer)
        if shares and shares[-1][0] == NONE:
            rest = {name: value for name, value in shares.pop()[1].items() if not value.stop_gradient}
            return [*shares, (NONE, rest)] if rest else shares
        return shares

    def _is_time(self, within_backward: bool) -> bool:
        watch = self._watch
        return watch.looking and (within_backward or not watch.state.backwards) and _is_dynamic() and not _in_graph()

    def _trains(self) -> bool:
        return bool(paddle.is_grad_enabled())

    def _unseen(self) -> _Unseen:
        return _Unseen(self._watch.state)

    def _is_ours(self, optimizer: Any) -> bool:
        return any(isinstance(one, paddle.optimizer.Optimizer) for one in _chain(optimizer))

    def _groups_of(self, optimizer: Any) -> Iterable[Iterable[Any]]:
        for one in _chain(optimizer):
            groups = getattr(one, "_param_groups", None) or getattr(one, "_parameter_list", None)
            if groups:
                return [group["params"] for group in groups] if isinstance(groups[0], dict) else [groups]
        return []

    def _state_of(self, optimizer: Any, parameter: Any) -> Any:
        found: dict[str, Any] = {}
        for one in _chain(optimizer):
            found.update(accumulators(one, parameter))
        if isinstance(optimizer, paddle.optimizer.LBFGS) and optimizer._params[0] is parameter:
            found.update(optimizer.state)  # which is that of all of them
        return found

    def _gradient_of(self, parameter: Any) -> Any:
        kept = getattr(parameter, "main_grad", None)  # in float32, where somebody keeps it so
        return _gradient(parameter) if kept is None else kept

    def _before_gradients(self, parameters: Named, gradients: Named) -> None:
        """Of a leaf that no recorded call has seen it is not known whether its gradient was added to."""
        desk = self._watch.desk
        desk.changed([value for name, value in gradients.items() if not desk.is_collecting(parameters[name])])


def _chain(optimizer: Any) -> Iterator[Any]:
    """An optimizer, and those around which it stands."""
    for _ in range(_DEEPEST):
        yield optimizer
        own = getattr(optimizer, "__dict__", {})
        optimizer = next((own[name] for name in _INNER if own.get(name) is not None), None)
        if optimizer is None:
            return


def accumulators(optimizer: Any, parameter: Any) -> Iterator[tuple[str, Any]]:
    """What one optimizer keeps for a parameter; for one in half precision by the name of its master weight."""
    master = (getattr(optimizer, "_master_weights", None) or {}).get(parameter.name)
    names = [parameter.name] if master is None else [parameter.name, master.name]
    prefix = f"{own}_" if (own := getattr(optimizer, "_name", None)) else ""
    for key, kept in list((getattr(optimizer, "_accumulators", None) or {}).items()):
        value = next((kept[name] for name in names if name in kept), None)
        if value is not None:
            yield key.removeprefix(prefix), value
    if master is not None:
        yield "master_weight", master


class _Unseen:
    """What is called in between is no call of the program's."""

    __slots__ = ("_state",)

    def __init__(self, state: ThreadState) -> None:
        self._state = state

    def __enter__(self) -> None:
        self._state.open += 1

    def __exit__(self, *exception: object) -> None:
        self._state.open -= 1


class _Waiting(threading.local):
    """Whether an optimizer was heard of, and a loss scaler has not let it step yet."""

    on = False
