"""Judges a whole table: what is equal or clearly within rounding at once, the rest call by call."""

from __future__ import annotations

from typing import Any

import numpy as np

from trueline.compare import Match
from trueline.diagnose.table import Progress, RankTable
from trueline.judge import OutputColumns, Screening, Standard
from trueline.ops.facts import Kind, facts_of
from trueline.records import Verdict
from trueline.store.columns import NONE

Flags = np.ndarray[Any, np.dtype[np.bool_]]


def judge_table(table: RankTable, standard: Standard, progress: Progress | None = None) -> None:
    """Judges every row. Rows whose tensors are all equal pass without asking; the others are shown to the standard,
    those that it passes at first look all together, the rest one by one."""
    match = table.alignment.match
    for kind, text in (
        (Match.EXTRA, "only the candidate makes this call"),
        (Match.MISSING, "only the reference makes this call"),
    ):
        table.set_reason(np.flatnonzero(match == int(kind)), text)
    equal = _all_equal(table)
    table.limit[equal] = 0.0
    fine = _within_rounding(table, standard) & ~equal
    for chosen, text in ((equal, "equal"), (fine, "within rounding")):
        table.verdict[chosen] = int(Verdict.PASS)
        table.set_reason(np.flatnonzero(chosen), text)
    rest = np.flatnonzero((match < int(Match.EXTRA)) & ~equal & ~fine)
    for number, row in enumerate(rest.tolist()):
        evidence = table.evidence(row)
        if evidence.rewired:
            evidence.background = float(table.drift[row])
        table.set_judgement(row, standard.judge(evidence))
        if progress is not None and number % 4096 == 0:
            progress(f"rank {table.rank}: calls", number, len(rest))


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
    passes = (rows["note"] == 0) & (rows["bad_mismatch"] == 0) & (rows["distance"] <= limits)
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
