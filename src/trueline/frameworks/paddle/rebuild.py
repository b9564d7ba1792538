"""Makes a recorded Paddle call callable again: the function behind an API name, and what stands in its arguments.

Names are looked up attribute by attribute from the ``paddle`` module; nothing is evaluated. What cannot be had again
raises ``CannotExecute`` with the reason.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import paddle

from trueline.dtypes import DTYPES, dtype_named
from trueline.frameworks.base import CannotExecute

_CLOSED_ROOMS = {"distributed", "hub", "utils", "autograd", "jit", "static", "io", "onnx", "device", "inference"}
_NO_FUNCTION = {"backward", "register_hook", "set_value", "data_ptr", "gradient", "clear_grad", "clear_gradient"}
"""What they do depends on more than their arguments, or reaches out of the call."""
_DEVICE = re.compile(r"(cpu|gpu|xpu|npu|dcu|gpu_pinned)(:\d+)?")
_COMPOSITES = "composite."
_UNKNOWN = {"uint16", "complex32"}
"""What ``paddle`` has under another meaning (its uint16 is bfloat16), or not at all."""


@dataclass(frozen=True, slots=True)
class PaddleMaker:
    """For whom arguments are made: tensors that a call makes go to ``device``; ``wide`` replaces floating dtypes by
    float64 and complex ones by complex128, also where they are given as text."""

    target: str
    wide: bool = False

    def text(self, text: str) -> Any:
        if _DEVICE.fullmatch(text):
            return self.target
        return widened(text) if self.wide and text in DTYPES else text

    def size(self, items: list[Any]) -> Any:
        return items

    def dtype(self, name: str) -> Any:
        name = dtype_named(name).name
        return paddle_dtype(widened(name) if self.wide else name)

    def device(self) -> Any:
        return place_of(self.target)

    def thing(self, kind: str, text: str) -> Any:
        raise CannotExecute(f"an argument of type {kind} was not recorded in full")


def resolve(api: str) -> Callable[..., Any]:
    """The function behind an API name such as ``paddle.Tensor.add`` or ``paddle.Tensor.T`` (a property)."""
    if api.startswith(_COMPOSITES):
        return _composite(api.removeprefix(_COMPOSITES))
    parts = api.split(".")
    if parts[0] != "paddle" or len(parts) < 2:
        raise CannotExecute(f"{api} is not a function of paddle")
    if parts[1] in _CLOSED_ROOMS:
        raise CannotExecute(f"paddle.{parts[1]} reaches beyond this process or this call")
    if parts[-1] == "__get__":
        parts = parts[:-1]
    if parts[-1] in _NO_FUNCTION:
        raise CannotExecute("it is no function of its arguments alone")
    found: Any = paddle
    for depth, part in enumerate(parts[1:], 1):
        found = _attribute(found, part, ".".join(parts[: depth + 1]))
        if found is None:
            raise CannotExecute(f"this paddle ({paddle.__version__}) has no {api}")
    if isinstance(found, type):
        raise CannotExecute(f"{api} is a class, not a function of tensors")
    if callable(found):
        return found  # type: ignore[no-any-return]
    if hasattr(found, "__get__"):
        name = parts[-1]
        return lambda tensor: getattr(tensor, name)
    raise CannotExecute(f"{api} cannot be called")


def _attribute(owner: Any, name: str, path: str) -> Any:
    """An attribute, or a submodule that nobody has imported yet (``paddle.incubate.nn.functional``)."""
    found = getattr(owner, name, None)
    if found is None and hasattr(owner, "__path__"):
        try:
            found = importlib.import_module(path)
        except ImportError:
            return None
    return found


def _composite(name: str) -> Callable[..., Any]:
    from trueline.frameworks.paddle.composites import composite_named

    found = composite_named(name)
    if found is None:
        raise CannotExecute(f"there is no composite {name} for paddle")
    return found


@cache
def paddle_dtype(name: str) -> Any:
    """The dtype of a name, with or without ``paddle.``."""
    plain = name.rpartition(".")[2]
    found = None if plain in _UNKNOWN else getattr(paddle, plain, None)
    if not isinstance(found, paddle.dtype):
        raise CannotExecute(f"this paddle has no dtype {plain}")
    return found


@cache
def dtype_name(dtype: Any) -> str:
    """``float32`` for ``paddle.float32``."""
    return str(dtype).rpartition(".")[2]


def widened(name: str) -> str:
    """The type in which the gold holds numbers of a type."""
    kind = dtype_named(name)
    if kind.is_float:
        return "float64"
    return "complex128" if kind.is_complex else kind.name


def place_of(device: str) -> Any:
    """``gpu:0`` as Paddle's place; the first of its kind where no number is given."""
    kind, _, number = device.partition(":")
    if kind == "cpu":
        return paddle.CPUPlace()
    known = {"gpu": "CUDAPlace", "dcu": "CUDAPlace", "xpu": "XPUPlace"}
    if kind in known:
        return getattr(paddle, known[kind])(int(number or 0))
    return paddle.CustomPlace(kind, int(number or 0))
