"""What the cases of the vision models share: edits of the libraries' sources, of single modules, of training loops."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from benchmarks.zoo import torchvision_ops
from benchmarks.zoo.source import edit_function, imported
from benchmarks.zoo.spec import BeforeEdit, Setting

TIMM = "benchmarks.zoo.programs.vision_timm"
TORCHVISION = "benchmarks.zoo.programs.vision_torchvision"
TRANSFORMERS = "benchmarks.zoo.programs.vision_transformers"
DATA = "benchmarks.zoo.programs.vision_data"


def owner_of(where: str) -> Any:
    """The module ``package.module``, or the class ``package.module:Class``."""
    torchvision_ops.prepare()
    module, _, name = where.partition(":")
    found = imported(module)
    return getattr(found, name) if name else found


def source(where: str, name: str, *changes: tuple[str, str], count: int = 1) -> BeforeEdit:
    """An edit of the source of the function ``name``, before the program is built."""

    def edit(setting: Setting) -> None:
        edit_function(owner_of(where), name, *changes, count=count)

    return edit


def in_turn(*edits: BeforeEdit) -> BeforeEdit:
    def edit(setting: Setting) -> None:
        for one in edits:
            one(setting)

    return edit


def edit_one(module: Any, name: str, *changes: tuple[str, str], count: int = 1) -> None:
    """An edit of the source of a method for this one module only, and not for the others of its class."""
    kind = next(kind for kind in type(module).__mro__ if name in vars(kind))
    known = vars(kind)[name]
    edit_function(kind, name, *changes, count=count)
    edited = vars(kind)[name]
    setattr(kind, name, known)
    setattr(module, name, types.MethodType(edited, module))


def replace_one(module: Any, name: str, function: Callable[..., Any]) -> None:
    """Another method for this one module."""
    setattr(module, name, types.MethodType(function, module))


def batch_norms(model: Any) -> list[Any]:
    import torch

    return [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]


def fold(convolution: Any, norm: Any) -> None:
    """The convolution does what the norm after it does in evaluation, and the norm nothing."""
    import torch

    def forward(self: Any, x: Any) -> Any:
        scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
        weight = self.weight * scale[:, None, None, None]
        bias = norm.bias - norm.running_mean * scale
        return torch.nn.functional.conv2d(
            x, weight, bias, self.stride, self.padding, self.dilation, self.groups
        )

    replace_one(convolution, "forward", forward)
    replace_one(norm, "forward", lambda self, x: x)


def linear_in_bfloat16(self: Any, input: Any) -> Any:
    """The forward of a linear layer that was converted by hand."""
    import torch

    bias = None if self.bias is None else self.bias.to(torch.bfloat16)
    result = torch.nn.functional.linear(input.to(torch.bfloat16), self.weight.to(torch.bfloat16), bias)
    return result.to(input.dtype)


def swish_with_short_gradient() -> Any:
    """A swish that keeps only its input for the backward pass, in which a term of the derivative is missing."""
    import torch

    class Swish(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return torch.nn.functional.silu(x)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            (x,) = ctx.saved_tensors
            return gradient * torch.sigmoid(x)

    class MemoryEfficientSwish(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return Swish.apply(x)

    return MemoryEfficientSwish()
