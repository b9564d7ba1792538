"""Wide operators whose numbers depend on random ones: drawn by torch in float64, or handed over as an argument."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from trueline.frameworks.torch.wide.activations import leaky_relu, leaky_relu_backward
from trueline.frameworks.torch.wide.pooling import _many, _maximum_backward
from trueline.frameworks.torch.wide.table import REAL, Array, entry

NARROW = 1e-6
"""Torch takes bounds of rrelu that are nearer to each other than this for one."""


@entry("rrelu_with_noise")
def rrelu(
    self: Array,
    noise: Array,
    lower: float = 0.125,
    upper: float = 1.0 / 3.0,
    training: bool = False,
    generator: torch.Generator | None = None,
) -> Array:
    """Below zero multiplied by what torch draws, which is left in ``noise`` for the backward."""
    if not training:
        return leaky_relu(self, (REAL(lower) + REAL(upper)) / 2)
    plain = torch.from_numpy(self.astype(np.float64))
    drawn = torch.zeros_like(plain)
    torch.ops.aten.rrelu_with_noise(plain, drawn, lower, upper, True, generator)
    noise[...] = drawn.numpy()
    return self * noise


@entry("rrelu_with_noise_backward")
def rrelu_backward(
    grad_output: Array, self: Array, noise: Array, lower: float, upper: float, training: bool, self_is_result: bool
) -> Array:
    if training and upper - lower > NARROW:
        return grad_output * noise
    return leaky_relu_backward(grad_output, self, (REAL(lower) + REAL(upper)) / 2, self_is_result)


def _starts(sample: float, size: int, count: int, kernel: int) -> list[int]:
    """Where the windows of fractional pooling begin; torch finds that in float64, and so must we."""
    if count == 1:
        return [size - kernel]
    step = np.float64(size - kernel) / np.float64(count - 1)
    first = int(np.float64(sample) * step)
    return [int((np.float64(place) + np.float64(sample)) * step) - first for place in range(count - 1)] + [
        size - kernel
    ]


def _fractional(self: Array, kernel: Sequence[int], output: Sequence[int], samples: Array) -> tuple[Array, Array]:
    """Planes one by one: each has windows of its own. ``samples`` are in the order of the axes."""
    dims = len(output)
    shape = self.shape[self.ndim - dims :]
    planes = self.reshape(-1, *shape)
    samples = samples.reshape(-1, dims).astype(np.float64)
    numbers = np.arange(int(np.prod(shape))).reshape(shape)
    values = np.empty((len(planes), *output), self.dtype)
    places = np.empty((len(planes), *output), np.int64)
    for row, plane in enumerate(planes):
        starts = [_starts(samples[row, axis], shape[axis], output[axis], kernel[axis]) for axis in range(dims)]
        for place in np.ndindex(*output):
            seen = tuple(slice(starts[axis][at], starts[axis][at] + kernel[axis]) for axis, at in enumerate(place))
            block = plane[seen].reshape(-1)
            best = int(np.argmax(block))
            at_plane = (row, *place)
            values[at_plane], places[at_plane] = block[best], numbers[seen].reshape(-1)[best]
    wanted = (*self.shape[: self.ndim - dims], *output)
    return values.reshape(wanted), places.reshape(wanted)


@entry("fractional_max_pool2d")
def fractional_max_pool2d(
    self: Array, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: Array
) -> tuple[Array, Array]:
    """Of two dimensions torch draws the last one first."""
    return _fractional(self, _many(kernel_size, 2), _many(output_size, 2), random_samples[..., ::-1])


@entry("fractional_max_pool3d")
def fractional_max_pool3d(
    self: Array, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: Array
) -> tuple[Array, Array]:
    return _fractional(self, _many(kernel_size, 3), _many(output_size, 3), random_samples)


@entry("fractional_max_pool2d_backward")
def fractional_max_pool2d_backward(
    grad_output: Array, self: Array, kernel_size: Sequence[int], output_size: Sequence[int], indices: Array
) -> Array:
    return _maximum_backward(grad_output, self, indices, 2)


@entry("fractional_max_pool3d_backward")
def fractional_max_pool3d_backward(
    grad_output: Array, self: Array, kernel_size: Sequence[int], output_size: Sequence[int], indices: Array
) -> Array:
    return _maximum_backward(grad_output, self, indices, 3)
