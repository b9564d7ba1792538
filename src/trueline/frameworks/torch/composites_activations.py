"""Paddle's activations that torch has no function for, or has with other parameters. Names are Paddle's."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trueline.frameworks.torch.composites import composite
from trueline.frameworks.torch.composites_layout import channels_last


@composite
def gelu(x: Tensor, approximate: bool = False) -> Tensor:
    return functional.gelu(x, approximate="tanh" if approximate else "none")


@composite
def hardsigmoid(x: Tensor, slope: float = 0.1666667, offset: float = 0.5) -> Tensor:
    return torch.clamp(slope * x + offset, 0.0, 1.0)


@composite
def hardtanh(x: Tensor, min: float = -1.0, max: float = 1.0) -> Tensor:
    # torch.nn.functional.hardtanh refuses a minimum above the maximum.
    return torch.clamp(x, min, max)


@composite
def maxout(x: Tensor, groups: int, axis: int = 1) -> Tensor:
    """The largest of each ``groups`` consecutive channels."""
    axis = axis % x.ndim
    return x.unflatten(axis, (x.shape[axis] // groups, groups)).amax(axis + 1)


@composite
def prelu(x: Tensor, weight: Tensor, data_format: str = "NCHW") -> Tensor:
    if weight.numel() == 1:
        return torch.where(x > 0, x, weight.reshape([1] * x.ndim) * x)
    if channels_last(data_format):
        return torch.where(x > 0, x, weight.reshape(-1) * x)
    return functional.prelu(x, weight)


@composite
def selu(x: Tensor, scale: float = 1.0507009873554805, alpha: float = 1.6732632423543772) -> Tensor:
    return scale * torch.where(x > 0, x, alpha * torch.expm1(torch.clamp(x, max=0.0)))


@composite
def softmax(x: Tensor, axis: int = -1, dtype: Any = None) -> Tensor:
    return torch.softmax(x, axis, dtype=dtype)


@composite
def swiglu(x: Tensor, y: Tensor | None = None) -> Tensor:
    """``silu(x) * y``, the two halves of ``x`` where ``y`` is not given."""
    if y is None:
        x, y = x.chunk(2, dim=-1)
    return functional.silu(x) * y


@composite
def rrelu(x: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = True) -> Tensor:
    return functional.rrelu(x, lower, upper, training)


@composite
def gumbel_softmax(x: Tensor, temperature: float = 1.0, hard: bool = False, axis: int = -1) -> Tensor:
    return functional.gumbel_softmax(x, tau=temperature, hard=hard, dim=axis)
