"""What a light watch holds in the place of the program's own tensors: another tensor for the same memory and version
counter. So the program's tensors die when it lets go of them, with their finalizers, weak references and graphs. The
twin of ``_calls_light_hold.h``.

A tensor that has a gradient is held itself, since it is asked for that; so is one of a subclass that answers kernels in
Python, and all while somebody would see how the other is made: a mode of the program's for kernels, a profiler. Of what
is no tensor, and no number or text either, the key is held, which is all that is wanted of it.
"""

from __future__ import annotations

from typing import Any

import torch

from trueline.frameworks.keys import ATOMS
from trueline.frameworks.torch.flatten import Spelled, flatten_other
from trueline.frameworks.torch.light_leaves import place_of
from trueline.frameworks.torch.unseen import Unseen, kernels_are_seen, told

MADE_BY = "_trueline_made_by"
"""What a tensor has that stands for one of which gradients are wanted: the type of the node that made that one, None
where it was made by another call."""


def wants_grad(tensor: torch.Tensor) -> bool:
    """Whether gradients are wanted of a tensor, or of the one that it stands for."""
    return bool(told(tensor, "requires_grad")) or MADE_BY in vars(tensor)


def is_parameter(tensor: torch.Tensor) -> bool:
    """Whether gradients are summed up in a tensor itself."""
    return bool(told(tensor, "requires_grad") and told(tensor, "is_leaf"))


def maker_of(tensor: torch.Tensor) -> str:
    """What the node is called that made a tensor, or the one that it stands for."""
    kind = vars(tensor).get(MADE_BY) or type(told(tensor, "grad_fn"))
    return str(kind.__name__)


class Holding:
    """The stand-ins of the tensors of one call: the same object has the same one."""

    def __init__(self) -> None:
        self._may = not kernels_are_seen()
        self._known: dict[int, torch.Tensor] = {}

    def given(self, args: Any, kwargs: dict[str, Any] | None) -> tuple[Any, dict[str, Any] | None]:
        """The arguments of the call."""
        with Unseen():
            own = self.held(args)
            return own, kwargs and {name: self.held(value) for name, value in kwargs.items()}

    def held(self, value: Any, *, made: bool = False) -> Any:
        """A value with stand-ins in it; of a list always another one, which the program may change later. ``made`` is
        whether the call has made it."""
        if isinstance(value, torch.Tensor):
            return self._stand_in(value, made)
        if isinstance(value, torch.Size) or not (isinstance(value, tuple) or type(value) is list):
            return spelled(value)
        items: list[Any] = [self.held(one, made=made) for one in value]
        if not isinstance(value, tuple):
            return items
        if all(one is other for one, other in zip(items, value, strict=True)):
            return value
        return tuple(items) if type(value) is tuple else _tuple_like(value, items)

    def _stand_in(self, tensor: torch.Tensor, made: bool) -> torch.Tensor:
        found = self._known.get(id(tensor))
        if found is None:
            found = self._known[id(tensor)] = self._new(tensor, made)
        return found

    def _new(self, tensor: torch.Tensor, made: bool) -> torch.Tensor:
        return stand_in(tensor, made) if self._may else tensor


def held_otherwise(value: Any, made: bool) -> Any:
    """What the C extension asks for: a value that is no plain tensor, no number or text, and no plain tuple or list."""
    if not isinstance(value, torch.Tensor):
        return spelled(value)
    return value if kernels_are_seen() else stand_in(value, made)


def stand_in(tensor: torch.Tensor, made: bool) -> torch.Tensor:
    """Another tensor for the same memory; the same where there can be none."""
    with Unseen():
        if is_parameter(tensor) or type(tensor) is torch.nn.Parameter or _answers_kernels(tensor):
            return tensor
        try:
            alias = torch._C.TensorBase.detach(tensor)
        except RuntimeError:
            return tensor
        if type(alias) is not torch.Tensor or place_of(alias) != place_of(tensor):
            return tensor
        if told(tensor, "requires_grad"):
            setattr(alias, MADE_BY, type(told(tensor, "grad_fn")) if made else None)
    return alias


def _answers_kernels(tensor: torch.Tensor) -> bool:
    """Whether a tensor is of a subclass with a ``__torch_dispatch__`` of its own, or inside of a transform."""
    return any(torch._C._dispatch_keys(tensor).has(key) for key in _IN_PYTHON)


_IN_PYTHON = [
    getattr(torch._C.DispatchKey, name)
    for name in ("Python", "FuncTorchBatched", "FuncTorchGradWrapper", "Functionalize")
    if hasattr(torch._C.DispatchKey, name)
]


def spelled(value: Any) -> Any:
    """A value that holds no tensors as what its key says; one that does, in other containers than the program's own."""
    kind = type(value)
    if kind in ATOMS or kind in _LASTING:
        return value
    leaves: list[torch.Tensor] = []
    key = flatten_other(value, kind, leaves)
    if not leaves:
        return Spelled(key)
    if isinstance(value, dict):
        return dict(value)
    return list(value) if isinstance(value, list) else value


_LASTING = frozenset(
    {torch.Size, torch.dtype, torch.device, torch.memory_format, torch.layout, slice, type(...), complex}
)
"""Types of values that may be held: nobody hears when they die."""


def _tuple_like(value: tuple[Any, ...], items: list[Any]) -> tuple[Any, ...]:
    """A tuple of another kind with these items: a named one, or what torch gives several results in."""
    kind: Any = type(value)
    make = getattr(kind, "_make", kind if hasattr(kind, "n_sequence_fields") else None)
    return value if make is None else make(items)  # type: ignore[no-any-return]
