"""What every question about where two programs part stands on: the calls of one rank side by side, their values, when
each was made, and how a difference is told."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from trueline.diagnose.carrying import Carrying
from trueline.diagnose.choices import Choices
from trueline.diagnose.confirm import Court, Trial
from trueline.diagnose.explain import argument_changes
from trueline.diagnose.finding import this_many
from trueline.diagnose.joints import Joints
from trueline.diagnose.observables import Observables
from trueline.diagnose.partings import Partings
from trueline.diagnose.region_replay import RegionCourt
from trueline.diagnose.table import RankTable
from trueline.ops.facts import Kind, facts_of
from trueline.records import Phase
from trueline.store.columns import NONE, PHASES


class Footing:
    """Of one rank. ``court`` replays calls and regions; None where that is not possible or not wanted."""

    def __init__(self, table: RankTable, observables: Observables, court: Court | None, deadline: float) -> None:
        self.table = table
        self.observables = observables
        self.joints = Joints(table)
        self._court = court
        self._region_court = None if court is None else RegionCourt(self.joints, deadline)
        self._carrying = tuple(Carrying(graph) for graph in self.joints.graphs)
        self.acquitted: dict[int, Trial] = {}
        self.notes: list[str] = []
        self._partings = Partings(self.joints)
        self._choices = Choices(self.joints)
        self._joined_again = 0
        """How often the two agreed again behind a place where they had parted."""
        self.undecided = ""
        """Why it cannot be said whether something is wrong; empty where it can."""
        self._by_parts: set[int] = set()
        """Gradients whose difference is no larger than those of the parts that they were summed from."""
        self.explained: dict[int, str] = {}
        """Why observables are not equal: what was found to be honest, by their place in ``observables.items``."""

    def when(self, row: int) -> float:
        return float(self._times[row])

    @cached_property
    def _times(self) -> Any:
        """For each row the number of the candidate's call, or of the last one before it."""
        position = self.table.alignment.candidate
        numbers = np.where(position == NONE, -1, self.table.traces[1].column("id")[position])
        return np.maximum.accumulate(numbers) if len(numbers) else numbers

    @cached_property
    def _random(self) -> Any:
        return self._kinds(Kind.RANDOM)

    def _kinds(self, kind: Kind) -> Any:
        found = np.zeros(len(self.table), dtype=bool)
        for side, positions in ((0, self.table.alignment.reference), (1, self.table.alignment.candidate)):
            trace = self.table.traces[side]
            numbers = [number for number, name in trace.names.items() if facts_of(name).kind is kind]
            found |= (positions != NONE) & np.isin(trace.column("api")[positions], numbers)
        return found

    @cached_property
    def _by_parameter(self) -> bool:
        """Whether both sides say what became of each parameter, so that how an optimizer is written is no matter."""
        return any(one.kind == "update" and one.both for one in self.observables.items)

    def _positions(self, row: int) -> tuple[int, int]:
        alignment = self.table.alignment
        return int(alignment.reference[row]), int(alignment.candidate[row])

    @cached_property
    def _first_backward(self) -> dict[int, float]:
        """When the first backward call of each step was made."""
        found: dict[int, float] = {}
        trace, positions = self.table.traces[1], self.table.alignment.candidate
        backward = np.zeros(len(self.table), dtype=bool)
        present = positions != NONE
        backward[present] = trace.column("phase")[positions[present]] == PHASES.index(Phase.BACKWARD)
        for row in np.flatnonzero(backward).tolist():
            found.setdefault(int(self.table.step[row]), self.when(row))
        return found

    def _row_at(self, when: int) -> int:
        """The last row before a moment."""
        return max(int(np.searchsorted(self._times, when, side="right")) - 1, 0)

    def _changes(self, row: int) -> list[str]:
        table = self.table
        positions = (int(table.alignment.reference[row]), int(table.alignment.candidate[row]))
        if NONE in positions:
            return []
        calls = [table.traces[side].call(position, statistics=False) for side, position in enumerate(positions)]
        return list(argument_changes(*calls))

    def _told(
        self, reference: tuple[int, ...], candidate: tuple[int, ...], distance: float, limit: float
    ) -> tuple[str, str]:
        apart = f"the values are {distance:.2g} apart" if math.isfinite(distance) else "the values are of other sizes"
        explained = f", where rounding explains {limit:.2g}" if math.isfinite(distance) else ""
        if reference and candidate:
            return "region", f"{apart}{explained}"
        if reference:
            return "missing", f"only the reference makes {this_many(len(reference))}; {apart}{explained}"
        if candidate:
            return "extra", f"only the candidate makes {this_many(len(candidate))}; {apart}{explained}"
        return "argument", f"a value is taken from another place; {apart}{explained}"

    def _headline(self, reference: tuple[int, ...], candidate: tuple[int, ...]) -> str:
        here, there = (self._computes(side, calls) for side, calls in enumerate((reference, candidate)))
        if reference and candidate:
            return f"the reference computes {here}, the candidate {there}"
        if reference:
            return f"only the reference computes {here}"
        if candidate:
            return f"only the candidate computes {there}"
        return "a value is taken from another place"

    def _computes(self, side: int, calls: tuple[int, ...]) -> str:
        trace = self.table.traces[side]
        names = [trace.names.get(int(trace.columns[position, 3]), "?").rpartition(".")[2] for position in calls]
        shown = ", ".join(name.strip("_") for name in names[:6])
        return f"{shown}, …" if len(names) > 6 else shown
