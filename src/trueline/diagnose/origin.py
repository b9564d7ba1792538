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
from dataclasses import dataclass, replace

import numpy as np

from trueline.compare import Match
from trueline.diagnose.comparison import call_comparison
from trueline.diagnose.confirm import SECONDS, Court, Trial
from trueline.diagnose.divergence import Divergences
from trueline.diagnose.explain import explain
from trueline.diagnose.finding import Divergence
from trueline.diagnose.observables import Observables
from trueline.diagnose.table import RankTable
from trueline.judge import Judgement, Standard
from trueline.ops.facts import Kind, facts_of
from trueline.records import CallComparison, Origin, Phase, Verdict
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
) -> tuple[Origin | None, list[Walk]]:
    """The origin over all ranks, or None where nothing is wrong, and what each rank gives away. Verdicts of acquitted
    rows are changed in the tables. What hides under noise is looked for where the two sides differ in precision;
    ``thorough`` looks for it anyway."""
    _excuse_collectives(tables)
    deadline = time.monotonic() + SECONDS
    walks, found = [], []
    for table in tables:
        court = Court(table, deadline) if replay else None
        walk = _walk(table, court, deadline)
        first = walk.first()
        notes += [f"rank {table.rank}: {one}" if len(tables) > 1 else one for one in walk.notes]
        for row, trial in walk.acquitted.items():
            _acquit(table, row, trial)
        if first is None and court is not None and (thorough or table.precision.mixed):
            hidden = _hidden_fault(table, Court(table, min(deadline, time.monotonic() + _HIDDEN_SECONDS)))
            first = None if hidden is None else _from_suspect(hidden)
        if court is not None and court.time_is_up:
            notes.append(
                f"rank {table.rank}: replaying was stopped after {SECONDS:.0f} s; the rest was judged by distance"
            )
        walks.append(Walk(table, walk, first))
        if first is not None:
            found.append((table, walk, first))
    if not found:
        return None, walks
    chosen = min(found, key=lambda one: Suspect(one[0], one[2].row, None).when)
    return _as_origin(*chosen, standard, len(tables) > 1), walks


def _walk(table: RankTable, court: Court | None, deadline: float) -> Divergences:
    if not table.across:
        return Divergences(table, Observables(table), court, deadline)
    # Imported here: only comparisons across frameworks need it.
    from trueline.diagnose.across import AcrossFrameworks
    from trueline.diagnose.ported import PortedObservables

    return AcrossFrameworks(table, PortedObservables(table), court, deadline)


@dataclass(slots=True)
class Walk:
    """What was found on one rank."""

    table: RankTable
    divergences: Divergences
    first: Divergence | None


def _from_suspect(suspect: Suspect) -> Divergence:
    table, row = suspect.table, suspect.row
    columns = (table.alignment.reference, table.alignment.candidate)
    left, right = ((int(column[row]),) if column[row] != NONE else () for column in columns)
    return Divergence("call", row, table.reasons[int(table.reason[row])], left, right, trial=suspect.trial)


def _as_origin(table: RankTable, walk: Divergences, found: Divergence, standard: Standard, ranks: bool) -> Origin:
    calls = tuple(
        tuple(table.traces[side].call(position) for position in positions)
        for side, positions in enumerate((found.reference, found.candidate))
    )
    comparison = call_comparison(table, found.row, standard)
    if found.distance is not None:
        ends = [side[-1] if side else None for side in calls]
        if ends == [None, None]:
            ends = [comparison.reference, comparison.candidate]
        whole = all(len(side) == 1 for side in calls) and ends == [comparison.reference, comparison.candidate]
        comparison = CallComparison(
            reference=ends[0],
            candidate=ends[1],
            verdict=Verdict.FAIL,
            reason=found.reason,
            tensors=comparison.tensors if whole else (),
            input_distance=found.arrives,
            output_distance=found.distance,
            limit=found.limit,
        )
    else:
        comparison = replace(comparison, verdict=max(comparison.verdict, Verdict.FAIL), inherited=False)
    trial = found.trial
    return Origin(
        comparison=comparison,
        explanation=explain(comparison, trial.reason if trial is not None else "", ranks, found.headline),
        confirmed=None if trial is None else trial.guilty,
        evidence=dict(trial.evidence) if trial is not None else {},
        kind=found.kind,
        reference_calls=calls[0],
        candidate_calls=calls[1],
        names=found.names,
        headline=found.headline,
        shows=_shows(table, found),
    )


def _shows(table: RankTable, found: Divergence) -> Phase:
    if found.of_gradients or table.context(found.row) in ("backward", "recompute"):
        return Phase.BACKWARD
    return table.phase(found.row)


def first_failure(tables: Sequence[RankTable], standard: Standard) -> Origin | None:
    """The first call that failed, or that warns where none did, taken as it was judged: for standards that look at
    outputs alone and know nothing of victims."""
    for verdicts in ((Verdict.FAIL, Verdict.ERROR), (Verdict.WARN,)):
        numbers = [int(verdict) for verdict in verdicts]
        suspects = [
            Suspect(table, int(rows[0]), None)
            for table in tables
            if len(rows := np.flatnonzero(np.isin(table.verdict, numbers)))
        ]
        if suspects:
            first = min(suspects, key=lambda one: one.when)
            comparison = call_comparison(first.table, first.row, standard)
            return Origin(comparison, explain(comparison, "", len(tables) > 1))
    return None


def _hidden_fault(table: RankTable, court: Court) -> Suspect | None:
    """Replays the likeliest calls; the earliest guilty one counts."""
    for row in _likely(table):
        if court.time_is_up:
            return None
        trial = court.try_row(row)
        if trial.guilty:
            reason = f"hidden under honest noise; {trial.reason}"
            table.set_judgement(row, Judgement(Verdict.FAIL, reason, float(table.limit[row])))
            return Suspect(table, row, trial)
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
