"""In which precision calls really worked, where their dtypes alone do not show it: autocast and devices."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from trueline.ops.facts import Kind, facts_of
from trueline.records import Phase, Role
from trueline.store.columns import NONE, PHASES, ROLES, Integers

if TYPE_CHECKING:
    from trueline.diagnose.table import RankTable

Floats = np.ndarray[Any, np.dtype[np.float64]]

_OUTPUT = ROLES.index(Role.OUTPUT)
_SAME_DEVICE = {"gpu": "cuda"}
"""Paddle's names of devices that torch calls otherwise."""
_SINGLE = 24
"""Digits of float32, which autocast replaces."""


class Precision:
    """What one rank's table tells about autocast and devices."""

    def __init__(self, table: RankTable) -> None:
        self._table = table

    @cached_property
    def _outputs(self) -> tuple[Integers, list[Floats]]:
        """The outputs that both sides have, as numbers of leaves, and their unit roundoffs on each side."""
        table, leaves = self._table, self._table.leaves
        both = np.flatnonzero((leaves.reference != NONE) & (leaves.candidate != NONE) & leaves.output)
        units = [
            table.units(side, table.traces[side].visits[visits[both], 4])
            for side, visits in ((0, leaves.reference), (1, leaves.candidate))
        ]
        return both, units

    @property
    def mixed(self) -> bool:
        """Whether the two sides worked in different precisions, so that there is much honest noise between them."""
        _, units = self._outputs
        return bool((units[0] != units[1]).any())

    @cached_property
    def share_alike(self) -> float:
        """The share of the numbers given to and by calls that both sides hold in the same precision."""
        leaves = self._table.leaves
        both = np.flatnonzero((leaves.reference != NONE) & (leaves.candidate != NONE))
        units = [
            self._table.units(side, self._table.traces[side].visits[visits[both], 4])
            for side, visits in ((0, leaves.reference), (1, leaves.candidate))
        ]
        floats = (units[0] > 0.0) & (units[1] > 0.0)
        return float((units[0][floats] == units[1][floats]).mean()) if floats.any() else 0.0

    @property
    def policy(self) -> float:
        """That of the coarser side."""
        return max(self.policies)

    @cached_property
    def policies(self) -> tuple[float, float]:
        """For each side the unit roundoff in which half or more of its forward contractions return; 0.0 where there are
        none. Gradients of parameters are of their type, in whatever they were computed."""
        outputs, units = self._outputs
        trace = self._table.traces[1]
        numbers = [number for number, name in trace.names.items() if facts_of(name).kind is Kind.CONTRACTION]
        positions = self._table.alignment.candidate[self._table.leaves.row[outputs]]
        chosen = np.isin(trace.column("api")[positions], numbers)
        chosen &= trace.column("phase")[positions] == PHASES.index(Phase.FORWARD)
        if not chosen.any():
            return 0.0, 0.0
        return float(np.median(units[0][chosen])), float(np.median(units[1][chosen]))

    @cached_property
    def autocast(self) -> float:
        """The unit roundoff of the half type that contractions of one side alone return from float32; else 0.0."""
        table, leaves = self._table, self._table.leaves
        both, units = self._outputs
        for index in np.flatnonzero((units[0] > 1e-4) != (units[1] > 1e-4)).tolist():
            row = int(leaves.row[both[index]])
            side = int(units[1][index] > units[0][index])
            if facts_of(table.api(row)).kind is Kind.CONTRACTION and self._takes_single(row, side):
                return float(units[side][index])
        return 0.0

    def _takes_single(self, row: int, side: int) -> bool:
        table = self._table
        leaves = slice(int(table.first_leaf[row]), int(table.last_leaf[row]))
        visits = (table.leaves.reference, table.leaves.candidate)[side][leaves]
        inputs = visits[~table.leaves.output[leaves] & (visits != NONE)].tolist()
        return any(table.layout(side, visit)[0].digits == _SINGLE for visit in inputs)

    def pooled(self, row: int) -> frozenset[str]:
        """Gradients that cannot be laid side by side: autocast rounds a tensor that several calls share only once, so
        all their gradients of it arrive at the first of them, on that side alone."""
        table = self._table
        if not self.autocast or table.phase(row) is not Phase.BACKWARD:
            return frozenset()
        forward = table.forward_row(row)
        if forward == NONE or facts_of(table.api(row)).kind not in (Kind.CONTRACTION, Kind.ATTENTION):
            return frozenset()
        trace = table.traces[1]
        position = int(table.alignment.candidate[forward])
        visits = [visit for visit in trace.visits_of(position).tolist() if visit[2] != _OUTPUT]
        return frozenset(trace.path_of(position, visit[1]) for visit in visits if self._uses.get(visit[3], 0) > 1)

    @cached_property
    def _uses(self) -> dict[int, int]:
        """How many forward contractions of the candidate take a tensor."""
        trace = self._table.traces[1]
        numbers = [number for number, name in trace.names.items() if facts_of(name).kind is Kind.CONTRACTION]
        chosen = np.isin(trace.column("api"), numbers) & (trace.column("phase") == PHASES.index(Phase.FORWARD))
        calls = trace.column("id")[chosen]
        visits = trace.visits[np.isin(trace.visits[:, 0], calls) & (trace.visits[:, 2] != _OUTPUT)]
        tensors, counts = np.unique(visits[:, 3], return_counts=True)
        return dict(zip(tensors.tolist(), counts.tolist(), strict=True))

    def on_different_devices(self, row: int) -> bool:
        """Whether one side ran on an accelerator and the other did not."""
        table = self._table
        leaf = int(table.first_leaf[row])
        if leaf >= int(table.last_leaf[row]):
            return False
        visits = (int(table.leaves.reference[leaf]), int(table.leaves.candidate[leaf]))
        if NONE in visits:
            return False
        kinds = [
            trace.layouts[int(trace.visits[visit, 4])].device.partition(":")[0]
            for trace, visit in zip(table.traces, visits, strict=True)
        ]
        return _SAME_DEVICE.get(kinds[0], kinds[0]) != _SAME_DEVICE.get(kinds[1], kinds[1])
