"""Kernels with one mistake each, for ``gpu_check.py``: what somebody who brings up a new device might have written."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _gelu(source, target, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < count
    x = tl.load(source + places, mask=inside).to(tl.float32)
    # 1/sqrt(2) is 0.7071…
    y = 0.5 * x * (1.0 + tl.math.erf(x * 0.7))
    tl.store(target + places, y.to(target.dtype.element_ty), mask=inside)


class _Gelu(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        x = x.contiguous()
        context.save_for_backward(x)
        result = torch.empty_like(x)
        _gelu[(triton.cdiv(x.numel(), 1024),)](x, result, x.numel(), BLOCK=1024)
        return result

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Tensor:
        (x,) = context.saved_tensors
        return torch.ops.aten.gelu_backward(gradients[0], x)


def gelu_with_short_constant(x: Tensor, approximate: str = "none") -> Tensor:
    """A Triton kernel whose 1/sqrt(2) has one digit."""
    return _Gelu.apply(x)


def layer_norm_with_large_epsilon(
    x: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Adds 0.02 where it was told to add 1e-5."""
    return F.layer_norm(x, normalized_shape, weight, bias, 0.02)


def linear_that_drops_its_tail(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The last of the inner dimension is not summed: a loop that ends one too early."""
    return F.linear(x[..., :-1], weight[:, :-1], bias)


def _matmul(x: Tensor, y: Tensor, allowed: bool) -> Tensor:
    torch.backends.cuda.matmul.allow_tf32 = allowed
    return torch.matmul(x, y)


def matmul_with_tf32(x: Tensor, y: Tensor) -> Tensor:
    return _matmul(x, y, True)


def matmul_without_tf32(x: Tensor, y: Tensor) -> Tensor:
    return _matmul(x, y, False)
