"""Independent calls that the candidate makes in another order: a loop over experts or heads the other way round.

Calls are laid side by side in the order in which they were made. Where those of one operator in one place disagree
wherever they stand, and each of them gave what another one of the reference gave, they are the same calls in another
order, and are laid beside each other again; and with them those that take what they gave.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from trueline.compare import Alignment, Match
from trueline.compare.graph import ValueGraph
from trueline.numerics.layout import sketch_distance
from trueline.ops.names import module_key
from trueline.records import Phase, Role
from trueline.store.columns import NONE, PHASES, ROLES, Integers

if TYPE_CHECKING:
    from trueline.diagnose.table import RankTable

_OUTPUT = ROLES.index(Role.OUTPUT)
_APART = 0.25
"""Nobody takes two values so far apart for one with other rounding."""
_NEAR = 0.02
"""Two that are as near are the same but for rounding: among a few of one shape no other is."""
_MOST = 4000
"""Where more calls disagree, it is no matter of order."""

_Given = list[Any]


def reordered(table: RankTable) -> Alignment | None:
    """The alignment in which such calls are laid side by side; None where there are none."""
    moved = [pair for rows in _groups(table) for pair in _exchanged(table, rows)]
    if not moved:
        return None
    before = table.alignment.reference
    reference = before.copy()
    for row, position in moved:
        reference[row] = position
    _follow(table, reference)
    forward = {row: int(reference[row]) for row in np.flatnonzero(reference != before).tolist()}
    for row, position in _backward(table, forward):
        reference[row] = position
    match = np.where(reference != before, int(Match.MOVED), table.alignment.match)
    return Alignment(reference, table.alignment.candidate, match)


def _follow(table: RankTable, reference: Integers) -> None:
    """Lays beside each other the calls of one operator and place that take what calls gave that are laid beside each
    other now."""
    graphs = [ValueGraph(trace) for trace in table.traces]
    groups = _places(table, np.flatnonzero(_forward(table)))
    group_of = {row: rows for rows in groups for row in rows}
    row_of = {int(reference[row]): row for row in group_of}

    def makers(side: int, position: int) -> Counter[int]:
        found = (graphs[side].maker(value) for value in graphs[side].given(position))
        if side == 0:
            return Counter(maker for maker in found if maker != NONE)
        rows = (int(table.row_of_candidate[maker]) for maker in found if maker != NONE)
        return Counter(int(reference[row]) for row in rows if row != NONE and reference[row] != NONE)

    settled: set[int] = set()
    for row in sorted(group_of):
        wanted = makers(1, int(table.alignment.candidate[row]))
        held = (makers(0, int(reference[row])) & wanted).total()
        if held < wanted.total():
            users = {user for maker in wanted for value in graphs[0].gave(maker) for user in graphs[0].users_of(value)}
            free = sorted(user for user in users if user in row_of and row_of[user] in group_of[row])
            free = [user for user in free if row_of[user] not in settled]
            best = max(free, key=lambda user: (makers(0, user) & wanted).total(), default=NONE)
            if best != NONE and (makers(0, best) & wanted).total() > held:
                other, own = row_of[best], int(reference[row])
                reference[row], reference[other] = best, own
                row_of[best], row_of[own] = row, other
        settled.add(row)


def _forward(table: RankTable) -> Any:
    """Which rows hold forward calls that both sides have, outside of optimizers."""
    positions = table.alignment.candidate
    chosen = (table.alignment.match <= int(Match.MOVED)) & (positions != NONE) & ~table.in_optimizer
    return chosen & (table.traces[1].column("phase")[positions] == PHASES.index(Phase.FORWARD))


def _groups(table: RankTable) -> list[list[int]]:
    """Rows of forward calls whose outputs have nothing in common, by operator, place and step."""
    found = np.flatnonzero(_forward(table) & ~(table.output_distance < _APART))
    return _places(table, found) if len(found) <= _MOST else []


def _places(table: RankTable, rows: Any) -> list[list[int]]:
    """Rows by operator, place and step, where there are several."""
    trace, groups = table.traces[1], defaultdict[tuple[int, str, str], list[int]](list)
    for row in rows.tolist():
        position = int(table.alignment.candidate[row])
        module = trace.modules.get(int(trace.column("module")[position]), ("", ""))[0]
        groups[int(table.step[row]), table.api(row), module_key(module)].append(row)
    return [some for some in groups.values() if len(some) > 1]


def _exchanged(table: RankTable, rows: list[int]) -> list[tuple[int, int]]:
    """Rows of one group with the position of the reference that belongs there; nothing where not most of them gave
    what another one did."""
    columns = (table.alignment.reference, table.alignment.candidate)
    given = [
        {int(column[row]): _gave(table, side, int(column[row])) for row in rows} for side, column in enumerate(columns)
    ]
    free = dict(given[0])
    pairs: dict[int, int] = {}
    for row in rows:
        mine = given[1][int(columns[1][row])]
        partner = next((position for position, theirs in free.items() if _same(theirs, mine)), None)
        if partner is not None:
            pairs[row] = partner
            del free[partner]
    if 2 * len(pairs) <= len(rows):
        return []
    for row, position in zip([row for row in rows if row not in pairs], list(free), strict=True):
        pairs[row] = position
    return [(row, position) for row, position in pairs.items() if position != int(columns[0][row])]


def _backward(table: RankTable, moved: dict[int, int]) -> list[tuple[int, int]]:
    """The backward calls follow their forward calls."""
    found: list[tuple[int, int]] = []
    forward = [trace.column("forward") for trace in table.traces]
    numbers = [trace.column("id") for trace in table.traces]
    for row, position in moved.items():
        own = np.flatnonzero(forward[1] == numbers[1][int(table.alignment.candidate[row])])
        theirs = np.flatnonzero(forward[0] == numbers[0][position])
        if len(own) == len(theirs):
            found += zip(table.row_of_candidate[own].tolist(), theirs.tolist(), strict=True)
    taken = [position for _, position in found]
    held = [int(table.alignment.reference[row]) for row, _ in found]
    return found if sorted(taken) == sorted(held) and NONE not in [row for row, _ in found] else []


def _gave(table: RankTable, side: int, position: int) -> _Given:
    """The statistics of what a call gave."""
    trace = table.traces[side]
    visits = trace.visits_of(position)
    values = visits[visits[:, 2] == _OUTPUT, 3].tolist()
    rows = trace.statistics_rows(values)
    return [rows[value] for value in values] if all(value in rows for value in values) else []


def _same(left: _Given, right: _Given) -> bool:
    if not left or len(left) != len(right):
        return False
    for one, other in zip(left, right, strict=True):
        if one["count"] != other["count"]:
            return False
        if one["count"] and not sketch_distance(one["sketch"], other["sketch"]) <= _NEAR:
            return False
    return True
