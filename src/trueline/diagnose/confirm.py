"""Replays suspects on their recorded inputs in float64: who is right?

The candidate's output is wrong where it lies much farther from the truth than an honest implementation in the same
dtype does, and the same call of the reference does not. Where both sides seem equally wrong, the replay is not what
the program ran, and nothing is concluded.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trueline.diagnose.table import RankTable
from trueline.errors import RunError
from trueline.ops.facts import Kind, facts_of
from trueline.records import Call, Phase
from trueline.store.columns import NONE

if TYPE_CHECKING:
    from trueline.diagnose.replaying import Assessment, Recorded

_MARGIN_SINGLE, _MARGIN_HALF = 8.0, 3.0
"""How much worse than an honest implementation is wrong. In half precision honest implementations round once, all
alike; in single precision they differ in the order of sums."""
_PEAK_MARGIN = 4.0
_FLOOR_SINGLE, _FLOOR_HALF = 2.0, 0.5
"""The least error, in unit roundoffs, that is allowed whatever the honest implementation achieves."""
_TENSOR_FLOAT = 2.0**-11
_NOT_REPEATABLE = (Kind.RANDOM, Kind.COLLECTIVE, Kind.UNDEFINED)

SECONDS = 120.0
"""Replaying stops after this long; what is left is judged by distance alone."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What replaying one call showed. ``guilty`` is None where nothing could be concluded, and ``reason`` says why."""

    guilty: bool | None
    reason: str
    evidence: Mapping[str, float] = field(default_factory=dict)
    proves_another: bool = False
    """Whether it is other mathematics, not rounding."""


class Court:
    """Tries the rows of one rank, within a budget of time."""

    def __init__(self, table: RankTable, deadline: float | None = None) -> None:
        self._table = table
        self._deadline = time.monotonic() + SECONDS if deadline is None else deadline
        self.tried = 0

    @property
    def time_is_up(self) -> bool:
        return time.monotonic() > self._deadline

    def try_row(self, row: int) -> Trial:
        if self.time_is_up:
            return Trial(None, "there was no time left to replay it")
        self.tried += 1
        sides: list[Assessment] = []
        for side in (1, 0):
            found = self._assess(row, side)
            if isinstance(found, str):
                return Trial(None, f"it could not be replayed: {found}")
            sides.append(found)
        return _conclude(sides[0], sides[1], self._coarsest(row))

    def _coarsest(self, row: int) -> float:
        """The unit roundoff of what a call may have worked in unseen: TF32, or autocast inside of it."""
        facts = facts_of(self._table.api(row))
        if facts.composite and self._table.precision.autocast:
            return self._table.precision.autocast
        contracts = facts.kind in (Kind.CONTRACTION, Kind.ATTENTION) and self._table.precision.on_different_devices(row)
        return _TENSOR_FLOAT if contracts else 0.0

    def _assess(self, row: int, side: int) -> Assessment | str:
        # Imported here: comparing must not wait for what only a replay needs.
        from trueline.diagnose.replaying import Unreplayable, assess

        recorded = self.recorded(row, side)
        if isinstance(recorded, str):
            return recorded
        try:
            return assess(recorded)
        except Unreplayable as error:
            return str(error)
        except RunError:  # the Run is damaged: nobody may take what is left for an answer
            raise
        except Exception as error:  # whatever a kernel raises on recorded data must not end the comparison
            return f"{type(error).__name__}: {str(error)[:120]}"

    def recorded(self, row: int, side: int) -> Recorded | str:
        """A call of one side with the means to replay it, or why it cannot be."""
        from trueline.diagnose.replaying import Recorded

        position = int((self._table.alignment.reference, self._table.alignment.candidate)[side][row])
        if position == NONE:
            return "only one side makes this call"
        kind = facts_of(self._table.api(row)).kind
        if kind in _NOT_REPEATABLE:
            return f"it {kind.value}"
        call = self._table.traces[side].call(position, statistics=False)
        fetch, pooled = self._table.readers[side].tensor, self._table.precision.pooled(row)
        return Recorded(call, fetch, self._forward(call, side), pooled)

    def _forward(self, call: Call, side: int) -> Call | None:
        if call.phase is not Phase.BACKWARD or call.forward_id is None:
            return None
        position = self._table.position_of(side, call.forward_id)
        return None if position == NONE else self._table.traces[side].call(position, statistics=False)


def excess(one: Assessment, coarse: float = 0.0) -> float:
    """By which factor an output is worse than what is allowed; above 1.0 it is wrong."""
    half = one.roundoff > 1e-4
    floor = (_FLOOR_HALF if half else _FLOOR_SINGLE) * one.roundoff
    floor = max(floor, coarse)
    margin = _MARGIN_HALF if half else _MARGIN_SINGLE
    allowed = margin * max(one.honest, floor)
    allowed_peak = _PEAK_MARGIN * margin * max(one.honest_peak, floor)
    if allowed <= 0.0:  # exact types
        return float("inf") if one.error > 0.0 else 0.0
    return max(one.error / allowed, one.peak / allowed_peak)


def _conclude(candidate: Assessment, reference: Assessment, coarse: float) -> Trial:
    evidence = {
        "candidate_error": candidate.error,
        "candidate_honest": candidate.honest,
        "reference_error": reference.error,
        "reference_honest": reference.honest,
    }
    ours, theirs = excess(candidate, coarse), excess(reference, coarse)
    both = (
        f"replayed in float64, the candidate is off by {candidate.error:.2g} and the reference by "
        f"{reference.error:.2g}, "
        f"where an honest implementation is off by {candidate.honest:.2g}"
    )
    if ours > 1.0 and theirs > 1.0 and ours < 4.0 * theirs:
        return Trial(None, f"the replay agrees with neither side: {both}", evidence)
    if ours > 1.0 or theirs > 1.0:
        blamed = "" if ours > 1.0 else "; it is the reference that is wrong"
        return Trial(True, both + blamed, evidence)
    return Trial(False, f"{both}: both are right", evidence)
