"""Tests the set of wrong kernels itself; no standard is asked.

    python -m benchmarks.power.check [PART ...]

Each kernel must really be wrong in each of its dtypes (``reality``), give as many results of the same dtypes and shapes
as the operator, give a gradient wherever the operator does, so that only numbers tell it, and, where its mistake is in
the backward, have a right forward. Says what is not so, and how many kernels, operators and trials there are.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from benchmarks.power.catalogue import wrong_kernels
from benchmarks.power.reality import drawn, function_named, reality
from benchmarks.power.recipes import Arguments, Wrong, leaves, mapped, wants_gradient

LEAST_KERNELS, LEAST_OPERATORS = 150, 60
FORWARD_ERROR = {torch.float32: 1e-6, torch.bfloat16: 1e-2, torch.float16: 2e-3}
"""How far the forward of a kernel with a wrong backward may be from the operator's, relative to the largest element."""


def outcome(function: Any, arguments: Arguments) -> tuple[list[Tensor], list[bool]]:
    """The results, and for each argument that wants a gradient whether it gets one."""

    def prepared(leaf: Tensor) -> Tensor:
        return leaf.detach().clone().requires_grad_(wants_gradient(leaf))

    args, kwargs = mapped((arguments.args, arguments.kwargs), prepared)
    asked = [leaf for leaf in leaves((args, kwargs)) if leaf.requires_grad]
    torch.manual_seed(0)
    results = leaves(function(*args, **kwargs))
    ends = [leaf for leaf in results if leaf.requires_grad]
    if not ends:
        return results, [False] * len(asked)
    found = torch.autograd.grad(ends, asked, [torch.ones_like(end) for end in ends], allow_unused=True)
    return results, [one is not None for one in found]


def problems(kernel: Wrong, number: int, dtype: torch.dtype) -> Iterator[str]:
    right, wanted = outcome(function_named(kernel.api), drawn(kernel, number, dtype))
    mistaken, given = outcome(function_named(kernel.override), drawn(kernel, number, dtype))
    if [(one.dtype, one.shape) for one in right] != [(one.dtype, one.shape) for one in mistaken]:
        yield "results of other dtypes or shapes"
    if wanted != given:
        yield f"gradients {given} where the operator gives {wanted}"
    if kernel.direction == "backward":
        for one, other in zip(right, mistaken, strict=True):
            largest = float(one.detach().abs().max()) or 1.0
            off = float((one.detach().double() - other.detach().double()).abs().max()) / largest
            if off > FORWARD_ERROR[dtype]:
                yield f"its forward is off by {off:.2g}"


def main(argv: list[str] | None = None) -> int:
    parts = sys.argv[1:] if argv is None else argv
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    chosen = [kernel for kernel in wrong_kernels() if not parts or any(part in kernel.id for part in parts)]
    bad = 0
    for kernel in chosen:
        for dtype in kernel.dtypes:
            numbers = range(len(kernel.recipes))
            said = [text for number in numbers for text in problems(kernel, number, dtype)]
            if not any(reality(kernel, number, dtype).material for number in numbers):
                said.append("not wrong enough to be called wrong")
            bad += len(said)
            for text in said:
                print(f"{kernel.id}, {dtype}: {text}")
    operators = {kernel.api for kernel in chosen}
    print(f"{len(chosen)} kernels of {len(operators)} operators, {sum(len(one.dtypes) for one in chosen)} trials")
    few = not parts and (len(chosen) < LEAST_KERNELS or len(operators) < LEAST_OPERATORS)
    if few:
        print(f"there should be {LEAST_KERNELS} kernels of {LEAST_OPERATORS} operators at least")
    return 1 if bad or few else 0


if __name__ == "__main__":
    raise SystemExit(main())
