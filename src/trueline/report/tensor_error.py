"""Where in a tensor the error is, and how large: histograms, a heat map of any slice, the worst elements, their gold.

Everything is reduced to what a page can draw, whatever the size of the tensor: a cell of the heat map stands for a
block of elements and shows the largest error among them. Where there is nothing to draw, ``missing`` says why.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trueline.dtypes import DType
from trueline.report.json import plain
from trueline.report.subject import Array, ComparisonView

Doubles = np.ndarray[Any, np.dtype[np.float64]]

CELLS = 64
WORST = 12
SLICES = 24
"""Slices that a page from disk can be asked for: those with the largest errors."""
_ULP_BUCKETS = 24
_LARGEST = 1 << 26
"""Elements that are looked at while somebody waits; of larger tensors the first so many."""


def tensor_error(
    comparison: ComparisonView,
    position: int,
    place: int,
    at: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
) -> dict[str, Any]:
    """The error of one tensor of the call at a position. ``axes`` are the two dimensions that the heat map shows, the
    last two unless told; ``at`` chooses the slice: one index for each of the others, where the worst element lies
    unless told."""
    found = comparison.elements(position, place)
    if isinstance(found, str):
        return {"missing": found}
    reference, candidate, dtype = found
    if not reference.size:
        return {"missing": "it has no elements"}
    return error_of(reference, candidate, dtype, at, axes)


def with_gold(comparison: ComparisonView, position: int, place: int) -> dict[str, Any]:
    """The worst elements as float64 would have them, and how far each side is from that over the whole tensor."""
    gold = comparison.gold(position, place)
    if isinstance(gold, str):
        return {"missing": gold}
    found = comparison.elements(position, place)
    if isinstance(found, str):
        return {"missing": found}
    reference, candidate, _ = found
    if gold.shape != reference.shape:
        return {"missing": "the replay gave another shape than was recorded"}
    flat = gold.reshape(-1)
    places = _worst_places(_error(reference.reshape(-1)[:_LARGEST], candidate.reshape(-1)[:_LARGEST]))
    return {
        "values": [_shown(flat[place]) for place in places],
        "reference": plain(_distance(reference, gold)),
        "candidate": plain(_distance(candidate, gold)),
    }


def with_slices(picture: dict[str, Any], comparison: ComparisonView, position: int, place: int) -> dict[str, Any]:
    """A picture with the heat maps of the slices that have the largest errors, for a page that cannot ask for them."""
    found = comparison.elements(position, place)
    if "missing" in picture or isinstance(found, str) or found[0].ndim < 3 or found[0].size > _LARGEST:
        return picture
    reference, candidate, _ = found
    leading = reference.shape[:-2]
    largest = _error(reference, candidate).max(axis=(-2, -1)).reshape(-1)
    order = np.argsort(-largest, kind="stable")[:SLICES]
    chosen = [tuple(int(one) for one in np.unravel_index(int(number), leading)) for number in order]
    slices = [{"at": list(index), "heat": _blocks(_error(reference[index], candidate[index]))} for index in chosen]
    return picture | {"slices": slices}


def error_of(
    reference: Array,
    candidate: Array,
    dtype: DType,
    at: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
) -> dict[str, Any]:
    """The error of values of the same shape, in units of a dtype's spacing as well."""
    shape = reference.shape
    flat_one, flat_other = reference.reshape(-1)[:_LARGEST], candidate.reshape(-1)[:_LARGEST]
    error = _error(flat_one, flat_other)
    worst = _worst_places(error)
    peak = np.unravel_index(worst[0], shape) if worst else (0,) * len(shape)
    return {
        "shape": list(shape),
        "elements": int(flat_one.size),
        "equal": int((error == 0).sum()),
        "histogram": _decades(error[error > 0]),
        "ulps": _ulps(error, np.abs(flat_one), dtype),
        "worst": [
            {
                "at": [int(index) for index in np.unravel_index(number, shape)],
                "reference": _shown(flat_one[number]),
                "candidate": _shown(flat_other[number]),
                "error": plain(float(error[number])),
            }
            for number in worst
        ],
        "profiles": _profiles(error, shape),
        **_slice(reference, candidate, [int(one) for one in peak], at, axes),
    }


def _error(one: Array, other: Array) -> Doubles:
    """How far apart; infinite where one side is NaN, or both are infinite and not alike."""
    with np.errstate(all="ignore"):
        error = np.asarray(np.abs(other - one), dtype=np.float64)
    error[(one == other) | (np.isnan(one) & np.isnan(other))] = 0.0
    error[np.isnan(error)] = np.inf
    return error


def _shown(value: Any) -> Any:
    """A number as JSON can say it; a complex one as text."""
    return str(complex(value)) if np.iscomplexobj(value) else plain(float(value))


def _distance(values: Array, gold: Array) -> float:
    """|values - gold| / |gold| in the L2 norm."""
    error = _error(gold, values)
    if not error.any():
        return 0.0
    with np.errstate(all="ignore"):
        norm = float(np.linalg.norm(np.abs(gold[np.isfinite(gold)])))
        gap = float(np.linalg.norm(error))
    return gap / norm if norm and not math.isnan(gap) else math.inf


def _decades(error: Doubles) -> list[list[Any]]:
    """How many elements are off by so much: [power of ten, count], infinity last."""
    finite = error[np.isfinite(error)]
    powers, counts = np.unique(np.floor(np.log10(finite)), return_counts=True)
    rows: list[list[Any]] = [[int(power), int(count)] for power, count in zip(powers, counts, strict=True)]
    beyond = int(error.size - finite.size)
    return [*rows, ["inf", beyond]] if beyond else rows


def _ulps(error: Doubles, size: Doubles, dtype: DType) -> list[int]:
    """How many elements are off by 0, up to 1, 2, 4, 8 … units in the last place of the dtype."""
    if not dtype.digits:
        return []
    with np.errstate(all="ignore"):
        spacing = np.exp2(np.maximum(np.floor(np.log2(size)), dtype.exponent_min)) * dtype.epsilon
        spacing[~np.isfinite(spacing)] = dtype.epsilon * 2.0**dtype.exponent_min
        bucket = np.ceil(np.log2(np.maximum(error / spacing, 1.0))) + 1
    bucket[error == 0] = 0
    bucket = np.where(np.isfinite(bucket), np.minimum(bucket, _ULP_BUCKETS - 1), _ULP_BUCKETS - 1)
    counts = np.bincount(bucket.astype(np.int64), minlength=1)
    found: list[int] = counts.tolist()
    return found


def _worst_places(error: Doubles) -> list[int]:
    """Flat indices of the largest errors, the largest first."""
    count = min(WORST, int((error > 0).sum()))
    if not count:
        return []
    chosen = np.argpartition(-error, count - 1)[:count]
    found: list[int] = chosen[np.lexsort((chosen, -error[chosen]))].tolist()
    return found


def _profiles(error: Doubles, shape: tuple[int, ...]) -> list[list[Any]]:
    """For each dimension the largest error at each index of it, or block of indices: a wrong channel stands out. None
    where only a part of the tensor was looked at."""
    if error.size != math.prod(shape) or len(shape) < 2:
        return []
    whole = error.reshape(shape)
    found = []
    for axis in range(len(shape)):
        others = tuple(other for other in range(len(shape)) if other != axis)
        found.append(_blocks(whole.max(axis=others).reshape(1, -1))[0])
    return found


def _slice(
    reference: Array, candidate: Array, peak: Sequence[int], at: Sequence[int] | None, axes: Sequence[int] | None
) -> dict[str, Any]:
    """The heat map of one slice: rows by columns of blocks, the largest error in each."""
    dimensions = reference.ndim
    shown = _axes(dimensions, axes)
    rest = [axis for axis in range(dimensions) if axis not in shown]
    wanted = [peak[axis] for axis in rest] if at is None else [*at, *[0] * len(rest)]
    index = [min(max(int(one), 0), reference.shape[axis] - 1) for one, axis in zip(wanted, rest, strict=False)]
    key: list[Any] = [slice(None)] * dimensions
    for axis, one in zip(rest, index, strict=True):
        key[axis] = one
    error = _error(reference[tuple(key)], candidate[tuple(key)])
    if len(shown) == 2 and shown[0] > shown[1]:
        error = error.T
    if error.ndim < 2:
        error = error.reshape(1, -1)
    return {"axes": shown, "rest": rest, "at": index, "extent": list(error.shape), "heat": _blocks(error)}


def _axes(dimensions: int, axes: Sequence[int] | None) -> list[int]:
    """The dimensions that are shown, rows before columns."""
    usual = list(range(max(0, dimensions - 2), dimensions))
    if axes is None or len(set(axes)) != 2 or dimensions < 2 or not all(0 <= axis < dimensions for axis in axes):
        return usual
    return [int(axis) for axis in axes]


def _blocks(error: Doubles) -> list[list[Any]]:
    rows, columns = (np.linspace(0, size, min(size, CELLS) + 1).astype(int)[:-1] for size in error.shape)
    largest = np.maximum.reduceat(np.maximum.reduceat(error, rows, axis=0), columns, axis=1)
    return [[plain(float(f"{value:.3g}")) for value in row] for row in largest.tolist()]
