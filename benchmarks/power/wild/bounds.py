"""Bounds of the error of honest kernels, in the unit roundoff u of the dtype in which they compute.

Each bound gives the error that is allowed to each element: from the exact results, from the arguments, and from u.
What is computed in bfloat16 or float16 is computed in float32 and rounded once, so its own u is float32's and one
rounding of the result is added (``allowed``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.power.recipes import Arguments, leaves, mapped

Scale = Callable[[Tensor, Arguments, Callable[..., Any], int], Tensor]


@dataclass(frozen=True)
class Bound:
    """``units`` times u times a scale; ``units`` may depend on the arguments, as ``n`` of a sum does."""

    units: float | Callable[[Arguments], float]
    scale: Scale

    def allowed(self, exact: Tensor, arguments: Arguments, operator: Any, number: int, dtype: torch.dtype) -> Tensor:
        units = self.units(arguments) if callable(self.units) else self.units
        inner = torch.finfo(torch.float32).eps / 2
        rounding = torch.finfo(dtype).eps / 2 if dtype != torch.float32 else 0.0
        room = units * inner * self.scale(exact, arguments, operator, number)
        return room + (rounding * (1 + 2**-6) * (exact.abs() + room)) + torch.finfo(dtype).tiny * torch.finfo(dtype).eps


def _element(exact: Tensor, arguments: Arguments, operator: Any, number: int) -> Tensor:
    return exact.abs()


def _largest(exact: Tensor, arguments: Arguments, operator: Any, number: int) -> Tensor:
    finite = exact[exact.isfinite()]
    return torch.full_like(exact, float(finite.abs().max()) if finite.numel() else 0.0)


def _absolute(exact: Tensor, arguments: Arguments, operator: Any, number: int) -> Tensor:
    args, kwargs = mapped((arguments.args, arguments.kwargs), lambda one: _abs(one.detach()))
    found = leaves(operator(*args, **kwargs))[number]
    return found.double().abs().expand_as(exact)


def _abs(value: Tensor) -> Tensor:
    return value.abs() if value.is_floating_point() else value


def of_gradient(bound: Bound) -> Bound:
    """The bound of gradients where none is stated: that of the result, by norm where it is by absolute values."""
    return Bound(bound.units, _largest) if bound.scale is _absolute else bound


def element(units: float | Callable[[Arguments], float]) -> Bound:
    """So many u of the element itself."""
    return Bound(units, _element)


def normwise(units: float | Callable[[Arguments], float]) -> Bound:
    """So many u of the largest element of the result, as FFT and Winograd are bounded."""
    return Bound(units, _largest)


def absolute(units: float | Callable[[Arguments], float]) -> Bound:
    """So many u of the same operator applied to the absolute values: the bound of sums of products (Higham, ch. 3)."""
    return Bound(units, _absolute)


def fixed(units: float) -> Bound:
    """So many u of one, for results between -1 and 1."""
    return Bound(units, lambda exact, arguments, operator, number: torch.ones_like(exact))
