"""What kernels of the wild set share: stores that outlive a call, blocks, reading memory in its own order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_STORES: dict[str, dict[Any, Any]] = {}


def kept(name: str) -> dict[Any, Any]:
    """What the kernel of this name keeps from one call to the next."""
    return _STORES.setdefault(name, {})


def as_stored(value: Tensor) -> Tensor:
    """The tensor read as if it were contiguous: the memory from its first element on, in its own order."""
    room = value.untyped_storage().nbytes() // value.element_size() - value.storage_offset()
    if value.is_contiguous() or room < value.numel():
        return value
    return value.as_strided(value.shape, torch.empty(value.shape, device="meta").stride(), value.storage_offset())


def from_start(value: Tensor) -> Tensor:
    """The tensor read from the start of its memory: its storage offset is forgotten."""
    return value.as_strided(value.shape, value.stride(), 0)


def wrapped(dim: int, of: Tensor) -> int:
    return dim % max(of.dim(), 1)


def with_gradient(forward: Callable[..., Any], backward: Callable[..., Any], *inputs: Any) -> Any:
    """``forward(*inputs)`` whose gradients are ``backward(arrived, *inputs)``, one for each input."""

    class Made(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *given: Any) -> Any:
            ctx.save_for_backward(*(one for one in given if isinstance(one, Tensor)))
            ctx.given = [None if isinstance(one, Tensor) else one for one in given]
            ctx.is_tensor = [isinstance(one, Tensor) for one in given]
            return forward(*given)

        @staticmethod
        def backward(ctx: Any, *arrived: Any) -> Any:
            saved = iter(ctx.saved_tensors)
            given = [next(saved) if is_one else one for is_one, one in zip(ctx.is_tensor, ctx.given, strict=True)]
            return backward(*arrived, *given)

    return Made.apply(*inputs)


def summed_to(value: Tensor, shape: Any) -> Tensor:
    """A gradient summed over what was broadcast."""
    return value.sum_to_size(*shape) if value.shape != torch.Size(shape) else value


def low_sum(values: Tensor) -> Tensor:
    """One element after another, each sum rounded to the dtype of the values."""
    total = torch.zeros_like(values[0])
    for one in values:
        total = total + one
    return total
