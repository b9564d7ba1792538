"""Outputs of another dtype or shape than the reference's, from inputs of the same dtypes and shapes.

Where inputs differ in dtype the two Runs work in different precisions, and outputs may follow them; so may those of
calls that were asked for something else. What is left is a fault, whatever the numbers are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trueline.compare import Match
from trueline.diagnose.explain import argument_changes
from trueline.diagnose.table import RankTable
from trueline.ops.names import canonical
from trueline.records import Phase
from trueline.store.columns import NONE

Flags = np.ndarray[Any, np.dtype[np.bool_]]


def structural_faults(table: RankTable) -> dict[int, str]:
    """Rows whose outputs are not what they must be, with the reason."""
    if table.across or not len(table.leaves.row):
        return {}
    dtypes, shapes, floats = _differences(table)
    output, rows = table.leaves.output, table.leaves.row

    def any_of(flags: Flags) -> Flags:
        found = np.zeros(len(table), dtype=bool)
        found[rows[flags]] = True
        return found

    matched = table.alignment.match <= int(Match.MOVED)
    dtype_rows = any_of(dtypes & output) & ~any_of(dtypes & ~output) & any_of(floats & ~output) & matched
    if table.precision.autocast:
        dtype_rows[:] = False
    shape_rows = any_of(shapes & output) & ~any_of(shapes & ~output) & matched
    found = {}
    for row in np.flatnonzero(dtype_rows | shape_rows).tolist():
        if _is_fault(table, row, any_of(dtypes & ~output)):
            odd = (dtypes & dtype_rows[row]) | (shapes & shape_rows[row])
            first, last = int(table.first_leaf[row]), int(table.last_leaf[row])
            found[row] = _reason(table, first + int(np.flatnonzero((odd & output)[first:last])[0]))
    return found


def _differences(table: RankTable) -> tuple[Flags, Flags, Flags]:
    """For each pair of tensors whether its dtypes and its shapes differ, and whether it is of floats."""
    numbers: dict[Any, int] = {}
    columns = []
    for side, visits in ((0, table.leaves.reference), (1, table.leaves.candidate)):
        trace = table.traces[side]
        layouts = np.where(visits != NONE, trace.visits[visits, 4], NONE)
        distinct, inverse = np.unique(layouts, return_inverse=True)
        known = [(None, None) if number == NONE else _look(trace.layouts[number]) for number in distinct.tolist()]
        codes = np.array([[numbers.setdefault(part, len(numbers)) for part in pair] for pair in known]).reshape(-1, 2)
        columns.append(codes[inverse.reshape(-1)])
    both = (table.leaves.reference != NONE) & (table.leaves.candidate != NONE)
    floating = [code for part, code in numbers.items() if isinstance(part, str) and "float" in part]
    return (
        both & (columns[0][:, 0] != columns[1][:, 0]),
        both & (columns[0][:, 1] != columns[1][:, 1]),
        both & np.isin(columns[0][:, 0], floating),
    )


def _look(layout: Any) -> tuple[str, tuple[int, ...]]:
    return layout.dtype.rpartition(".")[2], layout.shape


def _is_fault(table: RankTable, row: int, input_dtypes_differ: Flags) -> bool:
    if canonical(table.api(row)) == "to":
        return False
    if table.phase(row) is Phase.BACKWARD:
        forward = table.forward_row(row)
        return forward != NONE and not input_dtypes_differ[forward]
    calls = [
        trace.call(int(positions[row]), statistics=False)
        for trace, positions in zip(table.traces, (table.alignment.reference, table.alignment.candidate), strict=True)
    ]
    return not any(argument_changes(calls[0], calls[1]))


def _reason(table: RankTable, leaf: int) -> str:
    left, right = int(table.leaves.reference[leaf]), int(table.leaves.candidate[leaf])
    (dtype, shape), (ours, other) = table.layout(0, left), table.layout(1, right)
    path = table.tensor_at(leaf).path
    if dtype is not ours:
        return f"{path} is {ours.name}, the reference's is {dtype.name}, from inputs of the same dtypes"
    return f"{path} has the shape {list(other)}, the reference's {list(shape)}, from inputs of equal shapes"
