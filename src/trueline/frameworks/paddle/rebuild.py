"""Makes a recorded Paddle call callable again: the function behind an API name, and what stands in its arguments.

Names are looked up in closed tables (``operators``, composites, dtypes); nothing is evaluated or imported, and no
attribute is taken because a file names it. What cannot be had again raises ``CannotExecute`` with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import paddle

from trueline.dtypes import DTYPES, dtype_named
from trueline.frameworks.base import CannotExecute
from trueline.frameworks.overrides import OwnOperators
from trueline.frameworks.paddle.operators import operator_named

_DEVICE = re.compile(r"(cpu|gpu|xpu|npu|dcu|gpu_pinned)(:\d+)?")
_COMPOSITES = "composite."
_UNKNOWN = {"uint16", "complex32"}
"""What ``paddle`` has under another meaning (its uint16 is bfloat16), or not at all."""
_DTYPES = {
    name: value for name, value in vars(paddle).items() if isinstance(value, paddle.dtype) and name not in _UNKNOWN
}


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


def resolve(api: str, own: OwnOperators | None = None) -> Callable[..., Any]:
    """The function behind an API name such as ``paddle.Tensor.add`` or ``paddle.Tensor.T`` (a property); ``own`` are
    the operators that somebody named for this command."""
    if api.startswith(_COMPOSITES):
        return _composite(api.removeprefix(_COMPOSITES))
    found = operator_named(api) or (own.named(api) if own else None)
    if found is None:
        raise CannotExecute(f"no operator: paddle {paddle.__version__} declares no {api}")
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
    found = _DTYPES.get(plain)
    if found is None:
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
