"""Whether outputs can tell: agreement of numbers that would be the same whatever happened before them proves nothing.

What is seen of the numbers alone: one sample, all equal, all samples alike, nothing but zeros and ones. And what is
measured by the hook of a stage with an eager model: how far its outputs move when a layer's weights, or the inputs,
move by a tenth. A layer that moves and does not show in the outputs could hold anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trueline.dtypes import dtype_named
from trueline.frameworks.probing import Leaf, Probing, Wide, changed_leaves, everything_in
from trueline.pipeline.gold import error_of
from trueline.pipeline.recording import Point, doubles

MOVED = 0.1
"""By which share of its size a layer is moved."""
MOST_MOVES = 16
"""So many layers are moved, evenly from the first to the last: each costs a run of the model."""
LEAST_SEEN = 0.5
"""The share of the layers that must show."""
_SAME = 1e-6
"""Relative: what is nearer differs by rounding."""

Doubles = np.ndarray[Any, np.dtype[np.float64]]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Run = Callable[..., Mapping[str, Leaf]]


def why_blind(values: Doubles) -> str:
    """Why agreement with these numbers says nothing; empty where it says something. Samples lie along the first of
    several axes."""
    if not values.size:
        return "there is no number"
    if not np.isfinite(values).any():
        return "none is finite"
    kept = np.where(np.isfinite(values), values, 0.0)
    near = _SAME * float(np.max(np.abs(kept)))
    if values.size > 1 and float(np.ptp(kept)) <= near:
        return f"all {values.size} are {kept.flat[0]:.6g}"
    if values.size == 1 and kept.flat[0] in (0.0, 1.0):
        return f"it is {kept.flat[0]:g}"
    if values.ndim > 1 and len(values) == 1:
        return "there is one sample"
    if values.ndim > 1 and float(np.max(np.ptp(kept, axis=0))) <= near:
        return f"all {len(values)} samples give the same"
    if values.ndim > 1 and values.shape[-1] > 1 and _saturated(kept):
        return "they are saturated: every number is 0, 1 or -1"
    return ""


def _saturated(values: Doubles) -> bool:
    return bool((np.minimum(np.abs(values), np.abs(np.abs(values) - 1.0)) <= _SAME).all())


@dataclass(frozen=True, slots=True)
class Power:
    """How far outputs move, relative to their size: by a layer, and by the inputs (None where they are no floats)."""

    layers: Mapping[str, float]
    inputs: float | None

    def unseen(self, limit: float) -> list[str]:
        """The layers whose move does not show beyond what a comparison allows."""
        return [name for name, moved in self.layers.items() if not moved > limit]

    def why_blind(self, limit: float) -> str:
        if self.inputs is not None and not self.inputs > limit:
            return f"inputs moved by {MOVED:.0%} do not show in them"
        unseen = self.unseen(limit)
        if len(unseen) <= (1.0 - LEAST_SEEN) * len(self.layers):
            return ""
        return (f"{len(unseen)} of {len(self.layers)} layers whose weights were moved by {MOVED:.0%} do not show in "
                f"them, {unseen[0]} for one")  # fmt: skip


def power_of(point: Point) -> Power | None:
    """What the hook measured; None where it could not."""
    found = point.facts.get("power")
    if not isinstance(found, Mapping) or not isinstance(layers := found.get("layers"), Mapping):
        return None
    inputs = found.get("inputs")
    try:
        return Power({str(name): float(moved) for name, moved in layers.items()},
                     None if inputs is None else float(inputs))  # fmt: skip
    except (TypeError, ValueError):
        return None


def measured_power(tools: Probing, wide: Wide, arguments: Arguments, run: Run) -> dict[str, Any]:
    """Moves layers and inputs of a copy of the model, one after another; gives the facts. ``run`` runs it."""
    before = {path: doubles(leaf) for path, leaf in run(*arguments).items()}
    layers = {}
    for name, value in _chosen([*tools.parameters(wide.model)], tools):
        with tools.nudged(value, _step(doubles(tools.leaf(value)))):
            layers[name] = _moved(before, run(*arguments))
    moved = changed_leaves(arguments, lambda leaf: _nudged_input(tools, leaf))
    floats = any(_is_float(tools, leaf) for leaf in everything_in(arguments))
    return {"layers": layers, "inputs": _moved(before, run(*moved)) if floats else None}


def _chosen(named: Sequence[tuple[str, Any]], tools: Probing) -> list[tuple[str, Any]]:
    """Some of the tensors of floats, from the first to the last."""
    floats = [(name, value) for name, value in named if _is_float(tools, value)]
    if len(floats) <= MOST_MOVES:
        return floats
    places = np.unique(np.linspace(0, len(floats) - 1, MOST_MOVES).round().astype(int))
    return [floats[place] for place in places.tolist()]


def _is_float(tools: Probing, value: Any) -> bool:
    if not tools.is_tensor(value):
        return False
    leaf = tools.leaf(value)
    return leaf.bits.size > 0 and dtype_named(leaf.dtype).is_float


def _nudged_input(tools: Probing, leaf: Any) -> Any:
    return tools.added(leaf, _step(doubles(tools.leaf(leaf)))) if _is_float(tools, leaf) else leaf


def _step(values: Doubles) -> Doubles:
    """A step in all directions at once, of a tenth of the size of what is moved: a layer that is multiplied as a whole
    may do nothing behind a normalisation."""
    size = math.sqrt(float(np.mean(np.square(values)))) or MOVED
    signs = np.random.default_rng(values.size).choice((-1.0, 1.0), size=values.shape)
    return np.asarray(MOVED * size * signs, np.float64)


def _moved(before: Mapping[str, Doubles], after: Mapping[str, Leaf]) -> float:
    """How far the output that moves most has moved; 0.0 where there is nothing to be told."""
    worst = 0.0
    for path, right in before.items():
        leaf = after.get(path)
        if leaf is None or leaf.bits.shape != right.shape or not right.size:
            continue
        error = error_of(doubles(leaf), right)
        worst = max(worst, 1.0 if error.bad else min(error.spread, 1.0))
    return worst
