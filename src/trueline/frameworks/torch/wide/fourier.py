"""Wide Fourier transforms, by numpy's where it computes them in longdouble (from numpy 2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trueline.frameworks.torch.wide.table import COMPLEX, REAL, Array, NoWideGold, count_of, entry

BY_ROOT, BY_COUNT = 1, 2


def _scaled(result: Array, count: int, normalization: int) -> Array:
    if result.dtype not in (np.dtype(COMPLEX), np.dtype(REAL)):
        raise NoWideGold("fft", "this numpy transforms in float64 only; numpy 2 is needed")
    if normalization == BY_ROOT:
        return result / np.sqrt(REAL(count))
    return result / REAL(count) if normalization == BY_COUNT else result


def _unscaled(self: Array, axes: Sequence[int], forward: bool) -> Array:
    """The sums alone: numpy scales the inverse unless told to scale the forward one."""
    if forward:
        return np.fft.fftn(self, axes=tuple(axes), norm="backward")
    return np.fft.ifftn(self, axes=tuple(axes), norm="forward")


@entry("_fft_c2c")
def c2c(self: Array, dim: Sequence[int], normalization: int, forward: bool) -> Array:
    return _scaled(_unscaled(self, dim, forward), count_of(self.shape, dim), normalization)


@entry("_fft_r2c")
def r2c(self: Array, dim: Sequence[int], normalization: int, onesided: bool) -> Array:
    result = np.fft.rfftn(self, axes=tuple(dim)) if onesided else _unscaled(self, dim, True)
    return _scaled(result, count_of(self.shape, dim), normalization)


@entry("_fft_c2r")
def c2r(self: Array, dim: Sequence[int], normalization: int, last_dim_size: int) -> Array:
    inner = _unscaled(self, dim[:-1], False) if len(dim) > 1 else self
    result = np.fft.irfft(inner, n=last_dim_size, axis=dim[-1], norm="forward")
    return _scaled(result, count_of(result.shape, dim), normalization)
