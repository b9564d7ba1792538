"""From what was found on each rank to the verdict of the whole, so that no verdict contradicts the numbers.

PASS: what both programs give away was laid side by side and agrees, but for what honest arithmetic explains. FAIL:
something is named that explains why it does not. NOT COMPARED: too little of it could be laid side by side to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from trueline.compare import Match
from trueline.diagnose.divergence import Divergences
from trueline.diagnose.finding import Divergence
from trueline.diagnose.observables import Observable
from trueline.diagnose.table import RankTable
from trueline.judge import Judgement
from trueline.ops.facts import Kind, facts_of
from trueline.records import ObservableComparison, Phase, Verdict
from trueline.store.columns import NONE, PHASES

_ENOUGH = 0.9
"""The share of the calls that must have been compared where a Run does not say what its program gives away."""
_FORWARD = PHASES.index(Phase.FORWARD)
_NO_CALL = ("data", "state", "update")
_OWN: Mapping[str, tuple[str, ...]] = {
    "state": ("parameter", "buffer"),
    "update": ("update", "gradient", "optimizer state"),
}
"""Origins that are values of these kinds, not what a call made."""


@dataclass(slots=True)
class Outcome:
    """The verdict of one rank, and what is to be said about how much was compared."""

    verdict: Verdict
    observables: list[ObservableComparison] = field(default_factory=list)
    reason: str = ""


def outcome_of(table: RankTable, walk: Divergences, first: Divergence | None) -> Outcome:
    """Brings the verdicts of a table's rows into line with what the walk found, and gives the verdict of the rank."""
    observables = [
        _compared(walk, place, one, first)
        for place, one in enumerate(walk.observables.items)
        if one.kind not in ("input", "begin of buffer")
    ]
    if observables:
        observables += [_result(walk, leaf, first) for leaf in walk.results]
    if first is not None:
        _mark(table, first)
        counted = table.verdict[table.verdict >= int(Verdict.FAIL)]
        return Outcome(max(Verdict.FAIL, Verdict(int(counted.max(initial=0)))), observables)
    _let_go(table)
    worst = Verdict.WARN if bool((table.verdict == int(Verdict.WARN)).any()) else Verdict.PASS
    reason = walk.undecided or _too_little(table, walk)
    table.idle |= table.alignment.match >= int(Match.EXTRA)
    return Outcome(Verdict.NOT_COMPARED if reason else worst, observables, reason)


def _mark(table: RankTable, first: Divergence) -> None:
    """The rows of the calls that explain it fail; none where no call does: then the values themselves differ."""
    if first.kind in _NO_CALL and not (first.reference or first.candidate):
        return
    rows = {first.row} if not (first.reference or first.candidate) else set[int]()
    sides = ((first.reference, table.alignment.reference), (first.candidate, table.alignment.candidate))
    for positions, column in sides:
        rows.update(np.flatnonzero(np.isin(column, positions)).tolist() if positions else ())
    for row in rows or {first.row}:
        if table.verdict[row] < int(Verdict.FAIL):
            limit = None if np.isnan(table.limit[row]) else float(table.limit[row])
            table.set_judgement(row, Judgement(Verdict.FAIL, first.reason, limit))


def _let_go(table: RankTable) -> None:
    """Rows that failed though nothing that is given away comes of them: told, but no failure."""
    for row in np.flatnonzero(table.verdict >= int(Verdict.FAIL)).tolist():
        reason = table.reasons[int(table.reason[row])]
        limit = None if np.isnan(table.limit[row]) else float(table.limit[row])
        text = f"{reason}; nothing that the program gives away depends on it"
        table.set_judgement(row, Judgement(Verdict.WARN, text, limit, inherited=True))


def _too_little(table: RankTable, walk: Divergences) -> str:
    """Why it cannot be said that nothing is wrong; empty where it can."""
    items = list(walk.observables.given_away())
    if items:
        measured = sum(one.both and walk.observables.measured[one.place]["note"] == 0 for one in items)
        wanted = sum(one.kind != "optimizer state" for one in items)
        if not measured:
            return "nothing that the programs give away could be measured on both sides"
        if measured < _ENOUGH * wanted:
            return f"only {measured} of {wanted} values that the programs give away were compared"
        return ""
    forward = table.alignment.match < 0
    for trace, positions in zip(table.traces, (table.alignment.reference, table.alignment.candidate), strict=True):
        present = positions != NONE
        forward[present] |= trace.column("phase")[positions[present]] == _FORWARD
    forward &= ~_undefined(table) & ~table.idle
    compared = (table.verdict != int(Verdict.NOT_COMPARED)) & forward
    if not compared.any():
        return ""
    share = float(compared.sum()) / float(forward.sum())
    if share < _ENOUGH:
        return f"only {share:.0%} of the calls could be laid side by side"
    return ""


def _undefined(table: RankTable) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    found = np.zeros(len(table), dtype=bool)
    for trace, positions in zip(table.traces, (table.alignment.reference, table.alignment.candidate), strict=True):
        numbers = [number for number, name in trace.names.items() if facts_of(name).kind is Kind.UNDEFINED]
        found |= (positions != NONE) & np.isin(trace.column("api")[positions], numbers)
    return found


def _compared(walk: Divergences, place: int, one: Observable, first: Divergence | None) -> ObservableComparison:
    records = [walk.observables.record(side, one) for side in (0, 1)]
    rank = walk.table.rank
    if not one.both:
        side = "reference" if one.reference != NONE else "candidate"
        verdict = Verdict.FAIL if first is not None and place in walk.beyond else Verdict.NOT_COMPARED
        return ObservableComparison(
            one.kind, one.name, one.step, rank, records[0], records[1], verdict, f"only the {side} has it"
        )
    distance = walk.observables.distance(one)
    estimated = bool(walk.observables.measured[one.place]["estimated"])
    if distance != distance:
        return ObservableComparison(
            one.kind, one.name, one.step, rank, records[0], records[1], Verdict.NOT_COMPARED, "it was not measured"
        )
    if distance == 0.0:
        verdict, reason = Verdict.PASS, "equal"
    elif place not in walk.beyond:
        verdict, reason = Verdict.PASS, walk.explained.get(place, "within a few roundings")
    elif first is not None:
        verdict, reason = Verdict.FAIL, "follows from the origin"
        if one.kind in _OWN.get(first.kind, ()) and one.name in first.names and one.step == first.step:
            reason = "the origin itself"
        elif place in walk.explained:
            verdict, reason = Verdict.PASS, walk.explained[place]
    else:
        verdict, reason = Verdict.PASS, walk.explained.get(place, "what it was made from explains it")
    return ObservableComparison(
        one.kind, one.name, one.step, rank, records[0], records[1], verdict, reason, distance, None, estimated
    )


def _result(walk: Divergences, leaf: int, first: Divergence | None) -> ObservableComparison:
    """Something that the program itself computes and keeps, as an observable."""
    table = walk.table
    row, visits = int(table.leaves.row[leaf]), (int(table.leaves.reference[leaf]), int(table.leaves.candidate[leaf]))
    distance, estimated = walk.joints.distance(leaf), table.tensor_at(leaf).estimated
    call = table.traces[1].call(int(table.alignment.candidate[row]), statistics=False)
    verdict, reason = Verdict.PASS, "equal" if distance == 0.0 else "within a few roundings"
    if distance != distance:
        verdict, reason = Verdict.NOT_COMPARED, "it was not measured"
    elif leaf in walk.results_beyond:
        verdict, reason = Verdict.PASS, "what it was made from explains it"
        if first is not None:
            verdict, reason = Verdict.FAIL, "follows from the origin"
    name = f"{call.api.rpartition('.')[2].strip('_')} at {call.source}" if call.source else call.name
    records = [table.record(side, visit) for side, visit in enumerate(visits)]
    return ObservableComparison(
        "result", name, int(table.step[row]), table.rank, records[0], records[1], verdict, reason,
        None if distance != distance else distance, None, estimated,
    )  # fmt: skip


def worst_of(outcomes: Sequence[Outcome]) -> Verdict:
    return max((one.verdict for one in outcomes), default=Verdict.NOT_COMPARED)
