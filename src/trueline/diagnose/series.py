"""The columns of a comparison for plots and tables, one entry for each call: made from those of the traces, whose texts
are said once, so that hundreds of thousands of calls take a fraction of a second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trueline.compare import Match
from trueline.diagnose.table import RankTable
from trueline.store.columns import NONE, PHASES, Integers
from trueline.store.trace import Trace

Column = np.ndarray[Any, Any]

BOTH, ONLY_CANDIDATE, ONLY_REFERENCE = 0, 1, 2
"""What the column ``alone`` says."""


def series_of(table: RankTable) -> dict[str, Column]:
    """The columns of one rank. ``module``, ``api`` and the like are the candidate's, or the reference's where only that
    one makes the call; ``reference_module`` is empty where it does not."""
    sides = [
        _of_side(trace, positions)
        for trace, positions in zip(table.traces, (table.alignment.reference, table.alignment.candidate), strict=True)
    ]
    present = table.alignment.candidate != NONE
    chosen = {name: np.where(present, sides[1][name], sides[0][name]) for name in sides[0]}
    match = table.alignment.match
    alone = np.where(
        match == int(Match.EXTRA), ONLY_CANDIDATE, np.where(match == int(Match.MISSING), ONLY_REFERENCE, BOTH)
    )
    return {
        "position": np.arange(len(table)),
        "step": table.step,
        "rank": np.full(len(table), table.rank),
        "output_distance": table.output_distance,
        "input_distance": table.input_distance,
        "limit": table.limit,
        "verdict": table.verdict,
        "inherited": table.inherited,
        "alone": alone,
        "reference_module": sides[0]["module"],
        **chosen,
    }


def _of_side(trace: Trace, positions: Integers) -> dict[str, Column]:
    """The columns of one side; empty and -1 where it has no such call."""
    present = positions != NONE
    at = positions[present]
    modules = {number: path for number, (path, _) in trace.modules.items()}
    sources = {number: str(frames[0]) for number, frames in trace.stacks.items() if frames}
    phases = {number: phase.value for number, phase in enumerate(PHASES)}
    columns = {
        name: _spread(present, _texts(trace.column(column)[at], texts), "")
        for name, column, texts in (
            ("api", "api", trace.names),
            ("module", "module", modules),
            ("source", "stack", sources),
            ("phase", "phase", phases),
        )
    }
    return {**columns, "index": _spread(present, trace.column("nth")[at], NONE)}


def _texts(numbers: Integers, texts: Mapping[int, str]) -> Column:
    """The text of each number, looked up once for all that are alike."""
    distinct, inverse = np.unique(numbers, return_inverse=True)
    known = np.empty(len(distinct), dtype=object)
    known[:] = [texts.get(number, "") for number in distinct.tolist()]
    return known[inverse]


def _spread(present: Column, values: Column, empty: object) -> Column:
    """Values in their places, something empty in all others."""
    column = np.full(len(present), empty, dtype=values.dtype)
    column[present] = values
    return column
