"""Which tensors of two frameworks are turned to lie alike before they are judged.

Turning must not hide a fault: a call that transposes wrongly gives the right elements in the wrong places. So a pair of
tensors is turned only where nothing that both sides did can have mixed up its axes: it is first seen as an input (a
parameter, data, or what only one side's calls made), its shapes differ, or its call was given something turned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trueline.compare import Match
from trueline.compare.turning import Turned, Turner
from trueline.ops.facts import Kind, facts_of
from trueline.records import Phase
from trueline.store.columns import NONE, Integers

if TYPE_CHECKING:
    from trueline.diagnose.table import RankTable


def turn_pairs(table: RankTable, pairs: Integers) -> None:
    """Finds the pairs that lie differently and measures them as they would lie alike; fills ``table.turned``."""
    turner = Turner(table.readers, table.traces)
    decided: set[int] = set()
    remembered: dict[tuple[str, str, str], Turned] = {}
    for row in range(len(table)):
        leaves = range(int(table.first_leaf[row]), int(table.last_leaf[row]))
        inputs = [leaf for leaf in leaves if not table.leaves.output[leaf]]
        outputs = [leaf for leaf in leaves if table.leaves.output[leaf]]
        for leaf in inputs:
            # What lay differently in one step does so in the next, however far apart the two are then.
            place = _place(table, row, leaf)
            _turn(table, turner, pairs, leaf, decided, allowed=True, like=remembered.get(place))
            if int(table.pair[leaf]) in table.turned:
                remembered.setdefault(place, table.turned[int(table.pair[leaf])])
        allowed = _may_turn_outputs(table, row, inputs)
        parameters = _turned_inputs(table, row)
        for leaf in outputs:
            like = parameters.get(table.tensor_at(leaf).path) if parameters else None
            _turn(table, turner, pairs, leaf, decided, allowed=allowed, like=like)


def _turn(
    table: RankTable,
    turner: Turner,
    pairs: Integers,
    leaf: int,
    decided: set[int],
    *,
    allowed: bool,
    like: Turned | None = None,
) -> None:
    number = int(table.pair[leaf])
    if number == NONE or number in decided:
        return
    decided.add(number)
    rows = table.measured
    same_shape = table.layout(0, int(table.leaves.reference[leaf]))[1] == table.layout(
        1, int(table.leaves.candidate[leaf])
    )[1]
    if same_shape and not allowed:
        return
    first, second, third, fourth = (int(value) for value in pairs[number])
    found = turner.turn((first, second, third, fourth), float(rows["distance"][number]), like)
    if found is None:
        return
    table.turned[number] = found
    rows["distance"][number] = found.distance
    rows["peak"][number] = found.peak
    rows["cosine"][number] = found.cosine
    rows["equal"][number] = found.equal
    rows["estimated"][number] = found.estimated
    if rows["note"][number] == 0 and found.measurement is not None:
        mismatch = found.measurement.nan_mismatch + found.measurement.infinity_mismatch
        rows["bad_mismatch"][number] = mismatch


def _may_turn_outputs(table: RankTable, row: int, inputs: list[int]) -> bool:
    if table.alignment.match[row] > int(Match.RENAMED):
        return True
    if any(int(table.pair[leaf]) in table.turned for leaf in inputs):
        return True
    if table.phase(row) is not Phase.BACKWARD:
        return facts_of(table.api(row)).kind is Kind.ATTENTION
    return bool(_turned_inputs(table, row))


def _turned_inputs(table: RankTable, row: int) -> dict[str, Turned]:
    """How the inputs of the forward call of a backward one lie, by their path, as far as they are turned: gradients lie
    as what they are gradients of."""
    forward = table.forward_row(row) if table.phase(row) is Phase.BACKWARD else NONE
    if forward == NONE:
        return {}
    leaves = range(int(table.first_leaf[forward]), int(table.last_leaf[forward]))
    return {
        table.tensor_at(leaf).path: table.turned[int(table.pair[leaf])]
        for leaf in leaves
        if int(table.pair[leaf]) in table.turned
    }


def _place(table: RankTable, row: int, leaf: int) -> tuple[str, str, str]:
    """API, module and path of the candidate's tensor."""
    trace, position = table.traces[1], int(table.alignment.candidate[row])
    module = trace.modules.get(int(trace.column("module")[position]), ("", ""))[0]
    return table.api(row), module, table.tensor_at(leaf).path
