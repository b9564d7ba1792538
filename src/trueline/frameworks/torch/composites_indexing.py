"""Composites: Paddle's functions that take elements from places and write to them, and those that make tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from trueline.frameworks.torch.composites import composite
from trueline.frameworks.torch.composites_tensor import integer, integers


@composite
def gather(x: Tensor, index: Tensor, axis: Any = None) -> Tensor:
    along = 0 if axis is None else integer(axis)
    return torch.index_select(x, along, index.reshape(-1))


@composite
def gather_nd(x: Tensor, index: Tensor) -> Tensor:
    return x[tuple(index.long().unbind(-1))] if index.shape[-1] else x.expand(*index.shape[:-1], *x.shape)


@composite
def index_sample(x: Tensor, index: Tensor) -> Tensor:
    return torch.gather(x, 1, index.long())


@composite
def take(x: Tensor, index: Tensor, mode: str = "raise") -> Tensor:
    places, count = index.long(), x.numel()
    if mode == "wrap":
        places = places % count
    elif mode == "clip":
        places = places.clamp(0, count - 1)
    return torch.take(x, places)


def _spread(arr: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Indices in the shape of the tensor, except along the axis."""
    shape = list(arr.shape)
    shape[axis] = indices.shape[axis]
    return indices.expand(shape)


@composite
def take_along_axis(arr: Tensor, indices: Tensor, axis: int, broadcast: bool = True) -> Tensor:
    places = indices.long()
    return torch.gather(arr, axis, _spread(arr, places, axis) if broadcast else places)


_REDUCTIONS = {"add": "sum", "mul": "prod", "multiply": "prod", "mean": "mean", "amin": "amin", "amax": "amax"}


@composite
def put_along_axis(arr: Tensor, indices: Tensor, values: Any, axis: int, reduce: str = "assign",
                   include_self: bool = True, broadcast: bool = True) -> Tensor:  # fmt: skip
    places = _spread(arr, indices.long(), axis) if broadcast else indices.long()
    given = values if isinstance(values, Tensor) else torch.tensor(values, dtype=arr.dtype, device=arr.device)
    source = given.to(arr.dtype).expand(places.shape) if broadcast or given.numel() == 1 else given
    source = source[tuple(slice(size) for size in places.shape)]  # more than is used: its gradient is zero there
    if reduce == "assign":
        return torch.scatter(arr, axis, places, source)
    return torch.scatter_reduce(arr, axis, places, source, _REDUCTIONS[reduce], include_self=include_self)


@composite
def scatter(x: Tensor, index: Tensor, updates: Tensor, overwrite: bool = True) -> Tensor:
    rows = index.reshape(-1).long()
    if overwrite:
        return x.index_copy(0, rows, updates)
    return x.index_fill(0, rows, 0).index_add(0, rows, updates)


@composite
def scatter_nd_add(x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
    return x.index_put(tuple(index.long().unbind(-1)), updates, accumulate=True)


@composite
def scatter_nd(index: Tensor, updates: Tensor, shape: Any) -> Tensor:
    return scatter_nd_add(updates.new_zeros(integers(shape)), index, updates)


@composite
def index_fill(x: Tensor, index: Tensor, axis: int, value: Any) -> Tensor:
    return x.index_fill(axis, index.long(), value)


@composite
def index_put(x: Tensor, indices: Sequence[Tensor], value: Tensor, accumulate: bool = False) -> Tensor:
    return x.index_put(tuple(indices), value, accumulate)


@composite
def nonzero(x: Tensor, as_tuple: bool = False) -> Any:
    return torch.nonzero(x, as_tuple=as_tuple)


@composite
def slice_scatter(x: Tensor, value: Tensor, axes: Sequence[int], starts: Any, ends: Any, strides: Any) -> Tensor:
    result = x.clone()
    window = [slice(None)] * x.ndim
    for axis, start, end, step in zip(*map(integers, (axes, starts, ends, strides)), strict=True):
        window[axis] = slice(start, end, step)
    result[tuple(window)] = value
    return result


@composite
def shard_index(input: Tensor, index_num: int, nshards: int, shard_id: int, ignore_value: int = -1) -> Tensor:
    size = (index_num + nshards - 1) // nshards
    return torch.where(input // size == shard_id, input % size, ignore_value)


@composite
def tril_indices(row: int, col: int | None, offset: int = 0, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.tril_indices(row, row if col is None else col, offset, dtype=dtype)


@composite
def triu_indices(row: int, col: int | None = None, offset: int = 0, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.triu_indices(row, row if col is None else col, offset, dtype=dtype)
