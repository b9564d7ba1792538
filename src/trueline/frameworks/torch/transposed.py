"""Transposed convolutions with large kernels in float64, some five times as fast as torch's.

torch makes a column for every place of the input, as long as the kernel is large, and adds these up: gigabytes, of
which each number is used once. Here columns are made along the last dimension only, and products of matrices go over
the offsets of the kernel along the others. Each element is a sum of the same products, in another order: as good a
gold. Zeros stay zeros.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

_MANY_COLUMNS = 1 << 26
"""Numbers in the columns that torch makes of one image, from which on they are not to be made."""


def is_large(x: Tensor, weight: Tensor) -> bool:
    """Whether it is worth it: plain tensors in float64, and very many columns."""
    plain = type(x) is Tensor and type(weight) is Tensor and x.dtype is weight.dtype is torch.float64
    return plain and x.ndim == weight.ndim and weight[0].numel() * math.prod(x.shape[2:]) > _MANY_COLUMNS


def conv_transpose(x: Tensor, weight: Tensor, stride: Sequence[int], dilation: Sequence[int], groups: int) -> Tensor:
    """The whole transposed convolution, without padding, of images with any number of dimensions."""
    parts = [
        _Transposed.apply(image, kernel, tuple(stride), tuple(dilation))  # type: ignore[no-untyped-call]
        for image, kernel in zip(x.chunk(groups, dim=1), weight.chunk(groups, dim=0), strict=True)
    ]
    return torch.cat(parts, dim=1)


class _Transposed(torch.autograd.Function):
    """Inside, channels come before images, so that both are rows and columns of matrices without being copied."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: tuple[int, ...], dilation: tuple[int, ...]) -> Tensor:
        geometry = _Geometry(x, weight, stride, dilation)
        ctx.geometry = geometry
        ctx.save_for_backward(x, weight)
        columns = geometry.columns(x)
        out = x.new_zeros(geometry.whole)
        for kernel, place in geometry.offsets(weight):
            out[place] += (kernel @ columns).view(geometry.part)
        return out.transpose(0, 1).contiguous()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        geometry: _Geometry = ctx.geometry
        columns = geometry.columns(x)
        arrived = gradient.transpose(0, 1).contiguous()
        of_columns, of_kernels = torch.zeros_like(columns), []
        for kernel, place in geometry.offsets(weight):
            part = arrived[place].reshape(kernel.shape[0], -1)
            of_columns.addmm_(kernel.T, part)
            of_kernels.append(part @ columns.T)
        return geometry.gathered(of_columns), geometry.kernel_of(of_kernels), None, None


class _Geometry:
    """Which element goes where. ``whole`` is the shape of the result, ``part`` that of what one offset adds to it."""

    def __init__(self, x: Tensor, weight: Tensor, stride: tuple[int, ...], dilation: tuple[int, ...]) -> None:
        self._given, self._kernel = x.shape, weight.shape
        self._stride, self._dilation = stride, dilation
        sizes, extents = x.shape[2:], weight.shape[2:]
        lengths = [
            (size - 1) * step + (extent - 1) * apart + 1
            for size, step, extent, apart in zip(sizes, stride, extents, dilation, strict=True)
        ]
        self.whole = (weight.shape[1], x.shape[0], *lengths)
        self.part = (weight.shape[1], x.shape[0], *sizes[:-1], lengths[-1])
        self._reach = (extents[-1] - 1) * dilation[-1]

    def _slots(self) -> Iterator[tuple[int, int]]:
        """Where, along the last dimension of what is spread out, the column of each tap begins, and how long it is."""
        for tap in range(self._kernel[-1]):
            yield self._reach - tap * self._dilation[-1], self.part[-1]

    def _inside(self) -> slice:
        last = (self._given[-1] - 1) * self._stride[-1]
        return slice(self._reach, self._reach + last + 1, self._stride[-1])

    def columns(self, x: Tensor) -> Tensor:
        """For every channel and tap of the last dimension a row: what that tap sees at every place."""
        spread = x.new_zeros(*x.shape[:-1], self.part[-1] + self._reach)
        spread[..., self._inside()] = x
        taps = torch.stack([spread.narrow(-1, begin, length) for begin, length in self._slots()], dim=2)
        return taps.transpose(0, 1).transpose(1, 2).reshape(x.shape[1] * self._kernel[-1], -1)

    def gathered(self, of_columns: Tensor) -> Tensor:
        """Gradients of columns as those of the images."""
        images, channels = self._given[:2]
        taps = of_columns.view(channels, self._kernel[-1], images, *self.part[2:])
        spread = of_columns.new_zeros(channels, images, *self._given[2:-1], self.part[-1] + self._reach)
        for tap, (begin, length) in enumerate(self._slots()):
            spread.narrow(-1, begin, length).add_(taps[:, tap])
        return spread[..., self._inside()].transpose(0, 1).contiguous()

    def offsets(self, weight: Tensor) -> Iterator[tuple[Tensor, tuple[slice, ...]]]:
        """For every offset along all dimensions but the last: its part of the kernel as a matrix, and where it adds."""
        for offset in itertools.product(*(range(extent) for extent in self._kernel[2:-1])):
            taps = weight.movedim((0, 1), (-2, -1))[offset]
            kernel = taps.permute(2, 1, 0).reshape(weight.shape[1], -1)
            along = zip(offset, self._given[2:-1], self._stride, self._dilation, strict=False)
            place = [slice(at * apart, at * apart + (size - 1) * step + 1, step) for at, size, step, apart in along]
            yield kernel, (slice(None), slice(None), *place)

    def kernel_of(self, matrices: list[Tensor]) -> Tensor:
        """Gradients of the kernel, offset by offset, as one tensor."""
        channels, outputs, *extents = self._kernel
        stacked = torch.stack(matrices, dim=0).view(*extents[:-1], outputs, channels, extents[-1])
        count = len(extents) - 1
        return stacked.permute(count + 1, count, *range(count), count + 2).contiguous()
