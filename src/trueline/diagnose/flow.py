"""Which recorded call made a tensor, and what follows when the two runs were fed from different places.

A difference that arrives with the inputs has a history: the same call made it on both sides (then that call answers
for it), a call that only one side makes, another call than in the reference, or no recorded call at all (data,
parameters, or work that was not recorded). The last three are divergences of their own that no judgement of outputs
can see.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from trueline.compare import Match
from trueline.diagnose.table import RankTable
from trueline.ops.facts import Kind, facts_of
from trueline.records import Phase
from trueline.store.columns import NONE, PHASES, Integers

_SOURCE_DATA = 1e-3
"""A difference of data beyond this is no rounding. Parameters and state of optimizers may have drifted apart
honestly before the recording began, so they are judged together, by ``_STATE``."""
_STATE = 0.02


@dataclass(frozen=True, slots=True)
class Break:
    """A place where the runs part without any recorded arithmetic being at fault. ``certain`` is False where honest
    drift before the recording may explain it."""

    row: int
    leaf: int
    reason: str
    certain: bool


class Flow:
    """The makers of all tensors of one rank."""

    def __init__(self, table: RankTable) -> None:
        self._table = table

    @cached_property
    def makers(self) -> tuple[Integers, Integers]:
        """For each leaf and side, the row that made its tensor; -1 for tensors that were there before."""
        leaves = self._table.leaves
        makers = []
        for side, visits in ((0, leaves.reference), (1, leaves.candidate)):
            present = np.flatnonzero(visits != NONE)
            tensors = self._table.traces[side].visits[visits[present], 3]
            tensors, rows, outputs = self._with_unmatched(side, tensors, present)
            # In time order, inputs of a row before its outputs: the first sight of a tensor tells where it came from.
            order = np.lexsort((outputs, rows))
            distinct, first = np.unique(tensors[order], return_index=True)
            chosen = order[first]
            maker = np.where(outputs[chosen], rows[chosen], NONE)
            column = np.full(len(visits), NONE, dtype=np.int64)
            own = self._table.traces[side].visits[visits[present], 3]
            column[present] = maker[np.searchsorted(distinct, own)]
            makers.append(column)
        return makers[0], makers[1]

    def _with_unmatched(self, side: int, tensors: Integers, leaves: Integers) -> tuple[Integers, Integers, Any]:
        """Adds the tensors of calls that only one side makes, which have no pairs of leaves."""
        table = self._table
        trace = table.traces[side]
        positions = (table.alignment.reference, table.alignment.candidate)[side]
        lonely = np.flatnonzero((positions != NONE) & (table.alignment.match >= int(Match.FUSED)))
        rows, outputs = table.leaves.row[leaves], table.leaves.output[leaves]
        extra_tensors, extra_rows, extra_outputs = [tensors], [rows], [outputs]
        for row in lonely.tolist():
            visits = trace.visits_of(int(positions[row]))
            extra_tensors.append(visits[:, 3])
            extra_rows.append(np.full(len(visits), row))
            extra_outputs.append(visits[:, 2] == 1)
        return np.concatenate(extra_tensors), np.concatenate(extra_rows), np.concatenate(extra_outputs)

    def breaks(self) -> list[Break]:
        """Every break, in time order: the first sight of each tensor that arrives different by no recorded fault."""
        table = self._table
        leaves = table.leaves
        if not len(table.measured):
            return []
        makers = self.makers
        chosen = (table.pair != NONE) & ~leaves.output & (table.alignment.match[leaves.row] <= int(Match.MOVED))
        suspects = np.flatnonzero(chosen & ((makers[0] != makers[1]) | (makers[1] == NONE)))
        distance = table.measured["distance"][table.pair[suspects]]
        suspects = suspects[(distance > 0.0)]
        found: list[Break] = []
        seen: set[int] = set()
        for leaf in suspects.tolist():
            if int(table.pair[leaf]) in seen:
                continue
            seen.add(int(table.pair[leaf]))
            one = self._break(leaf, int(makers[0][leaf]), int(makers[1][leaf]))
            if one is not None:
                found.append(one)
        return sorted(found, key=lambda item: item.row)

    def _break(self, leaf: int, left: int, right: int) -> Break | None:
        table = self._table
        row = int(table.leaves.row[leaf])
        evidence = table.tensor_at(leaf)
        noise = 16.0 * float(table.drift[row]) + (3e-6 if evidence.estimated else 0.0)
        if evidence.distance <= 2.0 * evidence.roundoff + noise:
            return None
        if left == right == NONE:
            return self._from_outside(row, leaf)
        differs = f"differs by {evidence.distance:.2g}"
        if right != NONE and table.alignment.match[right] == int(Match.EXTRA):
            reason = f"only the candidate makes this call, and what it gives to {table.api(row)} {differs}"
            return Break(right, leaf, reason, True)
        ours, theirs = self._name(right), self._name(left)
        reason = f"{evidence.path} comes from {ours}, in the reference from {theirs}, and {differs}"
        return Break(row, leaf, reason, True)

    def _from_outside(self, row: int, leaf: int) -> Break | None:
        table = self._table
        evidence = table.tensor_at(leaf)
        if table.phase(row) is Phase.BACKWARD or facts_of(table.api(row)).kind is Kind.COLLECTIVE:
            return None  # sums of gradients are made between recorded calls
        what = f"{evidence.path} differs by {evidence.distance:.2g} and was made by no recorded call"
        if evidence.reference_dtype.is_exact:
            return Break(row, leaf, f"{what}: the runs were given different data", True)
        state = table.requires_grad(leaf) or table.context(row) == "optimizer"
        if state:
            return Break(row, leaf, f"{what}: parameters or state differ", self._state_distance > _STATE)
        return Break(row, leaf, f"{what}: data or buffers differ", evidence.distance > _SOURCE_DATA)

    @cached_property
    def _state_distance(self) -> float:
        """How far apart all parameters lie together, as the forward calls first saw them."""
        table = self._table
        leaves = table.leaves
        chosen = (self.makers[0] == NONE) & (self.makers[1] == NONE) & (table.pair != NONE) & ~leaves.output
        trace = table.traces[1]
        positions = table.alignment.candidate[leaves.row]
        chosen &= trace.column("phase")[positions] == PHASES.index(Phase.FORWARD)
        wanting = [number for number, layout in trace.layouts.items() if layout.requires_grad]
        chosen &= np.isin(trace.visits[leaves.candidate, 4], wanting)
        optimizer = trace.numbers_of("optimizer")
        chosen &= ~np.isin(trace.column("context")[positions], optimizer)
        rows = table.measured[np.unique(table.pair[chosen])]
        rows = rows[np.isfinite(rows["distance"])]
        squares = np.square(rows["rms"]) * rows["count"]
        total = float(squares.sum())
        return float(np.sqrt((squares * np.square(rows["distance"])).sum() / total)) if total > 0.0 else 0.0

    def _name(self, row: int) -> str:
        return "no recorded call" if row == NONE else self._table.api(row)
