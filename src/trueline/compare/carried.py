"""Values that a program holds from one step to the next: parameters that it updates by hand, running means, states.

A recording numbers the values of each step anew. Here the value that a step begins with gets the number of the value
that a call gave in an earlier step, where both have the same layout and, to the bit, the same statistics: then what
made it is known, and nobody takes it for a value from outside.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from trueline.compare.graph import ValueGraph
from trueline.store.columns import NONE, Integers
from trueline.store.trace import Trace

_TELLING = ("count", "minimum", "maximum", "mean", "norm", "nan", "zeros")
"""Statistics that unlike values hardly share; those that do are told apart by their sketches."""
_FEWEST = 8
"""Of fewer numbers than this, unrelated values may be alike."""
_MOST = 16
"""So many earlier values, the last ones first, are held against one by their sketches."""


def carry_over(trace: Trace, *, updates: bool) -> None:
    """Renumbers, in a loaded trace, the values that a step begins with and that an earlier step made. ``updates``: also
    those that an optimizer gave."""
    steps = trace.column("step")
    if len(steps) == 0 or steps[0] == steps[-1]:
        return
    graph = ValueGraph(trace)
    made, begun = _candidates(trace, graph, updates)
    same = _alike(trace, made, begun)
    if not same:
        return
    for visits in (trace.visits, trace.state_visits):
        column = visits[:, 3]
        for number in np.flatnonzero(np.isin(column, list(same))).tolist():
            column[number] = same[int(column[number])]


def _candidates(trace: Trace, graph: ValueGraph, updates: bool) -> tuple[Integers, Integers]:
    """The visits in which values were first seen that calls gave, and of those that came from outside in a later step
    than the first."""
    visits = trace.visits
    tensors, first = graph.first_sights
    given = graph.makers(tensors) != NONE
    position = np.searchsorted(trace.column("id"), visits[first, 0])
    optimizers = [] if updates else trace.numbers_of("optimizer")
    outside = ~np.isin(trace.column("context")[position], optimizers)
    later = trace.column("step")[position] > trace.column("step")[0]
    return first[given & outside], first[~given & later]


def _alike(trace: Trace, made: Integers, begun: Integers) -> dict[int, int]:
    """Value from outside -> the last value of an earlier step that is the same."""
    facts = trace.extremes
    known = {int(number): index for index, number in enumerate(facts["tensor"])}
    steps = dict(zip(trace.column("id").tolist(), trace.column("step").tolist(), strict=True))

    def key(visit: int) -> tuple[object, ...] | None:
        tensor, layout = int(trace.visits[visit, 3]), trace.layouts[int(trace.visits[visit, 4])]
        index = known.get(tensor)
        if index is None:
            return None
        row = facts[index]
        if row["count"] < _FEWEST or row["minimum"] == row["maximum"]:
            return None  # constants are alike wherever they come from
        return layout.dtype, layout.shape, *(row[name].item() for name in _TELLING)

    wanted = {visit: found for visit in begun.tolist() if (found := key(visit)) is not None}
    kinds = {(one[0], one[1]) for one in wanted.values()}
    layouts = {number for number, one in trace.layouts.items() if (one.dtype, one.shape) in kinds}
    by_key: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for visit in made[np.isin(trace.visits[made, 4], list(layouts))].tolist():
        if (found := key(visit)) is not None:
            by_key[found].append(visit)
    pairs = [(visit, other) for visit, found in wanted.items() for other in by_key.get(found, [])[: -_MOST - 1 : -1]]
    tensors = {int(trace.visits[visit, 3]) for pair in pairs for visit in pair}
    sketches = {number: row["sketch"].tobytes() for number, row in trace.statistics_rows(sorted(tensors)).items()}
    same: dict[int, int] = {}
    for visit, other in pairs:
        value, earlier = int(trace.visits[visit, 3]), int(trace.visits[other, 3])
        before = steps[int(trace.visits[other, 0])] < steps[int(trace.visits[visit, 0])]
        if value not in same and before and sketches.get(value) == sketches.get(earlier):
            same[value] = earlier
    return same
