"""Wide operators that read or write by index: gather, scatter, index_put, embedding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trueline.frameworks.torch.wide.table import REAL, Array, Number, add_at, along, entry, shaped

REDUCERS: dict[str, Any] = {
    "sum": np.add, "add": np.add, "prod": np.multiply, "multiply": np.multiply, "amax": np.maximum, "amin": np.minimum,
}  # fmt: skip


def _places(indices: Sequence[Array | None], shape: Sequence[int]) -> tuple[Any, ...]:
    """Torch's list of indices, None for a dimension that is taken whole, as numpy's."""
    return tuple(slice(None) if one is None else one for one in indices)


@entry("index.Tensor", "_unsafe_index.Tensor")
def index(self: Array, indices: Sequence[Array | None]) -> Array:
    return self[_places(indices, self.shape)]


@entry("index_put", "_unsafe_index_put", "_index_put_impl")
def index_put(
    self: Array, indices: Sequence[Array | None], values: Array, accumulate: bool = False, unsafe: bool = False
) -> Array:
    result = self.copy()
    if accumulate:
        add_at(result, _places(indices, self.shape), values)
    else:
        result[_places(indices, self.shape)] = values
    return result


def _meshed(index: Array, axis: int) -> tuple[Array, ...]:
    """The places that gather and scatter mean: the index along the axis, its own position along the others."""
    grid = list(np.ogrid[tuple(slice(size) for size in index.shape)])
    grid[axis] = index
    return tuple(grid)


@entry("gather")
def gather(self: Array, dim: int, index: Array, sparse_grad: bool = False) -> Array:
    if index.size == 0:
        return np.zeros(index.shape, self.dtype)
    values, axis = along(self, dim)
    spread = index.reshape(1) if index.ndim == 0 else index
    return values[_meshed(spread, axis)].reshape(index.shape)


def _scattered(self: Array, dim: int, index: Array, source: Number, reduce: str = "") -> Array:
    values, axis = along(self.copy(), dim)
    spread = index.reshape(1) if index.ndim == 0 else index
    if spread.size == 0:
        return values.reshape(self.shape)
    source = np.asarray(source)
    if source.ndim:
        source = source.reshape(source.shape or (1,))[tuple(slice(size) for size in spread.shape)]
    elif spread.size == 1:
        source = source.reshape([1] * spread.ndim)
    place = _meshed(spread, axis)
    if reduce:
        REDUCERS[reduce].at(values, place, source)
    else:
        values[place] = source
    return values.reshape(self.shape)


@entry("scatter.src", "scatter.value")
def scatter(self: Array, dim: int, index: Array, src: Number = None, value: Number = None) -> Array:
    return _scattered(self, dim, index, value if src is None else src)


@entry("scatter.reduce", "scatter.value_reduce")
def scatter_with(
    self: Array, dim: int, index: Array, src: Number = None, *, reduce: str, value: Number = None
) -> Array:
    return _scattered(self, dim, index, value if src is None else src, reduce)


@entry("scatter_add")
def scatter_add(self: Array, dim: int, index: Array, src: Array) -> Array:
    return _scattered(self, dim, index, src, "add")


@entry("scatter_reduce")
def scatter_reduce(self: Array, dim: int, index: Array, src: Array, reduce: str, include_self: bool = True) -> Array:
    start = self
    if not include_self:
        start = _scattered(self, dim, index, np.asarray(_neutral(reduce), self.dtype))
    if reduce != "mean":
        return _scattered(start, dim, index, src, reduce)
    total = _scattered(start, dim, index, src, "sum")
    count = np.full(self.shape, 1, REAL) if include_self else _untouched(self, dim, index)
    return total / _scattered(count, dim, index, np.ones(index.shape, REAL), "sum")


def _neutral(reduce: str) -> float:
    return {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amax": -np.inf, "amin": np.inf}[reduce]


def _untouched(self: Array, dim: int, index: Array) -> Array:
    """One where no index points, zero where one does."""
    return _scattered(np.ones(self.shape, REAL), dim, index, np.zeros((), REAL))


@entry("index_select")
def index_select(self: Array, dim: int, index: Array) -> Array:
    values, axis = along(self, dim)
    result = np.take(values, np.atleast_1d(index), axis=axis)
    return result.reshape(()) if self.ndim == 0 else result


@entry("index_add")
def index_add(self: Array, dim: int, index: Array, source: Array, alpha: Number = 1) -> Array:
    values, axis = along(self.copy(), dim)
    source = np.multiply(source, alpha)
    source = source.reshape(1) if source.ndim == 0 else source
    add_at(values, (slice(None),) * axis + (np.atleast_1d(index),), source)
    return values.reshape(self.shape)


@entry("index_copy")
def index_copy(self: Array, dim: int, index: Array, source: Array) -> Array:
    values, axis = along(self.copy(), dim)
    values[(slice(None),) * axis + (np.atleast_1d(index),)] = source
    return values.reshape(self.shape)


@entry("index_fill")
def index_fill(self: Array, dim: int, index: Array, value: Number) -> Array:
    return index_copy(self, dim, index, np.asarray(value))


@entry("index_reduce")
def index_reduce(self: Array, dim: int, index: Array, source: Array, reduce: str, include_self: bool = True) -> Array:
    if self.ndim == 0:
        return scatter_reduce(self, dim, np.asarray(index).reshape(()), source.reshape(()), reduce, include_self)
    spread = np.broadcast_to(shaped(np.atleast_1d(index), dim % self.ndim, self.ndim), source.shape)
    return scatter_reduce(self, dim, spread, source, reduce, include_self)


@entry("take")
def take(self: Array, index: Array) -> Array:
    return self.reshape(-1)[index]


@entry("put")
def put(self: Array, index: Array, source: Array, accumulate: bool = False) -> Array:
    result = self.copy()
    flat = result.reshape(-1)
    if accumulate:
        add_at(flat, index, source.reshape(index.shape))
    else:
        flat[index] = source.reshape(index.shape)
    return flat.reshape(self.shape)


@entry("masked_select")
def masked_select(self: Array, mask: Array) -> Array:
    values, chosen = np.broadcast_arrays(self, mask)
    return values[chosen]


@entry("masked_scatter")
def masked_scatter(self: Array, mask: Array, source: Array) -> Array:
    result, chosen = (one.copy() for one in np.broadcast_arrays(self, mask))
    result[chosen] = source.reshape(-1)[: int(chosen.sum())]
    return result


@entry("masked_scatter_backward")
def masked_scatter_backward(grad_output: Array, mask: Array, sizes: Sequence[int]) -> Array:
    result = np.zeros(int(np.prod(sizes)), grad_output.dtype)
    taken = grad_output[np.broadcast_to(mask, grad_output.shape)]
    result[: len(taken)] = taken
    return result.reshape(tuple(sizes))


@entry("nonzero")
def nonzero(self: Array) -> Array:
    if self.ndim == 0:
        return np.zeros((int(self != 0), 0), np.int64)
    return np.argwhere(self != 0)


@entry("embedding")
def embedding(
    weight: Array, indices: Array, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Array:
    return weight[indices]


@entry("embedding_dense_backward")
def embedding_backward(
    grad_output: Array, indices: Array, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Array:
    width = grad_output.shape[-1]
    flat, rows = indices.reshape(-1), grad_output.reshape(-1, width)
    if scale_grad_by_freq:
        rows = rows / np.bincount(flat, minlength=num_weights)[flat][:, None].astype(REAL)
    kept = flat != padding_idx
    result = np.zeros((num_weights, width), grad_output.dtype)
    add_at(result, flat[kept], rows[kept])
    return result


@entry("embedding_renorm")
def embedding_renorm(self: Array, indices: Array, max_norm: float, norm_type: float) -> Array:
    result = self.copy()
    for row in np.unique(indices):
        size = np.power(np.power(np.abs(self[row]), REAL(norm_type)).sum(), 1 / REAL(norm_type))
        if size > max_norm:
            result[row] = self[row] * (max_norm / (size + REAL(1e-7)))
    return result


@entry("bucketize.Tensor", "bucketize.Scalar")
def bucketize(self: Array, boundaries: Array, out_int32: bool = False, right: bool = False) -> Array:
    found = np.searchsorted(boundaries, self, side="right" if right else "left")
    return np.asarray(found).astype(np.int32 if out_int32 else np.int64)


@entry("searchsorted.Tensor", "searchsorted.Scalar")
def searchsorted(
    sorted_sequence: Array,
    self: Array,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Array | None = None,
) -> Array:
    side = side or ("right" if right else "left")
    if sorter is not None:
        sorted_sequence = np.take_along_axis(sorted_sequence, sorter, axis=-1)
    kind = np.int32 if out_int32 else np.int64
    if sorted_sequence.ndim == 1:
        return np.asarray(np.searchsorted(sorted_sequence, self, side=side)).astype(kind)  # type: ignore[call-overload]
    rows, wanted = sorted_sequence.reshape(-1, sorted_sequence.shape[-1]), self.reshape(-1, self.shape[-1])
    found = [np.searchsorted(row, one, side=side) for row, one in zip(rows, wanted, strict=True)]  # type: ignore[call-overload]
    return np.asarray(found).reshape(self.shape).astype(kind)


@entry("histc")
def histc(self: Array, bins: int = 100, min: Number = 0, max: Number = 0) -> Array:
    low, high = (self.min(), self.max()) if min == max else (min, max)
    if low == high:
        low, high = low - 1, high + 1
    inside = self[(self >= low) & (self <= high)]
    place = np.minimum(((inside - low) / REAL(high - low) * bins).astype(np.int64), bins - 1)
    return np.bincount(place.reshape(-1), minlength=bins).astype(REAL)


@entry("bincount")
def bincount(self: Array, weights: Array | None = None, minlength: int = 0) -> Array:
    if weights is None:
        return np.bincount(self, minlength=minlength)
    result = np.zeros(max(int(self.max(initial=-1)) + 1, minlength), REAL)
    add_at(result, self, weights)
    return result
