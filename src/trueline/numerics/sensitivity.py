"""Inputs moved by one rounding, so that golds computed from them show how much rounding any method has to suffer.

No implementation in a dtype can be blamed for an error as large as that which rounding its inputs once more would have
made: an ill-conditioned element is seen by its own gold moving. The moves are drawn from a seed and a path, so that the
same case is perturbed alike everywhere.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.dtypes import DType

PERTURBATIONS = 3
"""The moves that tell a steep gold from one that jumps (``numerics.jumps``): by a rounding, by its opposite, and by a
small share of the first."""
_SMALL = 1 / 64


def perturb(
    values: NDArray[Any],
    dtype: DType,
    *,
    seed: int,
    path: str,
    round_number: int,
    still: NDArray[np.bool_] | None = None,
) -> NDArray[Any]:
    """Each number of ``values`` (float64 or complex128, made from tensors of ``dtype``) times 1 + u or 1 - u, u being
    the unit roundoff of ``dtype``, the signs drawn at random. The second round moves opposite to the first, so that a
    number on the edge of a jump is moved to both sides; the third moves as the first, by a small share of u; the next
    three draw again. Zeros, infinities, NaN and what is ``still`` stay what they are.

    The result has the type of ``values``; for float64 tensors pass ``numpy.longdouble`` to keep what was added.
    """
    unit = dtype.epsilon / 2 * (1.0, -1.0, _SMALL)[round_number % PERTURBATIONS]
    drawing = round_number // PERTURBATIONS
    key = np.array([seed & 0xFFFFFFFFFFFFFFFF, (zlib.crc32(path.encode()) << 8) + drawing], dtype=np.uint64)
    generator = np.random.Generator(np.random.Philox(key=key))
    if dtype.is_complex:
        parts = np.ascontiguousarray(values).reshape(-1)
        parts = parts.view(parts.real.dtype)
        return _moved(parts, unit, generator).view(values.dtype).reshape(values.shape)
    moved = _moved(values, unit, generator)
    return moved if still is None else np.where(still, values, moved)


def _moved(values: NDArray[Any], unit: float, generator: np.random.Generator) -> NDArray[Any]:
    signs = generator.integers(0, 2, values.shape, dtype=np.int8)
    with np.errstate(all="ignore"):
        return np.asarray(values * (1.0 + unit * (2.0 * signs - 1.0).astype(values.dtype)), dtype=values.dtype)
