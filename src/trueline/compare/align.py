"""Which call of the candidate is which call of the reference.

Two traces of one rank and step are aligned in stages, each on what the ones before left over: equal calls in equal
order; equal calls elsewhere; the same operator under another name or in a module of another name; other calls with the
same outputs in the same place; and several calls against fewer, whose last outputs look alike. A backward call belongs
to its forward call and follows it. What remains is extra (candidate only) or missing (reference only).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from trueline.compare.sequences import align
from trueline.ops.names import canonical, module_key
from trueline.records import Phase, Role
from trueline.store.columns import CALL_COLUMNS, NONE, PHASES, ROLES, Integers
from trueline.store.trace import Trace

_COLUMN = {name: position for position, name in enumerate(CALL_COLUMNS)}
_BACKWARD = PHASES.index(Phase.BACKWARD)
_OUTPUT = ROLES.index(Role.OUTPUT)


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


def align_calls(reference: Trace, at_reference: Integers, candidate: Trace, at_candidate: Integers) -> Alignment:
    """Aligns the calls at the given (rising) positions of two traces, which are those of one step."""
    numbers: dict[Hashable, int] = {}
    sides = (_Side(reference, at_reference, numbers), _Side(candidate, at_candidate, numbers))
    pairs: dict[int, tuple[int, Match]] = {}
    ahead = [side.ahead for side in sides]
    for i, j in align(sides[0].keys[ahead[0]], sides[1].keys[ahead[1]]):
        pairs[int(at_reference[ahead[0][i]])] = (int(at_candidate[ahead[1][j]]), Match.SAME)
    anchors = sorted((left, right) for left, (right, _) in pairs.items())
    left_over = [
        _without(at_reference[ahead[0]], pairs),
        _without(at_candidate[ahead[1]], {right for right, _ in pairs.values()}),
    ]
    if all(len(left) for left in left_over):
        _match_left_over(sides, left_over, anchors, pairs)
    _match_backward(sides, pairs)
    return _in_order(at_reference, at_candidate, pairs)


class _Side:
    """One side of an alignment: positions, keys, and what later stages ask for."""

    def __init__(self, trace: Trace, positions: Integers, numbers: dict[Hashable, int]) -> None:
        self.trace = trace
        self.positions = positions
        rows = trace.columns[positions]
        self.forward = rows[:, _COLUMN["forward"]]
        follows = (rows[:, _COLUMN["phase"]] == _BACKWARD) & (self.forward != NONE)
        self.ahead = np.flatnonzero(~follows)
        self.behind = np.flatnonzero(follows)
        kinds = rows[:, [_COLUMN[name] for name in ("level", "phase", "api", "module", "context")]]
        distinct, inverse = np.unique(kinds, axis=0, return_inverse=True)
        keys = [
            numbers.setdefault((level, phase, self.api(api), self.module(module), self.api(context)), len(numbers))
            for level, phase, api, module, context in distinct.tolist()
        ]
        self.keys = np.array(keys, dtype=np.int64)[inverse.reshape(-1)] if keys else np.empty(0, dtype=np.int64)

    def api(self, number: int) -> str:
        return self.trace.names.get(number, "")

    def module(self, number: int) -> str:
        return module_key(self.trace.modules.get(number, ("", ""))[0])

    def operator(self, position: int) -> tuple[int, int, str]:
        row = self.trace.columns[position]
        return int(row[_COLUMN["level"]]), int(row[_COLUMN["phase"]]), canonical(self.api(int(row[_COLUMN["api"]])))

    def module_of(self, position: int) -> str:
        return self.module(int(self.trace.columns[position, _COLUMN["module"]]))

    def shapes(self, position: int) -> tuple[tuple[int, ...], ...]:
        """The shapes of the outputs, without dimensions of size 1."""
        visits = self.trace.visits_of(position)
        layouts = visits[visits[:, 2] == _OUTPUT, 4].tolist()
        return tuple(tuple(size for size in self.trace.layouts[number].shape if size != 1) for number in layouts)


def _match_left_over(
    sides: tuple[_Side, _Side],
    left_over: list[list[int]],
    anchors: list[tuple[int, int]],
    pairs: dict[int, tuple[int, Match]],
) -> None:
    """Stages after the first; ``left_over`` shrinks and ``pairs`` grows."""
    places = [np.array([anchor[side] for anchor in anchors], dtype=np.int64) for side in (0, 1)]

    def gap(side: int, position: int) -> int:
        """Between which calls that both sides share a call lies: a number that both sides agree on."""
        return int(np.searchsorted(places[side], position))

    key_of = [
        dict(zip(side.positions[side.ahead].tolist(), side.keys[side.ahead].tolist(), strict=True)) for side in sides
    ]
    stages: list[tuple[Match, Callable[[int, int], Hashable], bool]] = [
        (Match.MOVED, lambda side, p: key_of[side][p], True),
        (Match.RENAMED, lambda side, p: (gap(side, p), sides[side].operator(p), sides[side].module_of(p)), False),
        (Match.RENAMED, lambda side, p: (gap(side, p), sides[side].operator(p), sides[side].shapes(p)), False),
        (Match.RENAMED, lambda side, p: (gap(side, p), sides[side].operator(p)[:2], sides[side].shapes(p)), False),
    ]
    for match, key, anywhere in stages:
        found = _same_keys(left_over, key, anywhere)
        if match is Match.RENAMED:
            found = [pair for pair in found if _comparable(sides, *pair)]
        _take(found, match, left_over, pairs)
    _take(_end_points(sides, left_over, gap), Match.FUSED, left_over, pairs)


def _same_keys(
    left_over: list[list[int]], key: Callable[[int, int], Hashable], anywhere: bool
) -> list[tuple[int, int]]:
    numbers: dict[Hashable, int] = {}
    keys = [[numbers.setdefault(key(side, position), len(numbers)) for position in left_over[side]] for side in (0, 1)]
    if not anywhere:
        arrays = [np.array(side, dtype=np.int64) for side in keys]
        return [(left_over[0][i], left_over[1][j]) for i, j in align(arrays[0], arrays[1])]
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


def _take(
    found: list[tuple[int, int]], match: Match, left_over: list[list[int]], pairs: dict[int, tuple[int, Match]]
) -> None:
    for left, right in found:
        pairs[left] = (right, match)
    taken = [{pair[side] for pair in found} for side in (0, 1)]
    for side in (0, 1):
        left_over[side] = [position for position in left_over[side] if position not in taken[side]]


def _match_backward(sides: tuple[_Side, _Side], pairs: dict[int, tuple[int, Match]]) -> None:
    """Backward calls follow their forward call; the n-th of one side is the n-th of the other."""
    identities = [side.trace.column("id") for side in sides]
    waiting: dict[int, list[int]] = defaultdict(list)
    reference, candidate = sides
    for position, forward in zip(
        reference.positions[reference.behind].tolist(), reference.forward[reference.behind].tolist(), strict=True
    ):
        waiting[forward].append(position)
    partner = {
        int(identities[1][right]): (int(identities[0][left]), match)
        for left, (right, match) in pairs.items()
        if match is not Match.FUSED
    }
    for position, forward in zip(
        candidate.positions[candidate.behind].tolist(), candidate.forward[candidate.behind].tolist(), strict=True
    ):
        left_forward, match = partner.get(forward, (NONE, Match.SAME))
        if waiting.get(left_forward):
            followed = match if match is Match.RENAMED else Match.SAME
            pairs[waiting[left_forward].pop(0)] = (position, followed)


def _without(positions: Integers, taken: Any) -> list[int]:
    return [position for position in positions.tolist() if position not in taken]


def _in_order(at_reference: Integers, at_candidate: Integers, pairs: dict[int, tuple[int, Match]]) -> Alignment:
    left = np.fromiter(pairs.keys(), dtype=np.int64, count=len(pairs))
    right = np.fromiter((pair[0] for pair in pairs.values()), dtype=np.int64, count=len(pairs))
    match = np.fromiter((int(pair[1]) for pair in pairs.values()), dtype=np.int64, count=len(pairs))
    missing = np.setdiff1d(at_reference, left)
    extra = np.setdiff1d(at_candidate, right)
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
