"""Where the two sides give the same call values that they made in different ways, and what lies behind those.

A *joint* is a pair of values under the same argument of two calls that were laid side by side, whose makers were not.
Behind it lies a *region* on each side: the calls between the joint and the values that both sides share. One call on
each side is the simplest region; none on both sides is a value that was taken from another place. Joints are walked in
the order of time; each one that was looked at bounds the regions behind later ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from trueline.compare import Match
from trueline.compare.graph import Behind, ValueGraph
from trueline.compare.measure import NOT_ALIKE
from trueline.diagnose.table import RankTable
from trueline.ops.facts import Kind, facts_of
from trueline.store.columns import NONE, Integers


@dataclass(slots=True)
class Region:
    """What lies behind a joint. ``calls`` are positions on the reference's and on the candidate's side, ``begins`` the
    values that they begin with, ``apart`` how far those of each side are from their counterparts (0.0 where they are
    equal, NaN where there is no counterpart), ``ends`` those that it was looked for behind."""

    leaf: int
    row: int
    reference: Behind
    candidate: Behind
    apart: tuple[dict[int, float], dict[int, float]] = field(default_factory=lambda: ({}, {}))
    ends: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))

    @property
    def sides(self) -> tuple[Behind, Behind]:
        return self.reference, self.candidate

    @property
    def whole(self) -> bool:
        return self.reference.whole and self.candidate.whole

    @property
    def arrives(self) -> float:
        """How far apart the two sides are in what they share."""
        known = [value for side in self.apart for value in side.values() if value == value]
        return max(known, default=0.0)


class Joints:
    """The joints of one rank."""

    def __init__(self, table: RankTable) -> None:
        self.table = table
        self.graphs = (ValueGraph(table.traces[0]), ValueGraph(table.traces[1]))
        self._surest = int(Match.FUSED if table.across else Match.RENAMED)
        """Rows of this match, or a surer one, hold counterparts: frameworks name hardly any call alike."""
        self._given_up: set[int] = set()
        self._gone: tuple[set[int], set[int]] = (set(), set())
        self._joined: tuple[dict[int, tuple[int, float]], dict[int, tuple[int, float]]] = ({}, {})
        """Values of joints that were looked at: value -> (its counterpart, how far apart)."""

    @cached_property
    def _matched(self) -> tuple[Any, Any]:
        """For each position of each side, the row in which it was laid beside another call; else -1."""
        alignment = self.table.alignment
        both = np.flatnonzero(
            (alignment.reference != NONE) & (alignment.candidate != NONE) & (alignment.match <= self._surest)
        )
        rows = []
        for trace, positions in zip(self.table.traces, (alignment.reference, alignment.candidate), strict=True):
            column = np.full(len(trace), NONE, dtype=np.int64)
            column[positions[both]] = both
            rows.append(column)
        return rows[0], rows[1]

    # Rows that are no counterparts after all.

    def given_up(self, row: int) -> bool:
        return row in self._given_up

    def backward_rows(self, row: int) -> list[int]:
        """The rows of the backward calls of a row's call."""
        position = int(self.table.alignment.candidate[row])
        if position == NONE:
            return []
        rows = [self.row_of(1, backward) for backward in self.graphs[1].backwards_of(position)]
        return [one for one in rows if one != NONE]

    def give_up(self, rows: list[int], leaf: int) -> Integers:
        """Takes the calls of some rows for no counterparts, and gives the leaves at which other calls take what they
        gave, or the same values as at a leaf (-1 for none)."""
        fresh = [row for row in rows if row not in self._given_up]
        self._given_up.update(fresh)
        for side, column in enumerate((self.table.alignment.reference, self.table.alignment.candidate)):
            positions = column[fresh] if fresh else column[:0]
            self._matched[side][positions[positions != NONE]] = NONE
            self._gone[side].update(positions[positions != NONE].tolist())
        outputs = np.flatnonzero(np.isin(self.table.leaves.row, fresh) & self.table.leaves.output)
        for side, visits in enumerate((self.table.leaves.reference, self.table.leaves.candidate)):
            gone = visits[outputs]
            self._leaf_of_visit[side][gone[gone != NONE]] = NONE
        chosen = np.isin(self.makers[0], outputs) | np.isin(self.makers[1], outputs)
        if leaf != NONE:
            chosen |= self.table.pair == self.table.pair[leaf]
        chosen &= (self.table.pair != NONE) & ~self.table.leaves.output
        found = np.flatnonzero(chosen & ~np.isin(self.table.leaves.row, list(self._given_up)))
        _, first = np.unique(self.table.leaves.row[found], return_index=True)
        return np.sort(found[first])

    def given_equal(self, side: int, row: int) -> list[int]:
        """The values of one side that a row's call gave and that are the same on the other."""
        table, found = self.table, []
        visits = (table.leaves.reference, table.leaves.candidate)[side]
        for leaf in range(int(table.first_leaf[row]), int(table.last_leaf[row])):
            if table.leaves.output[leaf] and table.pair[leaf] != NONE and self.distance(leaf) == 0.0:
                found.append(int(table.traces[side].visits[visits[leaf], 3]))
        return found

    def touches_given_up(self, side: int, region: Region) -> bool:
        """Whether a side of a region goes through calls that were given up."""
        return any(position in self._gone[side] for position in region.sides[side].calls)

    def leaf_of(self, side: int, visit: int) -> int:
        """The leaf that a visit belongs to, -1 where its call has no counterpart."""
        return int(self._leaf_of_visit[side][visit])

    def row_of(self, side: int, position: int) -> int:
        return int(self._matched[side][position])

    @cached_property
    def _leaf_of_visit(self) -> tuple[Integers, Integers]:
        """For each visit of each side the leaf that it belongs to, -1 for none."""
        leaves, found = self.table.leaves, []
        for trace, visits in zip(self.table.traces, (leaves.reference, leaves.candidate), strict=True):
            column = np.full(len(trace.visits), NONE, dtype=np.int64)
            present = np.flatnonzero(visits != NONE)[::-1]
            column[visits[present]] = present
            found.append(column)
        return found[0], found[1]

    @cached_property
    def makers(self) -> tuple[Integers, Integers]:
        """For each leaf and side the leaf that made its value; -1 where it came from outside, -2 where a call made it
        that only one side has, or several together."""
        leaves, found = self.table.leaves, []
        for side, visits in enumerate((leaves.reference, leaves.candidate)):
            column = np.full(len(visits), NONE, dtype=np.int64)
            present = np.flatnonzero(visits != NONE)
            made = self.graphs[side].makers(self.table.traces[side].visits[visits[present], 3])
            at = self._leaf_of_visit[side][made]
            tensors = self.table.traces[side].visits[visits[present], 3]
            outside = np.where(np.isin(tensors, self.graphs[side].rewritten), -2, NONE)
            column[present] = np.where(made == NONE, outside, np.where(at == NONE, -2, at))
            found.append(column)
        return found[0], found[1]

    @cached_property
    def leaves(self) -> Integers:
        """The leaves at which the two sides were given values of different making, each pair of values once."""
        table, makers = self.table, self.makers
        chosen = (table.pair != NONE) & ~table.leaves.output
        chosen &= table.alignment.match[table.leaves.row] <= self._surest
        chosen &= (makers[0] != makers[1]) | (makers[0] == -2)
        found = np.flatnonzero(chosen)
        _, first = np.unique(table.pair[found], return_index=True)
        return np.sort(found[first])

    @cached_property
    def sources(self) -> Integers:
        """The leaves at which both sides were given values from outside, each pair of values once."""
        table, makers = self.table, self.makers
        chosen = (table.pair != NONE) & ~table.leaves.output & (makers[0] == NONE) & (makers[1] == NONE)
        chosen &= ~table.in_optimizer[table.leaves.row]  # whose rows may be of two parameters
        found = np.flatnonzero(chosen)
        _, first = np.unique(table.pair[found], return_index=True)
        return np.sort(found[first])

    @cached_property
    def _source_pairs(self) -> tuple[dict[int, int], dict[int, int]]:
        """Values from outside that were given to the same calls: value -> leaf."""
        found: tuple[dict[int, int], dict[int, int]] = ({}, {})
        leaves = self.table.leaves
        for leaf in self.sources[::-1].tolist():
            for side, visits in enumerate((leaves.reference, leaves.candidate)):
                found[side][int(self.table.traces[side].visits[visits[leaf], 3])] = leaf
        return found

    def distance(self, leaf: int) -> float:
        """How far apart the two values of a leaf are; infinity where they are of different sizes."""
        pair = int(self.table.pair[leaf])
        if pair == NONE:
            return float("nan")
        row = self.table.measured[pair]
        if row["note"] in NOT_ALIKE:
            return float("inf")
        if row["bad_mismatch"]:
            return float("inf")
        return float(row["distance"])

    def regions(self) -> Iterator[Region]:
        """The regions behind all joints whose values differ at all, in the order of time."""
        for leaf in self.leaves.tolist():
            pair = self.table.measured[int(self.table.pair[leaf])]
            if not (pair["equal"] and not pair["estimated"]):
                yield self.region(leaf)
            self.join(leaf)

    def join(self, leaf: int) -> None:
        """Says that the two values of a leaf were looked at, so that what they become is followed no further back."""
        values = self._values(leaf)
        distance = self.distance(leaf)
        for side in (0, 1):
            self._joined[side].setdefault(values[side], (values[1 - side], distance))

    def joined(self, side: int, value: int) -> bool:
        """Whether a value was looked at and agrees with its counterpart."""
        return value in self._joined[side]

    def _values(self, leaf: int) -> tuple[int, int]:
        leaves, traces = self.table.leaves, self.table.traces
        return (
            int(traces[0].visits[leaves.reference[leaf], 3]),
            int(traces[1].visits[leaves.candidate[leaf], 3]),
        )

    def values(self, leaf: int) -> tuple[int, int]:
        """The two values of a leaf."""
        return self._values(leaf)

    def counterpart(self, side: int, value: int) -> int | None:
        """What stands on the other side for a value of this one, or None."""
        if value in self._joined[side]:
            return self._joined[side][value][0]
        leaf = self._leaf_behind(side, value)
        return None if leaf == NONE else self._values(leaf)[1 - side]

    def layout_of(self, side: int, value: int) -> int:
        """The layout in which a value was first seen."""
        return self.graphs[side].layout_of(value)

    def same_maker(self, values: tuple[int, int]) -> int:
        """The leaf that made both values, where the same output of two calls that lie side by side did; else -1."""
        leaves = [self._leaf_behind(side, value) for side, value in enumerate(values)]
        made = [self.graphs[side].maker(value) != NONE for side, value in enumerate(values)]
        return leaves[0] if leaves[0] == leaves[1] != NONE and all(made) else NONE

    def _leaf_behind(self, side: int, value: int) -> int:
        visit = self.graphs[side].made_in(value)
        return self._source_pairs[side].get(value, NONE) if visit == NONE else int(self._leaf_of_visit[side][visit])

    def region(self, leaf: int) -> Region:
        return self.region_of(self._values(leaf), int(self.table.leaves.row[leaf]), leaf)

    def region_of(self, values: tuple[int, int], row: int, leaf: int = NONE) -> Region:
        """What lies behind a pair of values that a row, or the program itself after it, is given."""
        return self.region_of_all(([values[0]], [values[1]]), row, leaf)

    def region_of_all(self, ends: tuple[list[int], list[int]], row: int, leaf: int = NONE) -> Region:
        """What lies behind some values of each side."""
        found = Region(leaf, row, self._behind(0, ends[0], row), self._behind(1, ends[1], row), ends=ends)
        for side in (0, 1):
            for value in found.sides[side].begins:
                found.apart[side][value] = self.apart(side, value)
        return found

    def main_way(self, side: int, region: Region) -> list[int]:
        """The calls of one side of a region through which values pass that the other side begins with as well. What
        they are combined with on the way may have been made by many more calls, which explain nothing."""
        other = set(region.sides[1 - side].begins)
        shared = {value for value in region.sides[side].begins if self.counterpart(side, value) in other}
        calls = []
        reached = set(shared)
        for position in region.sides[side].calls:
            if reached.intersection(self.graphs[side].given(position)):
                calls.append(position)
                reached.update(self.graphs[side].gave(position))
        return calls

    def _behind(self, side: int, values: list[int], row: int) -> Behind:
        """What lies behind some values of one side. Calls that were laid beside a later one of the other side bound
        nothing: whether those agree is only asked behind this row, and may hang on its answer."""
        matched, joined = self._matched[side], self._joined[side]

        def stops(other: int, position: int) -> bool:
            if other in joined or (other not in values and other in self._source_pairs[side]):
                return True
            return position != NONE and NONE < matched[position] < row

        return self.graphs[side].behind(values, stops)

    def size(self, side: int, value: int) -> float:
        """The root mean square of the reference's value for one of a side; 0.0 where it was not measured."""
        leaf = self._leaf_behind(side, value)
        pair = NONE if leaf == NONE else int(self.table.pair[leaf])
        return 0.0 if pair == NONE else float(self.table.measured[pair]["rms"])

    def lean_of(self, pair: int) -> float:
        """By which share the candidate's tensor of a pair as a whole is larger or smaller."""
        row = self.table.measured[pair]
        sizes = float(row["rms"]), float(row["candidate_rms"])
        return abs(math.log(sizes[1] / sizes[0])) if all(0.0 < one < math.inf for one in sizes) else 0.0

    def lean(self, side: int, value: int) -> float:
        """The same of a value of one side and its counterpart; 0.0 where nobody measured it."""
        leaf = self._leaf_behind(side, value)
        pair = NONE if leaf == NONE else int(self.table.pair[leaf])
        return 0.0 if pair == NONE else self.lean_of(pair)

    def apart(self, side: int, value: int) -> float:
        if value in self._joined[side]:
            return self._joined[side][value][1]
        leaf = self._leaf_behind(side, value)
        distance = float("nan") if leaf == NONE else self.distance(leaf)
        return distance if np.isfinite(distance) else float("nan")  # of other sizes: no counterpart

    def undefined(self, region: Region) -> bool:
        """Whether a side begins with memory that nobody has written."""
        for side, behind in enumerate(region.sides):
            trace = self.table.traces[side]
            for position in (*behind.calls, *(self.graphs[side].maker(value) for value in behind.begins)):
                if position != NONE and facts_of(trace.names[int(trace.columns[position, 3])]).kind is Kind.UNDEFINED:
                    return True
        return False
