"""Wide resampling: nearest, linear and cubic, of one to three dimensions, with backward operators.

An output is the input times one matrix for each axis; the gradient goes through the transposes. The positions at which
``nearest`` looks are computed in float32, as torch does for every type: which element is nearest is a discrete fact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trueline.frameworks.torch.wide.pooling import applied
from trueline.frameworks.torch.wide.table import REAL, Array, add_at, entry

CUBIC = REAL("-0.75")
Sizes = Sequence[int]


def _nearest(size: int, count: int, scale: float | None, exact: bool) -> Array:
    ratio = np.float32(1.0 / scale) if scale else np.float32(size) / np.float32(count)
    index = np.arange(count, dtype=np.float32)
    if not exact and (count == size or count == 2 * size):
        place = np.arange(count) * size // count
    else:
        place = np.floor((index + np.float32(0.5 if exact else 0.0)) * ratio).astype(np.int64)
    matrix = np.zeros((count, size), REAL)
    matrix[np.arange(count), np.minimum(place, size - 1)] = 1
    return matrix


def _sources(size: int, count: int, scale: float | None, align: bool, clamp: bool) -> Array:
    """Where in the input each element of the output lies."""
    index = np.arange(count).astype(REAL)
    if align:
        return index * (REAL(size - 1) / REAL(count - 1)) if count > 1 else index * 0
    ratio = 1 / REAL(scale) if scale else REAL(size) / REAL(count)
    place = ratio * (index + REAL("0.5")) - REAL("0.5")
    return np.maximum(place, 0) if clamp else place


def _linear(size: int, count: int, scale: float | None, align: bool) -> Array:
    place = _sources(size, count, scale, align, True)
    low = np.minimum(np.floor(place).astype(np.int64), size - 1)
    share = np.clip(place - low, 0, 1)
    matrix = np.zeros((count, size), REAL)
    rows = np.arange(count)
    add_at(matrix, (rows, low), 1 - share)
    add_at(matrix, (rows, np.minimum(low + 1, size - 1)), share)
    return matrix


def _cubic_weight(off: Array) -> Array:
    """Keys' kernel."""
    off = np.abs(off)
    near = ((CUBIC + 2) * off - (CUBIC + 3)) * off * off + 1
    far = ((CUBIC * off - 5 * CUBIC) * off + 8 * CUBIC) * off - 4 * CUBIC
    return np.where(off <= 1, near, np.where(off < 2, far, 0))


def _cubic(size: int, count: int, scale: float | None, align: bool) -> Array:
    place = _sources(size, count, scale, align, False)
    low = np.floor(place).astype(np.int64)
    matrix = np.zeros((count, size), REAL)
    for step in (-1, 0, 1, 2):
        add_at(matrix, (np.arange(count), np.clip(low + step, 0, size - 1)), _cubic_weight(place - (low + step)))
    return matrix


def _smoothed(size: int, count: int, scale: float | None, align: bool, cubic: bool) -> Array:
    """The antialiased forms: the kernel is stretched by the ratio and its weights made to sum to one."""
    if align:
        ratio = REAL(size - 1) / REAL(count - 1) if count > 1 else REAL(0)
    else:
        ratio = 1 / REAL(scale) if scale else REAL(size) / REAL(count)
    stretch = max(ratio, REAL(1))
    reach = (2 if cubic else 1) * stretch
    matrix = np.zeros((count, size), REAL)
    for row in range(count):
        centre = ratio * (row + REAL("0.5"))
        first = max(int(centre - reach + REAL("0.5")), 0)
        last = min(int(centre + reach + REAL("0.5")), size)
        off = (np.arange(first, last).astype(REAL) - centre + REAL("0.5")) / stretch
        weights = _smooth_weight(off) if cubic else np.maximum(1 - np.abs(off), 0)
        matrix[row, first:last] = weights / weights.sum()
    return matrix


def _smooth_weight(off: Array) -> Array:
    """Keys' kernel with -0.5, as the antialiased form has it."""
    off, half = np.abs(off), REAL("-0.5")
    near = ((half + 2) * off - (half + 3)) * off * off + 1
    far = ((half * off - 5 * half) * off + 8 * half) * off - 4 * half
    return np.where(off < 1, near, np.where(off < 2, far, 0))


def _matrices(kind: str, shape: Sizes, output: Sizes, rest: Sequence[object]) -> list[Array]:
    """One for each axis; ``rest`` is what follows the sizes in the schema: align_corners, then scales."""
    align = bool(rest[0]) if not kind.startswith("nearest") else False
    scales = list(rest if kind.startswith("nearest") else rest[1:]) or [None]
    scales = scales if len(scales) == len(shape) else [None] * len(shape)
    made = []
    for size, count, scale in zip(shape, output, scales, strict=True):
        factor = float(scale) if isinstance(scale, float) and scale > 0 else None
        if kind.startswith("nearest"):
            made.append(_nearest(size, count, factor, kind.endswith("exact")))
        elif kind.endswith("smooth"):
            made.append(_smoothed(size, count, factor, align, kind.startswith("cubic")))
        else:
            made.append((_cubic if kind == "cubic" else _linear)(size, count, factor, align))
    return made


KINDS = {
    "upsample_nearest1d": ("nearest", 1), "upsample_nearest2d": ("nearest", 2), "upsample_nearest3d": ("nearest", 3),
    "_upsample_nearest_exact1d": ("nearest exact", 1), "_upsample_nearest_exact2d": ("nearest exact", 2),
    "_upsample_nearest_exact3d": ("nearest exact", 3), "upsample_linear1d": ("linear", 1),
    "upsample_bilinear2d": ("linear", 2), "upsample_trilinear3d": ("linear", 3), "upsample_bicubic2d": ("cubic", 2),
    "_upsample_bilinear2d_aa": ("linear smooth", 2), "_upsample_bicubic2d_aa": ("cubic smooth", 2),
}  # fmt: skip


def _enter(name: str, kind: str, dims: int) -> None:
    @entry(f"{name}.default")
    def upsample(self: Array, output_size: Sizes, *rest: object, **named: object) -> Array:
        return applied(self, _matrices(kind, self.shape[-dims:], output_size, (*rest, *named.values())))

    @entry(f"{name}_backward")
    def upsample_backward(
        grad_output: Array, output_size: Sizes, input_size: Sizes, *rest: object, **named: object
    ) -> Array:
        matrices = _matrices(kind, input_size[-dims:], output_size, (*rest, *named.values()))
        return applied(grad_output, [one.T for one in matrices])


for _name, (_kind, _dims) in KINDS.items():
    _enter(_name, _kind, _dims)
