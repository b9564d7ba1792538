"""The yardstick between stages: how far what a stage gave lies from the float64 gold, beside how far eager lies.

The rule: a stage may be wrong by three times what eager execution in its dtype is, and by a floor of a few roundings,
in the root mean square and at the worst element. Eager's error in another dtype is told from the one that was measured:
errors grow with the model, and with the roundoff of the dtype they scale.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trueline.dtypes import dtype_named
from trueline.frameworks.probing import Leaf
from trueline.pipeline.recording import doubles

RATIO = 3.0
"""Times eager's own error, in the same dtype. Other kernels of float32 on the same model take a tenth to a third of
what this and the floor allow."""
SCALED_RATIO = 4.0
"""Times what eager's error would be in another dtype: that was not measured, only scaled. Healthy models in bfloat16
and float16 take a tenth of it."""
FLOOR, SCALED_FLOOR = 16.0, 4.0
"""Roundings, in the root mean square; narrow dtypes have fewer of them, since sums are made in float32."""
PEAK = 4.0
"""How much more is allowed at the worst element."""
BLIND = 256.0
"""Roundings that are allowed where there is no gold: nobody knows how much the model stretches them."""

GROWTH = 4096.0
"""Roundings beyond which eager's error is no longer one of rounding: then eager itself is wrong."""
MOST = 0.25
"""And in narrow dtypes, where so many roundings are everything."""

Doubles = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Error:
    """How far numbers lie from those that are right, relative to the size of the latter: in the root mean square, and
    at the worst element (in units of the largest). ``bad`` counts NaN and infinity where the right number is finite, or
    the other way round."""

    spread: float
    peak: float
    worst: int
    bad: int
    count: int


def error_of(made: Doubles, right: Doubles) -> Error:
    """The error of one tensor; both have the same shape."""
    made, right = made.reshape(-1), right.reshape(-1)
    alike = (np.isnan(made) & np.isnan(right)) | (made == right)
    finite = np.isfinite(made) & np.isfinite(right)
    bad = int(np.count_nonzero(~finite & ~alike))
    worst = int(np.argmax(~finite & ~alike)) if bad else 0
    if not finite.any():
        return Error(0.0, 0.0, worst, bad, made.size)
    difference = np.where(finite, made - np.where(finite, right, 0.0), 0.0)
    kept = right[finite]
    size, largest = math.sqrt(float(np.mean(np.square(kept)))), float(np.max(np.abs(kept)))
    spread = math.sqrt(float(np.mean(np.square(difference[finite]))))
    peak = float(np.max(np.abs(difference)))
    if not bad:
        worst = int(np.argmax(np.abs(difference)))
    return Error(_share(spread, size), _share(peak, largest), worst, bad, made.size)


def _share(part: float, whole: float) -> float:
    if part == 0.0:
        return 0.0
    return part / whole if whole > 0.0 else math.inf


@dataclass(frozen=True, slots=True)
class Allowed:
    """How far a stage may lie from the gold, and why."""

    spread: float
    peak: float
    why: str


def sane_error(dtype: str) -> float:
    """The largest error of eager that rounding explains."""
    return min(GROWTH * dtype_named(dtype).epsilon / 2, MOST)


def allowed_error(eager: Error, eager_dtype: str, dtype: str) -> Allowed:
    """What eager's measured error allows a stage that computes in ``dtype``."""
    mine, its = dtype_named(dtype).epsilon, dtype_named(eager_dtype).epsilon
    sane = sane_error(eager_dtype)
    eager = Error(min(eager.spread, sane), min(eager.peak, sane), 0, 0, eager.count)
    if mine <= its:
        grown, ratio, why = eager, RATIO, f"eager's own error is {eager.spread:.2g}"
    else:
        times = mine / its
        grown = Error(eager.spread * times, eager.peak * times, 0, 0, eager.count)
        ratio, why = SCALED_RATIO, f"eager's own error, scaled from {eager_dtype} to {dtype}, is {grown.spread:.2g}"
    floor = (FLOOR if mine <= its else SCALED_FLOOR) * max(mine, its) / 2
    return Allowed(ratio * grown.spread + floor, PEAK * (ratio * max(grown.spread, grown.peak) + floor), why)


def blind_error(dtype: str) -> Allowed:
    """What is allowed where there is no gold."""
    roundoff = dtype_named(dtype).epsilon / 2
    return Allowed(BLIND * roundoff, PEAK * BLIND * roundoff, f"there is no gold; {BLIND:g} roundings of {dtype}")


def coarsest(leaves: Mapping[str, Leaf], *others: str) -> str:
    """The coarsest floating dtype among outputs and what else was used; ``float32`` where there is none."""
    names = [leaf.dtype for leaf in leaves.values()] + [name for name in others if name]
    kinds = [dtype_named(name) for name in names if dtype_named(name).is_float]
    return max(kinds, key=lambda kind: kind.epsilon).name if kinds else "float32"


def relative_error(made: Mapping[str, Leaf], gold: Mapping[str, Leaf]) -> float:
    """The worst spread of all outputs; infinity where something is missing or not finite."""
    worst = 0.0
    for path, leaf in gold.items():
        if path not in made or made[path].bits.shape != leaf.bits.shape:
            return math.inf
        error = error_of(doubles(made[path]), doubles(leaf))
        worst = max(worst, math.inf if error.bad else error.spread)
    return worst
