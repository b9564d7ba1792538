"""Where in a tensor the error is, and how large: histograms, a heat map of any slice, the worst elements.

Everything is reduced to what a page can draw, whatever the size of the tensor: a cell of the heat map stands for a
block of elements and shows the largest error among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trueline.dtypes import DType, dtype_named
from trueline.numerics.fallback import widen
from trueline.records import CallComparison, TensorComparison, TensorRecord
from trueline.report.json import plain
from trueline.store import Run

Doubles = np.ndarray[Any, np.dtype[np.float64]]

CELLS = 64
WORST = 12
_ULP_BUCKETS = 24
_LARGEST = 1 << 26
"""Elements that are looked at while somebody waits; of larger tensors the first so many."""


def tensor_error(
    reference: Run, candidate: Run, pair: CallComparison, place: int, at: Sequence[int] = ()
) -> dict[str, Any] | None:
    """The error of one tensor of a pair of calls; None where the tensors were not kept or cannot be held against each
    other. ``at`` chooses the slice of the heat map: one index for each dimension but the last two."""
    tensor = pair.tensors[place]
    if not _can_be_compared(tensor):
        return None
    assert tensor.reference is not None and tensor.candidate is not None
    rank = pair.call.rank
    one, other = _values(reference, rank, tensor.reference), _values(candidate, rank, tensor.candidate)
    if one is None or other is None:
        return None
    return error_of(one, other, _coarser(tensor.reference, tensor.candidate), at)


def error_of(reference: Doubles, candidate: Doubles, dtype: DType, at: Sequence[int] = ()) -> dict[str, Any]:
    """The error of values of the same shape, in units of a dtype's spacing as well."""
    shape = reference.shape
    flat_one, flat_other = reference.reshape(-1)[:_LARGEST], candidate.reshape(-1)[:_LARGEST]
    with np.errstate(all="ignore"):
        error = np.abs(flat_other - flat_one)
    same = (flat_one == flat_other) | (np.isnan(flat_one) & np.isnan(flat_other))
    error[same] = 0.0
    error[np.isnan(error)] = np.inf  # one side is NaN, or both are infinite and not alike
    slices = _slice(reference, candidate, at)
    return {
        "shape": list(shape),
        "elements": int(flat_one.size),
        "equal": int(same.sum()),
        "histogram": _decades(error[~same]),
        "ulps": _ulps(error, np.abs(flat_one), dtype, same),
        "worst": _worst(flat_one, flat_other, error, shape),
        **slices,
    }


def _can_be_compared(tensor: TensorComparison) -> bool:
    one, other = tensor.reference, tensor.candidate
    return one is not None and other is not None and one.shape == other.shape and 0 not in one.shape


def _values(run: Run, rank: int, record: TensorRecord) -> Doubles | None:
    dtype = dtype_named(record.dtype)
    if not record.stored or dtype.is_complex or rank not in run.ranks:
        return None
    return np.asarray(widen(run.rank(rank).tensor(record), dtype), dtype=np.float64).reshape(record.shape)


def _coarser(one: TensorRecord, other: TensorRecord) -> DType:
    return max((dtype_named(one.dtype), dtype_named(other.dtype)), key=lambda dtype: dtype.epsilon)


def _decades(error: Doubles) -> list[list[Any]]:
    """How many elements are off by so much: [power of ten, count], infinity last."""
    finite = error[np.isfinite(error)]
    powers, counts = np.unique(np.floor(np.log10(finite)), return_counts=True)
    rows: list[list[Any]] = [[int(power), int(count)] for power, count in zip(powers, counts, strict=True)]
    beyond = int(error.size - finite.size)
    return [*rows, ["inf", beyond]] if beyond else rows


def _ulps(error: Doubles, size: Doubles, dtype: DType, same: np.ndarray[Any, Any]) -> list[int]:
    """How many elements are off by 0, up to 1, 2, 4, 8 … units in the last place of the dtype."""
    if not dtype.digits:
        return []
    with np.errstate(all="ignore"):
        spacing = np.exp2(np.maximum(np.floor(np.log2(size)), dtype.exponent_min)) * dtype.epsilon
        spacing[~np.isfinite(spacing)] = dtype.epsilon * 2.0**dtype.exponent_min
        bucket = np.ceil(np.log2(np.maximum(error / spacing, 1.0))) + 1
    bucket[same] = 0
    bucket = np.where(np.isfinite(bucket), np.minimum(bucket, _ULP_BUCKETS - 1), _ULP_BUCKETS - 1)
    counts = np.bincount(bucket.astype(np.int64), minlength=1)
    found: list[int] = counts.tolist()
    return found


def _worst(one: Doubles, other: Doubles, error: Doubles, shape: tuple[int, ...]) -> list[dict[str, Any]]:
    count = min(WORST, int((error > 0).sum()))
    if not count:
        return []
    chosen = np.argpartition(-error, count - 1)[:count]
    chosen = chosen[np.argsort(-error[chosen], kind="stable")]
    return [
        {
            "at": [int(index) for index in np.unravel_index(int(place), shape)],
            "reference": plain(float(one[place])),
            "candidate": plain(float(other[place])),
            "error": plain(float(error[place])),
        }
        for place in chosen
    ]


def _slice(reference: Doubles, candidate: Doubles, at: Sequence[int]) -> dict[str, Any]:
    """The heat map of one slice: rows by columns of blocks, the largest error in each."""
    leading = reference.shape[:-2] if reference.ndim > 2 else ()
    index = tuple(min(max(int(at[n]) if n < len(at) else 0, 0), size - 1) for n, size in enumerate(leading))
    one, other = reference[index], candidate[index]
    if one.ndim < 2:
        one, other = one.reshape(1, -1), other.reshape(1, -1)
    with np.errstate(all="ignore"):
        error = np.abs(other - one)
    error[(one == other) | (np.isnan(one) & np.isnan(other))] = 0.0
    error[np.isnan(error)] = np.inf
    return {"leading": list(leading), "at": list(index), "extent": list(one.shape), "heat": _blocks(error)}


def _blocks(error: Doubles) -> list[list[Any]]:
    rows, columns = (np.linspace(0, size, min(size, CELLS) + 1).astype(int)[:-1] for size in error.shape)
    largest = np.maximum.reduceat(np.maximum.reduceat(error, rows, axis=0), columns, axis=1)
    return [[plain(float(value)) for value in row] for row in largest]
