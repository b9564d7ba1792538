"""Wide operators that move numbers without changing them: views, copies, joining, padding, tensors out of nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from trueline.frameworks.torch.wide.table import (
    COMPLEX,
    REAL,
    Array,
    Number,
    axes_of,
    entry,
    look,
    offset_of,
    strides_of,
    wide_type,
)


def _copied(*names: str) -> Callable[[Any], Any]:
    """Enters a view under its names and under those of its copying form."""
    return entry(*names, *(f"{name}_copy" for name in names))


@_copied("view", "_reshape_alias")
def view(self: Array, size: Sequence[int], stride: Sequence[int] | None = None) -> Array:
    return self.reshape(size)


entry("_unsafe_view")(view)


@_copied("alias", "detach", "lift_fresh")
def alias(self: Array) -> Array:
    return self[...]


entry("lift")(alias)


@_copied("_conj")
def conj(self: Array) -> Array:
    return np.conj(self)


@_copied("_neg_view")
def negative(self: Array) -> Array:
    return np.negative(self)


@_copied("expand")
def expand(self: Array, size: Sequence[int], implicit: bool = False) -> Array:
    padded = (1,) * (len(size) - self.ndim) + self.shape
    wanted = [old if new == -1 else new for new, old in zip(size, padded, strict=True)]
    strides = [0] * (len(size) - self.ndim) + strides_of(self)
    return look(self, wanted, [0 if old == 1 else one for one, old in zip(strides, padded, strict=True)])


@_copied("permute")
def permute(self: Array, dims: Sequence[int]) -> Array:
    return self.transpose(dims)


@_copied("transpose")
def transpose(self: Array, dim0: int, dim1: int) -> Array:
    return self if self.ndim == 0 else self.swapaxes(dim0, dim1)


@_copied("t")
def t(self: Array) -> Array:
    return self.T


@_copied("unsqueeze")
def unsqueeze(self: Array, dim: int) -> Array:
    return np.expand_dims(self, dim)


@_copied("squeeze")
def squeeze(self: Array, dim: Any = None) -> Array:
    axes = range(self.ndim) if dim is None else axes_of(dim, self.ndim) if dim != [] else ()
    return self.squeeze(axis=tuple(axis for axis in axes if self.shape[axis] == 1))


@_copied("select")
def select(self: Array, dim: int, index: int) -> Array:
    return self[(slice(None),) * (dim % self.ndim) + (index, ...)]


def _slice(ndim: int, dim: int, start: int | None, end: int | None, step: int) -> tuple[slice, ...]:
    return (*(slice(None),) * (dim % ndim), slice(start, end, step))


@_copied("slice")
def slice_(self: Array, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Array:
    return self[_slice(self.ndim, dim, start, end, step)]


@_copied("diagonal")
def diagonal(self: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    dim1, dim2 = dim1 % self.ndim, dim2 % self.ndim
    rows, columns = self.shape[dim1], self.shape[dim2]
    first = [0] * self.ndim
    first[dim1], first[dim2] = max(-offset, 0), max(offset, 0)
    length = max(min(rows - first[dim1], columns - first[dim2]), 0)
    steps = strides_of(self)
    start = offset_of(self) + sum(one * step for one, step in zip(first, steps, strict=True))
    kept = [axis for axis in range(self.ndim) if axis not in (dim1, dim2)]
    shape = [*(self.shape[axis] for axis in kept), length]
    return look(self, shape, [*(steps[axis] for axis in kept), steps[dim1] + steps[dim2]], start)


@_copied("unfold")
def unfold(self: Array, dimension: int, size: int, step: int) -> Array:
    if self.ndim == 0:
        return self.reshape(1)[:size]
    axis = dimension % self.ndim
    count = (self.shape[axis] - size) // step + 1
    steps = strides_of(self)
    shape = [count if one == axis else length for one, length in enumerate(self.shape)]
    apart = [steps[axis] * step if one == axis else stride for one, stride in enumerate(steps)]
    return look(self, [*shape, size], [*apart, steps[axis]])


@_copied("as_strided")
def as_strided(self: Array, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Array:
    return look(self, size, stride, storage_offset)


@entry("split.Tensor", "split_copy.Tensor", "unsafe_split.Tensor")
def split(self: Array, split_size: int, dim: int = 0) -> list[Array]:
    length = self.shape[dim]
    starts = range(0, max(length, 1), max(split_size, 1))
    return [self[_slice(self.ndim, dim, start, min(start + split_size, length), 1)] for start in starts]


@entry("split_with_sizes", "split_with_sizes_copy", "unsafe_split_with_sizes")
def split_with_sizes(self: Array, split_sizes: Sequence[int], dim: int = 0) -> list[Array]:
    ends = np.cumsum(split_sizes)
    return [
        self[_slice(self.ndim, dim, int(end) - size, int(end), 1)] for end, size in zip(ends, split_sizes, strict=True)
    ]


@_copied("unbind")
def unbind(self: Array, dim: int = 0) -> list[Array]:
    return [select(self, dim, index) for index in range(self.shape[dim])]


@_copied("view_as_real")
def view_as_real(self: Array) -> Array:
    real = self.real
    return look(real, [*self.shape, 2], [*strides_of(real), 1])


@_copied("view_as_complex")
def view_as_complex(self: Array) -> Array:
    return np.ascontiguousarray(self).view(COMPLEX)[..., 0]


@entry("clone")
def clone(self: Array) -> Array:
    return self.copy()


@entry("copy")
def copy(self: Array, src: Array) -> Array:
    source = src.real if np.iscomplexobj(src) and not np.iscomplexobj(self) else src
    return np.broadcast_to(source, self.shape).astype(self.dtype)


@entry("fill")
def fill(self: Array, value: Number) -> Array:
    return np.full(self.shape, value, self.dtype)


@entry("zero", "zeros_like")
def zeros_like(self: Array, dtype: torch.dtype | None = None) -> Array:
    return np.zeros(self.shape, self.dtype if dtype is None else wide_type(dtype))


entry("empty_like")(zeros_like)


@entry("ones_like")
def ones_like(self: Array, dtype: torch.dtype | None = None) -> Array:
    return np.ones(self.shape, self.dtype if dtype is None else wide_type(dtype))


@entry("full_like")
def full_like(self: Array, fill_value: Number, dtype: torch.dtype | None = None) -> Array:
    return np.full(self.shape, fill_value, self.dtype if dtype is None else wide_type(dtype))


def _default(dtype: torch.dtype | None) -> Any:
    return wide_type(torch.get_default_dtype() if dtype is None else dtype)


@entry("zeros")
def zeros(size: Sequence[int], dtype: torch.dtype | None = None) -> Array:
    return np.zeros(size, _default(dtype))


@entry("empty_strided")
def empty_strided(size: Sequence[int], stride: Sequence[int], dtype: torch.dtype | None = None) -> Array:
    length = 1 + sum((count - 1) * step for count, step in zip(size, stride, strict=True)) if 0 not in size else 0
    return as_strided(np.zeros(length, _default(dtype)), size, stride)


@entry("ones")
def ones(size: Sequence[int], dtype: torch.dtype | None = None) -> Array:
    return np.ones(size, _default(dtype))


@entry("full")
def full(size: Sequence[int], fill_value: Number, dtype: torch.dtype | None = None) -> Array:
    return np.full(size, fill_value, _default(dtype))


@entry("scalar_tensor")
def scalar_tensor(s: Number, dtype: torch.dtype | None = None) -> Array:
    return np.full((), s, _default(dtype))


@entry("new_zeros", "new_empty")
def new_zeros(self: Array, size: Sequence[int], dtype: torch.dtype | None = None) -> Array:
    return np.zeros(size, self.dtype if dtype is None else wide_type(dtype))


@entry("new_ones")
def new_ones(self: Array, size: Sequence[int], dtype: torch.dtype | None = None) -> Array:
    return np.ones(size, self.dtype if dtype is None else wide_type(dtype))


@entry("new_full")
def new_full(self: Array, size: Sequence[int], fill_value: Number, dtype: torch.dtype | None = None) -> Array:
    return np.full(size, fill_value, self.dtype if dtype is None else wide_type(dtype))


@entry("new_empty_strided")
def new_empty_strided(
    self: Array, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype | None = None
) -> Array:
    return np.zeros(size, self.dtype if dtype is None else wide_type(dtype))


@entry("eye", "eye.m")
def eye(n: int, m: int | None = None, dtype: torch.dtype | None = None) -> Array:
    return np.eye(n, m, dtype=_default(dtype))


@entry("arange", "arange.start", "arange.start_step")
def arange(*bounds: Number, dtype: torch.dtype | None = None) -> Array:
    start, end, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    count = int(np.ceil((end - start) / step))
    return (REAL(start) + np.arange(count).astype(REAL) * REAL(step)).astype(_default(dtype))


@entry("linspace")
def linspace(start: Number, end: Number, steps: int, dtype: torch.dtype | None = None) -> Array:
    wide = COMPLEX if np.iscomplexobj(start) or np.iscomplexobj(end) else REAL
    first, last, index = np.asarray(start, wide), np.asarray(end, wide), np.arange(steps).astype(REAL)
    line = first + (last - first) * index / max(steps - 1, 1)
    if steps > 1:
        line[-1] = last
    return line.astype(_default(dtype))


@entry("logspace")
def logspace(start: Number, end: Number, steps: int, base: float = 10.0, dtype: torch.dtype | None = None) -> Array:
    return np.power(REAL(base), linspace(start, end, steps, torch.float64)).astype(_default(dtype))


@entry("cat")
def cat(tensors: Sequence[Array], dim: int = 0) -> Array:
    """Empty vectors may stand among tensors of any shape; torch keeps that for old programs."""
    return np.concatenate([one for one in tensors if one.shape != (0,)] or list(tensors[:1]), axis=dim)


@entry("stack")
def stack(tensors: Sequence[Array], dim: int = 0) -> Array:
    return np.stack(tensors, axis=dim)


@entry("flip")
def flip(self: Array, dims: Sequence[int]) -> Array:
    return np.flip(self, axes_of(dims, self.ndim) if len(dims) else ())


@entry("roll")
def roll(self: Array, shifts: Sequence[int], dims: Sequence[int] = ()) -> Array:
    shifts = [shifts] if isinstance(shifts, int) else shifts
    dims = [dims] if isinstance(dims, int) else dims
    return np.roll(self, shifts[0]) if len(dims) == 0 else np.roll(self, tuple(shifts), tuple(dims))


@entry("repeat")
def repeat(self: Array, repeats: Sequence[int]) -> Array:
    return np.tile(self, tuple(repeats))


@entry("rot90")
def rot90(self: Array, k: int = 1, dims: Sequence[int] = (0, 1)) -> Array:
    return np.rot90(self, k, (dims[0], dims[1]))


@entry("tril")
def tril(self: Array, diagonal: int = 0) -> Array:
    return np.tril(self, diagonal)


@entry("triu")
def triu(self: Array, diagonal: int = 0) -> Array:
    return np.triu(self, diagonal)


@entry("trace")
def trace(self: Array) -> Array:
    return np.asarray(np.trace(self))


@entry("diag_embed")
def diag_embed(self: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    size = self.shape[-1] + abs(offset)
    ndim = self.ndim + 1
    result = np.zeros((*self.shape[:-1], size, size), self.dtype)
    rows = np.arange(self.shape[-1]) + max(-offset, 0)
    result[..., rows, rows + offset] = self
    return np.moveaxis(result, (-2, -1), (dim1 % ndim, dim2 % ndim))


@entry("block_diag")
def block_diag(tensors: Sequence[Array]) -> Array:
    blocks = [np.atleast_2d(one) for one in tensors]
    result = np.zeros(np.sum([one.shape for one in blocks], axis=0), np.result_type(*blocks))
    row = column = 0
    for one in blocks:
        result[row : row + one.shape[0], column : column + one.shape[1]] = one
        row, column = row + one.shape[0], column + one.shape[1]
    return result


@entry("_local_scalar_dense")
def item(self: Array) -> Any:
    """Rounded to what Python can hold."""
    value = self.reshape(())
    return complex(value) if np.iscomplexobj(self) else float(value) if self.dtype == REAL else value.item()


@entry("equal")
def equal(self: Array, other: Array) -> bool:
    return bool(np.array_equal(self, other))


@entry("is_same_size")
def is_same_size(self: Array, other: Array) -> bool:
    return self.shape == other.shape
