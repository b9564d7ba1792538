"""Composites: Paddle's functions that move elements by shape. Shapes may be tensors in Paddle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from trueline.frameworks.torch.composites import composite
from trueline.frameworks.torch.composites_tensor import integer, integers
from trueline.frameworks.torch.rebuild import torch_dtype


@composite
def concat(x: Sequence[Tensor], axis: Any = 0) -> Tensor:
    return torch.cat(list(x), integer(axis))


@composite
def block_diag(inputs: Sequence[Tensor]) -> Tensor:
    return torch.block_diag(*inputs)


@composite
def reshape(x: Tensor, shape: Any) -> Tensor:
    # A zero stands for the size at the same place.
    sizes = [x.shape[place] if size == 0 and x.numel() else size for place, size in enumerate(integers(shape))]
    return x.reshape(sizes)


@composite
def view(x: Tensor, shape_or_dtype: Any) -> Tensor:
    if isinstance(shape_or_dtype, str):
        return x.view(torch_dtype(shape_or_dtype))
    return x.view(shape_or_dtype if isinstance(shape_or_dtype, torch.dtype) else integers(shape_or_dtype))


@composite
def unflatten(x: Tensor, axis: Any, shape: Any) -> Tensor:
    return torch.unflatten(x, integer(axis), integers(shape))


@composite
def flatten(x: Tensor, start_axis: int = 0, stop_axis: int = -1) -> Tensor:
    return torch.flatten(x, start_axis, stop_axis)


@composite
def squeeze(x: Tensor, axis: Any = None) -> Tensor:
    return torch.squeeze(x) if axis is None or axis == [] else torch.squeeze(x, tuple(integers(axis)))


@composite
def unsqueeze(x: Tensor, axis: Any) -> Tensor:
    for one in integers(axis):
        x = torch.unsqueeze(x, one)
    return x


@composite
def transpose(x: Tensor, perm: Any) -> Tensor:
    order = integers(perm)
    return torch.permute(x, order + list(range(len(order), x.ndim)))


@composite
def matrix_transpose(x: Tensor) -> Tensor:
    return x.transpose(-2, -1)


@composite
def expand(x: Tensor, shape: Any) -> Tensor:
    return x.expand(integers(shape))


@composite
def expand_as(x: Tensor, y: Tensor) -> Tensor:
    return x.expand(y.shape)


@composite
def broadcast_tensors(input: Sequence[Tensor]) -> list[Tensor]:
    return list(torch.broadcast_tensors(*input))


@composite
def broadcast_shape(x_shape: Any, y_shape: Any) -> list[int]:
    return list(torch.broadcast_shapes(tuple(integers(x_shape)), tuple(integers(y_shape))))


@composite
def broadcast_shapes(*shapes: Any) -> list[int]:
    return list(torch.broadcast_shapes(*(tuple(integers(shape)) for shape in shapes)))


@composite
def tile(x: Tensor, repeat_times: Any) -> Tensor:
    return torch.tile(x, integers(repeat_times))


@composite
def repeat_interleave(x: Tensor, repeats: Any, axis: Any = None) -> Tensor:
    return torch.repeat_interleave(x, repeats, dim=None if axis is None else integer(axis))


@composite
def flip(x: Tensor, axis: Any) -> Tensor:
    return torch.flip(x, integers(axis))


@composite
def roll(x: Tensor, shifts: Any, axis: Any = None) -> Tensor:
    return torch.roll(x, integers(shifts), None if axis is None else integers(axis))


@composite
def split(x: Tensor, num_or_sections: Any, axis: Any = 0) -> list[Tensor]:
    along = integer(axis)
    if isinstance(num_or_sections, int):
        return list(torch.split(x, x.shape[along] // num_or_sections, along))
    sizes = integers(num_or_sections)
    known = sum(size for size in sizes if size >= 0)
    return list(torch.split(x, [x.shape[along] - known if size < 0 else size for size in sizes], along))


@composite
def chunk(x: Tensor, chunks: int, axis: Any = 0) -> list[Tensor]:
    return split(x, chunks, axis)


@composite
def tensor_split(x: Tensor, num_or_indices: Any, axis: Any = 0) -> list[Tensor]:
    return list(torch.tensor_split(x, num_or_indices, integer(axis)))


@composite
def hsplit(x: Tensor, num_or_indices: Any) -> list[Tensor]:
    return list(torch.hsplit(x, num_or_indices))


@composite
def vsplit(x: Tensor, num_or_indices: Any) -> list[Tensor]:
    return list(torch.vsplit(x, num_or_indices))


@composite
def dsplit(x: Tensor, num_or_indices: Any) -> list[Tensor]:
    return list(torch.dsplit(x, num_or_indices))


@composite
def unstack(x: Tensor, axis: int = 0) -> list[Tensor]:
    return list(torch.unbind(x, axis))


@composite
def meshgrid(*args: Any, indexing: str = "ij") -> list[Tensor]:
    given = args[0] if len(args) == 1 and not isinstance(args[0], Tensor) else args
    return list(torch.meshgrid(*given, indexing=indexing))


@composite
def cartesian_prod(x: Sequence[Tensor]) -> Tensor:
    return torch.cartesian_prod(*x)


@composite
def diag(x: Tensor, offset: int = 0, padding_value: float = 0) -> Tensor:
    result = torch.diag(x, offset)
    if x.ndim != 1 or not padding_value:
        return result
    inside = torch.diag(torch.ones_like(x, dtype=torch.bool), offset)
    return torch.where(inside, result, torch.full_like(result, padding_value))


@composite
def numel(x: Tensor) -> Tensor:
    return torch.tensor(x.numel())


@composite
def rank(input: Tensor) -> Tensor:
    return torch.tensor(input.ndim, dtype=torch.int32)


@composite
def shape(input: Tensor) -> Tensor:
    return torch.tensor(list(input.shape), dtype=torch.int64)


@composite
def crop(x: Tensor, shape: Any = None, offsets: Any = None) -> Tensor:
    starts = [0] * x.ndim if offsets is None else integers(offsets)
    sizes = list(x.shape) if shape is None else integers(shape)
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        x = x.narrow(axis, start, x.shape[axis] - start if size < 0 else size)
    return x


@composite
def _slice(input: Tensor, axes: Any, starts: Any, ends: Any) -> Tensor:
    return strided_slice(input, axes, starts, ends, [1] * len(integers(axes)))


@composite
def strided_slice(x: Tensor, axes: Any, starts: Any, ends: Any, strides: Any) -> Tensor:
    for axis, start, end, step in zip(*map(integers, (axes, starts, ends, strides)), strict=True):
        kept = range(x.shape[axis])[slice(start, end, step)]
        x = x.index_select(axis, torch.tensor(list(kept), dtype=torch.int64, device=x.device))
    return x
