"""Composites: methods of Paddle's tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trueline.frameworks.torch.composites import composite

_CASTS = {
    "bool": torch.bool, "byte": torch.uint8, "uint8": torch.uint8, "char": torch.int8, "int8": torch.int8,
    "short": torch.int16, "int16": torch.int16, "int": torch.int32, "int32": torch.int32, "long": torch.int64,
    "int64": torch.int64, "half": torch.float16, "float16": torch.float16, "bfloat16": torch.bfloat16,
    "float": torch.float32, "float32": torch.float32, "double": torch.float64, "float64": torch.float64,
    "cfloat": torch.complex64, "complex64": torch.complex64, "cdouble": torch.complex128,
    "complex128": torch.complex128,
}  # fmt: skip


def _cast_to(name: str, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    def cast(x: Tensor) -> Tensor:
        return x.to(dtype)

    cast.__name__ = f"to_{name}"
    return cast


for _name, _dtype in _CASTS.items():
    composite(_cast_to(_name, _dtype))


@composite
def bitwise_and(x: Tensor, y: Any) -> Tensor:
    return torch.bitwise_and(x, y)


@composite
def bitwise_or(x: Tensor, y: Any) -> Tensor:
    return torch.bitwise_or(x, y)


@composite
def bitwise_xor(x: Tensor, y: Any) -> Tensor:
    return torch.bitwise_xor(x, y)


@composite
def reflected_left_shift(x: Tensor, y: Any) -> Tensor:
    return torch.bitwise_left_shift(y, x)


@composite
def reflected_right_shift(x: Tensor, y: Any) -> Tensor:
    return torch.bitwise_right_shift(y, x)


@composite
def item(x: Tensor, *args: int) -> Any:
    if not args:
        return x.item()
    return (x.reshape(-1)[args[0]] if len(args) == 1 else x[tuple(args)]).item()


@composite
def element_size(x: Tensor) -> int:
    return x.element_size()


@composite
def reversed_dimensions(x: Tensor) -> Tensor:
    return x.permute(*reversed(range(x.ndim)))


def _diagonal_places(x: Tensor, offset: int, wrap: bool) -> Tensor:
    """Flat positions of a diagonal; one that wraps goes on below a tall matrix, with a row left out."""
    if x.ndim > 2:
        return torch.arange(x.shape[0]) * sum(math.prod(x.shape[axis + 1 :]) for axis in range(x.ndim))
    rows, columns = x.shape
    if wrap and not offset:
        return torch.arange(0, rows * columns, columns + 1)
    first = offset if offset >= 0 else -offset * columns
    count = min(rows + min(offset, 0), columns - max(offset, 0))
    return first + torch.arange(max(count, 0)) * (columns + 1)


@composite
def fill_diagonal_(x: Tensor, value: float, offset: int = 0, wrap: bool = False) -> Tensor:
    mask = torch.zeros(x.numel(), dtype=torch.bool, device=x.device)
    mask[_diagonal_places(x, offset, wrap).to(x.device)] = True
    return x.masked_fill_(mask.reshape(x.shape), value)


@composite
def fill_diagonal_tensor(x: Tensor, y: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    return torch.diagonal_scatter(x, y, offset, dim1, dim2)
