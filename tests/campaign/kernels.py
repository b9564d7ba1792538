"""Kernels to be called in place of torch's: wrong in every way, and some that end the process."""

from __future__ import annotations

import ctypes
import os
import time
from typing import Any

import torch
from torch.nn import functional as F


class _WrongGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(value)
        return torch.tanh(value)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (value,) = ctx.saved_tensors
        return gradient * (1 - torch.tanh(value)) * (1 + torch.tanh(value)) * 1.01


def tanh_wrong_gradient(value: torch.Tensor) -> torch.Tensor:
    return _WrongGradient.apply(value)  # type: ignore[no-any-return]


def gelu_scaled(value: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    return F.gelu(value, approximate=approximate) * 1.002


def exp_nan(value: torch.Tensor) -> torch.Tensor:
    """NaN where the result is large."""
    result = torch.exp(value)
    return torch.where(result > 2, torch.full_like(result, float("nan")), result)


def sigmoid_other_dtype(value: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(value).double()


def sum_other_shape(value: torch.Tensor, *args: Any, **named: Any) -> torch.Tensor:
    return torch.sum(value, *args, **named).unsqueeze(0)


def silu_raises(value: torch.Tensor, inplace: bool = False) -> torch.Tensor:
    raise ValueError("no such kernel")


def argmax_off_by_one(value: torch.Tensor, *args: Any, **named: Any) -> torch.Tensor:
    return (torch.argmax(value, *args, **named) + 1) % value.shape[-1]


def add_in_place_wrong(value: torch.Tensor, other: torch.Tensor, *, alpha: float = 1) -> torch.Tensor:
    return value.add_(other, alpha=alpha).mul_(1.001)


def softmax_one_element(value: torch.Tensor, *args: Any, **named: Any) -> torch.Tensor:
    result = torch.softmax(value, *args, **named).clone()
    result.view(-1)[-1] *= 1.5
    return result


def matmul_bfloat16(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    return torch.matmul(first.bfloat16(), second.bfloat16()).to(first.dtype)


def layer_norm_other_epsilon(value: torch.Tensor, *args: Any, eps: float = 1e-5, **named: Any) -> torch.Tensor:
    return F.layer_norm(value, *args, eps=eps * 100, **named)


def log_softmax_transposed(value: torch.Tensor, *args: Any, **named: Any) -> torch.Tensor:
    """Wrong for what is not contiguous."""
    result = torch.log_softmax(value, *args, **named)
    return result if value.is_contiguous() else result * 1.01


def segfault(*_: Any, **__: Any) -> Any:
    ctypes.string_at(0)


def hang(*_: Any, **__: Any) -> Any:
    while True:
        time.sleep(1)


def eat(*_: Any, **__: Any) -> Any:
    held = []
    while True:
        held.append(torch.ones(5_000_000))


def logged(value: torch.Tensor) -> torch.Tensor:
    """relu, slowly, leaving a trace of each execution."""
    with open(os.environ["TRUELINE_TEST_LOG"], "a", encoding="utf-8") as file:
        file.write(f"{tuple(value.shape)}\n")
    time.sleep(0.02)
    return torch.relu(value)
