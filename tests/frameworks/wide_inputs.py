"""Tensors for the calls that reach every entry of the table of wide operators: the same numbers each time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

aten = torch.ops.aten
GENERATOR = torch.Generator()


def n(*shape: int) -> torch.Tensor:
    """Normal numbers that want a gradient."""
    return torch.randn(shape, dtype=torch.float64, generator=GENERATOR).requires_grad_()


def u(*shape: int, low: float = -0.9, high: float = 0.9) -> torch.Tensor:
    """Numbers between two bounds."""
    drawn = torch.rand(shape, dtype=torch.float64, generator=GENERATOR) * (high - low) + low
    return drawn.requires_grad_()


def p(*shape: int) -> torch.Tensor:
    """Positive numbers, away from zero."""
    return u(*shape, low=0.4, high=3.0)


def i(high: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, high, shape, generator=GENERATOR)


def mask(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=GENERATOR) < 0.5


def c(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.complex128, generator=GENERATOR).requires_grad_()


def definite(size: int) -> torch.Tensor:
    base = torch.randn(size, size, dtype=torch.float64, generator=GENERATOR)
    return (base @ base.T + size * torch.eye(size, dtype=torch.float64)).requires_grad_()


def triangular(size: int) -> torch.Tensor:
    base = torch.randn(size, size, dtype=torch.float64, generator=GENERATOR)
    return (base.tril() + 3 * torch.eye(size, dtype=torch.float64)).requires_grad_()


Cases = Iterator[tuple[str, Callable[..., Any], tuple[Any, ...]]]
