"""The first call that went wrong, as distinct from its victims.

Suspects are the calls whose outputs the standard cannot explain by their inputs, and the breaks in the flow of data.
They are taken in the order of time. Where tensors were kept, each is replayed: the first one found guilty is the
origin; those found right are acquitted (they did right with slightly different inputs) and get a WARN at most. Where
nothing is suspect but the runs drift, the calls that come nearest to their limits are replayed too: a fault may hide
under large honest noise. Across ranks, a collective whose inputs were already wrong on another rank is a victim.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trueline.compare import Match
from trueline.diagnose.comparison import call_comparison
from trueline.diagnose.confirm import SECONDS, Court, Trial
from trueline.diagnose.explain import argument_changes, explain
from trueline.diagnose.flow import Break, Flow
from trueline.diagnose.table import RankTable
from trueline.judge import Judgement, Standard
from trueline.ops.facts import Kind, facts_of
from trueline.records import Origin, Verdict
from trueline.store.columns import NONE

_HIDDEN = 200
"""How many calls of each sort are replayed in search of a fault that hides under noise, and for how long at most."""
_HIDDEN_SECONDS = 20.0


@dataclass(slots=True)
class Suspect:
    """The first wrong call of one rank."""

    table: RankTable
    row: int
    trial: Trial | None
    broken: Break | None

    @property
    def collective(self) -> bool:
        return facts_of(self.table.api(self.row)).kind is Kind.COLLECTIVE

    @property
    def when(self) -> tuple[bool, int, float]:
        """Order across ranks: work of one rank before communication, then by step and by how far the rank had come."""
        inside = np.flatnonzero(self.table.step == self.table.step[self.row])
        return self.collective, int(self.table.step[self.row]), (self.row - int(inside[0])) / len(inside)


def find_origin(
    tables: Sequence[RankTable], standard: Standard, *, replay: bool, thorough: bool, notes: list[str]
) -> Origin | None:
    """The origin over all ranks, or None where nothing is wrong. Verdicts of acquitted and of broken rows are changed
    in the tables. What hides under noise is looked for where the two sides differ in precision; ``thorough`` looks for
    it anyway."""
    _excuse_collectives(tables)
    deadline = time.monotonic() + SECONDS
    suspects = []
    for table in tables:
        breaks = {one.row: one for one in reversed(_mark_breaks(table))}
        court = Court(table, deadline) if replay else None
        found = _first_fault(table, breaks, court)
        if found is None and court is not None and (thorough or table.precision.mixed):
            found = _hidden_fault(table, Court(table, min(deadline, time.monotonic() + _HIDDEN_SECONDS)))
        if court is not None and court.time_is_up:
            notes.append(
                f"rank {table.rank}: replaying was stopped after {SECONDS:.0f} s; the rest was judged by distance"
            )
        if found is None:
            found = _first_warning(table, breaks)
        if found is not None:
            suspects.append(found)
    if not suspects:
        return None
    failing = [one for one in suspects if one.table.verdict[one.row] >= int(Verdict.FAIL)] or suspects
    chosen = min(failing, key=lambda one: one.when)
    comparison = call_comparison(chosen.table, chosen.row, standard)
    trial = chosen.trial
    return Origin(
        comparison=comparison,
        explanation=explain(comparison, trial.reason if trial is not None else "", len(tables) > 1),
        confirmed=None if trial is None else trial.guilty,
        evidence=dict(trial.evidence) if trial is not None else {},
    )


def first_failure(tables: Sequence[RankTable], standard: Standard) -> Origin | None:
    """The first call that failed, or that warns where none did, taken as it was judged: for standards that look at
    outputs alone and know nothing of victims."""
    for verdicts in ((Verdict.FAIL, Verdict.ERROR), (Verdict.WARN,)):
        numbers = [int(verdict) for verdict in verdicts]
        suspects = [
            Suspect(table, int(rows[0]), None, None)
            for table in tables
            if len(rows := np.flatnonzero(np.isin(table.verdict, numbers)))
        ]
        if suspects:
            first = min(suspects, key=lambda one: one.when)
            comparison = call_comparison(first.table, first.row, standard)
            return Origin(comparison, explain(comparison, "", len(tables) > 1))
    return None


def _first_fault(table: RankTable, breaks: dict[int, Break], court: Court | None) -> Suspect | None:
    for row in np.flatnonzero(table.verdict >= int(Verdict.FAIL)).tolist():
        broken = breaks.get(row)
        if court is None or (broken is not None and broken.certain):
            return Suspect(table, row, None, broken)
        trial = court.try_row(row)
        if trial.guilty is False and not _asked_differently(table, row):
            _acquit(table, row, trial)
            continue
        if trial.guilty is False:
            reason = f"each side computed rightly what it was asked for, but was asked differently: {trial.reason}"
            trial = Trial(None, reason, trial.evidence)
        return Suspect(table, row, trial, broken)
    return None


def _asked_differently(table: RankTable, row: int) -> bool:
    """Whether the two programs gave this call different plain arguments: then the program is the origin. Calls of
    different operators, laid side by side by what they end with, are never known to have been asked the same."""
    if table.across and int(table.alignment.match[row]) > int(Match.RENAMED):
        return True
    positions = (int(table.alignment.reference[row]), int(table.alignment.candidate[row]))
    if NONE in positions:
        return False
    calls = [table.traces[side].call(position, statistics=False) for side, position in enumerate(positions)]
    return any(argument_changes(*calls))


def _hidden_fault(table: RankTable, court: Court) -> Suspect | None:
    """Replays the likeliest calls; the earliest guilty one counts."""
    for row in _likely(table):
        if court.time_is_up:
            return None
        trial = court.try_row(row)
        if trial.guilty:
            reason = f"hidden under honest noise; {trial.reason}"
            table.set_judgement(row, Judgement(Verdict.FAIL, reason, float(table.limit[row])))
            return Suspect(table, row, trial, None)
    return None


def _likely(table: RankTable) -> list[int]:
    """Calls that come nearest to their limits, and those whose outputs differ most beyond their inputs."""
    differs = (table.alignment.match <= int(Match.MOVED)) & (table.output_distance > 0.0)
    differs &= np.isfinite(table.output_distance) & (table.limit > 0.0)
    rows = np.flatnonzero(differs)
    nearness = table.output_distance[rows] / table.limit[rows]
    with np.errstate(divide="ignore"):
        growth = table.output_distance[rows] / table.input_distance[rows]
    chosen = {int(row) for order in (nearness, growth) for row in rows[np.argsort(-order, kind="stable")[:_HIDDEN]]}
    return sorted(chosen)


def _first_warning(table: RankTable, breaks: dict[int, Break]) -> Suspect | None:
    rows = np.flatnonzero(table.verdict == int(Verdict.WARN))
    return Suspect(table, int(rows[0]), None, breaks.get(int(rows[0]))) if len(rows) else None


def _acquit(table: RankTable, row: int, trial: Trial) -> None:
    limit = float(table.limit[row])
    table.set_judgement(
        row,
        Judgement(
            Verdict.WARN,
            f"differs more than expected, but computed rightly from its inputs: {trial.reason}",
            None if np.isnan(limit) else limit,
            inherited=True,
        ),
    )


def _mark_breaks(table: RankTable) -> list[Break]:
    """Breaks in the flow of data fail (or warn) in their row."""
    breaks = Flow(table).breaks()
    for one in breaks:
        verdict = Verdict.FAIL if one.certain else Verdict.WARN
        current = Verdict(int(table.verdict[one.row]))
        if verdict > current or current is Verdict.NOT_COMPARED:
            limit = float(table.limit[one.row])
            table.set_judgement(one.row, Judgement(verdict, one.reason, None if np.isnan(limit) else limit))
    return breaks


def _excuse_collectives(tables: Sequence[RankTable]) -> None:
    """A collective is a victim where any rank gave it something different."""
    if len(tables) < 2:
        return
    fed: dict[tuple[int, str, int], int] = {}
    rows: list[tuple[RankTable, int, tuple[int, str, int]]] = []
    for table in tables:
        for row in _collectives(table):
            side, position = table.side_and_position(row)
            key = (int(table.step[row]), table.api(row), int(table.traces[side].column("nth")[position]))
            rows.append((table, row, key))
            if table.input_distance[row] > 0.0:
                fed.setdefault(key, table.rank)
    for table, row, key in rows:
        if table.verdict[row] >= int(Verdict.FAIL) and key in fed:
            reason = f"follows its inputs: rank {fed[key]} gave it something different"
            table.set_judgement(row, Judgement(Verdict.PASS, reason, inherited=True))


def _collectives(table: RankTable) -> list[int]:
    trace = table.traces[1]
    numbers = [number for number, name in trace.names.items() if facts_of(name).kind is Kind.COLLECTIVE]
    positions = table.alignment.candidate
    matched = np.flatnonzero((positions >= 0) & (table.alignment.match <= int(Match.MOVED)))
    chosen = np.isin(trace.column("api")[positions[matched]], numbers)
    found: list[int] = matched[chosen].tolist()
    return found
