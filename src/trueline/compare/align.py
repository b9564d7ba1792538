"""Which call of the candidate is which call of the reference.

Two traces of one rank and step are aligned in stages, each on what the ones before left over: equal calls in equal
order; equal calls elsewhere; the same operator under another name or in a module of another name; other calls with the
same outputs in the same place; and several calls against fewer, whose last outputs look alike. A backward call belongs
to its forward call and follows it. What remains is extra (candidate only) or missing (reference only).

Across frameworks no two calls have the same name: there the operator counts in its place, and shapes count whatever
the order of their axes. What optimizers do inside is no matter of shapes, and is matched by operator only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from trueline.compare.sequences import align, distinct_rows, occurrence
from trueline.ops.facts import facts_of
from trueline.ops.names import canonical, module_key
from trueline.records import Phase, Role
from trueline.store.columns import CALL_COLUMNS, NONE, PHASES, ROLES, Integers
from trueline.store.trace import Trace

_COLUMN = {name: position for position, name in enumerate(CALL_COLUMNS)}
_BACKWARD = PHASES.index(Phase.BACKWARD)
_OUTPUT = ROLES.index(Role.OUTPUT)


_ALIKE = {
    **dict.fromkeys(("permute", "movedim", "moveaxis", "adjoint"), "transpose"),
    **dict.fromkeys(("flatten", "unflatten", "squeeze", "unsqueeze", "ravel", "view_as", "reshape_as"), "reshape"),
    **dict.fromkeys(("expand_as", "broadcast_to", "tile"), "expand"),
    "clone": "assign",
}
"""Operators that programs use for the same where frameworks differ."""

SIMULATED = "simulated"
"""The context of replayed calls whose dtype was simulated."""

_MANY = 1 << 31
"""More than any forward call has backward calls."""


class Match(IntEnum):
    """How sure it is that two calls are the same, and which side has one."""

    SAME = 0
    MOVED = 1
    RENAMED = 2
    FUSED = 3
    EXTRA = 4
    MISSING = 5


@dataclass(frozen=True, slots=True)
class Alignment:
    """Rows in the order of the candidate, missing calls where the reference made them.

    ``reference`` and ``candidate`` are positions in the traces, -1 where that side has no such call; ``match`` holds
    ``Match`` numbers.
    """

    reference: Integers
    candidate: Integers
    match: Integers

    def __len__(self) -> int:
        return len(self.match)


def align_calls(
    reference: Trace, at_reference: Integers, candidate: Trace, at_candidate: Integers, *, across: bool = False
) -> Alignment:
    """Aligns the calls at the given (rising) positions of two traces, which are those of one step. ``across`` says that
    they are of different frameworks."""
    numbers: dict[Hashable, int] = {}
    sides = (_Side(reference, at_reference, numbers, across), _Side(candidate, at_candidate, numbers, across))
    ahead = [side.positions[side.ahead] for side in sides]
    rows = align(sides[0].keys[sides[0].ahead], sides[1].keys[sides[1].ahead])
    anchors = np.stack([ahead[0][rows[:, 0]], ahead[1][rows[:, 1]]], axis=1)
    parts = [_labelled(anchors, Match.SAME)]
    left_over = [np.setdiff1d(ahead[side], anchors[:, side], assume_unique=True).tolist() for side in (0, 1)]
    if all(left_over):
        parts += _match_left_over(sides, left_over, anchors)
    parts.append(_match_backward(sides, np.concatenate(parts)))
    return _in_order(at_reference, at_candidate, np.concatenate(parts))


def alike(api: str) -> str:
    """What an operator of any framework does, whatever it is asked with: two axes exchanged, or all of them ordered."""
    name = canonical(api)
    return _ALIKE.get(name, name)


class _Side:
    """One side of an alignment: positions, keys, and what later stages ask for."""

    def __init__(self, trace: Trace, positions: Integers, numbers: dict[Hashable, int], across: bool = False) -> None:
        self.trace = trace
        self.across = across
        self.positions = positions
        rows = trace.columns[positions]
        self.forward = rows[:, _COLUMN["forward"]]
        follows = (rows[:, _COLUMN["phase"]] == _BACKWARD) & (self.forward != NONE)
        self.ahead = np.flatnonzero(~follows)
        self.behind = np.flatnonzero(follows)
        kinds = rows[:, [_COLUMN[name] for name in ("level", "phase", "api", "module", "context")]]
        distinct, inverse = distinct_rows(kinds)
        keys = [
            numbers.setdefault((level, phase, self.name(api), self.module(module), self.context(context)), len(numbers))
            for level, phase, api, module, context in distinct.tolist()
        ]
        self.keys = np.array(keys, dtype=np.int64)[inverse]

    def api(self, number: int) -> str:
        return self.trace.names.get(number, "")

    def name(self, number: int) -> str:
        """What tells the operator: its name, or across frameworks what it does."""
        return alike(self.api(number)) if self.across else self.api(number)

    def context(self, number: int) -> str:
        """Whether the dtype of a replay was simulated says how it was computed, not what."""
        text = self.api(number)
        return "" if text == SIMULATED else text

    def in_optimizer(self, position: int) -> bool:
        return self.api(int(self.trace.columns[position, _COLUMN["context"]])) == "optimizer"

    def told_by_shapes(self, position: int) -> bool:
        """Whether shapes may tell that two calls do the same. Of scalars they say nothing, nor of optimizers, which
        frameworks write differently."""
        return not self.across or (not self.in_optimizer(position) and any(self.shapes(position)))

    def moves(self, position: int) -> bool:
        """Across frameworks: whether a call only moves elements. Such a one is never the counterpart of arithmetic."""
        return self.across and facts_of(self.api(int(self.trace.columns[position, _COLUMN["api"]]))).moves

    def module(self, number: int) -> str:
        return module_key(self.trace.modules.get(number, ("", ""))[0])

    def key_of(self, position: int) -> int:
        return int(self.keys[int(np.searchsorted(self.positions, position))])

    def operator(self, position: int) -> tuple[int, int, str]:
        row = self.trace.columns[position]
        api = self.api(int(row[_COLUMN["api"]]))
        return int(row[_COLUMN["level"]]), int(row[_COLUMN["phase"]]), alike(api) if self.across else canonical(api)

    def module_of(self, position: int) -> str:
        return self.module(int(self.trace.columns[position, _COLUMN["module"]]))

    def shapes(self, position: int) -> tuple[tuple[int, ...], ...]:
        """The shapes of the outputs, without dimensions of size 1; across frameworks whatever the order of axes."""
        visits = self.trace.visits_of(position)
        layouts = visits[visits[:, 2] == _OUTPUT, 4].tolist()
        found = (tuple(size for size in self.trace.layouts[number].shape if size != 1) for number in layouts)
        return tuple(tuple(sorted(shape)) for shape in found) if self.across else tuple(found)


def _match_left_over(sides: tuple[_Side, _Side], left_over: list[list[int]], anchors: Integers) -> list[Integers]:
    """Stages after the first, each on what the ones before left over."""

    def gap(side: int, position: int) -> int:
        """Between which calls that both sides share a call lies: a number that both sides agree on."""
        return int(np.searchsorted(anchors[:, side], position))

    def shapes(side: int, position: int) -> Hashable:
        """The shapes of the outputs, where shapes alone may tell that two calls do the same."""
        if not sides[side].told_by_shapes(position):
            return (side, position)
        return sides[side].moves(position), sides[side].shapes(position)

    stages: list[tuple[Match, Callable[[int, int], Hashable], bool]] = [
        (Match.MOVED, lambda side, p: sides[side].key_of(p), True),
        (Match.RENAMED, lambda side, p: (gap(side, p), sides[side].operator(p), sides[side].module_of(p)), False),
        # The first output tells: one form of an operator gives statistics beside it, another changes them in place.
        (Match.RENAMED, lambda side, p: (gap(side, p), sides[side].operator(p), sides[side].shapes(p)[:1]), False),
    ]
    if sides[0].across:
        # Only the outputs of different operators can be laid side by side.
        last = (Match.FUSED, lambda side, p: (gap(side, p), sides[side].operator(p)[:2], shapes(side, p)), False)
        stages.append(last)
    parts = []
    for match, key, anywhere in stages:
        found = _same_keys(left_over, key, anywhere)
        if match in (Match.RENAMED, Match.FUSED):
            found = [pair for pair in found if _comparable(sides, *pair)]
        parts.append(_take(found, match, left_over))
    if sides[0].across:
        ends = [[p for p in left_over[side] if sides[side].told_by_shapes(p)] for side in (0, 1)]
        parts.append(_take(_end_points(sides, ends, gap), Match.FUSED, left_over))
    return parts


def _same_keys(
    left_over: list[list[int]], key: Callable[[int, int], Hashable], anywhere: bool
) -> list[tuple[int, int]]:
    numbers: dict[Hashable, int] = {}
    keys = [[numbers.setdefault(key(side, position), len(numbers)) for position in left_over[side]] for side in (0, 1)]
    if not anywhere:
        arrays = [np.array(side, dtype=np.int64) for side in keys]
        return [(left_over[0][i], left_over[1][j]) for i, j in align(arrays[0], arrays[1]).tolist()]
    waiting: dict[int, list[int]] = defaultdict(list)
    for position, number in zip(left_over[0], keys[0], strict=True):
        waiting[number].append(position)
    found = []
    for position, number in zip(left_over[1], keys[1], strict=True):
        if waiting[number]:
            found.append((waiting[number].pop(0), position))
    return found


def _comparable(sides: tuple[_Side, _Side], left: int, right: int) -> bool:
    """Calls of different names are only taken for one another where they return as many elements."""
    shapes = [sides[0].shapes(left), sides[1].shapes(right)]
    sizes = [[int(np.prod(shape, dtype=np.int64)) for shape in side] for side in shapes]
    return bool(sizes[0]) and sizes[0][0] == sizes[1][0] if sizes[1] else False


def _end_points(
    sides: tuple[_Side, _Side], left_over: list[list[int]], gap: Callable[[int, int], int]
) -> list[tuple[int, int]]:
    """Where several calls stand against fewer: the last ones with outputs of the same shape."""
    groups: list[dict[int, list[int]]] = [defaultdict(list), defaultdict(list)]
    for side in (0, 1):
        for position in left_over[side]:
            groups[side][gap(side, position)].append(position)
    found = []
    for number in groups[0].keys() & groups[1].keys():
        right = groups[1][number][-1]
        wanted = sides[1].shapes(right)
        same = [left for left in groups[0][number] if wanted and sides[0].shapes(left) == wanted]
        if same:
            found.append((same[-1], right))
    return found


def _take(found: list[tuple[int, int]], match: Match, left_over: list[list[int]]) -> Integers:
    """Removes pairs from what is left over."""
    taken = [{pair[side] for pair in found} for side in (0, 1)]
    for side in (0, 1):
        left_over[side] = [position for position in left_over[side] if position not in taken[side]]
    return _labelled(np.array(found, dtype=np.int64).reshape(-1, 2), match)


def _labelled(pairs: Integers, match: Match) -> Integers:
    """Rows (reference, candidate, match)."""
    return np.concatenate([pairs, np.full((len(pairs), 1), int(match), dtype=np.int64)], axis=1)


def _match_backward(sides: tuple[_Side, _Side], pairs: Integers) -> Integers:
    """Backward calls follow their forward call; the n-th of one side is the n-th of the other."""
    reference, candidate = sides
    whole = pairs[pairs[:, 2] != int(Match.FUSED)]
    whole = whole[np.argsort(whole[:, 1])]
    calls = candidate.trace.column("id")[whole[:, 1]]
    forward = candidate.forward[candidate.behind]
    if not len(whole) or not len(forward) or not len(reference.behind):
        return np.empty((0, 3), dtype=np.int64)
    place = np.minimum(np.searchsorted(calls, forward), len(calls) - 1)
    known = calls[place] == forward
    partner = np.where(known, reference.trace.column("id")[whole[place, 0]], NONE - 1)
    ours = partner * _MANY + occurrence(partner)
    theirs = reference.forward[reference.behind]
    _, left, right = np.intersect1d(theirs * _MANY + occurrence(theirs), ours, return_indices=True)
    match = np.where(whole[place[right], 2] == int(Match.RENAMED), int(Match.RENAMED), int(Match.SAME))
    return np.stack(
        [reference.positions[reference.behind[left]], candidate.positions[candidate.behind[right]], match], axis=1
    )


def _in_order(at_reference: Integers, at_candidate: Integers, pairs: Integers) -> Alignment:
    left, right, match = pairs.T
    missing = np.setdiff1d(at_reference, left, assume_unique=True)
    extra = np.setdiff1d(at_candidate, right, assume_unique=True)
    steady = np.argsort(left)
    # A missing call stands behind what the candidate made for the last shared call before it.
    before = np.searchsorted(left[steady], missing) - 1
    behind = np.where(before >= 0, right[steady][before], -1) if len(left) else np.full(len(missing), -1)
    place = np.concatenate([right.astype(float), extra.astype(float), behind + 0.5])
    tie = np.concatenate([left, np.zeros(len(extra), dtype=np.int64), missing])
    order = np.lexsort((tie, place))
    none_left, none_right = np.full(len(extra), NONE), np.full(len(missing), NONE)
    return Alignment(
        reference=np.concatenate([left, none_left, missing])[order],
        candidate=np.concatenate([right, extra, none_right])[order],
        match=np.concatenate([match, np.full(len(extra), int(Match.EXTRA)), np.full(len(missing), int(Match.MISSING))])[
            order
        ],
    )
