"""Gradients of parameters as autograd left them: summed between recorded calls, and judged by their parts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from trueline.diagnose.finding import (
    FREEDOM,
    LOOSE_HALF,
    LOOSE_SINGLE,
    SKETCH,
    TIGHT_HALF,
    TIGHT_SINGLE,
    Divergence,
    present,
    some,
)
from trueline.diagnose.observables import Observable
from trueline.diagnose.worth import Worth
from trueline.records import Phase
from trueline.store.columns import NONE


class Gradients(Worth):
    """Judges those that no recorded call made."""

    def _is_gradient(self, leaf: int) -> bool:
        """Whether a call that was made after a backward takes a value that autograd alone may have made."""
        row = int(self.table.leaves.row[leaf])
        if self.table.phase(row) is Phase.BACKWARD:
            return False
        if self.when(row) < self._first_backward.get(int(self.table.step[row]), math.inf):
            return False
        makers = [self.joints.graphs[side].maker(value) for side, value in enumerate(self.joints.values(leaf))]
        return all(maker == NONE or self.joints.graphs[side].is_backward(maker) for side, maker in enumerate(makers))

    def _raw_gradient(self, leaf: int, distance: float) -> Divergence | None:
        """Judges the gradient of a parameter, as autograd left it, by the parts that it was summed from."""
        values = self.joints.values(leaf)
        known = [names.get(value) for names, value in zip(self._gradient_names, values, strict=True)]
        one = known[1] or known[0]
        if one is None or (None not in known and known[0] is not known[1]):
            return None  # nobody says of which parameter, or two lists of gradients that are not the same
        unit = self._working_unit(one)
        if distance <= max((TIGHT_HALF if unit > 1e-4 else TIGHT_SINGLE) * unit, SKETCH):
            return None
        row = int(self.table.leaves.row[leaf])
        if self._cancels(one, distance, unit) or self.joints.same_maker(values) != NONE:
            return None
        parts = self._gradients(one)
        loose = (LOOSE_HALF if unit > 1e-4 else LOOSE_SINGLE) * unit
        limit = loose if parts is None else FREEDOM * parts + 8.0 * unit
        if distance <= limit:
            return None
        names = [one.name, *self._gradients_apart(row)]
        counts = [
            len(graph.gradients_of(self.observables.value(side, begin), 1 << 60))
            if (begin := self.observables.by_name.get(("parameter", one.model, one.name, one.step))) is not None
            else 0
            for side, graph in enumerate(self.joints.graphs)
        ]
        summed = f"; it is summed from {counts[0]} parts in the reference, from {counts[1]} in the candidate"
        return Divergence(
            "state",
            row,
            f"the gradient of {one.name} differs by {distance:.2g}, where its parts explain {limit:.2g}"
            + (summed if counts[0] != counts[1] else ""),
            *present(self._positions(row)),
            names=tuple(dict.fromkeys(names)),
            headline=f"the gradient of {some(list(dict.fromkeys(names)))} is summed up otherwise",
            of_gradients=True,
            distance=distance,
            limit=limit,
            step=one.step,
            certain=True,
        )

    def _gradients_like(self, leaf: int, unit: float) -> float:
        """How far apart a gradient may be of which nobody says whose it is: what rounding may add up to, beside the
        gradients of its size that left calls before."""
        rows, worst = self._gradients_by_shape.get(self.table.tensor_at(leaf).shape, (np.zeros(0), np.zeros(0)))
        before = int(np.searchsorted(rows, int(self.table.leaves.row[leaf])))
        apart = float(worst[before - 1]) if before else 0.0
        return (LOOSE_HALF if unit > 1e-4 else LOOSE_SINGLE) * unit + FREEDOM * apart

    @cached_property
    def _gradients_by_shape(self) -> dict[tuple[int, ...], tuple[Any, Any]]:
        """For each shape the rows in which gradients of it left calls, and how far apart the worst was until then."""
        table, found = self.table, dict[tuple[int, ...], list[tuple[int, float]]]()
        for leaf in np.flatnonzero(table.leaves.output & (table.pair != NONE)).tolist():
            row, distance = int(table.leaves.row[leaf]), self.joints.distance(leaf)
            if math.isfinite(distance) and table.phase(row) is Phase.BACKWARD:
                shape = table.layout(1, int(table.leaves.candidate[leaf]))[1]
                found.setdefault(shape, []).append((row, distance))
        return {
            shape: (np.array([row for row, _ in pairs]), np.maximum.accumulate([apart for _, apart in pairs]))
            for shape, pairs in found.items()
        }

    def _gradients_apart(self, row: int) -> Iterator[str]:
        """The names of all gradients among what a row is given that are more than a few roundings apart."""
        for leaf in range(int(self.table.first_leaf[row]), int(self.table.last_leaf[row])):
            if self.table.leaves.output[leaf] or self.table.pair[leaf] == NONE:
                continue
            one = self._gradient_names[1].get(self.joints.values(leaf)[1])
            if one is not None and self.joints.distance(leaf) > TIGHT_HALF * self.observables.unit(one) + SKETCH:
                yield one.name

    @cached_property
    def _gradient_names(self) -> tuple[dict[int, Observable], dict[int, Observable]]:
        """Gradients of parameters by their value, as an optimizer uses them and as they were before the program changed
        them in place."""
        found: tuple[dict[int, Observable], dict[int, Observable]] = ({}, {})
        for one in self.observables.items:
            if one.kind == "gradient" and one.both:
                for side, graph in enumerate(self.joints.graphs):
                    value: int | None = self.observables.value(side, one)
                    while value is not None and value not in found[side]:
                        found[side][value] = one
                        value = graph.before_change(value)
        return found

    def _gradients(self, one: Observable) -> float | None:
        """How far apart the parts are that a parameter's gradient was summed from, relative to the sum; None where they
        cannot be laid side by side."""
        parts = self._parts_of(one)
        if len(parts[0]) != len(parts[1]) or not parts[0]:
            return None
        squares = 0.0
        for part in parts[1]:
            apart = self.joints.apart(1, part)
            if apart != apart:
                return None
            squares += apart**2
        size = self.observables.measured[one.place]["rms"]
        sizes = [self.joints.size(1, part) for part in parts[1]]
        scale = max([*sizes, 0.0]) / size if size > 0.0 else math.inf
        return math.sqrt(squares) * max(scale, 1.0)
