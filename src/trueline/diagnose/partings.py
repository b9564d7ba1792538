"""The places at which two programs parted so far, and whether they agree again behind them.

Other code for the same mathematics parts from it again and again, and soon agrees again each time: every layer whose
attention is written otherwise is such a place. What is looked for is the first place behind which they do not.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from trueline.diagnose.finding import Divergence
from trueline.diagnose.joints import Joints, Region
from trueline.store.columns import NONE


@dataclass(slots=True)
class _Parting:
    found: Divergence
    calls: tuple[set[int], set[int]] = field(default_factory=lambda: (set(), set()))
    """The calls of each side that were laid side by side, and that are no counterparts after all."""
    open: bool = True
    leans: bool = False


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

    def behind(self, region: Region) -> Divergence | None:
        """The first of those through whose calls a region goes."""
        parting = next((one for one in self._all if _meets(one, region)), None)
        return None if parting is None else parting.found

    def meet(self, found: Divergence) -> Divergence:
        """Notes that the two part; gives the place at which they did first on the way to this one."""
        region = None if found.leaf == NONE else self._joints.region(found.leaf)
        known = [] if region is None else [one for one in self._all if _meets(one, region)]
        parting = known[0] if known else _Parting(found)
        if not known:
            self._all.append(parting)
        parting.open = True
        parting.leans |= found.leans
        alignment = self._joints.table.alignment
        for row in [found.row, *self._joints.backward_rows(found.row)]:
            for side, column in enumerate((alignment.reference, alignment.candidate)):
                if column[row] != NONE:
                    parting.calls[side].add(int(column[row]))
        return parting.found

    def agree(self, region: Region) -> None:
        """Notes that the two agree again behind a region."""
        self.in_a_row = 0
        for one in self._all:
            one.open = one.open and not _meets(one, region)


def _meets(parting: _Parting, region: Region) -> bool:
    return any(not calls.isdisjoint(side.calls) for calls, side in zip(parting.calls, region.sides, strict=True))
