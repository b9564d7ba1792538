"""Where two programs part whose calls have no names in common: between the values that both have, and the first that
what differs was made from and that only one of them has.

Whatever a value was made from that both have is right, however it is written. Of the rest, the calls that take nothing
but what is right stand first; those of the two sides that were made from the same values are laid beside each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from trueline.compare.align import alike
from trueline.compare.graph import ValueGraph
from trueline.dtypes import DTYPES
from trueline.records import Role
from trueline.store.columns import NONE, ROLES

_OUTPUT = ROLES.index(Role.OUTPUT)
_LOOKED_AT = 400
"""So many calls behind the last value that both have are looked at."""
SHORT = 6
"""Calls of longer regions that only make what the others are combined with are left out."""

Support = frozenset[int]
_Makers = dict[tuple[Support, int], list[int]]


@dataclass(slots=True)
class Parted:
    """The calls of both sides, by position, between what both have and the first that they do not."""

    reference: tuple[int, ...]
    candidate: tuple[int, ...]


class Side:
    """One side: which of its values are right, and which calls lie between those and what differs."""

    def __init__(
        self, graph: ValueGraph, tokens: dict[int, int], telling: set[int], named: dict[int, int], backward: bool
    ) -> None:
        self.graph = graph
        self.trace = graph.trace
        self._tokens = tokens
        self._telling = telling
        self._named = named
        """Tokens of what the model holds, by its value: negative numbers."""
        self._backward = backward
        self.good = set(tokens)
        self._vouch(telling)
        self._supports: dict[int, Support] = {}
        self._real: dict[int, bool] = {}

    def _vouch(self, telling: set[int]) -> None:
        """What a value was made from that both sides have is right."""
        waiting = list(telling)
        seen = set(waiting)
        while waiting:
            made = waiting.pop()
            position = self.graph.maker(made)
            if position == NONE or self.graph.is_backward(position) != self._backward:
                continue
            given = self.given(position)
            # What a call hands on as it was says nothing of what else it was given.
            same = [value for value in given if self._tokens.get(value, NONE) == self._tokens.get(made, -2)]
            for value in same or given:
                if value not in seen:
                    seen.add(value)
                    self.good.add(value)
                    waiting.append(value)

    def given(self, position: int) -> list[int]:
        """The values that a call takes; of a backward call the gradients that arrive, or what they were summed from."""
        visits = self.trace.visits_of(position)
        values: list[int] = visits[visits[:, 2] != _OUTPUT, 3].tolist()
        if not self._backward:
            return values
        parts = [[part for part, _ in self.graph.summed(value)] or [value] for value in values]
        return [value for some in parts for value in some]

    def behind(self, values: Iterable[int]) -> list[int]:
        """The calls from which some values were made and that are not known to be right, in the order of time."""
        waiting, calls = [value for value in values if value not in self.good], set[int]()
        while waiting:
            position = self.graph.maker(waiting.pop())
            if position == NONE or position in calls or self.graph.is_backward(position) != self._backward:
                continue
            calls.add(position)
            waiting += [value for value in self.given(position) if value not in self.good]
        return sorted(calls)

    def support(self, value: int) -> Support:
        """The real numbers that both sides have from which a value was made. Flags, indices and constants are left out:
        a mask that one side alone takes must not keep the two from being laid side by side."""
        if value in self._supports:
            return self._supports[value]
        self._supports[value] = frozenset()  # a loop: nothing new
        if value in self._tokens or value in self._named:
            token = self._named.get(value, self._tokens.get(value, NONE))
            tells = value in self._named or value in self._telling
            found = frozenset((token,)) if tells and self._is_real(value) else frozenset()
        else:
            position = self.graph.maker(value)
            found = frozenset[int]()
            if position != NONE and self.graph.is_backward(position) == self._backward:
                found = frozenset[int]().union(*(self.support(one) for one in self.given(position)))
        self._supports[value] = found
        return found

    def gave(self, position: int) -> list[tuple[int, int]]:
        """What a call gave, as (value, number of elements)."""
        visits = self.trace.visits_of(position)
        return [
            (value, _count(self.trace.layouts[layout].shape))
            for value, layout in visits[visits[:, 2] == _OUTPUT, 3:].tolist()
        ]

    def floats(self, position: int) -> bool:
        """Whether a call takes what was made from real numbers that both sides have."""
        return any(self.support(value) for value in self.given(position))

    def _is_real(self, value: int) -> bool:
        """Whether a value holds real numbers that were made from such, and not flags written as numbers."""
        if value not in self._real:
            self._real[value] = False  # a loop: nothing new
            position = self.graph.maker(value)
            given = [] if position == NONE else self.given(position)
            self._real[value] = self._is_float(value) and (not given or any(self._is_real(one) for one in given))
        return self._real[value]

    def _is_float(self, value: int) -> bool:
        kind = DTYPES.get(self.trace.layouts[self.graph.layout_of(value)].dtype.rpartition(".")[2])
        return kind is not None and not kind.is_exact

    def api(self, position: int) -> str:
        return self.trace.names.get(int(self.trace.columns[position, 3]), "")

    def among(self, positions: Iterable[int], last: int) -> list[int]:
        """Those of some calls from which the last one took, and itself."""
        known, found, waiting = set(positions), {last}, [last]
        while waiting:
            for value in self.given(waiting.pop()):
                position = self.graph.maker(value)
                if value not in self.good and position in known and position not in found:
                    found.add(position)
                    waiting.append(position)
        return sorted(found)


def part(sides: tuple[Side, Side], ends: tuple[Iterable[int], Iterable[int]], same_call: Any) -> Parted | None:
    """Where two sides part that both made the ends; None where all that these were made from is right.
    ``same_call(reference, candidate)`` says whether two calls were asked for the same."""
    behind = [side.behind(values)[:_LOOKED_AT] for side, values in zip(sides, ends, strict=True)]
    if not any(behind):
        return None
    pair = _meeting(sides, behind[0], behind[1], lambda support: support)
    if pair is None:  # by what the model holds alone
        pair = _meeting(sides, behind[0], behind[1], lambda support: frozenset(one for one in support if one < 0))
    if pair is None:
        return Parted(tuple(behind[0][:1]), tuple(behind[1][:1]))
    regions = [sides[number].among(behind[number], pair[number]) for number in (0, 1)]
    if any(len(region) > 1 for region in regions) and same_call(*pair):
        regions = [[one for one in region if one != last] for region, last in zip(regions, pair, strict=True)]
    short = [
        [one for one in region if len(region) <= SHORT or side.floats(one)]
        for side, region in zip(sides, regions, strict=True)
    ]
    return Parted(tuple(short[0]), tuple(short[1]))


def _meeting(
    sides: tuple[Side, Side], reference: list[int], candidate: list[int], told_by: Callable[[Support], Support]
) -> tuple[int, int] | None:
    """The first two calls that made as many numbers from the same values: by the same operator, or where no two of
    those that did are alike, the last ones of each side."""
    makers: tuple[_Makers, _Makers] = ({}, {})
    for side, positions in enumerate((reference, candidate)):
        for position in positions:
            for value, count in sides[side].gave(position):
                if support := told_by(sides[side].support(value)):
                    makers[side].setdefault((support, count), []).append(position)
    for key, mine in makers[1].items():
        theirs = makers[0].get(key)
        if not theirs:
            continue
        for position in mine:
            for other in theirs:
                if alike(sides[0].api(other)) == alike(sides[1].api(position)):
                    return other, position
        return theirs[-1], mine[-1]
    return None


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
