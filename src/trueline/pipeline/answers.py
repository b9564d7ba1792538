"""What a stage says in the end: labels, and the metrics of its script.

A label may change where the two best classes are as near to each other as errors of the permitted size are large; any
other change is a failure, however small the errors are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from trueline.dtypes import dtype_named
from trueline.frameworks.probing import Leaf
from trueline.pipeline.gold import blind_error
from trueline.pipeline.recording import doubles
from trueline.pipeline.sides import Asked, Side, Yardstick
from trueline.pipelines import NumberFinding
from trueline.records import Verdict

_PICTURE = 4
_METRIC_FLOOR = 1e-6
_METRIC_TIMES = 10.0
"""Relative errors of outputs that a metric may show."""
_QUANTISED = 0.02

Doubles = np.ndarray[Any, np.dtype[np.float64]]


def judge_answers(trusted: Side, side: Side, asked: Asked, yardstick: Yardstick | None) -> Iterator[NumberFinding]:
    """Labels of the first output that has classes."""
    for (path, mine), theirs in zip(side.outputs.items(), trusted.outputs.values(), strict=False):
        if _has_classes(mine) and _has_classes(theirs):
            made, right = doubles(mine), doubles(theirs)
            count = min(len(made), len(right))
            if made[:count].shape != right[:count].shape or not np.isfinite(right[:count]).all():
                return
            yield _labels(path, made[:count], right[:count], trusted, side, asked, yardstick)
            return


def _has_classes(leaf: Leaf) -> bool:
    return dtype_named(leaf.dtype).is_float and leaf.bits.ndim >= 2 and leaf.bits.shape[_axis(leaf.bits.ndim)] >= 2


def _axis(dimensions: int) -> int:
    """Classes lie along the last axis, in pictures along the second."""
    return 1 if dimensions == _PICTURE else -1


def _labels(
    path: str, made: Doubles, right: Doubles, trusted: Side, side: Side, asked: Asked, yardstick: Yardstick | None
) -> NumberFinding:
    axis = _axis(right.ndim)
    gold = None if yardstick is None else yardstick.gold_for(path, right.shape)
    base = right if gold is None else gold
    allowed = blind_error(asked.coarsest([*side.outputs.values()])) if gold is None or yardstick is None else (
        yardstick.allowed(path, asked))  # fmt: skip
    reach = 2.0 * allowed.peak * float(np.max(np.abs(base), initial=0.0))
    if asked.dtype == "int8":
        reach = max(reach, _QUANTISED * float(np.ptp(base)))
    ordered = np.sort(base, axis=axis)
    margins = np.take(ordered, -1, axis=axis) - np.take(ordered, -2, axis=axis)
    changed = np.argmax(made, axis=axis) != np.argmax(right, axis=axis)
    wrong = changed & (margins > reach)
    numbers = {"changed": float(changed.sum()), "count": float(changed.size), **_accuracies(made, right, trusted, side)}
    what = side.what("labels")
    if wrong.any():
        place = int(np.argmax(wrong.reshape(-1)))
        reason = f"{int(wrong.sum())} of {wrong.size} labels differ from {trusted.name}, the first at {place}"
        return NumberFinding(what, Verdict.FAIL, reason, side.stage, numbers)
    text = f"all {changed.size} agree with {trusted.name}"
    if changed.any():
        text = f"{int(changed.sum())} of {changed.size} differ, where the two best classes are as near as rounding"
    return NumberFinding(what, Verdict.PASS, text, numbers=numbers)


def _accuracies(made: Doubles, right: Doubles, trusted: Side, side: Side) -> dict[str, float]:
    """The share of right labels on both sides, where the labels are known."""
    known = side.point.facts.get("labels") or trusted.point.facts.get("labels")
    axis = _axis(right.ndim)
    best = np.argmax(made, axis=axis)
    if known is None or np.shape(known)[:1] != best.shape[:1] or np.shape(known) != best.shape:
        return {}
    truth = np.asarray(known)
    return {
        "accuracy": float(np.mean(best == truth)),
        "accuracy before": float(np.mean(np.argmax(right, axis=axis) == truth)),
    }


def judge_metrics(trusted: Side, side: Side, asked: Asked, yardstick: Yardstick | None) -> Iterator[NumberFinding]:
    """The numbers of the two scripts that have the same name."""
    mine = side.point.facts.get("metrics") or {}
    theirs = trusted.point.facts.get("metrics") or {}
    path = next(iter(side.outputs), "out")
    known = yardstick is not None and yardstick.error(path) is not None
    allowed = yardstick.allowed(path, asked) if known and yardstick is not None else blind_error(side.dtype)
    for name in sorted(mine.keys() & theirs.keys()):
        before, after = float(theirs[name]), float(mine[name])
        scale = max(abs(before), abs(after))
        limit = max(_METRIC_FLOOR, _METRIC_TIMES * allowed.spread) * scale
        numbers = {"before": before, "after": after, "limit": limit}
        what = side.what(f"metric {name}")
        if before == after or abs(after - before) <= limit:
            yield NumberFinding(what, Verdict.PASS, f"{after:.6g}, {before:.6g} before", numbers=numbers)
        else:
            reason = f"{after:.6g}, but {before:.6g} in {trusted.name}"
            yield NumberFinding(what, Verdict.FAIL, reason, side.stage, numbers)
