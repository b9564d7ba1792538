"""Makes a recorded call callable again: the function behind an API name, its arguments from their tree, its results by
path.

Names are looked up in closed tables (``operators``, composites, dtypes, layouts); nothing is evaluated, and no
attribute is taken because a file names it. What cannot be had again (other ranks, objects that were not recorded)
raises ``Unreplayable`` with the reason.
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
from trueline.frameworks.overrides import OwnOperators
from trueline.frameworks.torch.operators import operator_named, registered
from trueline.tree import Tree

_COMPOSITES = "composite."
_DEVICE = re.compile(r"(cpu|cuda|xpu|npu|mps|hpu|mtia|privateuseone)(:\d+)?")
_DTYPES = {name: value for name, value in vars(torch).items() if isinstance(value, torch.dtype)}
_CONSTANTS = {
    kind: {f"torch.{name}": value for name, value in vars(torch).items() if isinstance(value, one)}
    for kind, one in {"torch.memory_format": torch.memory_format, "torch.layout": torch.layout}.items()
}
_PASSING = {"torch._C.Generator": re.compile(r"(<torch\._C\.Generator object at 0x[0-9a-f]+>)?")}
"""Objects for which others stand in, with what is told of one: nothing by us, its address by other tools."""


class Unreplayable(CannotExecute):
    """The call cannot be run again; the message says why."""


@dataclass(frozen=True, slots=True)
class Setting:
    """For whom arguments are made: tensors that a call makes go to ``device``; ``wide`` replaces floating dtypes by
    float64 and complex ones by complex128."""

    device: torch.device
    wide: bool = False


CPU = torch.device("cpu")


def resolve(api: str, own: OwnOperators | None = None) -> Callable[..., Any]:
    """The function behind an API name such as ``torch.Tensor.add`` or ``torch.Tensor.T`` (a property); ``own`` are the
    operators that somebody named for this command."""
    if api.startswith(_COMPOSITES):
        return _composite(api)
    found = operator_named(api)
    if found is None and own:
        found = own.named(api) or registered(api)
    if found is None:
        raise Unreplayable(f"no operator: torch {torch.__version__} declares no {api}")
    return found


def _composite(api: str) -> Callable[..., Any]:
    # Imported here: most processes never translate a call of another framework.
    from trueline.frameworks.torch.composites import composite_named

    found = composite_named(api.removeprefix(_COMPOSITES))
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
        if kind in _PASSING and _PASSING[kind].fullmatch(text):
            return None  # the default generator stands in for it: it is seeded before every execution
        if text in _CONSTANTS.get(kind, ()):
            return _CONSTANTS[kind][text]
        raise Unreplayable(f"an argument of type {kind} was not recorded in full")


def rebuild(tree: Tree, leaf: Callable[[int], torch.Tensor], setting: Setting) -> Any:
    """A tree as Python values, with the tensors that ``leaf`` gives for their numbers."""
    return values.rebuild(tree, leaf, TorchMaker(setting))


@cache
def torch_dtype(name: str) -> torch.dtype:
    """The dtype of a name, with or without ``torch.``."""
    found = _DTYPES.get(name.rpartition(".")[2])
    if found is None:
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
