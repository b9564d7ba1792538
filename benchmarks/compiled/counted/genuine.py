"""Programs that torch 2.13 itself compiles wrongly on the CPU: the counted half."""

from __future__ import annotations

import random
from typing import Any

import torch

from benchmarks.compiled.spec import How, Where, genuine


@genuine(
    Where(
        "model",
        (
            "aten.permute",
            "aten.bmm",
            "aten._scaled_dot_product_flash_attention_for_cpu",
            "aten.scaled_dot_product_attention",
        ),
        "attend",
    ),
    report="https://github.com/pytorch/pytorch/issues/195320",
)
def attention_of_permuted_keys(how: How) -> dict[str, Any]:
    """Attention by hand whose keys come with heads and places exchanged; the fused attention reads them otherwise."""

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return torch.matmul(query, key.permute(0, 2, 3, 1)).div(4.0).softmax(dim=-1).matmul(value)

    run = how.compile(attend)
    with torch.no_grad():
        query, key, value = torch.randn(2, 8, 8, 16), torch.randn(2, 8, 8, 16).transpose(1, 2), torch.randn(2, 8, 8, 16)
        return {"mixed": run(query, key, value)}


@genuine(
    Where("loudest", ("aten.amax", "aten.max", "aten.argmax"), "loudest"),
    report="https://github.com/pytorch/pytorch/issues/191499",
)
def loudest_sample(how: How) -> dict[str, Any]:
    """The greatest of many negative small integers is zero."""

    def loudest(samples: torch.Tensor) -> torch.Tensor:
        return samples.amax(-1).float() * 0.5

    samples = torch.randint(-120, -9, (4, 200), dtype=torch.int8)
    return {"loudest": how.compile(loudest)(samples)}


@genuine(
    Where("augmented", ("aten.mul",), "augmented", step=3),
    report="https://github.com/pytorch/pytorch/issues/196437",
    how=How("inductor", {"dynamic": True}),
)
def augmentation_drawn_twice(how: How) -> dict[str, Any]:
    """A factor drawn from a generator of Python is the same in two calls of one compiled shape."""

    def augmented(images: torch.Tensor, draw: random.Random) -> torch.Tensor:
        return images * draw.randint(1, 100)

    run, draw, made = how.compile(augmented), random.Random(5), {}
    for index, size in enumerate(((1,), (1, 5), (2, 2), (2, 3))):
        made[f"images.{index}"] = run(torch.randn(size), draw)
    return made


@genuine(Where("wrapped", ("aten.remainder",), "wrapped"), report="https://github.com/pytorch/pytorch/issues/198057")
def remainder_of_infinity(how: How) -> dict[str, Any]:
    """The remainder by an infinite period is not a number where it has to be the period or the value."""

    def wrapped(phase: torch.Tensor, period: torch.Tensor) -> torch.Tensor:
        return torch.remainder(phase, period)

    phase = torch.randn(20) * 4
    period = torch.where(torch.arange(20) % 5 == 0, torch.tensor(float("inf")), torch.tensor(2.0))
    return {"phase": how.compile(wrapped)(phase, period)}


@genuine(
    Where("leveled", ("aten.div", "aten.floor", "aten.floor_divide"), "leveled"),
    report="https://github.com/pytorch/pytorch/issues/188048",
)
def floor_of_infinity(how: How) -> dict[str, Any]:
    """Floor division of something infinite stays infinite, where eager says that it is not a number."""

    def leveled(values: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        return torch.div(values, step, rounding_mode="floor")

    values = torch.where(torch.arange(20) % 7 == 0, torch.tensor(float("inf")), torch.randn(20))
    return {"levels": how.compile(leveled)(values, torch.full((20,), 0.37))}
