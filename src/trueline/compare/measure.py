"""Measures pairs of tensors: from their bytes where both sides kept them, else by digest, sketch and statistics.

Each distinct pair is measured once. The bytes are read by mmap and compared in one fused pass, in parallel over
tensors (the kernels release the interpreter). Statistics are compared in numpy, block by block, so that a Run of any
size needs a bounded amount of memory. Pairs that are equal by digest are not read at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from trueline.dtypes import DTYPES, dtype_named
from trueline.numerics import cpu
from trueline.numerics.layout import COMPARISON, DESCRIPTOR, STATISTICS, pack_descriptor, sketch_distance
from trueline.store.columns import Integers
from trueline.store.reader import RankReader
from trueline.store.tables import Layout
from trueline.store.trace import Trace

MEASURED = np.dtype(
    [
        ("count", "<i8"),
        ("distance", "<f8"),  # |reference - candidate| / |reference|; NaN where nothing was measured
        ("peak", "<f8"),  # the largest absolute error, in units of the reference's largest magnitude
        ("cosine", "<f8"),
        ("equal", "?"),
        ("estimated", "?"),  # from sketches, not from bytes
        ("note", "<i4"),  # why nothing was measured: a position in NOTES
        ("rms", "<f8"),  # root mean square of the reference's finite elements
        ("mean", "<f8"),
        ("smallest", "<f8"),  # smallest magnitude of the reference that is not zero, to a factor of two
        ("largest", "<f8"),
        ("zeros_differ", "<i8"),
        ("bad_reference", "<i8"),  # NaN and Inf
        ("bad_candidate", "<i8"),
        ("bad_mismatch", "<i8"),
        ("candidate_rms", "<f8"),
    ]
)
"""What is known of one pair of tensors, in the form that judges need; the exact metrics are in COMPARISON."""

NOTES = (
    "",
    "the reference has no data of this tensor",
    "the candidate has no data of this tensor",
    "neither side has data of this tensor",
    "the two have different numbers of elements",
    "the stored bytes cannot be read",
    "one holds complex numbers and the other does not",
)
_NO_REFERENCE, _NO_CANDIDATE, _NO_DATA, _SIZES, _COMPLEX = 1, 2, 3, 4, 6

NOT_ALIKE = (_SIZES, _COMPLEX)
"""Notes of pairs that cannot be laid element by element: they are different data."""

_SUMMED = 2e-3
"""By how much a mean or a norm may be off that was summed in sixteen bits."""
_BLOCK = 16384
"""Pairs whose statistics are in memory at a time."""
_PART_BYTES = 32 << 20
"""Bytes that one thread takes at a time."""

Columns = np.ndarray[Any, Any]
Places = np.ndarray[Any, np.dtype[np.int64]]


class Measurer:
    """Measures the tensors of two ranks against each other."""

    def __init__(self, readers: tuple[RankReader, RankReader], traces: tuple[Trace, Trace], threads: int = 0) -> None:
        self._readers = readers
        self._traces = traces
        self._threads = threads or min(16, os.cpu_count() or 1)
        self.bytes_read = 0
        self.digests = False
        """Whether both sides have digests."""

    def measure(
        self, pairs: Integers, progress: Callable[[int], None] | None = None
    ) -> tuple[Columns, Columns | None, Places]:
        """Measures distinct pairs, rows of (reference tensor, reference layout, candidate tensor, candidate layout).

        Gives one MEASURED row for each; the COMPARISON rows of those whose bytes were read, or None; and for each pair
        the number of its COMPARISON row, -1 where it has none.
        """
        measured = np.zeros(len(pairs), dtype=MEASURED)
        exact = np.full(len(pairs), -1, dtype=np.int64)
        comparisons: list[Columns] = []
        read = 0
        for start in range(0, len(pairs), _BLOCK):
            block = pairs[start : start + _BLOCK]
            rows = measured[start : start + _BLOCK]
            self._from_statistics(block, rows)
            chosen = self._worth_reading(block, rows)
            if len(chosen):
                comparison, good = self._from_bytes(block[chosen], rows, chosen)
                comparisons.append(comparison)
                exact[start + chosen[good]] = read + np.flatnonzero(good)
                read += len(comparison)
            if progress is not None:
                progress(len(block))
        return measured, np.concatenate(comparisons) if comparisons else None, exact

    def _from_statistics(self, pairs: Integers, rows: Columns) -> None:
        (left, has_left), (right, has_right) = (
            _statistics(trace, pairs[:, column]) for trace, column in zip(self._traces, (0, 2), strict=True)
        )
        sizes = [_sizes(trace, pairs[:, column]) for trace, column in zip(self._traces, (1, 3), strict=True)]
        complex_ones = [
            _by_layout(trace, pairs[:, column], lambda layout: int(_is_complex(layout)))
            for trace, column in zip(self._traces, (1, 3), strict=True)
        ]
        rows["note"] = np.select(
            [sizes[0] != sizes[1], complex_ones[0] != complex_ones[1], ~has_left & ~has_right, ~has_left, ~has_right],
            [_SIZES, _COMPLEX, _NO_DATA, _NO_REFERENCE, _NO_CANDIDATE],
            default=0,
        )
        self.digests = self.digests or bool(((left["digest"] != 0) & (right["digest"] != 0)).any())
        describe(left, rows)
        rows["count"] = sizes[0]
        compare_statistics(left, right, self._same_dtype(pairs), rows)
        unknown = rows["note"] != 0
        for name in ("distance", "peak", "cosine"):
            rows[name][unknown] = np.nan
        rows["equal"][unknown] = False

    def _same_dtype(self, pairs: Integers) -> Columns:
        numbers: dict[str, int] = {}
        codes = [
            _by_layout(trace, pairs[:, column], lambda layout: numbers.setdefault(layout.dtype, len(numbers)))
            for trace, column in zip(self._traces, (1, 3), strict=True)
        ]
        same: Columns = codes[0] == codes[1]
        return same

    def _worth_reading(self, pairs: Integers, rows: Columns) -> Places:
        """Pairs of which both sides kept the bytes and which no digest has shown to be equal."""
        stored = [
            np.isin(pairs[:, column], _as_array(trace)) for trace, column in zip(self._traces, (0, 2), strict=True)
        ]
        proven = rows["equal"] & ~rows["estimated"]
        return np.flatnonzero(stored[0] & stored[1] & ~proven & ~np.isin(rows["note"], (_SIZES, _COMPLEX)))

    def _from_bytes(self, pairs: Integers, rows: Columns, chosen: Places) -> tuple[Columns, Columns]:
        comparison = np.zeros(len(pairs), dtype=COMPARISON)
        descriptors = [np.zeros(len(pairs), dtype=DESCRIPTOR) for _ in range(2)]
        kept: list[Any] = []  # the arrays that the descriptors point into
        nbytes = np.zeros(len(pairs), dtype=np.int64)
        good = np.ones(len(pairs), dtype=bool)
        for index, (left, left_layout, right, right_layout) in enumerate(pairs.tolist()):
            for side, (tensor, layout_number) in enumerate(((left, left_layout), (right, right_layout))):
                layout = self._traces[side].layouts[layout_number]
                bits = self._readers[side].tensor_bits(tensor, layout.dtype, layout.shape).reshape(-1)
                kept.append(bits)
                nbytes[index] += bits.nbytes
                code = dtype_named(layout.dtype).code
                pack_descriptor(descriptors[side], index, bits.ctypes.data, code, bits.shape, (1,))
        good &= descriptors[0]["numel"] == descriptors[1]["numel"]
        self.bytes_read += int(nbytes.sum())
        order = np.flatnonzero(good)
        self._run(order, nbytes, descriptors, comparison)
        _take_over(comparison[order], rows, chosen[order])
        return comparison, good

    def _run(self, order: Places, nbytes: Integers, descriptors: list[Columns], comparison: Columns) -> None:
        def compare(part: Places) -> None:
            out = np.zeros(len(part), dtype=COMPARISON)
            cpu.compare_batch(descriptors[0][part], descriptors[1][part], out)
            comparison[part] = out

        parts = list(_parts(order, nbytes))
        if len(parts) <= 1 or self._threads <= 1:
            for part in parts:
                compare(part)
            return
        with ThreadPoolExecutor(self._threads, thread_name_prefix="trueline-compare") as pool:
            for _ in pool.map(compare, parts):
                pass


def describe(left: Columns, rows: Columns) -> None:
    """Fills in what judges want to know of the reference side."""
    bad = left["nan"] + left["positive_infinity"] + left["negative_infinity"]
    rows["rms"] = _root_mean_square(left, bad)
    rows["mean"] = left["mean"]
    rows["smallest"] = np.where(
        left["exponent_min"] <= left["exponent_max"], np.exp2(left["exponent_min"].astype(float)), 0.0
    )
    rows["largest"] = _largest(left)
    rows["bad_reference"] = bad


def _largest(side: Columns) -> Columns:
    return np.asarray(np.fmax(np.abs(side["minimum"]), np.abs(side["maximum"])))


def _root_mean_square(side: Columns, bad: Columns) -> Columns:
    """Of the finite elements; where a tool keeps no norm, as of integers, what it is at most."""
    known = side["norm"] / np.sqrt(np.maximum(side["count"] - bad, 1))
    return np.where(np.isnan(known), _largest(side), known)


def compare_statistics(left: Columns, right: Columns, same_dtype: Columns, rows: Columns) -> None:
    """Distance, peak and equality from two arrays of STATISTICS rows."""
    with np.errstate(all="ignore"):
        distance = np.asarray(sketch_distance(left["sketch"], right["sketch"]), dtype=np.float64)
        peak = np.fmax(np.abs(left["maximum"] - right["maximum"]), np.abs(left["minimum"] - right["minimum"]))
        rows["peak"] = np.where(peak > 0, peak / rows["largest"], 0.0)
        products = (left["sketch"].astype(float) * right["sketch"]).sum(axis=-1)
        norms = [np.sqrt(np.square(side["sketch"].astype(float)).sum(axis=-1)) for side in (left, right)]
        rows["cosine"] = np.where(distance == 0.0, 1.0, products / (norms[0] * norms[1]))
        bare = np.isnan(left["sketch"][:, 0]) | np.isnan(right["sketch"][:, 0])
        # Numbers that stand for infinity overflow the sums of a sketch.
        overflown = np.isinf(left["sketch"]).any(axis=-1) | np.isinf(right["sketch"]).any(axis=-1)
        one_is_zero = np.isnan(rows["cosine"]) & ~bare & ~overflown & ~np.isnan(distance)
        rows["cosine"][one_is_zero] = 0.0
        if (bare | overflown).any():  # imported from a tool that keeps four numbers of a tensor
            distance = np.where(bare | overflown, _least_distance(left, right), distance)
    digests = (left["digest"] != 0) & (right["digest"] != 0) & same_dtype
    alike = _same_statistics(left, right) & (distance == 0.0) & ~np.isnan(rows["cosine"])
    rows["equal"] = np.where(digests, left["digest"] == right["digest"], alike)
    rows["estimated"] = ~(digests & rows["equal"])
    rows["distance"] = distance
    rows["zeros_differ"] = np.abs(left["zeros"] - right["zeros"])
    rows["bad_candidate"] = right["nan"] + right["positive_infinity"] + right["negative_infinity"]
    rows["candidate_rms"] = _root_mean_square(right, rows["bad_candidate"])
    rows["bad_mismatch"] = sum(
        np.abs(left[name] - right[name]) for name in ("nan", "positive_infinity", "negative_infinity")
    )


def _least_distance(left: Columns, right: Columns) -> Columns:
    """What |a - b| / |a| is at least, from the largest, smallest and mean element and the norm of each: none of them
    differs by more than the tensors do. NaN where nothing of both is known. It proves that tensors differ, never that
    they do not: ``cosine`` stays NaN."""
    root = np.sqrt(np.maximum(left["count"], 1))
    scale = np.where(np.isnan(left["norm"]), _largest(left) * root, left["norm"])
    extremes = np.fmax(np.abs(left["maximum"] - right["maximum"]), np.abs(left["minimum"] - right["minimum"]))
    sums = np.fmax(np.abs(left["norm"] - right["norm"]), np.abs(left["mean"] - right["mean"]) * root)
    # Those tools sum in the type of the tensor, so that two sums of the same elements may differ by that much.
    least = np.fmax(extremes / scale, np.maximum(sums / scale - _SUMMED, 0.0))
    return np.where((extremes == 0.0) & ~(sums > _SUMMED * scale), 0.0, least)


def _same_statistics(left: Columns, right: Columns) -> Columns:
    same = np.ones(len(left), dtype=bool)
    for name in ("minimum", "maximum", "mean", "norm"):
        same &= (left[name] == right[name]) | (np.isnan(left[name]) & np.isnan(right[name]))
    for name in ("count", "nan", "positive_infinity", "negative_infinity", "zeros"):
        same &= left[name] == right[name]
    return same


def _take_over(comparison: Columns, rows: Columns, chosen: Places) -> None:
    """Replaces estimates by what was found in the bytes."""
    with np.errstate(all="ignore"):
        difference = np.sqrt(comparison["difference_squares"])
        scale = np.sqrt(comparison["reference_squares"])
        norms = scale * np.sqrt(comparison["candidate_squares"])
        distance = np.where(difference == 0.0, 0.0, difference / scale)
        peak = np.where(comparison["max_abs"] == 0.0, 0.0, comparison["max_abs"] / comparison["reference_max"])
        cosine = np.where(norms > 0, comparison["dot"] / norms, np.where(difference == 0.0, 1.0, 0.0))
        finite = np.sqrt(np.maximum(comparison["both_finite"], 1))
        rms = scale / finite
    rows["distance"][chosen] = distance
    rows["peak"][chosen] = peak
    rows["cosine"][chosen] = cosine
    rows["equal"][chosen] = comparison["equal"] == comparison["count"]
    rows["estimated"][chosen] = False
    rows["bad_mismatch"][chosen] = comparison["nan_mismatch"] + comparison["infinity_mismatch"]
    without = rows["note"][chosen] != 0
    rows["rms"][chosen] = np.where(without, rms, rows["rms"][chosen])
    rows["candidate_rms"][chosen] = np.sqrt(comparison["candidate_squares"]) / finite
    rows["largest"][chosen] = np.where(without, comparison["reference_max"], rows["largest"][chosen])
    rows["note"][chosen] = 0


def _parts(order: Places, nbytes: Integers) -> Iterator[Places]:
    """Slices of about equal bytes."""
    if not len(order):
        return
    ends = np.cumsum(nbytes[order])
    number = ends // _PART_BYTES
    for part in np.split(order, np.flatnonzero(np.diff(number)) + 1):
        yield np.ascontiguousarray(part)


def _statistics(trace: Trace, tensors: Integers) -> tuple[Columns, Columns]:
    """STATISTICS rows of tensors, and which of them have any."""
    distinct, inverse = np.unique(tensors, return_inverse=True)
    found = trace.statistics_rows(distinct)
    rows = np.zeros(len(distinct), dtype=STATISTICS)
    present = np.zeros(len(distinct), dtype=bool)
    for index, tensor in enumerate(distinct.tolist()):
        row = found.get(tensor)
        if row is not None:
            rows[index] = row
            present[index] = True
    return rows[inverse], present[inverse]


def _by_layout(trace: Trace, layouts: Integers, value: Callable[[Layout], int]) -> Columns:
    distinct, inverse = np.unique(layouts, return_inverse=True)
    return np.array([value(trace.layouts[number]) for number in distinct.tolist()], dtype=np.int64)[inverse]


def _is_complex(layout: Layout) -> bool:
    name = layout.dtype.rpartition(".")[2]
    return name in DTYPES and DTYPES[name].is_complex


def _sizes(trace: Trace, layouts: Integers) -> Columns:
    return _by_layout(trace, layouts, lambda layout: int(np.prod(layout.shape, dtype=np.int64)))


def _as_array(trace: Trace) -> Integers:
    return np.fromiter(trace.stored, dtype=np.int64, count=len(trace.stored))
