"""Wide convolutions of any number of dimensions, forward and backward, and the patches they are made of.

Three sums over the positions of the kernel do everything: ``_correlated`` (a convolution), ``_spread`` (its transpose)
and ``_weight_gradient``. A transposed convolution is the same three with input and output exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from trueline.frameworks.torch.wide.products import product
from trueline.frameworks.torch.wide.table import Array, entry

Sizes = Sequence[int]


def _padded(array: Array, padding: Sizes) -> Array:
    return np.pad(array, [(0, 0), (0, 0), *((one, one) for one in padding)])


def _windows(
    kernel: Sizes, output: Sizes, stride: Sizes, dilation: Sizes
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """For each position in the kernel, the elements of the padded input that it meets."""
    for position in np.ndindex(*kernel):
        slices = tuple(
            slice(at * apart, at * apart + step * (count - 1) + 1, step)
            for at, apart, step, count in zip(position, dilation, stride, output, strict=True)
        )
        yield position, (slice(None), slice(None), *slices)


def _grouped(array: Array, groups: int) -> Array:
    """(N, C, ...) as (N, groups, C / groups, places)."""
    count = int(np.prod(array.shape[2:]))
    return array.reshape(array.shape[0], groups, array.shape[1] // groups, count)


def _taken(weight: Array, position: tuple[int, ...]) -> Array:
    """The matrices of a grouped weight at one position of its kernel, as a view."""
    return weight[(slice(None),) * (weight.ndim - len(position)) + position]


def _correlated(x: Array, weight: Array, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int) -> Array:
    kernel = weight.shape[2:]
    x = _padded(x, padding)
    output = [
        (size - apart * (width - 1) - 1) // step + 1
        for size, width, step, apart in zip(x.shape[2:], kernel, stride, dilation, strict=True)
    ]
    grouped = weight.reshape(groups, weight.shape[0] // groups, weight.shape[1], *kernel)
    shape = (x.shape[0], groups, grouped.shape[1], int(np.prod(output)))
    result = np.zeros(shape, np.result_type(x, weight))
    for position, place in _windows(kernel, output, stride, dilation):
        result += product(_taken(grouped, position), _grouped(x[place], groups))
    return result.reshape(x.shape[0], weight.shape[0], *output)


def _spread(y: Array, weight: Array, size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int) -> Array:
    """The transpose of ``_correlated``: from its output to an input with spatial ``size``."""
    kernel = weight.shape[2:]
    grouped = weight.reshape(groups, weight.shape[0] // groups, weight.shape[1], *kernel)
    channels = weight.shape[1] * groups
    room = [one + 2 * pad for one, pad in zip(size, padding, strict=True)]
    result = np.zeros((y.shape[0], channels, *room), np.result_type(y, weight))
    values = _grouped(y, groups)
    for position, place in _windows(kernel, y.shape[2:], stride, dilation):
        part = product(_taken(grouped, position).swapaxes(-2, -1), values)
        target = result[place]
        target += part.reshape(target.shape)
    inner = (slice(pad, pad + one) for one, pad in zip(size, padding, strict=True))
    kept = (slice(None), slice(None), *inner)
    return result[kept]


def _weight_gradient(
    x: Array, y: Array, shape: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Array:
    """The gradient of the weight of ``_correlated`` from its input and the gradient of its output."""
    kernel = shape[2:]
    x = _padded(x, padding)
    result = np.zeros((groups, shape[0] // groups, shape[1], *kernel), np.result_type(x, y))
    values = _grouped(y, groups)
    for position, place in _windows(kernel, y.shape[2:], stride, dilation):
        part = _taken(result, position)
        part += product(values, _grouped(x[place], groups).swapaxes(-2, -1)).sum(axis=0)
    return result.reshape(tuple(shape))


def _many(values: Sizes, dims: int) -> Sizes:
    return list(values) * dims if len(values) == 1 else values


@entry("convolution")
def convolution(
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
) -> Array:
    dims = weight.ndim - 2
    batched = input if input.ndim == weight.ndim else input[None]
    stride, padding, dilation = _many(stride, dims), _many(padding, dims), _many(dilation, dims)
    if transposed:
        extra = _many(output_padding, dims)
        size = [
            (batched.shape[2 + axis] - 1) * stride[axis]
            - 2 * padding[axis]
            + dilation[axis] * (weight.shape[2 + axis] - 1)
            + extra[axis]
            + 1
            for axis in range(dims)
        ]
        result = _spread(batched, weight, size, stride, padding, dilation, groups)
    else:
        result = _correlated(batched, weight, stride, padding, dilation, groups)
    if bias is not None:
        result = result + bias.reshape(1, -1, *[1] * dims)
    return result if input.ndim == weight.ndim else result[0]


@entry("convolution_backward")
def convolution_backward(
    grad_output: Array,
    input: Array,
    weight: Array,
    bias_sizes: Sizes | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Array | None, Array | None, Array | None]:
    dims = weight.ndim - 2
    common = (_many(stride, dims), _many(padding, dims), _many(dilation, dims), groups)
    conjugate = np.conj(weight)
    for_input = for_weight = for_bias = None
    if output_mask[0]:
        if transposed:
            for_input = _correlated(grad_output, conjugate, *common)
            for_input = for_input[tuple(slice(size) for size in input.shape)]
        else:
            for_input = _spread(grad_output, conjugate, input.shape[2:], *common)
    if output_mask[1]:
        large, small = (grad_output, np.conj(input)) if transposed else (np.conj(input), grad_output)
        for_weight = _weight_gradient(large, small, weight.shape, *common)
    if output_mask[2]:
        for_bias = grad_output.sum(axis=(0, *range(2, grad_output.ndim)))
    return for_input, for_weight, for_bias


@entry("im2col")
def im2col(self: Array, kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes) -> Array:
    batched = self if self.ndim == 4 else self[None]
    kernel, step, apart = _many(kernel_size, 2), _many(stride, 2), _many(dilation, 2)
    x = _padded(batched, _many(padding, 2))
    output = [(x.shape[2 + n] - apart[n] * (kernel[n] - 1) - 1) // step[n] + 1 for n in (0, 1)]
    places = output[0] * output[1]
    columns = [x[place].reshape(*x.shape[:2], places) for _, place in _windows(kernel, output, step, apart)]
    result = np.stack(columns, axis=2).reshape(x.shape[0], x.shape[1] * len(columns), places)
    return result if self.ndim == 4 else result[0]


@entry("col2im")
def col2im(
    self: Array, output_size: Sizes, kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes
) -> Array:
    batched = self if self.ndim == 3 else self[None]
    kernel, step, apart, pad = (_many(one, 2) for one in (kernel_size, stride, dilation, padding))
    room = [output_size[n] + 2 * pad[n] for n in (0, 1)]
    blocks = [(room[n] - apart[n] * (kernel[n] - 1) - 1) // step[n] + 1 for n in (0, 1)]
    area = kernel[0] * kernel[1]
    channels = batched.shape[1] // area
    columns = batched.reshape(batched.shape[0], channels, area, *blocks)
    result = np.zeros((batched.shape[0], channels, *room), self.dtype)
    for number, (_, place) in enumerate(_windows(kernel, blocks, step, apart)):
        result[place] += columns[:, :, number]
    result = result[:, :, pad[0] : pad[0] + output_size[0], pad[1] : pad[1] + output_size[1]]
    return result if self.ndim == 3 else result[0]
