"""Composites: Paddle's functions that make tensors out of numbers. Shapes and numbers may be tensors in Paddle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from trueline.frameworks.torch.composites import composite
from trueline.frameworks.torch.composites_tensor import integer, integers

DType: TypeAlias = "torch.dtype | None"


def number(value: Any) -> Any:
    """A number, whether it was given as one or as a tensor of one element."""
    return value.reshape(-1)[0].item() if isinstance(value, Tensor) else value


@composite
def zeros(shape: Any, dtype: DType = None) -> Tensor:
    return torch.zeros(integers(shape), dtype=dtype)


@composite
def ones(shape: Any, dtype: DType = None) -> Tensor:
    return torch.ones(integers(shape), dtype=dtype)


@composite
def empty(shape: Any, dtype: DType = None) -> Tensor:
    return torch.empty(integers(shape), dtype=dtype)


@composite
def full(shape: Any, fill_value: Any, dtype: DType = None) -> Tensor:
    value = number(fill_value)
    if dtype is None and isinstance(value, int) and not isinstance(value, bool):
        dtype = torch.get_default_dtype()  # Paddle's default also where an integer is to be filled in
    return torch.full(integers(shape), value, dtype=dtype)


@composite
def zeros_like(x: Tensor, dtype: DType = None) -> Tensor:
    return torch.zeros_like(x, dtype=dtype)


@composite
def ones_like(x: Tensor, dtype: DType = None) -> Tensor:
    return torch.ones_like(x, dtype=dtype)


@composite
def full_like(x: Tensor, fill_value: Any, dtype: DType = None) -> Tensor:
    return torch.full_like(x, number(fill_value), dtype=dtype)


@composite
def eye(num_rows: Any, num_columns: Any = None, dtype: DType = None) -> Tensor:
    rows = integer(num_rows)
    return torch.eye(rows, rows if num_columns is None else integer(num_columns), dtype=dtype)


@composite
def arange(start: Any = 0, end: Any = None, step: Any = 1, dtype: DType = None) -> Tensor:
    first, last = (0, start) if end is None else (start, end)
    return torch.arange(number(first), number(last), number(step), dtype=dtype)


@composite
def _range(start: Any = 0, end: Any = None, step: Any = 1, dtype: DType = None) -> Tensor:
    first, last = (0, start) if end is None else (start, end)
    steps = int((number(last) - number(first)) / number(step)) + 1
    kind = torch.get_default_dtype() if dtype is None else dtype
    return (number(first) + number(step) * torch.arange(steps)).to(kind)


@composite
def linspace(start: Any, stop: Any, num: Any, dtype: DType = None) -> Tensor:
    return torch.linspace(number(start), number(stop), integer(num), dtype=dtype)


@composite
def logspace(start: Any, stop: Any, num: Any, base: Any = 10.0, dtype: DType = None) -> Tensor:
    return torch.logspace(number(start), number(stop), integer(num), number(base), dtype=dtype)


@composite
def to_tensor(data: Any, dtype: DType = None) -> Tensor:
    return data.clone() if isinstance(data, Tensor) else torch.tensor(data, dtype=dtype)


@composite
def parameters_to_vector(parameters: Sequence[Tensor]) -> Tensor:
    return torch.cat([one.detach().reshape(-1) for one in parameters])


@composite
def vector_to_parameters(vec: Tensor, parameters: Sequence[Tensor]) -> None:
    parts = torch.split(vec.detach(), [one.numel() for one in parameters])
    with torch.no_grad():
        for one, part in zip(parameters, parts, strict=True):
            one.copy_(part.view_as(one))


_COSINES = {
    "hann": (0.5, 0.5),
    "hamming": (0.54, 0.46),
    "blackman": (0.42, 0.5, 0.08),
    "nuttall": (0.3635819, 0.4891775, 0.1365995, 0.0106411),
}


def _taylor(turns: Tensor, lobes: int = 4, level: float = 30.0, normalized: bool = True) -> Tensor:
    """Cosines whose weights push the first lobes beside the main one down to a level, in decibel."""
    width = (math.acosh(10 ** (level / 20)) / math.pi) ** 2
    stretch = lobes**2 / (width + (lobes - 0.5) ** 2)
    numbers = range(1, lobes)
    result, peak = torch.ones_like(turns), 1.0
    for one in numbers:
        above = math.prod(1 - one**2 / stretch / (width + (other - 0.5) ** 2) for other in numbers)
        below = math.prod(1 - one**2 / other**2 for other in numbers if other != one)
        weight = (-1) ** (one + 1) * above / (2 * below)
        result, peak = result + 2 * weight * torch.cos(2 * math.pi * one * turns), peak + 2 * weight
    return result / peak if normalized else result


@composite
def get_window(window: Any, win_length: int, fftbins: bool = True, dtype: DType = torch.float64) -> Tensor:
    name, *more = [window] if isinstance(window, str) else window
    if win_length <= 1:
        return torch.ones(win_length, dtype=dtype)
    count = win_length + 1 if fftbins else win_length
    place = torch.arange(count, dtype=torch.float64)
    centred = place - (count - 1) / 2
    if name in _COSINES:
        turns = 2 * math.pi * place / (count - 1)
        weights = enumerate(_COSINES[name])
        result = sum(((-1) ** k * weight * torch.cos(k * turns) for k, weight in weights), torch.zeros(count))
    elif name == "gaussian":
        result = torch.exp(-0.5 * (centred / (more[0] if more else 1.0)) ** 2)
    elif name == "exponential":
        result = torch.exp(-centred.abs() / (more[-1] if more else 1.0))
    elif name == "general_gaussian":
        result = torch.exp(-0.5 * (centred / more[1]).abs() ** (2 * more[0]))
    elif name == "cosine":
        result = torch.sin(math.pi / count * (place + 0.5))
    elif name == "triang":
        result = 1 - centred.abs() / ((count + count % 2) / 2)
    elif name == "bohman":
        part = (centred / ((count - 1) / 2)).abs()
        result = (1 - part) * torch.cos(math.pi * part) + torch.sin(math.pi * part) / math.pi
    elif name == "kaiser":
        beta = torch.tensor(float(more[0]), dtype=torch.float64)
        result = torch.i0(beta * torch.sqrt(1 - (centred / ((count - 1) / 2)) ** 2)) / torch.i0(beta)
    elif name == "taylor":
        result = _taylor(centred / count, *more)
    else:
        raise ValueError(f"no window {name} here")
    return result[:win_length].to(dtype)
