"""Overrides for tests: kernels that are wrong in one way each, and right ones."""

from __future__ import annotations

from typing import Any

import torch

gelu_backwards: list[int] = []


class _OwnGelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return torch.nn.functional.gelu(x.detach())

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            (own,) = torch.autograd.grad(torch.nn.functional.gelu(leaf), leaf, gradient)
        gelu_backwards.append(1)
        return own


def right_gelu(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    return _OwnGelu.apply(x)


def right_t(x: torch.Tensor) -> torch.Tensor:
    return x.swapaxes(0, 1)


def scaled_gelu(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """Two parts in a thousand too large, forward and backward, before it is rounded."""
    return (1.002 * torch.nn.functional.gelu(x.float())).to(x.dtype)


class _WrongGradient(_OwnGelu):
    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


def wrong_gradient_gelu(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    return _WrongGradient.apply(x)


def detached_gelu(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    return torch.nn.functional.gelu(x.detach())


def clobbering_gelu(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """Right, but it writes to its input behind autograd's back, as a kernel with pointers may."""
    result = torch.nn.functional.gelu(x)
    x.detach().numpy()[...] = 0
    return result


def copying_add_(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """The right sum in a new tensor."""
    return x + other


def raising(*arguments: Any, **keywords: Any) -> torch.Tensor:
    raise ValueError("no such tile size")


def widening_gelu(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    return torch.nn.functional.gelu(x.float())


def inverse_in_single(x: torch.Tensor) -> torch.Tensor:
    return torch.linalg.inv(x.float()).to(x.dtype)


def inverse_too_large(x: torch.Tensor) -> torch.Tensor:
    return 1.01 * inverse_in_single(x)
