"""Judges a whole table: what is equal or clearly within rounding at once, the rest call by call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trueline.compare import Match
from trueline.compare.align import SIMULATED
from trueline.diagnose.structure import structural_faults
from trueline.diagnose.table import Progress, RankTable
from trueline.judge import Judgement, OutputColumns, Screening, Standard
from trueline.ops.facts import Kind, facts_of
from trueline.records import Verdict
from trueline.store.columns import NONE

Flags = np.ndarray[Any, np.dtype[np.bool_]]

_ENDED_BADLY = ("crashed", "timed out", "out of memory")
"""How a call of a replay may end that is a finding of its own (``cases.Status``)."""


def judge_table(table: RankTable, standard: Standard, progress: Progress | None = None) -> None:
    """Judges every row. Rows whose tensors are all equal pass without asking; the others are shown to the standard,
    those that it passes at first look all together, the rest one by one."""
    name_unmatched(table)
    match = table.alignment.match
    faults = structural_faults(table)
    odd = np.zeros(len(table), dtype=bool)
    odd[list(faults)] = True
    for row, text in faults.items():
        table.set_judgement(row, Judgement(Verdict.FAIL, text))
    equal = _all_equal(table) & ~odd
    table.limit[equal] = 0.0
    fine = _within_rounding(table, standard) & ~equal & ~odd
    for chosen, text in ((equal, "equal"), (fine, "within rounding")):
        table.verdict[chosen] = int(Verdict.PASS)
        table.set_reason(np.flatnonzero(chosen), text)
    rest = np.flatnonzero((match < int(Match.EXTRA)) & ~equal & ~fine & ~odd)
    for number, row in enumerate(rest.tolist()):
        evidence = table.evidence(row)
        if evidence.rewired:
            evidence.background = float(table.drift[row])
        table.set_judgement(row, standard.judge(evidence))
        if progress is not None and number % 4096 == 0:
            progress(f"rank {table.rank}: calls", number, len(rest))
    judge_raised(table)
    name_simulated(table)


def name_simulated(table: RankTable) -> None:
    """Says of calls that were simulated that they were."""
    sides = (table.alignment.reference, table.alignment.candidate)
    for side, name in ((0, "the reference"), (1, "the candidate")):
        trace = table.traces[side]
        numbers = [number for number, text in trace.names.items() if text == SIMULATED]
        present = sides[side] != NONE
        chosen = np.zeros(len(table), dtype=bool)
        chosen[present] = np.isin(trace.column("context")[sides[side][present]], numbers)
        for row in np.flatnonzero(chosen).tolist():
            table.set_reason([row], f"{table.reasons[int(table.reason[row])]} ({name} simulated)")


def name_unmatched(table: RankTable) -> None:
    """Says of calls that only one side makes that it is so."""
    for kind, text in (
        (Match.EXTRA, "only the candidate makes this call"),
        (Match.MISSING, "only the reference makes this call"),
    ):
        table.set_reason(np.flatnonzero(table.alignment.match == int(kind)), text)


def judge_raised(table: RankTable) -> None:
    """Calls that did not return on one side: what the two have in common was judged, the rest is said here. A missing
    kernel, or a call that the reference refuses, says nothing about numbers; an error of the candidate alone does."""
    raised = [trace.column("raised") for trace in table.traces]
    sides = (table.alignment.reference, table.alignment.candidate)
    chosen = np.zeros(len(table), dtype=bool)
    for side in (0, 1):
        present = sides[side] != NONE
        chosen[present] |= raised[side][sides[side][present]] != NONE

    def text(side: int, row: int) -> str:
        position = int(sides[side][row])
        return "" if position == NONE else table.traces[side].names.get(int(raised[side][position]), "")

    for row in np.flatnonzero(chosen).tolist():
        verdict, reason = _verdict_on_raised(text(0, row), text(1, row))
        judged = Verdict(int(table.verdict[row]))
        if table.compared_outputs(row):
            reason = f"{table.reasons[int(table.reason[row])]}; {reason}"
            verdict = max(verdict, judged)
        limit = float(table.limit[row])
        table.set_judgement(row, Judgement(verdict, reason, None if np.isnan(limit) else limit))
    for match, side in ((Match.MISSING, 0), (Match.EXTRA, 1)):
        for row in np.flatnonzero(table.alignment.match == int(match)).tolist():
            if reason := _why_alone(table, row, side, text):
                table.set_reason([row], reason)


def _why_alone(table: RankTable, row: int, side: int, raised: Callable[[int, int], str]) -> str:
    """Why a backward call stands alone, where that is because its forward call did not return on the other side."""
    trace, positions = table.traces[side], (table.alignment.reference, table.alignment.candidate)[side]
    forward = int(trace.column("forward")[int(positions[row])])
    if forward == NONE:
        return ""
    found = np.flatnonzero(positions == table.position_of(side, forward))
    other = raised(1 - side, int(found[0])) if len(found) else ""
    return f"its forward call did not return in the {('candidate', 'reference')[side]}: {other}" if other else ""


def _verdict_on_raised(reference: str, candidate: str) -> tuple[Verdict, str]:
    if reference and candidate:
        if reference == candidate:
            return Verdict.NOT_COMPARED, f"neither side returned: {candidate}"
        return Verdict.NOT_COMPARED, f"neither side returned: {candidate}; the reference: {reference}"
    if reference:
        return Verdict.NOT_COMPARED, f"the reference did not return: {reference}"
    if candidate.startswith("unsupported"):
        return Verdict.NOT_COMPARED, candidate
    verdict = Verdict.ERROR if candidate.startswith(_ENDED_BADLY) else Verdict.FAIL
    return verdict, f"the candidate did not return, and the reference did: {candidate}"


def _all_equal(table: RankTable) -> Flags:
    paired = table.pair != NONE
    same = np.zeros(len(table.pair), dtype=bool)
    if len(table.measured):
        same[paired] = table.measured["equal"][table.pair[paired]]
    differing = np.zeros(len(table), dtype=bool)
    differing[table.leaves.row[~same]] = True
    has_output = np.zeros(len(table), dtype=bool)
    has_output[table.leaves.row[table.leaves.output]] = True
    found: Flags = has_output & ~differing & (table.alignment.match <= int(Match.RENAMED))
    return found


def _within_rounding(table: RankTable, standard: Standard) -> Flags:
    """Rows that pass at first look. Fills in their limits."""
    none = np.zeros(len(table), dtype=bool)
    if not isinstance(standard, Screening) or not len(table.measured):
        return none
    leaves = table.leaves
    outputs = np.flatnonzero(leaves.output & (table.pair != NONE))
    rows = table.measured[table.pair[outputs]]
    units = [
        table.units(side, table.traces[side].visits[visits[outputs], 4])
        for side, visits in ((0, leaves.reference), (1, leaves.candidate))
    ]
    limits = standard.within_rounding(
        OutputColumns(rows["distance"], rows["peak"], np.maximum(units[0], units[1]), rows["estimated"])
    )
    known = (rows["note"] == 0) & ~np.isnan(rows["cosine"])  # no cosine: four numbers of a tensor, not its elements
    passes = known & (rows["bad_mismatch"] == 0) & (rows["distance"] <= limits)
    doubtful = none.copy()
    doubtful[leaves.row[table.pair == NONE]] = True
    doubtful[leaves.row[outputs[~passes]]] = True
    has_output = none.copy()
    has_output[leaves.row[outputs]] = True
    fine: Flags = has_output & ~doubtful & _does_arithmetic(table) & (table.alignment.match <= int(Match.MOVED))
    largest = np.zeros(len(table))
    np.maximum.at(largest, leaves.row[outputs], limits)
    table.limit[fine] = largest[fine]
    return fine


def _does_arithmetic(table: RankTable) -> Flags:
    """Rows whose operator may round: for the others equal inputs must give equal bits."""
    trace = table.traces[1]
    special = (Kind.RANDOM, Kind.UNDEFINED, Kind.COLLECTIVE)
    facts = {number: facts_of(name) for number, name in trace.names.items()}
    exact = [number for number, one in facts.items() if one.exact or one.kind in special]
    positions = table.alignment.candidate
    found: Flags = ~np.isin(trace.column("api")[positions], exact) & (positions != NONE)
    return found
