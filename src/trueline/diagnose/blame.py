"""Who is to blame, among the births of all ranks: the order of time, what became of infinities, who sent what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from trueline.diagnose.births import Manner, Start
from trueline.ops.facts import Kind, facts_of
from trueline.ops.overflows import ADVICE
from trueline.overflows import Birth, Nature, OverflowKind
from trueline.records import Call

if TYPE_CHECKING:
    from trueline.diagnose.overflow import RankOverflows


def across_ranks(ranks: Sequence[RankOverflows]) -> list[Birth]:
    """All births, alarms first, in the order of time over all ranks."""
    by_rank = {one.rank: one for one in ranks}
    rows = []
    for rank in ranks:
        rows += [
            (rank.when(start), rank.rank, number, _sent(by_rank, rank, start, birth))
            for number, ((start, _), birth) in enumerate(zip(rank.found, _blame(rank), strict=True))
        ]
    rows.sort(key=lambda row: (not row[3].alarm, _doubt(row[3]), row[0], row[1], row[2]))
    return [row[3] for row in rows]


def _doubt(birth: Birth) -> int:
    """How sure it is that something began here: what was made, what came in bad, what may have come in bad."""
    if birth.kind is OverflowKind.UNKNOWN and birth.nature is Nature.UNKNOWN:
        return 2
    return int(birth.nature is Nature.INHERITED)


def _blame(rank: RankOverflows) -> list[Birth]:
    """The births of a rank, where NaN that was made of infinities is blamed on who made the infinities, unless those
    were meant."""
    births = [birth for _, birth in rank.found]
    for number, (start, birth) in enumerate(rank.found):
        if start.manner is not Manner.TURNED or not birth.alarm:
            continue
        guilty = [one for one in start.parents if one < len(births) and not _is_innocent(births[one], birth.call)]
        if not guilty:
            continue
        parent = births[min(guilty)]
        if parent.kind is OverflowKind.GRADIENT_SCALED and parent.nature is Nature.MEANT:
            why = f"the loss scaler skipped the step; NaN of the infinities of {parent.call.name}"
            births[number] = replace(birth, nature=Nature.MEANT, alarm=False, why=why)
            continue
        why = f"NaN of the infinities of {parent.call.name}; {birth.why}"
        births[number] = replace(birth, nature=Nature.INHERITED, alarm=False, why=why)
        if not parent.alarm:
            nature = rank.natures[min(guilty)]
            chain = (parent.call.name, *birth.chain)
            births[min(guilty)] = replace(parent, alarm=True, nature=nature, ends=birth.ends, chain=chain)
    return births


def _is_innocent(birth: Birth, victim: Call) -> bool:
    """Whether an infinity is not to blame for what a call made of it: one that the program filled in, or a mask. What
    is multiplied and summed is no mask."""
    contracts = facts_of(victim.api).kind is Kind.CONTRACTION
    return birth.kind is OverflowKind.FILLED or (is_mask(birth) and not contracts)


def is_mask(birth: Birth) -> bool:
    """A tensor of -inf that came from outside, as masks do."""
    return birth.kind is OverflowKind.INPUT and not birth.counts.nan and not birth.counts.positive_infinity


def _sent(by_rank: dict[int, RankOverflows], rank: RankOverflows, start: Start, birth: Birth) -> Birth:
    """What came in by a collective: from a rank that had it before, or by the sum itself."""
    if start.manner is not Manner.RECEIVED:
        return birth
    ordinal = int(np.searchsorted(rank.collectives, start.position))
    for other in by_rank.values():
        if other is rank or ordinal >= len(other.collectives):
            continue
        marks = other.marks_given(other.collectives[ordinal])
        if marks:
            origin = other.births.starts[min(marks)]
            named = other.births.trace.call(origin.position, statistics=False)
            why = f"rank {other.rank} sent it, where it began in {named.name} of step {named.step}"
            return replace(birth, nature=Nature.INHERITED, alarm=False, why=why)
    why = "every rank sent finite numbers, and their sum is too large"
    return replace(
        birth,
        kind=OverflowKind.ACCUMULATION,
        nature=Nature.EXPECTED,
        why=why,
        advice=ADVICE[OverflowKind.ACCUMULATION],
    )
