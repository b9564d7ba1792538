"""Whether a wrong kernel is really wrong on the inputs it is tried on, said without any standard.

The mistake is measured alone: the kernel is executed in float64 and compared with the operator in float64, so that what
is left is the mistake (low-precision steps that the kernel takes by itself stay in). It is told in units of the
rounding of the trial's dtype: ``size`` is the largest of the differences of single elements in units in the last place,
``bulk`` the root mean square of the differences in units of the root mean square of the result's own rounding.

Overflow and cancellation are mistakes only in the dtype in which they happen. For these the kernel is executed in the
dtype of the trial, and its error against the operator in float64 must be several times that of the operator itself.
Biased rounding is a mistake of the mean: there the magnitudes must be off to one side by a good part of a unit in the
last place, far beyond chance.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.power.recipes import Arguments, Draw, Wrong, leaves, mapped, wants_gradient

DIGITS = {torch.float32: 24, torch.bfloat16: 8, torch.float16: 11}
LEAST_SIZE = 4.0
LEAST_BULK = 0.25
LEAST_EXCESS = 3.0
LEAST_DRIFT = 0.25


@dataclass(frozen=True)
class Reality:
    """How wrong a kernel is: ``size`` in ULP of the worst element, ``bulk`` in rounding errors of the whole; ``other``
    says what differs besides values (integers, NaN, infinities)."""

    size: float
    bulk: float
    other: str = ""
    excess: float = 0.0
    """The error in the trial's dtype in units of the operator's own error there (or of one rounding, if larger)."""
    drift: float = 0.0
    """Mean error of the magnitudes in the trial's dtype, in ULP, where it is more than ten standard errors."""

    @property
    def material(self) -> bool:
        large = self.size >= LEAST_SIZE or self.bulk >= LEAST_BULK or self.excess >= LEAST_EXCESS
        return bool(self.other) or large or abs(self.drift) >= LEAST_DRIFT


def function_named(name: str) -> Callable[..., Any]:
    """``torch.nn.functional.gelu`` or ``module:function`` as a function."""
    module, _, attribute = name.rpartition(":") if ":" in name else name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def drawn(kernel: Wrong, number: int, dtype: torch.dtype) -> Arguments:
    return kernel.recipes[number](Draw(dtype, seed=number + 1))


def executed(function: Callable[..., Any], arguments: Arguments, dtype: torch.dtype) -> list[Tensor]:
    """Outputs, changed arguments and gradients of one call with its tensors cast to ``dtype``."""

    def prepared(leaf: Tensor) -> Tensor:
        made = leaf.detach().clone()
        return made.to(dtype).requires_grad_(wants_gradient(leaf)) if leaf.is_floating_point() else made

    args, kwargs = mapped((arguments.args, arguments.kwargs), prepared)
    inputs = [leaf for leaf in leaves((args, kwargs)) if leaf.is_floating_point()]
    given = [leaf.detach().clone() for leaf in inputs]
    torch.manual_seed(0)
    outputs = leaves(function(*args, **kwargs))
    found = [leaf.detach() for leaf in outputs]
    differentiable = [leaf for leaf in outputs if leaf.requires_grad]
    generator = torch.Generator().manual_seed(99)
    arriving = [torch.randn(leaf.shape, generator=generator).to(dtype) for leaf in differentiable]
    if differentiable:
        asked = [leaf for leaf in inputs if leaf.requires_grad]
        gradients = torch.autograd.grad(differentiable, asked, arriving, allow_unused=True)
        found += [torch.zeros_like(leaf) if one is None else one for one, leaf in zip(gradients, asked, strict=True)]
    changed = [leaf.detach() for leaf, old in zip(inputs, given, strict=True) if not same(leaf.detach(), old)]
    return found + changed


def same(left: Tensor, right: Tensor) -> bool:
    return left.shape == right.shape and bool(torch.equal(torch.nan_to_num(left), torch.nan_to_num(right)))


def reality(kernel: Wrong, number: int, dtype: torch.dtype) -> Reality:
    """Measures the mistake of one kernel on one of its recipes."""
    arguments = drawn(kernel, number, dtype)
    operator, function = function_named(kernel.api), function_named(kernel.override)
    right = executed(operator, arguments, torch.float64)
    alone = _worst(right, executed(function, arguments, torch.float64), dtype)
    if alone.material:
        return alone
    mistaken = _worst(right, executed(function, arguments, dtype), dtype)
    usual = _worst(right, executed(operator, arguments, dtype), dtype)
    other = mistaken.other if mistaken.other != usual.other else ""
    excess = mistaken.bulk / max(usual.bulk, 1.0)
    drift = mistaken.drift if abs(mistaken.drift) > 4 * abs(usual.drift) else 0.0
    return Reality(alone.size, alone.bulk, other, excess, drift)


def _worst(right: list[Tensor], mistaken: list[Tensor], dtype: torch.dtype) -> Reality:
    if len(right) != len(mistaken):
        return Reality(0.0, 0.0, f"{len(mistaken)} results instead of {len(right)}")
    parts = [_compared(one, other, dtype) for one, other in zip(right, mistaken, strict=True)]
    return Reality(
        max((part.size for part in parts), default=0.0),
        max((part.bulk for part in parts), default=0.0),
        next((part.other for part in parts if part.other), ""),
        drift=max((part.drift for part in parts), key=abs, default=0.0),
    )


def _compared(right: Tensor, mistaken: Tensor, dtype: torch.dtype) -> Reality:
    if right.shape != mistaken.shape:
        return Reality(0.0, 0.0, f"shape {tuple(mistaken.shape)} instead of {tuple(right.shape)}")
    if not right.is_floating_point():
        unequal = int((right != mistaken).sum())
        return Reality(0.0, 0.0, f"{unequal} of {right.numel()} integers differ" if unequal else "")
    mistaken = mistaken.to(right.dtype)
    limit = torch.finfo(dtype).max
    right, mistaken = (torch.where(one.abs() > limit, one.sign() * torch.inf, one) for one in (right, mistaken))
    odd = int((right.isfinite() != mistaken.isfinite()).sum())
    if odd:
        return Reality(0.0, 0.0, f"{odd} of {right.numel()} elements are finite in one and not in the other")
    both = right.isfinite()
    signed = ((mistaken - right) * right.sign())[both]
    right, difference = right[both], (mistaken - right)[both].abs()
    if not right.numel():
        return Reality(0.0, 0.0)
    digits = DIGITS[dtype]
    exponents = torch.frexp(right.abs().clamp_min(torch.finfo(dtype).tiny)).exponent
    spacing = torch.ldexp(torch.ones_like(right), exponents - digits)
    level = math.sqrt(float((right * right).mean()))
    rounding = level * 2.0**-digits / math.sqrt(3) or torch.finfo(dtype).tiny
    # An element far below the others is told by theirs: cancellation makes its own spacing meaningless.
    size = float((difference / torch.maximum(spacing, torch.tensor(level * 2.0**-digits / 8))).max())
    drifting = signed / spacing
    drift, chance = float(drifting.mean()), float(drifting.std(correction=0)) / math.sqrt(drifting.numel())
    bulk = math.sqrt(float((difference * difference).mean())) / rounding
    return Reality(size, bulk, drift=drift if abs(drift) > 10 * chance else 0.0)
