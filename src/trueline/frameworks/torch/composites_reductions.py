"""Composites: Paddle's reductions, running sums and counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from trueline.frameworks.torch.composites import composite
from trueline.frameworks.torch.composites_tensor import integer, integers

Axis = Any
"""None, a number, a list of numbers, or a tensor of them."""


def axes_of(axis: Axis, x: Tensor) -> list[int]:
    """The dimensions that Paddle reduces: all of them where none is said."""
    found = [] if axis is None else integers(axis)
    return found or list(range(x.ndim))


def merged(x: Tensor, axis: Axis, reduce: Callable[[Tensor], Any], keepdim: bool) -> Any:
    """A reduction that torch does along one dimension only, along several: they are made one first."""
    axes = sorted(one % max(x.ndim, 1) for one in axes_of(axis, x))
    kept = [one for one in range(x.ndim) if one not in axes]
    flat = x.permute(kept + axes).reshape([x.shape[one] for one in kept] + [-1])
    result = reduce(flat)
    if not keepdim:
        return result
    shape = [1 if one in axes else x.shape[one] for one in range(x.ndim)]
    return result.reshape(list(result.shape[: result.ndim - len(kept)]) + shape)


@composite
def mean(x: Tensor, axis: Axis = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Tensor:
    if x.is_floating_point() or x.is_complex() or dtype is not None:
        return torch.mean(x, axes_of(axis, x), keepdim, dtype=dtype)
    return torch.mean(x, axes_of(axis, x), keepdim, dtype=torch.float64).to(x.dtype)  # Paddle keeps the dtype


@composite
def prod(x: Tensor, axis: Axis = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> Tensor:
    return merged(x, axis, lambda flat: flat.prod(-1, dtype=dtype or x.dtype), keepdim)


@composite
def _max(x: Tensor, axis: Axis = None, keepdim: bool = False) -> Tensor:
    return torch.amax(x, axes_of(axis, x), keepdim)


@composite
def _min(x: Tensor, axis: Axis = None, keepdim: bool = False) -> Tensor:
    return torch.amin(x, axes_of(axis, x), keepdim)


@composite
def _all(x: Tensor, axis: Axis = None, keepdim: bool = False) -> Tensor:
    return torch.all(x, tuple(axes_of(axis, x)), keepdim)


@composite
def _any(x: Tensor, axis: Axis = None, keepdim: bool = False) -> Tensor:
    return torch.any(x, tuple(axes_of(axis, x)), keepdim)


@composite
def logsumexp(x: Tensor, axis: Axis = None, keepdim: bool = False) -> Tensor:
    return torch.logsumexp(x, axes_of(axis, x), keepdim)


@composite
def var(x: Tensor, axis: Axis = None, unbiased: bool | None = None, keepdim: bool = False,
        correction: float = 1) -> Tensor:  # fmt: skip
    degrees = correction if unbiased is None else int(unbiased)
    return torch.var(x, axes_of(axis, x), correction=degrees, keepdim=keepdim)


@composite
def std(x: Tensor, axis: Axis = None, unbiased: bool = True, keepdim: bool = False) -> Tensor:
    return torch.std(x, axes_of(axis, x), correction=int(unbiased), keepdim=keepdim)


def _middle(flat: Tensor) -> Tensor:
    """The mean of the two middle elements where there is no middle one, along the last dimension."""
    ordered = torch.sort(flat, -1).values
    count = flat.shape[-1]
    if count % 2:
        return ordered[..., count // 2]
    return (ordered[..., count // 2 - 1] + ordered[..., count // 2]) / 2


@composite
def median(x: Tensor, axis: Axis = None, keepdim: bool = False, mode: str = "avg") -> Any:
    if mode == "min":
        if axis is None:
            return torch.median(x).reshape([1] * x.ndim if keepdim else [])
        return tuple(torch.median(x, integer(axis), keepdim))
    return merged(x, axis, _middle, keepdim)


@composite
def nanmedian(x: Tensor, axis: Axis = None, keepdim: bool = False, mode: str = "avg") -> Any:
    if mode == "min":
        return merged(x, axis, lambda flat: torch.nanmedian(flat, -1).values, keepdim)
    return merged(x, axis, lambda flat: torch.nanquantile(flat, 0.5, -1), keepdim)


@composite
def quantile(x: Tensor, q: Any, axis: Axis = None, keepdim: bool = False, interpolation: str = "linear") -> Tensor:
    return _quantile(torch.quantile, x, q, axis, keepdim, interpolation)


@composite
def nanquantile(x: Tensor, q: Any, axis: Axis = None, keepdim: bool = False, interpolation: str = "linear") -> Tensor:
    return _quantile(torch.nanquantile, x, q, axis, keepdim, interpolation)


def _quantile(function: Callable[..., Tensor], x: Tensor, q: Any, axis: Axis, keepdim: bool, how: str) -> Tensor:
    share = q.to(x.dtype) if isinstance(q, Tensor) else torch.tensor(q, dtype=x.dtype, device=x.device)
    return merged(x, axis, lambda flat: function(flat, share, -1, interpolation=how), keepdim)


@composite
def count_nonzero(x: Tensor, axis: Axis = None, keepdim: bool = False) -> Tensor:
    return (x != 0).sum(axes_of(axis, x), keepdim)


@composite
def argmax(x: Tensor, axis: Axis = None, keepdim: bool = False, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.argmax(x, None if axis is None else integer(axis), bool(keepdim)).to(dtype)


@composite
def argmin(x: Tensor, axis: Axis = None, keepdim: bool = False, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.argmin(x, None if axis is None else integer(axis), bool(keepdim)).to(dtype)


@composite
def sort(x: Tensor, axis: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    return torch.sort(x, dim=axis, descending=descending, stable=stable).values


@composite
def topk(x: Tensor, k: Any, axis: Axis = None, largest: bool = True, sorted: bool = True) -> tuple[Tensor, Tensor]:
    values, places = torch.topk(x, integer(k), -1 if axis is None else integer(axis), largest, sorted)
    return values, places


def _along(x: Tensor, axis: Axis) -> tuple[Tensor, int]:
    """Without an axis Paddle runs along the flattened tensor."""
    return (x.reshape(-1), 0) if axis is None else (x, integer(axis))


@composite
def cumsum(x: Tensor, axis: Axis = None, dtype: torch.dtype | None = None) -> Tensor:
    return torch.cumsum(*_along(x, axis), dtype=dtype)


@composite
def cumprod(x: Tensor, dim: Axis = None, dtype: torch.dtype | None = None) -> Tensor:
    return torch.cumprod(*_along(x, dim), dtype=dtype or x.dtype)


@composite
def cummax(x: Tensor, axis: Axis = None, dtype: torch.dtype = torch.int64) -> tuple[Tensor, Tensor]:
    values, places = torch.cummax(*_along(x, axis))
    return values, places.to(dtype)


@composite
def cummin(x: Tensor, axis: Axis = None, dtype: torch.dtype = torch.int64) -> tuple[Tensor, Tensor]:
    values, places = torch.cummin(*_along(x, axis))
    return values, places.to(dtype)


@composite
def logcumsumexp(x: Tensor, axis: Axis = None, dtype: torch.dtype | None = None) -> Tensor:
    flat, along = _along(x, axis)
    return torch.logcumsumexp(flat if dtype is None else flat.to(dtype), along)


@composite
def trapezoid(y: Tensor, x: Tensor | None = None, dx: float | Tensor | None = None, axis: int = -1) -> Tensor:
    if x is not None:
        return torch.trapezoid(y, x, dim=axis)
    return torch.trapezoid(y, dim=axis) * (1.0 if dx is None else dx)


@composite
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, dx: float | Tensor | None = None,
                         axis: int = -1) -> Tensor:  # fmt: skip
    if x is not None:
        return torch.cumulative_trapezoid(y, x, dim=axis)
    return torch.cumulative_trapezoid(y, dim=axis) * (1.0 if dx is None else dx)


@composite
def histogram(input: Tensor, bins: int = 100, min: float = 0.0, max: float = 0.0) -> Tensor:
    return torch.histc(input, bins, min, max).to(torch.int64)


@composite
def histogram_bin_edges(input: Tensor, bins: int = 100, min: float = 0.0, max: float = 0.0) -> Tensor:
    low, high = (input.min().item(), input.max().item()) if min == max == 0 else (min, max)
    if low == high:
        low, high = low - 0.5, high + 0.5
    return torch.linspace(low, high, bins + 1)


@composite
def histogramdd(x: Tensor, bins: Any = 10, ranges: Sequence[float] | None = None, density: bool = False,
                weights: Tensor | None = None) -> Any:  # fmt: skip
    """Each bin holds its lower edge, and the last one its upper edge as well; what lies outside is not counted."""
    rows = x.detach().reshape(-1, x.shape[-1])
    edges = _edges(rows, bins, ranges)
    mass = torch.ones_like(rows[:, 0]) if weights is None else weights.detach().to(x.dtype).reshape(-1)
    place, inside = torch.zeros(len(rows), dtype=torch.int64), torch.ones(len(rows), dtype=torch.bool)
    for column, edge in zip(rows.unbind(1), edges, strict=True):
        found = torch.searchsorted(edge, column, right=True) - 1
        found = torch.where(column == edge[-1], len(edge) - 2, found)
        inside = inside & (found >= 0) & (found < len(edge) - 1)
        place = place * (len(edge) - 1) + found
    shape = [len(edge) - 1 for edge in edges]
    empty = torch.zeros(math.prod(shape), dtype=x.dtype)
    counts = empty.index_add(0, torch.where(inside, place, 0), torch.where(inside, mass, 0.0)).reshape(shape)
    if density:
        counts = counts / counts.sum()
        for axis, edge in enumerate(edges):
            counts = counts / edge.diff().reshape([-1 if other == axis else 1 for other in range(len(edges))])
    return counts, edges


def _edges(rows: Tensor, bins: Any, ranges: Sequence[float] | None) -> list[Tensor]:
    """The edges of the bins of every column: given as tensors, or evenly spread over its range."""
    columns = rows.unbind(1)
    numbers = [bins] * len(columns) if isinstance(bins, int) else list(bins)
    found = []
    for at, (column, count) in enumerate(zip(columns, numbers, strict=True)):
        if isinstance(count, Tensor):
            found.append(count.detach())
            continue
        low, high = (column.amin(), column.amax()) if ranges is None else rows.new_tensor(ranges[2 * at : 2 * at + 2])
        steps = torch.arange(count + 1, dtype=torch.int64).to(rows.dtype)
        found.append(torch.where(steps == count, high, low + (high - low) * (steps / count)))
    return found


@composite
def bincount(x: Tensor, weights: Tensor | None = None, minlength: Any = 0) -> Tensor:
    least = integer(minlength)
    if weights is None or not x.numel():
        return torch.bincount(x, None if weights is None else weights.detach(), least)
    mass = weights.detach() if weights.is_floating_point() else weights.to(torch.float64)
    empty = torch.zeros(max(int(x.max()) + 1, least), dtype=mass.dtype)
    return empty.index_add(0, x.long(), mass)


@composite
def renorm(x: Tensor, p: float, axis: int, max_norm: float) -> Tensor:
    others = [other for other in range(x.ndim) if other != axis % x.ndim]
    norm = torch.linalg.vector_norm(x, p, others, keepdim=True)
    return torch.where(norm > max_norm, x * (max_norm / norm), x)


@composite
def unique(x: Tensor, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
           axis: Axis = None, dtype: torch.dtype = torch.int64) -> Any:  # fmt: skip
    along = None if axis is None else integer(axis)
    values, inverse, counts = torch.unique(x.detach(), return_inverse=True, return_counts=True, dim=along)
    flat = inverse.reshape(-1)
    places = torch.arange(flat.numel() - 1, -1, -1, device=x.device)
    first = torch.empty(counts.numel(), dtype=torch.int64, device=x.device).scatter_(0, flat.flip(0), places)
    asked = [(return_index, first), (return_inverse, flat), (return_counts, counts)]
    more = tuple(one.to(dtype) for wanted, one in asked if wanted)
    return (values, *more) if more else values


@composite
def unique_consecutive(x: Tensor, return_inverse: bool = False, return_counts: bool = False, axis: Axis = None,
                       dtype: torch.dtype = torch.int64) -> Any:  # fmt: skip
    along = None if axis is None else integer(axis)
    values, inverse, counts = torch.unique_consecutive(x.detach(), return_inverse=True, return_counts=True, dim=along)
    asked = [(return_inverse, inverse.reshape(-1)), (return_counts, counts)]
    more = tuple(one.to(dtype) for wanted, one in asked if wanted)
    return (values, *more) if more else values


@composite
def reduce_as(x: Tensor, target: Tensor) -> Tensor:
    return x.sum_to_size(target.shape)


@composite
def vander(x: Tensor, n: int | None = None, increasing: bool = False) -> Tensor:
    powers = torch.arange(x.numel() if n is None else n, device=x.device)
    return x[:, None] ** (powers if increasing else powers.flip(0))
