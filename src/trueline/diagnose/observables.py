"""What both programs give away, side by side by name: losses, outputs, gradients, updates, states, buffers.

Names come from the snapshots of a Run. What a program begins with (inputs, parameters, buffers) is laid side by side in
the same way: it is no observable, but tells the source of a value by its name.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from trueline.compare.measure import MEASURED, NOT_ALIKE, Measurer
from trueline.diagnose.table import RankTable
from trueline.dtypes import dtype_named
from trueline.records import Snapshot, StateMoment, TensorRecord
from trueline.store.columns import NONE
from trueline.store.trace import Trace

KINDS: Mapping[tuple[StateMoment, str], str] = {
    (StateMoment.ENTERED, "inputs"): "input",
    (StateMoment.ENTERED, "parameters"): "parameter",
    (StateMoment.ENTERED, "buffers"): "begin of buffer",
    (StateMoment.LEFT, "outputs"): "output",
    (StateMoment.BACKWARD, "loss"): "loss",
    (StateMoment.GRADIENTS, "gradients"): "gradient",
    (StateMoment.UPDATED, "parameters"): "update",
    (StateMoment.UPDATED, "optimizer"): "optimizer state",
    (StateMoment.ENDED, "buffers"): "buffer",
}
BEGINNINGS = ("input", "parameter", "begin of buffer")
"""What a program is given, not what it gives away."""
NAMED = ("gradient", "update", "buffer", "parameter", "begin of buffer")
"""What has a name of its own in the model, so that one side alone having it is a finding."""

Visits = tuple[int, int]


@dataclass(slots=True)
class Observable:
    """One of them. ``reference`` and ``candidate`` are rows of ``Trace.state_visits``, -1 where that side has none;
    ``when`` is the candidate's (else the reference's) number of the moment among the calls."""

    kind: str
    name: str
    step: int
    when: int
    reference: int
    candidate: int
    model: str = ""
    place: int = NONE
    """Its row in what was measured; -1 where only one side has it."""

    @property
    def both(self) -> bool:
        return self.reference != NONE and self.candidate != NONE


class Observables:
    """Those of one rank."""

    def __init__(self, table: RankTable) -> None:
        self.table = table
        self.traces = table.traces
        known = all(trace.states for trace in self.traces)
        self.items: list[Observable] = list(self._pairs()) if known else []
        self.uneven: list[str] = []
        """Moments of which one side has more."""
        self._measure()

    def __len__(self) -> int:
        return len(self.items)

    # Pairing.

    def _pairs(self) -> Iterator[Observable]:
        models = self._models
        groups: tuple[dict[Any, list[Snapshot]], dict[Any, list[Snapshot]]] = (defaultdict(list), defaultdict(list))
        for side, trace in enumerate(self.traces):
            for one in trace.states:
                if one.step in self.table.steps:
                    for part in _parts(one):
                        groups[side][(part.step, part.moment, models[side].get(one.model, one.model))].append(part)
        for key in sorted({*groups[0], *groups[1]}, key=lambda one: (one[0], list(StateMoment).index(one[1]), one[2])):
            yield from self._of_moment(key, groups[0].get(key, []), groups[1].get(key, []))

    @cached_property
    def _models(self) -> tuple[dict[str, str], dict[str, str]]:
        """The models of both sides under common names, those of the reference. Models are numbered as they first run,
        which says little: first comes what they hold and whether they are trained, then name, then order."""
        left, right = ({one.model: _traits_of(trace, one.model) for one in trace.states} for trace in self.traces)
        same: dict[str, str] = {}
        for alike in (lambda one, other: left[one] == right[other], str.__eq__):
            for other in [name for name in right if name not in same]:
                free = (name for name in left if name not in same.values() and alike(name, other))
                if (found := next(free, None)) is not None:
                    same[other] = found
        rest = [[name for name in left if name not in same.values()], [name for name in right if name not in same]]
        if len(rest[0]) == len(rest[1]):
            same.update(zip(rest[1], rest[0], strict=True))
        return {}, {name: same.get(name, f"{name} of the candidate" if name in left else name) for name in right}

    def _of_moment(
        self, key: tuple[int, StateMoment, str], left: list[Snapshot], right: list[Snapshot]
    ) -> Iterator[Observable]:
        step, moment, model = key
        whole = (_together(left), _together(right)) if moment in _BY_NAME or len(left) != len(right) else None
        if whole is not None:
            named = moment in _BY_NAME
            yield from self._named(step, moment, model, *whole, named_only=not named)
            return
        for one, other in zip(left, right, strict=True):
            yield from self._named(step, moment, model, *(_together([side]) for side in (one, other)))

    def _named(
        self,
        step: int,
        moment: StateMoment,
        model: str,
        left: Mapping[str, tuple[int, int]],
        right: Mapping[str, tuple[int, int]],
        *,
        named_only: bool = False,
    ) -> Iterator[Observable]:
        for name in [*left, *(name for name in right if name not in left)]:
            group, _, rest = name.partition(".")
            kind = KINDS.get((moment, group))
            if kind is None or (named_only and kind not in NAMED):
                continue  # how often a model runs in a step may differ: nobody says which pass is which
            here, there = left.get(name), right.get(name)
            when = there[1] if there is not None else here[1] if here is not None else 0
            yield Observable(
                kind,
                rest or group,
                step,
                when,
                NONE if here is None else here[0],
                NONE if there is None else there[0],
                model,
            )

    # Measuring.

    def _measure(self) -> None:
        both = [one for one in self.items if one.both]
        for place, one in enumerate(both):
            one.place = place
        left, right = (self.traces[side].state_visits for side in (0, 1)) if both else (None, None)
        if left is None or right is None:
            self.measured = np.zeros(0, dtype=MEASURED)
            return
        rows = np.array([[one.reference, one.candidate] for one in both], dtype=np.int64)
        pairs = np.stack([left[rows[:, 0], 3], left[rows[:, 0], 4], right[rows[:, 1], 3], right[rows[:, 1], 4]], axis=1)
        distinct, inverse = np.unique(pairs, axis=0, return_inverse=True)
        measurer = Measurer(self.table.readers, self.traces)
        measured, _, _ = measurer.measure(distinct)
        self.measured = measured[inverse.reshape(-1)]

    def distance(self, one: Observable) -> float:
        """How far apart; infinity where the sizes or the places of NaN differ, NaN where nothing was measured."""
        row = self.measured[one.place]
        if row["note"] in NOT_ALIKE:
            return float("inf")
        if row["note"]:
            return float("nan")
        if row["bad_mismatch"]:
            return float("inf")
        if row["rms"] == 0.0 and row["candidate_rms"] > 0.0:
            return 1.0
        return float(row["distance"])

    def values(self, one: Observable) -> tuple[int, int]:
        return self.value(0, one), self.value(1, one)

    def value(self, side: int, one: Observable) -> int:
        row = one.candidate if side else one.reference
        return int(self.traces[side].state_visits[row, 3])

    def unit(self, one: Observable) -> float:
        """The unit roundoff of the coarser side; 0.0 for exact types."""
        return max(self._kind_of(side, one).epsilon / 2 for side in (0, 1) if self._row(side, one) != NONE)

    def _row(self, side: int, one: Observable) -> int:
        return one.candidate if side else one.reference

    def _kind_of(self, side: int, one: Observable) -> Any:
        return dtype_named(self._layout(side, one).dtype.rpartition(".")[2])

    def _layout(self, side: int, one: Observable) -> Any:
        trace = self.traces[side]
        return trace.layouts[int(trace.state_visits[self._row(side, one), 4])]

    def shapes(self, one: Observable) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return self._layout(0, one).shape, self._layout(1, one).shape

    def same_size(self, one: Observable) -> bool:
        return math.prod(self.shapes(one)[0]) == math.prod(self.shapes(one)[1])

    def record(self, side: int, one: Observable) -> TensorRecord | None:
        row = self._row(side, one)
        return None if row == NONE else self.traces[side].state_record(row)

    # Looking up.

    @cached_property
    def names(self) -> tuple[dict[int, Observable], dict[int, Observable]]:
        """What a program began a step with, by its value: inputs, parameters and buffers."""
        found: tuple[dict[int, Observable], dict[int, Observable]] = ({}, {})
        for one in self.items:
            if one.kind in BEGINNINGS:
                for side in (0, 1):
                    if self._row(side, one) != NONE:
                        found[side].setdefault(self.value(side, one), one)
        return found

    @cached_property
    def by_name(self) -> dict[tuple[str, str, str, int], Observable]:
        return {(one.kind, one.model, one.name, one.step): one for one in self.items}

    def given_away(self) -> Iterable[Observable]:
        return (one for one in self.items if one.kind not in BEGINNINGS)


_BY_NAME = (StateMoment.GRADIENTS, StateMoment.UPDATED, StateMoment.ENDED)
"""Moments of which only the names count, however often they come in a step: the last one holds."""


def _traits_of(trace: Trace, model: str) -> tuple[str, frozenset[str], bool]:
    """The class of a model, the names of its parameters, and whether an optimizer changes it."""
    of_it = [one for one in trace.states if one.model == model]
    held = frozenset(name for one in of_it if one.moment is StateMoment.ENTERED for name in one.values)
    parameters = frozenset(name for name in held if name.startswith("parameters."))
    return model.partition("#")[0], parameters, any(one.moment is StateMoment.UPDATED for one in of_it)


def _parts(one: Snapshot) -> Iterator[Snapshot]:
    """What a program without an optimizer leaves behind at the end of a step is, to one that has one, what its
    optimizer used and updated."""
    if one.moment is not StateMoment.ENDED:
        yield one
        return
    moments = {"gradients": StateMoment.GRADIENTS, "parameters": StateMoment.UPDATED}
    groups: dict[StateMoment, dict[str, int]] = defaultdict(dict)
    for name, row in one.values.items():
        groups[moments.get(name.partition(".")[0], one.moment)][name] = row
    for moment, values in groups.items():
        yield replace(one, moment=moment, values=values)


def _together(snapshots: Iterable[Snapshot]) -> dict[str, tuple[int, int]]:
    """Everything in some snapshots by name; of the same name twice the first where a step begins with it, else the
    last."""
    found: dict[str, tuple[int, int]] = {}
    for one in snapshots:
        for name, row in one.values.items():
            if one.moment is StateMoment.ENTERED and name in found:
                continue
            found[name] = (row, one.call)
    return found
