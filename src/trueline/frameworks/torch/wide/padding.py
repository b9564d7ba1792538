"""Wide operators that pad, and those that put a gradient back where a view was taken from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trueline.frameworks.torch.wide.shapes import _slice, diagonal, select, unfold
from trueline.frameworks.torch.wide.table import Array, Number, add_at, entry


@entry("constant_pad_nd")
def constant_pad(self: Array, pad: Sequence[int], value: Number = 0) -> Array:
    widths = _widths(self.ndim, pad)
    kept = tuple(
        slice(max(-before, 0), size - max(-after, 0)) for size, (before, after) in zip(self.shape, widths, strict=True)
    )
    return np.pad(self[kept], [(max(a, 0), max(b, 0)) for a, b in widths], constant_values=value)


def _widths(ndim: int, pad: Sequence[int]) -> list[tuple[int, int]]:
    """How much is added before and after each axis; torch names them from the last."""
    named = [(pad[place], pad[place + 1]) for place in range(0, len(pad), 2)]
    return [(0, 0)] * (ndim - len(named)) + named[::-1]


def _sources(size: int, before: int, after: int, mode: str) -> Array:
    """For each element of a padded axis the one that it is a copy of."""
    index = np.arange(-before, size + after)
    if mode == "edge":
        return np.clip(index, 0, size - 1)
    index = np.abs(index)
    return np.where(index >= size, 2 * (size - 1) - index, index)


def _padded(self: Array, padding: Sequence[int], mode: str) -> Array:
    for axis, (before, after) in enumerate(_widths(self.ndim, padding)):
        if before or after:
            self = np.take(self, _sources(self.shape[axis], before, after, mode), axis=axis)
    return self


def _unpadded(grad: Array, self: Array, padding: Sequence[int], mode: str) -> Array:
    for axis, (before, after) in enumerate(_widths(self.ndim, padding)):
        if before or after:
            result = np.zeros((*grad.shape[:axis], self.shape[axis], *grad.shape[axis + 1 :]), grad.dtype)
            add_at(result, (slice(None),) * axis + (_sources(self.shape[axis], before, after, mode),), grad)
            grad = result
    return grad


for _name, _mode in (("reflection", "reflect"), ("replication", "edge")):
    for _dims in (1, 2, 3):

        @entry(f"{_name}_pad{_dims}d")
        def pad(self: Array, padding: Sequence[int], mode: str = _mode) -> Array:
            return _padded(self, padding, mode)

        @entry(f"{_name}_pad{_dims}d_backward")
        def pad_backward(grad_output: Array, self: Array, padding: Sequence[int], mode: str = _mode) -> Array:
            return _unpadded(grad_output, self, padding, mode)


def _scattered(shape: Sequence[int], take: Any, values: Array) -> Array:
    result = np.zeros(shape, values.dtype)
    take(result)[...] = values
    return result


@entry("select_backward")
def select_backward(grad_output: Array, input_sizes: Sequence[int], dim: int, index: int) -> Array:
    return _scattered(input_sizes, lambda one: select(one, dim, index), grad_output)


@entry("slice_backward")
def slice_backward(grad_output: Array, input_sizes: Sequence[int], dim: int, start: int, end: int, step: int) -> Array:
    return _scattered(input_sizes, lambda one: one[_slice(one.ndim, dim, start, end, step)], grad_output)


@entry("diagonal_backward")
def diagonal_backward(grad_output: Array, input_sizes: Sequence[int], offset: int, dim1: int, dim2: int) -> Array:
    return _scattered(input_sizes, lambda one: diagonal(one, offset, dim1, dim2), grad_output)


@entry("unfold_backward")
def unfold_backward(grad_in: Array, input_sizes: Sequence[int], dim: int, size: int, step: int) -> Array:
    if len(input_sizes) == 0:
        return grad_in.reshape(())
    result = np.zeros(input_sizes, grad_in.dtype)
    place = np.arange(result.size).reshape(input_sizes)
    add_at(result.reshape(-1), unfold(place, dim, size, step), grad_in)
    return result


@entry("select_scatter")
def select_scatter(self: Array, src: Array, dim: int, index: int) -> Array:
    result = self.copy()
    select(result, dim, index)[...] = src
    return result


@entry("slice_scatter")
def slice_scatter(
    self: Array, src: Array, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Array:
    result = self.copy()
    result[_slice(self.ndim, dim, start, end, step)] = src
    return result


@entry("diagonal_scatter")
def diagonal_scatter(self: Array, src: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    result = self.copy()
    diagonal(result, offset, dim1, dim2)[...] = src
    return result
