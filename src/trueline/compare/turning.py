"""Tensors that two frameworks lay out differently: the weight of a linear layer is [out, in] in torch and [in, out] in
Paddle, the heads of attention come before or after the sequence.

Where the bytes of both were kept, every order of the axes that gives the candidate's shape is tried, and the one that
brings the two together counts. Where only statistics were kept, what does not depend on the order of the elements
(norm, mean, minimum, maximum, number of zeros) says whether the two can be the same, and how far apart they are at
least.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np

from trueline.dtypes import DTYPES, dtype_named
from trueline.numerics import cpu
from trueline.numerics.cpu import widen
from trueline.records import Measurement
from trueline.store.reader import RankReader
from trueline.store.tables import Layout
from trueline.store.trace import Trace

_APART = 1e-3
"""Tensors that are nearer than this lie alike."""
_NEARER = 0.25
"""How much nearer turning must bring two tensors to be believed."""
_SAME_STATISTICS = 1e-3
_MOST_ELEMENTS = 1 << 24
_MOST_AXES = 5


@dataclass(frozen=True, slots=True)
class Turned:
    """Two tensors that lie differently: the axes of the reference in the order of the candidate's (empty where only
    statistics tell that they are the same), and how far apart they are then."""

    axes: tuple[int, ...]
    distance: float
    peak: float
    cosine: float
    equal: bool
    estimated: bool
    measurement: Measurement | None = None


class Turner:
    """Finds how the tensors of one rank lie to each other."""

    def __init__(self, readers: tuple[RankReader, RankReader], traces: tuple[Trace, Trace]) -> None:
        self._readers = readers
        self._traces = traces

    def turn(self, pair: tuple[int, int, int, int], distance: float, like: Turned | None = None) -> Turned | None:
        """Of (reference tensor, layout, candidate tensor, layout) at that distance as they lie; None where they lie
        alike, or nothing can be told. ``like`` is how something lies that must lie as these do: a parameter, of whose
        gradient is asked."""
        left, right = self._traces[0].layouts[pair[1]], self._traces[1].layouts[pair[3]]
        if left.dtype not in DTYPES or right.dtype not in DTYPES:
            return None
        if len(left.shape) < 2 or math.prod(left.shape) != math.prod(right.shape):
            return None
        alike = left.shape == right.shape
        if alike and not distance > _APART:
            return None
        if all(tensor in trace.stored for tensor, trace in zip((pair[0], pair[2]), self._traces, strict=True)):
            known = () if like is None else like.axes
            return self._from_bytes(pair, left, right, distance if alike else math.inf, known)
        return self._from_statistics(pair, math.inf if like is not None else _SAME_STATISTICS)

    def _from_bytes(
        self, pair: tuple[int, int, int, int], left: Layout, right: Layout, distance: float, known: tuple[int, ...]
    ) -> Turned | None:
        if len(left.shape) > _MOST_AXES or math.prod(left.shape) > _MOST_ELEMENTS:
            return None
        theirs = self._readers[0].tensor_bits(pair[0], left.dtype, left.shape)
        ours = self._readers[1].tensor_bits(pair[2], right.dtype, right.shape)
        dtypes = dtype_named(left.dtype), dtype_named(right.dtype)
        sides = zip((theirs, ours), dtypes, strict=True)
        wide = [np.asarray(widen(bits, dtype)).reshape(bits.shape) for bits, dtype in sides]
        tried = ((_distance(np.transpose(wide[0], axes), wide[1]), axes) for axes in orders(left.shape, right.shape))
        best = (0.0, known) if known in orders(left.shape, right.shape) else min(tried, default=None)
        if best is None or not best[0] <= _NEARER * min(distance, 1.0):
            return None
        turned = np.ascontiguousarray(np.transpose(theirs, best[1]))
        found = cpu.compare(turned, dtypes[0], np.ascontiguousarray(ours), dtypes[1])
        peak = found.max_abs / found.reference_max if found.max_abs else 0.0
        equal = found.equal == found.count
        return Turned(best[1], found.normalized, peak, found.cosine, equal, False, found)

    def _from_statistics(self, pair: tuple[int, int, int, int], most: float) -> Turned | None:
        rows = [trace.statistics_rows([tensor]).get(tensor)
                for trace, tensor in zip(self._traces, (pair[0], pair[2]), strict=True)]  # fmt: skip
        if rows[0] is None or rows[1] is None:
            return None
        distance = order_free(rows[0], rows[1])
        if not (distance <= most and math.isfinite(distance)):
            return None
        return Turned((), distance, distance, 1.0, False, True)


def orders(shape: tuple[int, ...], wanted: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Every order of the axes but their own that makes ``wanted`` of ``shape``. Axes of size 1 do not count."""
    if len(shape) != len(wanted):
        return
    for axes in permutations(range(len(shape))):
        if tuple(shape[axis] for axis in axes) == wanted and [a for a in axes if shape[a] > 1] != sorted(
            a for a in axes if shape[a] > 1
        ):
            yield axes


def _distance(reference: Any, candidate: Any) -> float:
    with np.errstate(all="ignore"):
        scale = float(np.linalg.norm(reference))
        gap = float(np.linalg.norm(reference - candidate))
    return gap / scale if scale > 0.0 else (0.0 if gap == 0.0 else math.inf)


def order_free(left: Any, right: Any) -> float:
    """How far apart two tensors are at least, whatever the order of their elements; infinite where they cannot be the
    same."""
    counted = ("count", "nan", "positive_infinity", "negative_infinity")
    if any(left[name] != right[name] for name in counted):
        return math.inf
    norm, largest = float(left["norm"]), max(abs(float(left["minimum"])), abs(float(left["maximum"])))
    if norm == 0.0 or largest == 0.0:
        return 0.0 if float(right["norm"]) == 0.0 else math.inf
    rms = norm / math.sqrt(max(int(left["count"]), 1))
    return max(
        abs(norm - float(right["norm"])) / norm,
        abs(float(left["mean"]) - float(right["mean"])) / rms,
        *(abs(float(left[name]) - float(right[name])) / largest for name in ("minimum", "maximum")),
    )
