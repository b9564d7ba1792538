"""Composites: Paddle's functions of elements, shapes and places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from trueline.frameworks.torch.composites import composite
from trueline.frameworks.torch.rebuild import resolve

Sizes: TypeAlias = "int | Tensor | Sequence[int | Tensor]"


def integers(value: Sizes) -> list[int]:
    """What Paddle takes for a shape: a number, a tensor, or a list of numbers and tensors of one element."""
    if isinstance(value, Tensor):
        return [int(item) for item in value.reshape(-1).tolist()]
    if isinstance(value, int):
        return [value]
    return [int(item) for item in value]


def integer(value: Any) -> int:
    """A number, a tensor of one element, or a list of one."""
    return integers(value)[0]


@composite
def stanh(x: Tensor, scale_a: float = 0.67, scale_b: float = 1.7159) -> Tensor:
    return scale_b * torch.tanh(scale_a * x)


@composite
def scale(x: Tensor, scale: Any = 1.0, bias: float = 0.0, bias_after_scale: bool = True,
          act: str | None = None) -> Tensor:  # fmt: skip
    factor = scale.to(x.dtype) if isinstance(scale, Tensor) else scale
    result = x * factor + bias if bias_after_scale else (x + bias) * factor
    result = result.to(x.dtype)
    return resolve(f"torch.nn.functional.{act}")(result) if act else result


@composite
def increment(x: Tensor, value: float = 1.0) -> Tensor:
    return x.add_(value if x.is_floating_point() else int(value))


@composite
def cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x.to(dtype)


@composite
def assign_(x: Any, output: Tensor | None = None) -> Tensor:
    value = x.clone() if isinstance(x, Tensor) else torch.from_numpy(np.atleast_1d(np.array(x)))
    return value if output is None else output.copy_(value)


@composite
def frexp(x: Tensor) -> tuple[Tensor, Tensor]:
    mantissa, exponent = torch.frexp(x)
    return mantissa, exponent.to(x.dtype)


@composite
def is_integer(x: Tensor) -> bool:
    return not (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool)


@composite
def is_empty(x: Tensor) -> Tensor:
    return torch.tensor(x.numel() == 0)


@composite
def allclose(x: Tensor, y: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    return torch.isclose(x, y, rtol, atol, equal_nan).all()


@composite
def equal_all(x: Tensor, y: Tensor) -> Tensor:
    return torch.tensor(torch.equal(x, y))


@composite
def add_n(inputs: Tensor | Sequence[Tensor]) -> Tensor:
    if isinstance(inputs, Tensor):
        return inputs.clone()
    total = inputs[0].clone()
    for one in inputs[1:]:
        total = total + one
    return total


@composite
def multiplex(inputs: Sequence[Tensor], index: Tensor) -> Tensor:
    rows = torch.arange(index.numel(), device=index.device)
    return torch.stack(list(inputs))[index.reshape(-1).long(), rows]


@composite
def where(condition: Tensor, x: Any = None, y: Any = None) -> Any:
    if x is None and y is None:
        return torch.where(condition)
    return torch.where(condition, x, y)


@composite
def where_(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return x.copy_(torch.where(condition, x, y))


@composite
def ldexp(x: Tensor, y: Tensor) -> Tensor:
    # torch.ldexp's own gradient is zero where an integer exponent is negative.
    kind = torch.float64 if torch.float64 in (x.dtype, y.dtype) else torch.get_default_dtype()
    return x.to(kind) * torch.pow(2.0, y.to(kind))


@composite
def acosh(x: Tensor) -> Tensor:
    return torch.acosh(x)


@composite
def asinh(x: Tensor) -> Tensor:
    return torch.asinh(x)


@composite
def atanh(x: Tensor) -> Tensor:
    return torch.atanh(x)


@composite
def frac(x: Tensor) -> Tensor:
    return torch.frac(x) if x.is_floating_point() else torch.zeros_like(x)


@composite
def atan2(x: Tensor, y: Tensor) -> Tensor:
    exact = not (x.is_floating_point() or y.is_floating_point())
    return torch.atan2(x.to(torch.float64), y.to(torch.float64)) if exact else torch.atan2(x, y)


@composite
def copysign(x: Tensor, y: Tensor) -> Tensor:
    if x.is_floating_point():
        return torch.copysign(x, y)
    if x.dtype == torch.bool:
        return x.clone()
    return torch.where(y < 0, -x.abs(), x.abs())


@composite
def floor_divide(x: Tensor, y: Any) -> Tensor:
    return torch.div(x, y, rounding_mode="floor")


@composite
def sinc(x: Tensor) -> Tensor:
    turned = torch.where(x == 0, 1.0, x) * math.pi
    return torch.where(x == 0, 1.0, torch.sin(turned) / turned)


@composite
def heaviside(x: Tensor, y: Tensor) -> Tensor:
    # torch.heaviside has no gradient of its own; that of y counts where x is zero.
    return torch.where(x == 0, y, torch.heaviside(x.detach(), y.detach()))


@composite
def masked_fill(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    return torch.masked_fill(x, mask, value.reshape([]) if isinstance(value, Tensor) else value)


@composite
def left_shift(x: Tensor, y: Tensor, is_arithmetic: bool = True) -> Tensor:
    return torch.bitwise_left_shift(x, y)


@composite
def right_shift(x: Tensor, y: Tensor, is_arithmetic: bool = True) -> Tensor:
    shifted = torch.bitwise_right_shift(x, y)
    if is_arithmetic or not x.dtype.is_signed:
        return shifted
    bits = 8 * x.element_size()
    kept = ~torch.bitwise_left_shift(torch.full_like(x, -1), (bits - y).clamp(max=bits - 1))
    return torch.where(y == 0, x, shifted & kept)
