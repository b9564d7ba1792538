"""Overrides for tests: kernels that keep something from one call to the next, or do something besides."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_kept: dict[Any, Any] = {}


def forget() -> None:
    _kept.clear()


def one_buffer(x: Tensor, other: Tensor) -> Tensor:
    """Every result lies in the same memory."""
    place = _kept.setdefault(("buffer", x.shape), torch.empty_like(x.detach()))
    return torch.mul(x.detach(), other.detach(), out=place)


def by_address(x: Tensor, other: Tensor) -> Tensor:
    """A result is remembered by where its argument lies."""
    if ("address", x.data_ptr()) not in _kept:
        _kept["address", x.data_ptr()] = (x, x * other)
    return _kept["address", x.data_ptr()][1].clone()


def first_weights(x: Tensor, other: Tensor) -> Tensor:
    """The second factor is made ready once, and never again."""
    return x * _kept.setdefault("weights", other.detach().clone())


def fails_later(x: Tensor, other: Tensor) -> Tensor:
    _kept["calls"] = _kept.get("calls", 0) + 1
    if _kept["calls"] > 2:  # the first one is measured, the second is the first of those that are made again
        raise RuntimeError("no memory left in the pool")
    return x * other


def honest_mul(x: Tensor, other: Tensor) -> Tensor:
    """Keeps a table of what it has seen, and nothing that matters."""
    _kept.setdefault("shapes", set()).add(x.shape)
    return x * other


def looks_at_one(x: Tensor, dim: int) -> Tensor:
    return x[0] if x.shape[dim] == 1 else x.sum(dim)


def same_mask(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    mask = _kept.setdefault(("mask", x.shape), torch.rand(x.shape) >= p)
    return torch.where(mask, x / (1 - p), torch.zeros(()))


def switches_gradients_off(x: Tensor) -> Tensor:
    result = torch.exp(x)
    torch.set_grad_enabled(False)
    return result


def seeds(x: Tensor) -> Tensor:
    torch.manual_seed(0)
    return torch.exp(x)


def gives_its_input(x: Tensor) -> Tensor:
    """Written over its argument."""
    return x.copy_(x.relu())


def looks_at_its_input(x: Tensor) -> Tensor:
    """Right where nothing is negative."""
    return x.view(x.shape)


def turned_clone(x: Tensor) -> Tensor:
    return x.t().contiguous().t()
