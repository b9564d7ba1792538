"""Writes down the named state of a torch program: what outermost modules are given and give, parameters and buffers,
the losses that backwards begin with, gradients and states of optimizers. See ``frameworks.moments``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch

from trueline.frameworks.moments import Moments
from trueline.frameworks.states import Named, Root, StateWriter
from trueline.frameworks.torch.named import NAMING, kind_of
from trueline.frameworks.torch.unseen import Unseen

if TYPE_CHECKING:
    from trueline.frameworks.torch.watch import Watch

_graph_task = torch._C._current_graph_task_id
_is_tracing = torch._C._get_tracing_state
_transforms: Callable[[], Any] = torch._C._functorch.peek_interpreter_stack
_mode_of: Callable[[Any], Any] = torch._C._get_dispatch_mode  # type: ignore[attr-defined]
_key: Any = torch._C._TorchDispatchModeKey  # type: ignore[attr-defined]
_PRETENDING = (_key.FAKE, _key.PROXY, _key.FUNCTIONAL)


class States(Moments):
    """Hears when something of the program's is worth a name."""

    def __init__(self, watch: Watch) -> None:
        writer = StateWriter(watch.notebook, watch.desk.look_all, watch.write, lambda: watch.state.number)
        super().__init__(watch.notebook, writer, NAMING)
        self._watch = watch
        self._gradients: set[int] = set()
        """Storages of gradients that may still wait to be read: the next backward adds to them, unseen."""

    def backward(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Stands around the function of torch that every backward begins with."""
        if self._gradients:
            self._guarded(self._settle, within_backward=True)
        self.backward_begins(args[0] if args else kwargs.get("t_outputs"))
        return original(*args, **kwargs)

    def _settle(self) -> None:
        gradients, self._gradients = self._gradients, set()
        self._watch.desk.settle_places(gradients)

    def _entered(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Root | None:
        return None if getattr(module, "_is_replica", False) else super()._entered(module, args, kwargs)

    def _is_time(self, within_backward: bool) -> bool:
        watch = self._watch
        return (
            watch.looking
            and not watch.state.region
            and (within_backward or _graph_task() == -1)
            and _is_tracing() is None
            and _transforms() is None
            and not any(_mode_of(key) is not None for key in _PRETENDING)
        )

    def _trains(self) -> bool:
        return torch.is_grad_enabled()

    def _unseen(self) -> Unseen:
        return Unseen()

    def _kind_of(self, module: Any) -> str:
        return kind_of(module)

    def _is_ours(self, optimizer: Any) -> bool:
        return isinstance(optimizer, torch.optim.Optimizer)

    def _groups_of(self, optimizer: Any) -> Iterable[Iterable[Any]]:
        return [group["params"] for group in optimizer.param_groups]

    def _state_of(self, optimizer: Any, parameter: Any) -> Any:
        return optimizer.state.get(parameter, {})

    def _gradient_of(self, parameter: Any) -> Any:
        return parameter.grad if parameter.is_leaf else None

    def _before_gradients(self, parameters: Named, gradients: Named) -> None:
        self._gradients |= self._watch.desk.places(list(gradients.values()))
