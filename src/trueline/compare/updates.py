"""Which calls of two frameworks' optimizers change the same parameter.

Optimizers are written differently: torch makes ten calls for each parameter, or one for all of them, Paddle one for
each. What they have in common is the parameter. Forward calls tell which parameter of one side is which of the other;
the last call that changes it in a step is held against the other side's, by what became of the parameter, and beside it
stand the gradients that the backward calls gave it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from trueline.compare.align import Alignment, Match
from trueline.compare.leaves import LeafPairs
from trueline.records import Phase, Role
from trueline.store.columns import CALL_COLUMNS, NONE, PHASES, ROLES, Integers
from trueline.store.trace import Trace

_COLUMN = {name: position for position, name in enumerate(CALL_COLUMNS)}
_OUTPUT = ROLES.index(Role.OUTPUT)
_BACKWARD = PHASES.index(Phase.BACKWARD)


@dataclass(slots=True)
class _Fate:
    """What became of a parameter in a step: the call and the visit that last changed it, the visit of its gradient."""

    position: int = NONE
    visit: int = NONE
    gradient: int = NONE


@dataclass(slots=True)
class _Row:
    """One new row: a call of each side, and pairs of visits (reference, candidate, whether output)."""

    reference: int
    leaves: list[tuple[int, int, int]] = field(default_factory=list)


def match_updates(
    alignment: Alignment, leaves: LeafPairs, reference: Trace, candidate: Trace, step: Integers
) -> tuple[Alignment, LeafPairs, Integers]:
    """The same alignment, leaves and steps of rows, with the updates of parameters matched."""
    traces = (reference, candidate)
    rows: dict[int, _Row] = {}
    for number in np.unique(step).tolist():
        rows.update(_rows_of_step(alignment, leaves, traces, np.flatnonzero(step == number)))
    return _with_rows(alignment, leaves, step, rows) if rows else (alignment, leaves, step)


def _rows_of_step(
    alignment: Alignment, leaves: LeafPairs, traces: tuple[Trace, Trace], inside: Integers
) -> dict[int, _Row]:
    """New rows by the position of the candidate's call."""
    pairs = _parameters(leaves, traces, inside)
    if not pairs:
        return {}
    lonely = {
        side: set(positions[inside[alignment.match[inside] == int(match)]].tolist())
        for side, positions, match in (
            (0, alignment.reference, Match.MISSING),
            (1, alignment.candidate, Match.EXTRA),
        )
    }
    columns = (alignment.reference[inside], alignment.candidate[inside])
    fates = [
        _fates(traces[side], sorted(set(columns[side].tolist()) - {NONE}), {pair[side] for pair in pairs})
        for side in (0, 1)
    ]
    rows: dict[int, _Row] = {}
    for left, right in pairs:
        ours, theirs = fates[1].get(right), fates[0].get(left)
        if ours is None or theirs is None or ours.position not in lonely[1] or theirs.position not in lonely[0]:
            continue
        row = rows.setdefault(ours.position, _Row(theirs.position))
        row.leaves.append((theirs.visit, ours.visit, 1))
        if theirs.gradient != NONE and ours.gradient != NONE:
            row.leaves.append((theirs.gradient, ours.gradient, 0))
    return rows


def _parameters(leaves: LeafPairs, traces: tuple[Trace, Trace], inside: Integers) -> list[tuple[int, int]]:
    """Pairs of tensors that both sides give to the same forward call and want a gradient of."""
    chosen = np.isin(leaves.row, inside) & ~leaves.output & (leaves.reference != NONE) & (leaves.candidate != NONE)
    visits = traces[0].visits[leaves.reference[chosen]], traces[1].visits[leaves.candidate[chosen]]
    found = []
    for left, right in zip(visits[0].tolist(), visits[1].tolist(), strict=True):
        if traces[0].layouts[left[4]].requires_grad and traces[1].layouts[right[4]].requires_grad:
            found.append((left[3], right[3]))
    return list(dict.fromkeys(found))


def _fates(trace: Trace, positions: list[int], parameters: set[int]) -> dict[int, _Fate]:
    """What became of parameters, by the number of the tensor that they were when the step began."""
    fates: dict[int, _Fate] = {}
    origin = {parameter: parameter for parameter in parameters}
    contexts = {number for number, name in trace.names.items() if name == "optimizer"}
    for position in positions:
        row = trace.columns[position]
        if int(row[_COLUMN["phase"]]) == _BACKWARD:
            for parameter, visit in _gradients(trace, position):
                if parameter in parameters:
                    fates.setdefault(parameter, _Fate()).gradient = visit
        elif int(row[_COLUMN["context"]]) in contexts:
            for before, after, visit in _changes(trace, position, origin):
                origin[after] = origin[before]
                fate = fates.setdefault(origin[before], _Fate())
                fate.position, fate.visit = position, visit
    return {parameter: fate for parameter, fate in fates.items() if fate.position != NONE}


def _gradients(trace: Trace, position: int) -> Iterator[tuple[int, int]]:
    """The tensors of the forward call to which the gradients of a backward call belong, with the visits of those."""
    identities = trace.column("id")
    forward = int(np.searchsorted(identities, trace.columns[position, _COLUMN["forward"]]))
    if forward >= len(identities) or identities[forward] != trace.columns[position, _COLUMN["forward"]]:
        return
    given = {trace.path_of(forward, leaf): tensor for _, leaf, role, tensor, _ in trace.visits_of(forward).tolist()
             if role != _OUTPUT}  # fmt: skip
    first = int(np.searchsorted(trace.visits[:, 0], identities[position], side="left"))
    for offset, (_, leaf, role, _, _) in enumerate(trace.visits_of(position).tolist()):
        tensor = given.get(trace.path_of(position, leaf)) if role == _OUTPUT else None
        if tensor is not None:
            yield tensor, first + offset


def _changes(trace: Trace, position: int, origin: dict[int, int]) -> Iterator[tuple[int, int, int]]:
    """Parameters that a call of an optimizer changed: (tensor before, tensor after, visit of the latter)."""
    visits = trace.visits_of(position).tolist()
    first = int(np.searchsorted(trace.visits[:, 0], trace.columns[position, 0], side="left"))
    waiting = [(trace.path_of(position, leaf), tensor, trace.layouts[layout].shape)
               for _, leaf, role, tensor, layout in visits if role != _OUTPUT and tensor in origin]  # fmt: skip
    for offset, (_, leaf, role, tensor, layout) in enumerate(visits):
        if role != _OUTPUT or not waiting:
            continue
        path, shape = trace.path_of(position, leaf), trace.layouts[layout].shape
        # Under its own path where it was changed and not returned, else the first of its shape.
        same = next((one for one in waiting if one[0] == path), None)
        chosen = same or next((one for one in waiting if path.startswith("out") and one[2] == shape), None)
        if chosen is not None and chosen[1] != tensor:
            waiting.remove(chosen)
            yield chosen[1], tensor, first + offset


def _with_rows(
    alignment: Alignment, leaves: LeafPairs, step: Integers, rows: dict[int, _Row]
) -> tuple[Alignment, LeafPairs, Integers]:
    """Candidates' rows take their partners in; the rows of those that stood alone go."""
    used = {row.reference for row in rows.values()}
    kept = ~((alignment.match == int(Match.MISSING)) & np.isin(alignment.reference, list(used)))
    reference, match = alignment.reference.copy(), alignment.match.copy()
    places = {int(position): place for place, position in enumerate(alignment.candidate.tolist()) if position in rows}
    for position, row in rows.items():
        reference[places[position]], match[places[position]] = row.reference, int(Match.FUSED)
    new_place = np.cumsum(kept) - 1
    added = np.array(
        [
            (int(new_place[places[position]]), *leaf)
            for position, row in rows.items()
            for leaf in sorted(row.leaves, key=lambda one: one[2])
        ],
        dtype=np.int64,
    ).reshape(-1, 4)
    columns = np.stack([new_place[leaves.row], leaves.reference, leaves.candidate, leaves.output], axis=1)
    columns = np.concatenate([columns, added])
    columns = columns[np.argsort(columns[:, 0], kind="stable")]
    return (
        Alignment(reference[kept], alignment.candidate[kept], match[kept]),
        LeafPairs(columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3].astype(bool)),
        step[kept],
    )
