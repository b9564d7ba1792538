"""Choices between what lies nearly level: which expert, which place, which side of a threshold.

Where two programs round otherwise, such a choice may go either way, and both are right. What follows from it differs by
as much as any two choices do, often in other sizes: that follows from the choice, no call behind it is at fault.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property

import numpy as np

from trueline.compare import Match
from trueline.diagnose.finding import FREEDOM, LOOSE_HALF, LOOSE_SINGLE, Divergence
from trueline.diagnose.joints import Joints, Region
from trueline.dtypes import DTYPES
from trueline.ops.facts import Kind, facts_of
from trueline.records import Phase, Verdict
from trueline.store.columns import NONE


class Choices:
    """Those of one rank that went otherwise."""

    def __init__(self, joints: Joints) -> None:
        self._joints = joints
        self._table = joints.table

    @cached_property
    def rows(self) -> list[int]:
        """Calls that decide, given numbers that agree within rounding, and that decided otherwise."""
        table, deciding = self._table, (Kind.DISCRETE, Kind.SELECT)
        sides = zip(table.traces, (table.alignment.reference, table.alignment.candidate), strict=True)
        chosen = table.alignment.match <= int(Match.RENAMED)
        for trace, positions in sides:
            names = [number for number, name in trace.names.items() if facts_of(name).kind in deciding]
            chosen = chosen & (positions != NONE) & np.isin(trace.column("api")[positions], names)
        return [row for row in np.flatnonzero(chosen).tolist() if self._is_choice(row)]

    def _is_choice(self, row: int) -> bool:
        table = self._table
        if table.phase(row) is not Phase.FORWARD or table.verdict[row] >= int(Verdict.FAIL):
            return False
        arrives, otherwise, level = 0.0, False, True
        for leaf in range(int(table.first_leaf[row]), int(table.last_leaf[row])):
            if table.pair[leaf] == NONE:
                return False
            distance, unit = self._joints.distance(leaf), table.tensor_at(leaf).roundoff
            unit = max(unit, table.precision.policy) if unit else 0.0  # scores may be kept in a finer type
            if unit and not table.leaves.output[leaf]:
                arrives = max(arrives, distance)
                level &= distance <= (LOOSE_HALF if unit > 1e-4 else LOOSE_SINGLE) * unit
            elif unit:  # the numbers that were chosen are nearly level
                level &= distance <= FREEDOM * (arrives + unit)
            elif table.leaves.output[leaf]:
                otherwise |= 0.0 < distance < math.inf
        return otherwise and level and arrives > 0.0

    @cached_property
    def _followed(self) -> tuple[set[int], set[int]]:
        """The values of each side that were made from what was chosen otherwise."""
        found: tuple[set[int], set[int]] = (set(), set())
        for side, column in enumerate((self._table.alignment.reference, self._table.alignment.candidate)):
            graph, trace, known = self._joints.graphs[side], self._table.traces[side], found[side]
            began = {int(column[row]) for row in self.rows}
            for position in range(min(began, default=len(trace)), len(trace)):
                gave = graph.gave(position)
                if position in began:
                    known.update(value for value in gave if self._is_exact(side, value))
                elif not known.isdisjoint(self._given(side, position)):
                    known.update(gave)
        return found

    def _given(self, side: int, position: int) -> Iterable[int]:
        graph = self._joints.graphs[side]
        for value in graph.given(position):
            yield value
            if graph.maker(value) == NONE:
                yield from graph.parts_of(value)

    def _is_exact(self, side: int, value: int) -> bool:
        """Whether a value holds decisions: flags, places, numbers of things."""
        layout = self._table.traces[side].layouts[self._joints.layout_of(side, value)]
        kind = DTYPES.get(layout.dtype.rpartition(".")[2])
        return kind is not None and kind.is_exact

    def follows(self, values: tuple[Iterable[int], Iterable[int]]) -> bool:
        """Whether some of these values of each side follow from such a choice."""
        return bool(self.rows) and not any(
            self._followed[side].isdisjoint(some) for side, some in enumerate(values)
        )

    def explains(self, found: Divergence, region: Region | None) -> bool:
        """Whether two sides part at a place because other things were chosen for it: all of its calls follow from the
        choice, and they work on more of what was chosen or on less, or one side has none of it to work on."""
        if not self.rows or found.changes or found.kind not in ("call", "region", "missing", "extra"):
            return False
        if found.trial is not None and found.trial.guilty and not found.other_size:
            return False
        sides: list[Iterable[int]] = [found.reference, found.candidate]
        if region is not None:
            sides = [behind.calls for behind in region.sides]
        if not any(sides) or not all(self._all_follow(side, calls) for side, calls in enumerate(sides)):
            return False
        resized = found.other_size or (found.kind == "call" and found.distance is None and math.isinf(found.shift))
        alone = found.kind in ("missing", "extra")
        return resized or (alone and any(self._takes_choice(side, calls) for side, calls in enumerate(sides)))

    def _all_follow(self, side: int, calls: Iterable[int]) -> bool:
        return all(not self._followed[side].isdisjoint(self._joints.graphs[side].gave(position)) for position in calls)

    def _takes_choice(self, side: int, calls: Iterable[int]) -> bool:
        graph, followed = self._joints.graphs[side], self._followed[side]
        return any(
            value in followed and self._is_exact(side, value) for position in calls for value in graph.given(position)
        )

    def told(self) -> str:
        """What went otherwise."""
        first = self._table.traces[1].call(int(self._table.alignment.candidate[self.rows[0]]), statistics=False)
        where = f" in {first.module}" if first.module else ""
        others = f" and {len(self.rows) - 1} more calls" if len(self.rows) > 1 else ""
        return (
            f"{first.name}{where}, step {first.step},{others} chose otherwise between numbers that are level but for "
            "rounding; what follows from it differs for that"
        )
