"""Operators of libraries and scripts, made before an observation and inside of one."""

from __future__ import annotations

import io
from typing import Any

import torch
from torch import nn

from benchmarks.odd_programs.registry import Skip, program


@program
def scripted_before_and_called_inside_and_after() -> Any:
    @torch.jit.script
    def scale(x: torch.Tensor, by: float) -> torch.Tensor:
        return torch.nn.functional.softplus(x) * by

    before = scale(torch.ones(2), 2.0)
    yield
    inside = scale(torch.ones(2), 3.0)
    graph = str(scale.graph_for(torch.ones(2), 3.0))[:20]
    yield
    return before, inside, scale(torch.ones(2), 4.0), graph


@program
def scripted_module_made_before_is_frozen_inside() -> Any:
    model = torch.jit.script(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.ReLU()).eval())
    yield
    frozen = torch.jit.freeze(model)
    x = torch.ones(1, 3)
    out = model(x), frozen(x)
    yield
    return out, frozen(x), "dropout" in str(frozen.graph)


@program
def scripting_for_the_first_time_inside() -> Any:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.nn.functional.interpolate(x[None, None], scale_factor=2.0)[0, 0]
            return torch.nn.functional.gelu(self.layer(x)).sum() + y.sum()

    scripted = torch.jit.script(Block())
    return scripted(torch.ones(2, 3)), "gelu" in scripted.code


@program
def traced_and_scripted_functions_call_each_other() -> Any:
    @torch.jit.script
    def clip(x: torch.Tensor) -> torch.Tensor:
        return torch.clamp(x, -1.0, 1.0)

    traced = torch.jit.trace(lambda x: clip(x) * 2, torch.ones(2))
    buffer = io.BytesIO()
    torch.jit.save(traced, buffer)
    buffer.seek(0)
    again = torch.jit.load(buffer)
    return traced(torch.ones(2) * 3), again(torch.ones(2) * 4), clip(torch.ones(1) * 5)


@program
def operator_of_a_library_that_mutates_two() -> Any:
    if not hasattr(torch.library, "custom_op"):
        raise Skip("torch.library.custom_op is missing")

    @torch.library.custom_op("odd_sights::exchange", mutates_args={"a", "b"})
    def exchange(a: torch.Tensor, b: torch.Tensor) -> None:
        kept = a.clone()
        a.copy_(b)
        b.copy_(kept)

    a, b = torch.ones(2), torch.zeros(2)
    exchange(a, b)
    return a, b


def _add_into(x: torch.Tensor, y: torch.Tensor) -> None:
    x.add_(y)


@program
def operator_of_a_library_defined_by_schema() -> Any:
    with torch.library._scoped_library("odd_sights_schema", "FRAGMENT") as library:
        library.define("add_into(Tensor(a!) x, Tensor y) -> ()")
        library.impl("add_into", _add_into, "CPU")
        x = torch.zeros(3)
        torch.ops.odd_sights_schema.add_into(x, torch.ones(3))
        versions = x._version > 0
    return x, versions


@program
def operator_with_gradient_that_returns_a_new_tensor() -> Any:
    if not hasattr(torch.library, "custom_op"):
        raise Skip("torch.library.custom_op is missing")

    @torch.library.custom_op("odd_sights::cube", mutates_args=())
    def cube(x: torch.Tensor) -> torch.Tensor:
        return x * x * x

    cube.register_autograd(
        lambda ctx, grad: 3 * ctx.saved_tensors[0] ** 2 * grad,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    x = torch.arange(3.0, requires_grad=True)
    cube(x).sum().backward()
    return x.grad, cube._opoverload.name()
