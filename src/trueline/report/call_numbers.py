"""How large the numbers of every call of a Run are, as columns: what the pages of a Run and of an overflow report draw.

Of each call's outputs: the largest magnitude (as a power of two), the room that is left to the limit of the dtype in
bits, norm and mean, how many elements are NaN or infinite; and of a backward call the norm of the gradients that it
gives to parameters.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trueline.records import Phase, Role
from trueline.store import Trace
from trueline.store.columns import NONE, PHASES, ROLES

Vector = np.ndarray[Any, Any]

_MOST = 2**32 - 1
"""The largest number that a column of a page can say."""
_BACKWARD = PHASES.index(Phase.BACKWARD)
_OUTPUT = ROLES.index(Role.OUTPUT)


def call_numbers(trace: Trace) -> dict[str, Vector]:
    """The columns of one rank; NaN where nothing is known."""
    calls, found, limits = _outputs(trace)
    count = len(trace)
    largest, room = np.full(count, -np.inf), np.full(count, np.inf)
    squares, sums = np.zeros(count), np.zeros(count)
    nan, infinite, elements = (np.zeros(count, dtype=np.int64) for _ in range(3))
    with np.errstate(all="ignore"):
        bits = np.log2(np.fmax(np.abs(found["minimum"]), np.abs(found["maximum"])))
        here = ~np.isnan(bits)
        np.maximum.at(largest, calls[here], bits[here])
        np.minimum.at(room, calls[here], (limits - bits)[here])
        np.add.at(squares, calls, np.nan_to_num(found["norm"]) ** 2)
        np.add.at(sums, calls, np.nan_to_num(found["mean"]) * found["count"])
        np.add.at(nan, calls, found["nan"])
        np.add.at(infinite, calls, found["positive_infinity"] + found["negative_infinity"])
        np.add.at(elements, calls, found["count"])
        known = ~np.isinf(largest) | (elements > 0)
        return {
            "largest": np.where(np.isinf(largest), np.nan, largest).astype("<f4"),
            "headroom": np.where(np.isfinite(room), room, np.nan).astype("<f4"),
            "norm": np.where(known, np.sqrt(squares), np.nan).astype("<f4"),
            "mean": np.where(elements > 0, sums / np.maximum(elements, 1), np.nan).astype("<f4"),
            "gradient": _parameter_gradients(trace).astype("<f4"),
            "nan": np.minimum(nan, _MOST),
            "infinite": np.minimum(infinite, _MOST),
            "elements": np.minimum(elements, _MOST),
        }


def _outputs(trace: Trace) -> tuple[Vector, Vector, Vector]:
    """Of every output that has statistics: the position of its call, the statistics, the limit of its dtype."""
    outputs = trace.visits[trace.visits[:, 2] == _OUTPUT]
    numbers, known = _numbers_of(trace, outputs[:, 3])
    outputs = outputs[known]
    calls = np.searchsorted(trace.column("id"), outputs[:, 0])
    return calls, numbers, trace.limits(outputs[:, 4])


def _numbers_of(trace: Trace, tensors: Vector) -> tuple[Vector, Vector]:
    """The statistics of those of these tensors that have any, and which of them these are."""
    extremes = trace.extremes
    if not len(extremes):
        return extremes, np.zeros(len(tensors), dtype=bool)
    place = np.minimum(np.searchsorted(extremes["tensor"], tensors), len(extremes) - 1)
    known = extremes["tensor"][place] == tensors
    return extremes[place[known]], known


def _parameter_gradients(trace: Trace) -> Vector:
    """The norm of the gradients that each backward call gives to parameters: to inputs of its forward call that want a
    gradient and that no call had made."""
    found = np.full(len(trace), np.nan)
    made = _made_by_calls(trace)
    ids, first = trace.column("id"), np.searchsorted(trace.visits[:, 0], trace.column("id"))
    for backwards, forwards in _alike(trace, ids):
        squares = np.zeros(len(backwards))
        some = np.zeros(len(backwards), dtype=bool)
        for leaf, place in _pairs(trace, int(backwards[0]), int(forwards[0])):
            given, taken = trace.visits[first[backwards] + leaf], trace.visits[first[forwards] + place]
            is_parameter = ~np.isin(taken[:, 3], made)
            numbers, known = _numbers_of(trace, given[:, 3])
            here = np.flatnonzero(known)
            chosen = is_parameter[here]
            squares[here[chosen]] += _norms(numbers[chosen]) ** 2
            some[here[chosen]] = True
        found[backwards[some]] = np.sqrt(squares[some])
    return found


def _norms(numbers: Vector) -> Vector:
    """The norms of whole tensors: those of the finite elements say nothing where others are not finite."""
    bad = numbers["nan"] + numbers["positive_infinity"] + numbers["negative_infinity"] > 0
    return np.where(bad, np.nan, np.nan_to_num(numbers["norm"]))


def _made_by_calls(trace: Trace) -> Vector:
    """The tensors that calls gave, but for those of optimizers, which give parameters."""
    optimizers = trace.numbers_of("optimizer")
    makers = trace.column("id")[~np.isin(trace.column("context"), optimizers)]
    outputs = trace.visits[trace.visits[:, 2] == _OUTPUT]
    return np.unique(outputs[np.isin(outputs[:, 0], makers)][:, 3])


def _alike(trace: Trace, ids: Vector) -> list[tuple[Vector, Vector]]:
    """Backward calls and their forward calls, in groups that look the same: then the leaves of one speak for all."""
    backwards = np.flatnonzero((trace.column("phase") == _BACKWARD) & (trace.column("forward") != NONE))
    forwards = np.minimum(np.searchsorted(ids, trace.column("forward")[backwards]), max(len(ids) - 1, 0))
    known = ids[forwards] == trace.column("forward")[backwards] if len(backwards) else np.zeros(0, dtype=bool)
    backwards, forwards = backwards[known], forwards[known]
    if not len(backwards):
        return []
    visits = np.append(np.searchsorted(trace.visits[:, 0], ids), len(trace.visits))
    looks = np.column_stack(
        [trace.column(name)[side] for side in (backwards, forwards) for name in ("api", "arguments", "result")]
        + [visits[side + 1] - visits[side] for side in (backwards, forwards)]
    )
    which = np.unique(looks, axis=0, return_inverse=True)[1].reshape(-1)
    order = np.argsort(which, kind="stable")
    borders = np.flatnonzero(np.diff(which[order])) + 1
    return [(backwards[part], forwards[part]) for part in np.split(order, borders)]


def _pairs(trace: Trace, backward: int, forward: int) -> list[tuple[int, int]]:
    """Where in a backward call the gradient of a parameter may lie, and where in its forward call that is an input."""
    given, taken = trace.visits_of(backward), trace.visits_of(forward)
    inputs = {
        trace.path_of(forward, int(row[1])): place
        for place, row in enumerate(taken.tolist())
        if row[2] != _OUTPUT and trace.layouts[row[4]].requires_grad
    }
    paths = [(leaf, trace.path_of(backward, row[1])) for leaf, row in enumerate(given.tolist()) if row[2] == _OUTPUT]
    return [(leaf, inputs[path]) for leaf, path in paths if path in inputs]
