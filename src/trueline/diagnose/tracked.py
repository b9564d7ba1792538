"""Where only one side keeps the graph of a value: what was detached, or made where gradients were not wanted.

Forward nothing differs there, to the last bit. It shows in the backward, as gradients that have no counterpart or that
are summed from other parts, and often far away from the call that is missing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trueline.compare import Match
from trueline.diagnose.joints import Joints
from trueline.diagnose.observables import Observables
from trueline.records import Phase, Role
from trueline.store.columns import NONE, PHASES, ROLES
from trueline.store.trace import Trace


@dataclass(frozen=True, slots=True)
class Parting:
    """The calls of each side, by their positions, behind which one side alone (0: the reference) keeps the graph."""

    calls: tuple[tuple[int, ...], tuple[int, ...]]
    keeps: int


def parting_of_graphs(joints: Joints, observables: Observables, step: int) -> Parting | None:
    """Where the first value of a step is that asks for a gradient on one side alone; None where there is none, or where
    it is a parameter, whose gradient tells it by name."""
    table, leaves = joints.table, joints.table.leaves
    rows = (table.step == step) & (table.alignment.match <= int(Match.FUSED)) & ~_backward(joints)
    both = np.flatnonzero((leaves.reference != NONE) & (leaves.candidate != NONE) & rows[leaves.row])
    wanted = [
        np.isin(trace.visits[visits[both], 4], _asking(trace))
        for trace, visits in zip(table.traces, (leaves.reference, leaves.candidate), strict=True)
    ]
    for place in np.flatnonzero(wanted[0] != wanted[1]).tolist():
        leaf, keeps = int(both[place]), 0 if wanted[0][place] else 1
        values = joints.values(leaf)
        known = [names.get(value) for value, names in zip(values, observables.names, strict=True)]
        if any(one is not None and one.kind != "input" for one in known):
            return None
        visit = int((leaves.candidate, leaves.reference)[keeps][leaf])
        position = _let_go(joints, 1 - keeps, values[1 - keeps], visit)
        if position != NONE:
            return _around(joints, 1 - keeps, position)
        region = joints.region(leaf)
        if any(side.calls for side in region.sides):
            return Parting((tuple(region.reference.calls), tuple(region.candidate.calls)), keeps)
    return None


def _asking(trace: Trace) -> list[int]:
    """The layouts of tensors that ask for a gradient."""
    return [number for number, layout in trace.layouts.items() if layout.requires_grad]


def _let_go(joints: Joints, side: int, value: int, until: int) -> int:
    """The position of the last call before a visit that gave a value without its graph; -1 where none did."""
    trace = joints.table.traces[side]
    graph = joints.graphs[side]
    visits = trace.visits[:until]
    gave = (visits[:, 3] == value) & (visits[:, 2] == ROLES.index(Role.OUTPUT)) & ~np.isin(visits[:, 4], _asking(trace))
    found = np.flatnonzero(gave)
    position = graph.position(int(found[-1])) if len(found) else NONE
    return position if position != graph.position(until) else NONE


def _around(joints: Joints, side: int, position: int) -> Parting:
    row = joints.row_of(side, position)
    other: tuple[int, ...] = ()
    if row != NONE:
        alignment = joints.table.alignment
        other = (int((alignment.candidate, alignment.reference)[side][row]),)
    own = (position,)
    return Parting((own, other) if side == 0 else (other, own), 1 - side)


def _backward(joints: Joints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    table = joints.table
    found = np.zeros(len(table), dtype=bool)
    present = table.alignment.candidate != NONE
    phases = table.traces[1].column("phase")[table.alignment.candidate[present]]
    found[present] = phases == PHASES.index(Phase.BACKWARD)
    return found
