"""Transposed convolutions with large kernels in float64, many times as fast as torch's.

torch makes a column for every place of the input, as long as the kernel is large, and adds these up: gigabytes, of
which each number is used once. Here, image by image, columns are made along all dimensions but the first, one product
of matrices serves all offsets of the kernel along the first, and what these give is added up with a shift. Each element
is a sum of the same products, in another order: as good a gold. Zeros stay zeros. Columns have zeros beyond the border
of an image, beside which infinity and NaN would spread: these are left to torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

THEIRS: dict[int, Callable[..., Tensor]] = {
    1: functional.conv_transpose1d,
    2: functional.conv_transpose2d,
    3: functional.conv_transpose3d,
}
_MANY_COLUMNS = 1 << 26
"""Numbers in the columns that torch makes of one image, from which on they are not to be made."""


def is_large(x: Tensor, weight: Tensor) -> bool:
    """Whether it is worth it, and possible: plain finite tensors in float64, and very many columns."""
    plain = type(x) is Tensor and type(weight) is Tensor and x.dtype is weight.dtype is torch.float64
    many = plain and x.ndim == weight.ndim and weight[0].numel() * math.prod(x.shape[2:]) > _MANY_COLUMNS
    return many and _is_finite(x) and _is_finite(weight)


def conv_transpose(x: Tensor, weight: Tensor, stride: Sequence[int], dilation: Sequence[int], groups: int) -> Tensor:
    """The whole transposed convolution, without padding, of images with any number of dimensions."""
    parts = [
        _Transposed.apply(image, kernel, tuple(stride), tuple(dilation))  # type: ignore[no-untyped-call]
        for image, kernel in zip(x.chunk(groups, dim=1), weight.chunk(groups, dim=0), strict=True)
    ]
    return torch.cat(parts, dim=1)


def _is_finite(tensor: Tensor) -> bool:
    return bool(tensor.isfinite().all())


class _Transposed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: tuple[int, ...], dilation: tuple[int, ...]) -> Tensor:
        geometry = _Geometry(x, weight, stride, dilation)
        ctx.geometry = geometry
        ctx.save_for_backward(x, weight)
        matrix = geometry.matrix_of(weight)
        out = x.new_zeros(x.shape[0], *geometry.whole)
        for image, result in zip(x, out, strict=True):
            parts = (matrix @ geometry.columns(image)).view(geometry.parts)
            for offset, place in enumerate(geometry.places()):
                result[place] += parts[:, offset]
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        geometry: _Geometry = ctx.geometry
        if not _is_finite(gradient):
            return (*geometry.gradients_by_torch(x, weight, gradient), None, None)
        matrix = geometry.matrix_of(weight)
        of_matrix, of_x = torch.zeros_like(matrix), torch.empty_like(x)
        for number, (image, arrived) in enumerate(zip(x, gradient, strict=True)):
            parts = torch.stack([arrived[place] for place in geometry.places()], dim=1).view(len(matrix), -1)
            if ctx.needs_input_grad[1]:
                of_matrix.addmm_(parts, geometry.columns(image).T)
            if ctx.needs_input_grad[0]:
                of_x[number] = geometry.gathered(matrix.T @ parts)
        of_weight = geometry.weight_of(of_matrix) if ctx.needs_input_grad[1] else None
        return of_x if ctx.needs_input_grad[0] else None, of_weight, None, None


class _Geometry:
    """Which element goes where. ``whole`` is the shape of the result of one image, ``parts`` that of what is added up
    to it: channels, offsets along the first dimension, then places. Along the other dimensions kernels are turned
    round, so that what their taps see lies one after another."""

    def __init__(self, x: Tensor, weight: Tensor, stride: tuple[int, ...], dilation: tuple[int, ...]) -> None:
        self._given, self._kernel = x.shape[1:], weight.shape
        self._stride, self._dilation = stride, dilation
        self._extents = weight.shape[2:]
        self._lengths = [
            (size - 1) * step + (extent - 1) * apart + 1
            for size, step, extent, apart in zip(x.shape[2:], stride, self._extents, dilation, strict=True)
        ]
        self._turned = list(range(3, weight.ndim))
        self.whole = (weight.shape[1], *self._lengths)
        self.parts = (weight.shape[1], weight.shape[2], x.shape[2], *self._lengths[1:])

    def places(self) -> Iterator[tuple[slice, ...]]:
        """For every offset of the kernel along the first dimension: where it adds."""
        step, reach = self._stride[0], (self._given[1] - 1) * self._stride[0] + 1
        for offset in range(self._extents[0]):
            begin = offset * self._dilation[0]
            yield slice(None), slice(begin, begin + reach, step)

    def matrix_of(self, weight: Tensor) -> Tensor:
        """The kernel with a row for every channel of the result and offset along the first dimension."""
        moved = weight.flip(self._turned).permute(1, 2, 0, *self._turned)
        return moved.reshape(self._kernel[1] * self._extents[0], -1)

    def weight_of(self, matrix: Tensor) -> Tensor:
        """The other way round."""
        moved = matrix.view(self._kernel[1], self._extents[0], self._kernel[0], *self._extents[1:])
        return moved.permute(2, 0, 1, *self._turned).flip(self._turned)

    def _spread_shape(self) -> tuple[int, ...]:
        along = zip(self._lengths[1:], self._extents[1:], self._dilation[1:], strict=True)
        return (*self._given[:2], *(length + (extent - 1) * apart for length, extent, apart in along))

    def _inside(self) -> tuple[Any, ...]:
        """Where the elements of the image lie among the zeros."""
        along = zip(self._given[2:], self._extents[1:], self._stride[1:], self._dilation[1:], strict=True)
        slices = [
            slice((extent - 1) * apart, (extent - 1) * apart + (size - 1) * step + 1, step)
            for size, extent, step, apart in along
        ]
        return (..., *slices)

    def columns(self, image: Tensor) -> Tensor:
        """A row for every channel and tap: what that tap sees at every place."""
        spread = image.new_zeros(self._spread_shape())
        spread[self._inside()] = image
        channel, first, *rest = spread.stride()
        taps = [step * apart for step, apart in zip(rest, self._dilation[1:], strict=True)]
        shape = (self._given[0], *self._extents[1:], self._given[1], *self._lengths[1:])
        seen = spread.as_strided(shape, (channel, *taps, first, *rest))
        return seen.reshape(self._given[0] * math.prod(self._extents[1:]), -1)

    def gathered(self, of_columns: Tensor) -> Tensor:
        """Gradients of columns as those of the image."""
        taps = of_columns.view(self._given[0], *self._extents[1:], self._given[1], *self._lengths[1:])
        spread = of_columns.new_zeros(self._spread_shape())
        for tap in product(*(range(extent) for extent in self._extents[1:])):
            along = zip(tap, self._dilation[1:], self._lengths[1:], strict=True)
            seen = (..., *(slice(at * apart, at * apart + length) for at, apart, length in along))
            of_tap = (slice(None), *tap)
            spread[seen] += taps[of_tap]
        return spread[self._inside()]

    def gradients_by_torch(self, x: Tensor, weight: Tensor, arrived: Tensor) -> tuple[Tensor, ...]:
        with torch.enable_grad():
            given = [x.detach().requires_grad_(), weight.detach().requires_grad_()]
            out = THEIRS[len(self._extents)](*given, None, self._stride, 0, 0, 1, self._dilation)
        return torch.autograd.grad(out, given, arrived)
