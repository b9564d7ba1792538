"""What two frameworks do differently by definition: names, layouts of weights, running statistics.

Each row of the tables says what is the same under which other name, or how one side's number follows from the other's,
so that a wrong value is still found. Names that no row knows are laid side by side by their numbers, and where these
differ as well, by size and order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trueline.ops.binding import bind
from trueline.ops.names import canonical
from trueline.store.columns import PHASES
from trueline.store.trace import Trace
from trueline.tree import tensor_paths

Array = Any

LAST: Mapping[str, str] = {"_mean": "running_mean", "_variance": "running_var"}
"""Last parts of names of Paddle's that torch calls otherwise."""
WITHIN: Mapping[str, str] = {"cross_attn": "multihead_attn"}
"""The same of parts before the last."""
PACKED: Mapping[str, tuple[str, ...]] = {
    "in_proj_weight": ("q_proj.weight", "k_proj.weight", "v_proj.weight"),
    "in_proj_bias": ("q_proj.bias", "k_proj.bias", "v_proj.bias"),
}
"""One parameter of torch's that is several of Paddle's, one after the other along its first axis."""
_BACKWARD = "backward"


def common(name: str) -> str:
    """A name as torch would have it, as far as the tables know."""
    parts = name.split(".")
    return ".".join([*(WITHIN.get(part, part) for part in parts[:-1]), LAST.get(parts[-1], parts[-1])])


def packed(name: str) -> tuple[str, ...]:
    """The common names of the parts of a parameter; empty where it is one everywhere."""
    start, dot, last = name.rpartition(".")
    return tuple(start + dot + part for part in PACKED.get(last, ()))


def transposed(trace: Trace) -> frozenset[int]:
    """The values that Paddle's linear layers of a trace take as their weights: there they lie [in, out], in torch
    [out, in]."""
    found = set[int]()
    linear = {number for number, name in trace.names.items() if _is_paddles_linear(name)}
    for position in np.flatnonzero(np.isin(trace.column("api"), list(linear))).tolist():
        if PHASES[int(trace.column("phase")[position])].value == _BACKWARD:
            continue
        path = bind(trace.names[int(trace.column("api")[position])], _arguments(trace, position)).tensor("weight")
        for _, leaf, _, tensor, _ in trace.visits_of(position).tolist():
            if path is not None and trace.path_of(position, leaf) == path:
                found.add(tensor)
    return frozenset(found)


def _is_paddles_linear(name: str) -> bool:
    return name.startswith("paddle.") and canonical(name) == "linear"


def _arguments(trace: Trace, position: int) -> Any:
    return trace.trees.get(int(trace.column("arguments")[position])) or {}


@dataclass(frozen=True, slots=True)
class Averaging:
    """A call of torch's that moves a running variance: over how many elements of a channel, and by what share."""

    count: int
    share: float


def averagings(trace: Trace) -> dict[int, Averaging]:
    """Of each running variance that a call of torch's batch_norm was given, by its value."""
    found: dict[int, Averaging] = {}
    numbers = {n for n, name in trace.names.items() if name.startswith("torch.") and canonical(name) == "batch_norm"}
    for position in np.flatnonzero(np.isin(trace.column("api"), list(numbers))).tolist():
        if PHASES[int(trace.column("phase")[position])].value == _BACKWARD:
            continue
        arguments = _arguments(trace, position)
        bound = bind(trace.names[int(trace.column("api")[position])], arguments)
        paths = {path: leaf for leaf, path in tensor_paths(arguments)}
        visits = {visit[1]: visit for visit in trace.visits_of(position).tolist()}
        given = visits.get(paths.get(bound.tensor("input") or "", -1))
        variance = visits.get(paths.get(bound.tensor("running_var") or "", -1))
        if given is None or variance is None or not bound.get("training"):
            continue
        shape = trace.layouts[given[4]].shape
        count = int(np.prod(shape)) // max(shape[1], 1) if len(shape) > 1 else 0
        found[variance[3]] = Averaging(count, bound.number("momentum", 0.1))
    return found


def biased(before: tuple[Array, Array], after: Array, averaging: Averaging) -> Array:
    """What Paddle's running variance must be where torch's went from the first of ``before`` to ``after``: Paddle
    averages the biased variance, torch the unbiased one. Sums of a sketch follow the same rule."""
    theirs, ours = before
    added = after - (1.0 - averaging.share) * theirs
    return (1.0 - averaging.share) * ours + added * (averaging.count - 1) / averaging.count
