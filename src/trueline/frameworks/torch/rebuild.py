"""Makes a recorded call callable again: the function behind an API name, its arguments from their tree, its results by
path.

Names are looked up attribute by attribute from the ``torch`` module; nothing is evaluated. What cannot be had again
(other ranks, objects that were not recorded) raises ``Unreplayable`` with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch

from trueline.dtypes import dtype_named
from trueline.frameworks import values
from trueline.frameworks.base import Bits, CannotExecute
from trueline.tree import Tree

_CLOSED_ROOMS = {"distributed", "multiprocessing", "hub", "utils", "autograd", "jit", "serialization", "cuda"}
_NO_FUNCTION = {"backward", "grad", "register_hook", "set_", "resize_", "data_ptr", "apply_", "map_", "record_stream"}
"""What they do depends on more than their arguments, or reaches out of the call."""
_DEVICE = re.compile(r"(cpu|cuda|xpu|npu|mps|hpu|mtia|privateuseone)(:\d+)?")
_CONSTANTS = {"torch.memory_format": torch.memory_format, "torch.layout": torch.layout}


class Unreplayable(CannotExecute):
    """The call cannot be run again; the message says why."""


@dataclass(frozen=True, slots=True)
class Setting:
    """For whom arguments are made: tensors that a call makes go to ``device``; ``wide`` replaces floating dtypes by
    float64 and complex ones by complex128."""

    device: torch.device
    wide: bool = False


CPU = torch.device("cpu")


def resolve(api: str) -> Callable[..., Any]:
    """The function behind an API name such as ``torch.Tensor.add`` or ``torch.Tensor.T`` (a property)."""
    parts = api.split(".")
    if parts[0] == "composite":
        return _composite(api)
    if parts[0] != "torch" or len(parts) < 2:
        raise Unreplayable(f"{api} is not a function of torch")
    if parts[1] in _CLOSED_ROOMS:
        raise Unreplayable(f"torch.{parts[1]} reaches beyond this process or this call")
    if parts[-1] == "__get__":
        parts = parts[:-1]
    if parts[-1] in _NO_FUNCTION:
        raise Unreplayable("it is no function of its arguments alone")
    found: Any = torch
    for part in parts[1:]:
        try:
            found = getattr(found, part)
        except (AttributeError, ImportError):
            raise Unreplayable(f"this torch has no {api}") from None
    if callable(found):
        return found  # type: ignore[no-any-return]
    if hasattr(found, "__get__"):
        name = parts[-1]
        return lambda tensor: getattr(tensor, name)
    raise Unreplayable(f"{api} cannot be called")


def _composite(api: str) -> Callable[..., Any]:
    # Imported here: most processes never translate a call of another framework.
    from trueline.frameworks.torch.composites import composite_named

    found = composite_named(api.partition(".")[2])
    if found is None:
        raise Unreplayable(f"there is no {api}")
    return found


@dataclass(frozen=True, slots=True)
class TorchMaker:
    """Makes what only torch has, as ``setting`` wants it."""

    setting: Setting

    def text(self, text: str) -> Any:
        return self.setting.device if _DEVICE.fullmatch(text) else text

    def size(self, items: list[Any]) -> Any:
        return torch.Size(items)

    def dtype(self, name: str) -> Any:
        dtype = torch_dtype(name)
        return widened(dtype) if self.setting.wide else dtype

    def device(self) -> Any:
        return self.setting.device

    def thing(self, kind: str, text: str) -> Any:
        if kind == "torch._C.Generator":
            return None  # the default generator stands in for it: it is seeded before every execution
        if kind in _CONSTANTS:
            found = getattr(torch, text.rpartition(".")[2], None)
            if isinstance(found, _CONSTANTS[kind]):
                return found
        raise Unreplayable(f"an argument of type {kind} was not recorded in full")


def rebuild(tree: Tree, leaf: Callable[[int], torch.Tensor], setting: Setting) -> Any:
    """A tree as Python values, with the tensors that ``leaf`` gives for their numbers."""
    return values.rebuild(tree, leaf, TorchMaker(setting))


@cache
def torch_dtype(name: str) -> torch.dtype:
    """The dtype of a name, with or without ``torch.``."""
    found = getattr(torch, name.rpartition(".")[2], None)
    if not isinstance(found, torch.dtype):
        raise Unreplayable(f"this torch has no dtype {name}")
    return found


@cache
def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def widened(dtype: torch.dtype) -> torch.dtype:
    """The type in which the gold holds numbers of a type."""
    if dtype.is_floating_point:
        return torch.float64
    return torch.complex128 if dtype.is_complex else dtype


_FROM_NUMPY = {
    torch.float32: np.dtype("<f4"), torch.float64: np.dtype("<f8"), torch.int64: np.dtype("<i8"),
    torch.int32: np.dtype("<i4"), torch.bool: np.dtype("|b1"), torch.float16: np.dtype("<f2"),
}  # fmt: skip
"""Types that torch takes from numpy as they are."""


def tensor_of(bits: Bits, dtype: str, shape: tuple[int, ...] | None = None, *, given: bool = False) -> torch.Tensor:
    """A contiguous CPU tensor with the stored bits of another, of its own memory; of that of ``bits`` where they are
    ``given`` away."""
    wanted, kind = bits.shape if shape is None else shape, torch_dtype(dtype_named(dtype).name)
    if not bits.size:
        return torch.empty(wanted, dtype=kind)
    own = bits if given and bits.flags.c_contiguous and bits.flags.writeable else np.array(bits, order="C")
    if kind in _FROM_NUMPY and bits.dtype == _FROM_NUMPY[kind]:
        return torch.from_numpy(own).reshape(wanted)
    raw = own.reshape(-1).view(np.uint8)
    return torch.from_numpy(raw).view(kind).reshape(wanted)


def leaves_of(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The tensors and numbers in a result or in arguments, with their paths as a Run writes them."""
    return values.leaves_of(value, path, torch.Tensor, torch.Size)


def tensors_of(value: Any, path: str) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors alone."""
    return ((where, item) for where, item in leaves_of(value, path) if isinstance(item, torch.Tensor))
