"""What the probe hook of a pipeline asks of a framework.

A hook is called by a user's script with a model and a batch. What comes out must say what the model is (its parameters
and their dtypes), what it computed, what it would have computed in float64, and in which precision its operators ran.
Whoever judges that needs no framework.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from trueline.frameworks.base import Bits

_MODULES = {"torch": "trueline.frameworks.torch.probing", "paddle": "trueline.frameworks.paddle.probing"}
_STORAGE = {"f": "float", "i": "int", "u": "uint", "c": "complex"}


class Leaf(NamedTuple):
    """One tensor: its elements as they lie in memory, its dtype and the kind of device it was on."""

    bits: Bits
    dtype: str
    device: str


@dataclass(frozen=True, slots=True)
class Autocast:
    """What a program asked of autocast. ``asked``: it is inside such a context; ``enabled``: the framework lowers calls
    there. The two differ where a device has no narrow kernels: Paddle then takes the context for nothing."""

    asked: bool = False
    enabled: bool = False
    level: str = ""
    dtype: str = ""


@dataclass(slots=True)
class Operators:
    """Operators that ran: name -> how often in a dtype narrower than float32, and how often not. ``autocast`` is what
    was asked for while they ran."""

    low: dict[str, int] = field(default_factory=dict)
    other: dict[str, int] = field(default_factory=dict)
    autocast: Autocast = Autocast()

    def add(self, name: str, low: bool, times: int = 1) -> None:
        table = self.low if low else self.other
        table[name] = table.get(name, 0) + times


class Counting(Protocol):
    """Counts the operators between ``start`` and ``stop``, whoever runs them."""

    def start(self) -> None: ...
    def stop(self) -> Operators: ...


@dataclass(frozen=True, slots=True)
class Weights:
    """What an optimizer changes, at one moment. ``values`` are copies in their own dtype. ``masters`` says that they
    are copies in float32 which the optimizer keeps of narrower parameters."""

    names: tuple[str, ...]
    values: tuple[Any, ...]
    dtypes: Mapping[str, int]
    masters: bool = False


@dataclass(frozen=True, slots=True)
class Moved:
    """One step of training, measured: norms of the gradients as the optimizer left them (None where they are gone), of
    the update and of the way since the start; the share of the elements with a gradient that did not move; gradients
    that are not finite."""

    gradient_norm: float | None
    update_norm: float
    distance: float
    stuck: float | None
    bad_gradients: int


@dataclass(frozen=True, slots=True)
class Wide:
    """A copy of a model in float64, in evaluation mode, that is given the same arguments."""

    model: Any
    run: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.run(*args, **kwargs)


class Probing(Protocol):
    """One framework, seen by the hook."""

    name: str

    def is_tensor(self, value: Any) -> bool: ...

    def is_model(self, value: Any) -> bool:
        """Whether this is a model with parameters, of which a copy in float64 can be made."""

    def leaf(self, tensor: Any) -> Leaf: ...

    def rows(self, tensor: Any, chosen: Sequence[int]) -> Any:
        """Some samples of a batch: rows along the first axis, in this order."""

    def training(self, model: Any) -> bool | None:
        """Whether a model, or any part of it that acts otherwise in training, is in training mode."""

    def parameters(self, model: Any) -> Iterator[tuple[str, Any]]:
        """Parameters and buffers by name."""

    def looking(self, model: Any) -> AbstractContextManager[None]:
        """Runs a model without gradients and gives back random states and buffers as they were."""

    def in_float64(self, model: Any) -> Wide: ...
    def nudged(self, value: Any, step: Bits) -> AbstractContextManager[None]:
        """Adds a step to a parameter or buffer, and takes it away again."""

    def added(self, value: Any, step: Bits) -> Any:
        """A tensor with a step added, in its own dtype."""

    def autocast(self) -> Autocast: ...
    def why_not_lowered(self) -> str:
        """Why autocast lowers nothing on the device in use; empty where it does."""

    def counting(self, model: Any) -> Counting: ...
    def scale(self, scaler: Any) -> float | None: ...
    def weights(self, model: Any, optimizer: Any) -> Weights: ...
    def moved(self, model: Any, optimizer: Any, before: Weights, start: Weights) -> Moved: ...
    def number(self, value: Any) -> float:
        """A loss, a tensor of one element or a number."""

    def lowering(self, model: Any, dtype: str) -> AbstractContextManager[None]:
        """Autocast to a dtype (empty: the usual one of the device), where the program has not asked for one itself."""

    def keeping(self, names: Sequence[str]) -> AbstractContextManager[None]:
        """Runs calls of these names in float32 even under autocast."""

    def lowered(self) -> AbstractContextManager[dict[str, int]]:
        """Fills a table of the calls that gave something narrower than float32, by the names that ``keeping`` takes."""


def probing(*values: Any) -> Probing | None:
    """The framework to which one of these values belongs; None where they belong to none (arrays, plain functions)."""
    for name in _MODULES:
        if name not in sys.modules:
            continue
        tools = _tools(name)
        if any(tools.is_model(leaf) or tools.is_tensor(leaf) for value in values for leaf in everything_in(value)):
            return tools
    return None


def loaded_probing() -> Probing | None:
    """The first known framework that the program has imported."""
    return next((_tools(name) for name in _MODULES if name in sys.modules), None)


_known: dict[str, Probing] = {}


def _tools(name: str) -> Probing:
    if name not in _known:
        module: Any = importlib.import_module(_MODULES[name])
        _known[name] = module.make()
    return _known[name]


def everything_in(value: Any) -> Iterator[Any]:
    """The leaves of nested lists, tuples and dicts, whatever they are."""
    for _, leaf in leaves(value, ""):
        yield leaf


def leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The leaves with their paths, as a Run writes them: ``out``, ``out.0``, ``out.logits``. An object that holds its
    results as attributes is taken for the dict of them."""
    if isinstance(value, Mapping):
        items: Any = value.items()
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        items = zip(value._fields, value, strict=True)
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    elif hasattr(value, "__dataclass_fields__"):
        items = ((name, getattr(value, name)) for name in value.__dataclass_fields__)
    else:
        yield path, value
        return
    for key, item in items:
        yield from leaves(item, f"{path}.{key}" if path else str(key))


def changed_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same nest with other leaves."""
    if isinstance(value, Mapping):
        return {key: changed_leaves(item, change) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(changed_leaves(item, change) for item in value))
    if isinstance(value, list | tuple):
        return type(value)(changed_leaves(item, change) for item in value)
    return change(value)


def array_leaf(array: np.ndarray[Any, Any]) -> Leaf | None:
    """An array of numpy's as a leaf; None where it holds no numbers."""
    kind = array.dtype.kind
    if kind == "b":
        return Leaf(np.ascontiguousarray(array), "bool", "cpu")
    if kind not in _STORAGE or array.dtype.itemsize > (16 if kind == "c" else 8):
        return None
    name = f"{_STORAGE[kind]}{8 * array.dtype.itemsize}"
    return Leaf(np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False)), name, "cpu")


def look_quietly(tools: Probing | None, model: Any) -> AbstractContextManager[None]:
    return nullcontext() if tools is None else tools.looking(model)
