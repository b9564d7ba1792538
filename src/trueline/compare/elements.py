"""Pairs of tensors as evidence for the standards that look at single elements.

With two tensors the reference is both what is right and an honest implementation of it. With three there is a gold
(the reference), and a peer whose errors against that gold say what an honest implementation is off by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.cases import Evidence
from trueline.compare.apex import apex_numbers
from trueline.dtypes import DType
from trueline.numerics import cpu
from trueline.numerics.cpu import widen
from trueline.numerics.evidence import measure
from trueline.numerics.predecessors import predecessor_numbers
from trueline.records import ErrorRatio

Array = NDArray[Any]

_METRICS = (
    ("small value share", "small_share"),
    ("RMSE", "rmse"),
    ("max relative error", "max_rel"),
    ("mean relative error", "mean_rel"),
    ("balance", "balance"),
)
"""What is held against each other in three-way comparisons, as APEX names it -> its number."""
_NOTHING_TO_DIVIDE_BY = 10000.0
"""What APEX writes for the ratio to an error of zero."""


@dataclass(frozen=True, slots=True)
class Elements:
    """One tensor: its storage bits in its shape."""

    bits: Array
    dtype: DType

    def values(self) -> Array:
        """As numbers: exact types as they are, the others in float64 or complex128."""
        return np.asarray(self.bits if self.dtype.is_exact else widen(self.bits, self.dtype)).reshape(self.bits.shape)


def structure_of(reference: Elements, candidate: Elements) -> str:
    """What keeps two tensors from being compared element by element; empty where nothing does."""
    kinds = [_kind(one.dtype) for one in (reference, candidate)]
    if kinds[0] != kinds[1]:
        return f"dtype {candidate.dtype.name} instead of {reference.dtype.name}"
    if reference.bits.shape != candidate.bits.shape:
        return f"shape {list(candidate.bits.shape)} instead of {list(reference.bits.shape)}"
    return ""


def two_way(part: str, path: str, reference: Elements, candidate: Elements) -> Evidence:
    """The candidate against the reference, which is trusted and honest."""
    dtype, shape = candidate.dtype, candidate.bits.shape
    if problem := structure_of(reference, candidate):
        return Evidence(part, path, dtype.name, shape, structure=problem, exact=dtype.is_exact)
    theirs, ours = reference.values(), candidate.values()
    direct = cpu.compare(reference.bits, reference.dtype, candidate.bits, dtype)
    numbers = predecessor_numbers(ours, theirs, theirs, dtype)
    for name, value in apex_numbers(ours, theirs, dtype, reference.dtype).items():
        numbers[f"apex_{name}"] = value
        if name in ("max_abs", "unequal") or name.startswith("within_"):
            numbers[f"direct_{name}"] = value
    return Evidence(
        part, path, dtype.name, shape, exact=dtype.is_exact, gold=direct, honest=None, direct=direct, numbers=numbers
    )


def three_way(part: str, path: str, gold: Elements, candidate: Elements, peer: Elements) -> Evidence:
    """The candidate's and the peer's errors against the gold."""
    dtype, shape = candidate.dtype, candidate.bits.shape
    if problem := structure_of(gold, candidate):
        return Evidence(part, path, dtype.name, shape, structure=problem, exact=dtype.is_exact)
    if problem := structure_of(gold, peer):
        return Evidence(part, path, dtype.name, shape, note=f"the baseline has {problem}", exact=dtype.is_exact)
    same = peer.dtype is dtype
    truth = _gold_for(gold, dtype)
    found = measure(part, path, candidate.bits, peer.bits if same else None, truth, dtype=dtype)
    values = gold.values()
    ours, theirs = candidate.values(), peer.values()
    numbers = {**found.numbers, **predecessor_numbers(ours, theirs if same else None, values, dtype)}
    for prefix, side, numeric in (("apex_", candidate, ours), ("apex_honest_", peer, theirs)):
        for name, value in apex_numbers(numeric, values, side.dtype, gold.dtype).items():
            numbers[prefix + name] = value
    numbers["bench_unequal"] = numbers.get("apex_unequal", numbers.get("bench_unequal", 0.0))
    honest = cpu.compare(gold.bits, gold.dtype, peer.bits, peer.dtype)
    direct = cpu.compare(peer.bits, peer.dtype, candidate.bits, dtype)
    return replace(found, honest=honest, direct=direct, numbers=numbers)


def error_ratios(evidence: Evidence) -> tuple[ErrorRatio, ...]:
    """The candidate's errors in units of the peer's, metric by metric; none where nothing was measured."""
    found = []
    for words, name in _METRICS:
        ours, theirs = evidence.numbers.get(f"apex_{name}"), evidence.numbers.get(f"apex_honest_{name}")
        if ours is not None and theirs is not None:
            found.append(ErrorRatio(words, ours, theirs, ratio_of(ours, theirs)))
    if evidence.gold is not None and evidence.honest is not None and not evidence.exact:
        for words, name in (("distance", "normalized"), ("max absolute error", "max_abs"), ("max ULP", "max_ulp")):
            ours, theirs = getattr(evidence.gold, name), getattr(evidence.honest, name)
            found.append(ErrorRatio(words, ours, theirs, ratio_of(ours, theirs)))
    elif evidence.exact and "apex_unequal" in evidence.numbers:
        ours, theirs = evidence.numbers["apex_unequal"], evidence.numbers["apex_honest_unequal"]
        found.append(ErrorRatio("unequal elements", ours, theirs, ratio_of(ours, theirs)))
    return tuple(found)


def ratio_of(ours: float, theirs: float) -> float:
    """Of two errors, as APEX takes it: nothing to nothing is 1, something to nothing 10000."""
    if theirs == 0.0:
        return 1.0 if ours == 0.0 else _NOTHING_TO_DIVIDE_BY
    return abs(ours / theirs) if math.isfinite(theirs) else math.nan


def _gold_for(gold: Elements, dtype: DType) -> Array:
    if dtype.is_exact:
        return gold.bits.astype(dtype.storage)
    return np.asarray(widen(gold.bits, gold.dtype)).reshape(gold.bits.shape)


def _kind(dtype: DType) -> str:
    return "exact" if dtype.kind in "iu" else dtype.kind
