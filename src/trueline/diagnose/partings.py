"""The places at which two programs parted so far, and whether they agree again behind them.

Other code for the same mathematics parts from it again and again, and soon agrees again each time: every layer whose
attention is written otherwise is such a place. What is looked for is the first place behind which they do not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from trueline.compare.graph import ValueGraph
from trueline.diagnose.finding import Divergence
from trueline.diagnose.joints import Joints, Region
from trueline.store.columns import NONE


def _none() -> tuple[set[int], set[int]]:
    return set(), set()


@dataclass(slots=True)
class _Parting:
    found: Divergence
    calls: tuple[set[int], set[int]] = field(default_factory=_none)
    """The calls of each side that were laid side by side, and that are no counterparts after all."""
    fresh: tuple[set[int], set[int]] = field(default_factory=_none)
    """Those of them that were met since the two last agreed."""
    right: tuple[set[int], set[int]] = field(default_factory=_none)
    """What these calls gave that is the same on both sides: it was never apart, so it agrees with nothing again."""
    open: bool = True
    leans: bool = False
    shift: float = math.inf
    """How far apart the two were at least wherever they were seen to differ for its sake, since they last agreed."""


class Partings:
    """Those of one rank, in the order in which they were met."""

    def __init__(self, joints: Joints) -> None:
        self._joints = joints
        self._all: list[_Parting] = []
        self.in_a_row = 0
        """So many were met since the two last agreed again, behind which somebody takes what they gave."""

    @property
    def first(self) -> Divergence | None:
        """The first behind which the two have not agreed again, else the first of all."""
        known = [one for one in self._all if one.open] or self._all
        return known[0].found if known else None

    @property
    def leaning(self) -> Divergence | None:
        """The first behind which the two have not agreed again, and differ in one direction."""
        return next((one.found for one in self._all if one.open and one.leans), None)

    def behind(self, region: Region) -> tuple[Divergence | None, float]:
        """The first of those through whose calls a region goes, and how far apart the two were at least behind it."""
        parting = next((one for one in self._all if self._meets(one, region)), None)
        return (None, math.inf) if parting is None else (parting.found, parting.shift)

    def meet(self, found: Divergence, region: Region | None) -> Divergence:
        """Notes that the two part, with what lies behind it; gives the place at which they did first on the way."""
        known = [] if region is None else [one for one in self._all if self._meets(one, region)]
        parting = known[0] if known else _Parting(found)
        if not known:
            self._all.append(parting)
        if not parting.open:
            parting.fresh, parting.shift = _none(), math.inf
        parting.open = True
        parting.leans |= found.leans
        parting.shift = min(parting.shift, found.shift)
        alignment = self._joints.table.alignment
        for row in [found.row, *self._joints.backward_rows(found.row)]:
            for side, column in enumerate((alignment.reference, alignment.candidate)):
                if column[row] != NONE:
                    parting.calls[side].add(int(column[row]))
                    parting.fresh[side].add(int(column[row]))
                parting.right[side].update(self._joints.given_equal(side, row))
        return parting.found

    def agree(self, region: Region, replayed: float | None = None) -> None:
        """Notes that the two agree again behind a region: they are near each other, or ``replayed`` showed that it
        computes the same of what it begins with, which is no more than so far apart where it agrees."""
        self.in_a_row = 0
        for one in self._all:
            if one.open and self._meets(one, region) and (replayed is None or not self._arrives(one, region, replayed)):
                one.open = False

    def _meets(self, parting: _Parting, region: Region) -> bool:
        """Whether a region goes through the calls of a parting, by more than what was right there all along."""
        for side, graph in enumerate(self._joints.graphs):
            calls = set(region.sides[side].calls)
            wanted = calls & parting.calls[side]
            if wanted and _leads_to(graph, region.ends[side], calls, parting.right[side], wanted):
                return True
        return False

    def _arrives(self, parting: _Parting, region: Region, within: float) -> bool:
        """Whether a region begins with what differs for the sake of a parting: then what it computes says nothing."""
        for side, graph in enumerate(self._joints.graphs):
            for value, apart in region.apart[side].items():
                doubtful = apart > within and not self._joints.joined(side, value)
                if doubtful and not parting.fresh[side].isdisjoint(graph.all_behind([value])):
                    return True
        return False


def _leads_to(graph: ValueGraph, ends: list[int], calls: set[int], right: set[int], wanted: set[int]) -> bool:
    """Whether some values were made by a call that is wanted, through some calls, and not by what was right."""
    return not graph.all_behind(ends, but=right, through=calls).isdisjoint(wanted)
