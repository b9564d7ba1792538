"""Wide pooling of two and three dimensions: maximum, average, their adaptive forms, with backward operators.

Torch makes that of one dimension out of these. Every form is reduced to lists of windows per axis: which elements of
the input each element of the output sees.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from trueline.frameworks.torch.wide.products import product
from trueline.frameworks.torch.wide.table import REAL, Array, add_at, entry

Sizes = Sequence[int]
Windows = list[list[range]]
"""For each axis, for each place of the output, the places of the input that it sees."""


def _many(values: Sizes | int, dims: int) -> list[int]:
    listed = [values] if isinstance(values, int) else list(values)
    return listed * dims if len(listed) == 1 else listed


def _pooled_size(size: int, kernel: int, step: int, pad: int, apart: int, ceil: bool) -> int:
    """How many windows fit; with ``ceil`` the last may stick out, but must begin inside."""
    span = size + 2 * pad - apart * (kernel - 1) - 1
    count = -(-span // step) + 1 if ceil else span // step + 1
    return count - 1 if ceil and (count - 1) * step >= size + pad else count


def _sliding(
    shape: Sizes, kernel: Sizes | int, stride: Sizes | int, padding: Sizes | int, dilation: Sizes | int, ceil: bool
) -> Windows:
    """Windows of a fixed size, cut off at the borders of the input."""
    dims = len(shape)
    kernel = _many(kernel, dims)
    stride = _many(stride, dims) if not isinstance(stride, int) and len(stride) else kernel
    padding, dilation = _many(padding, dims), _many(dilation, dims)
    result = []
    for size, width, step, pad, apart in zip(shape, kernel, stride, padding, dilation, strict=True):
        count = _pooled_size(size, width, step, pad, apart, ceil)
        starts = (place * step - pad for place in range(count))
        result.append([_inside(start, width, apart, size) for start in starts])
    return result


def _inside(start: int, width: int, apart: int, size: int) -> range:
    skipped = -(start // apart) * apart if start < 0 else 0
    return range(start + skipped, min(start + width * apart, size), apart)


def _adaptive(shape: Sizes, output: Sizes) -> Windows:
    return [
        [range(place * size // count, -(-((place + 1) * size) // count)) for place in range(count)]
        for size, count in zip(shape, output, strict=True)
    ]


def _spatial(self: Array, dims: int) -> tuple[Array, tuple[int, ...]]:
    """The input as (anything, places...), and what the first dimensions were."""
    leading = self.shape[: self.ndim - dims]
    return self.reshape(int(np.prod(leading)), *self.shape[self.ndim - dims :]), leading


def _table(windows: list[range]) -> tuple[Array, Array]:
    """The windows of one axis as an array, one row each, padded; and which places are not padding."""
    longest = max((len(one) for one in windows), default=0)
    places = np.zeros((len(windows), longest), np.int64)
    inside = np.zeros((len(windows), longest), np.bool_)
    for row, window in enumerate(windows):
        places[row, : len(window)] = window
        inside[row, : len(window)] = True
    return places, inside


def _maximum(self: Array, windows: Windows) -> tuple[Array, Array]:
    """The first of the largest elements of each window and its place; NaN is the largest."""
    dims = len(windows)
    x, leading = _spatial(self, dims)
    tables = [_table(one) for one in windows]
    output = [len(one) for one in windows]
    values = np.full((len(x), *output), -np.inf, self.dtype)
    places = np.full((len(x), *output), -1, np.int64)
    numbers = np.arange(int(np.prod(x.shape[1:]))).reshape(x.shape[1:])
    for offset in np.ndindex(*(places.shape[1] for places, _ in tables)):
        seen = np.ix_(*(table[:, at] for (table, _), at in zip(tables, offset, strict=True)))
        inside: Array = np.ones((), np.bool_)
        for (_, known), at in zip(tables, offset, strict=True):
            inside = np.logical_and.outer(inside, known[:, at])
        everywhere: Any = (slice(None), *seen)
        block = x[everywhere]
        better = inside & ((block > values) | (places < 0) | (np.isnan(block) & ~np.isnan(values)))
        values = np.where(better, block, values)
        places = np.where(better, numbers[seen], places)
    return values.reshape(*leading, *output), places.reshape(*leading, *output)


def _maximum_backward(grad_output: Array, self: Array, indices: Array, dims: int) -> Array:
    x, _ = _spatial(self, dims)
    gradient = np.zeros((len(x), int(np.prod(x.shape[1:]))), grad_output.dtype)
    rows = np.arange(len(x))[:, None]
    add_at(gradient, (rows, indices.reshape(len(x), -1)), grad_output.reshape(len(x), -1))
    return gradient.reshape(self.shape)


def _divisors(
    windows: Windows,
    shape: Sizes,
    kernel: Sizes | int,
    stride: Sizes | int,
    padding: Sizes | int,
    override: int | None,
    include_pad: bool,
) -> Array:
    """What the sum over each window is divided by."""
    dims = len(windows)
    output = [len(one) for one in windows]
    if override is not None:
        return np.full(output, override, REAL)
    kernel, padding = _many(kernel, dims), _many(padding, dims)
    stride = _many(stride, dims) if not isinstance(stride, int) and len(stride) else kernel
    counts = []
    for axis, one in enumerate(windows):
        if include_pad:
            starts = [place * stride[axis] - padding[axis] for place in range(len(one))]
            counts.append([min(start + kernel[axis], shape[axis] + padding[axis]) - start for start in starts])
        else:
            counts.append([len(window) for window in one])
    result = np.ones((), REAL)
    for count in counts:
        result = np.multiply.outer(result, np.array(count, REAL))
    return result


def _average_matrices(windows: Windows, shape: Sizes) -> list[Array]:
    """For each axis the matrix that sums the windows."""
    matrices = []
    for one, size in zip(windows, shape, strict=True):
        matrix = np.zeros((len(one), size), REAL)
        for row, window in enumerate(one):
            matrix[row, list(window)] = 1
        matrices.append(matrix)
    return matrices


def applied(x: Array, matrices: Sequence[Array]) -> Array:
    """Each matrix along one of the last axes."""
    for axis, matrix in zip(itertools.count(x.ndim - len(matrices)), matrices, strict=False):
        x = np.moveaxis(product(np.moveaxis(x, axis, -1), matrix.T), -1, axis)
    return x


def _average(
    self: Array,
    kernel_size: Sizes,
    stride: Sizes = (),
    padding: Sizes = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    dims: int,
) -> Array:
    shape = self.shape[self.ndim - dims :]
    windows = _sliding(shape, kernel_size, stride, padding, 1, ceil_mode)
    below = _divisors(windows, shape, kernel_size, stride, padding, divisor_override, count_include_pad)
    return applied(self, _average_matrices(windows, shape)) / below


def _average_backward(
    grad_output: Array,
    self: Array,
    kernel_size: Sizes,
    stride: Sizes,
    padding: Sizes,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
    *,
    dims: int,
) -> Array:
    shape = self.shape[self.ndim - dims :]
    windows = _sliding(shape, kernel_size, stride, padding, 1, ceil_mode)
    below = _divisors(windows, shape, kernel_size, stride, padding, divisor_override, count_include_pad)
    return applied(grad_output / below, [one.T for one in _average_matrices(windows, shape)])


def _adaptive_average(self: Array, output_size: Sizes, *, dims: int) -> Array:
    shape = self.shape[self.ndim - dims :]
    matrices = _average_matrices(_adaptive(shape, output_size), shape)
    return applied(self, [one / one.sum(axis=1, keepdims=True) for one in matrices])


def _adaptive_average_backward(grad_output: Array, self: Array, *, dims: int) -> Array:
    shape = self.shape[self.ndim - dims :]
    matrices = _average_matrices(_adaptive(shape, grad_output.shape[grad_output.ndim - dims :]), shape)
    return applied(grad_output, [(one / one.sum(axis=1, keepdims=True)).T for one in matrices])


def _enter(dims: int) -> None:
    @entry(f"max_pool{dims}d_with_indices")
    def max_pool(
        self: Array,
        kernel_size: Sizes,
        stride: Sizes = (),
        padding: Sizes = (0,),
        dilation: Sizes = (1,),
        ceil_mode: bool = False,
    ) -> tuple[Array, Array]:
        return _maximum(
            self, _sliding(self.shape[self.ndim - dims :], kernel_size, stride, padding, dilation, ceil_mode)
        )

    @entry(f"max_pool{dims}d_with_indices_backward")
    def max_pool_backward(
        grad_output: Array,
        self: Array,
        kernel_size: Sizes,
        stride: Sizes,
        padding: Sizes,
        dilation: Sizes,
        ceil_mode: bool,
        indices: Array,
    ) -> Array:
        return _maximum_backward(grad_output, self, indices, dims)

    @entry(f"adaptive_max_pool{dims}d")
    def adaptive_max_pool(self: Array, output_size: Sizes) -> tuple[Array, Array]:
        return _maximum(self, _adaptive(self.shape[self.ndim - dims :], _many(output_size, dims)))

    @entry(f"adaptive_max_pool{dims}d_backward")
    def adaptive_max_pool_backward(
        grad_output: Array, self: Array, *rest: Array, indices: Array | None = None
    ) -> Array:
        return _maximum_backward(grad_output, self, rest[-1] if indices is None else indices, dims)

    @entry(f"max_unpool{dims}d")
    def max_unpool(self: Array, indices: Array, output_size: Sizes, *rest: Sizes) -> Array:
        rows, leading = _spatial(self, dims)
        result = np.zeros((len(rows), int(np.prod(output_size))), self.dtype)
        np.put_along_axis(result, indices.reshape(len(rows), -1), rows.reshape(len(rows), -1), axis=1)
        return result.reshape(*leading, *output_size)

    @entry(f"avg_pool{dims}d")
    def avg_pool(*args: Array, **named: Array) -> Array:
        return _average(*args, dims=dims, **named)  # type: ignore[arg-type]

    @entry(f"avg_pool{dims}d_backward")
    def avg_pool_backward(*args: Array) -> Array:
        return _average_backward(*args, dims=dims)  # type: ignore[arg-type]

    @entry(f"_adaptive_avg_pool{dims}d")
    def adaptive_avg_pool(self: Array, output_size: Sizes) -> Array:
        return _adaptive_average(self, _many(output_size, dims), dims=dims)

    @entry(f"_adaptive_avg_pool{dims}d_backward")
    def adaptive_avg_pool_backward(grad_output: Array, self: Array) -> Array:
        return _adaptive_average_backward(grad_output, self, dims=dims)


for _dims in (2, 3):
    _enter(_dims)
