"""Which tensor of a candidate call is which tensor of its reference call.

Tensors of calls of the same name are paired by what they are to the call (input or output) and by their path in the
arguments or the result. Most pairs of calls have the same trees, so that is decided once per pair of trees and done
for whole columns at a time. Tensors of calls of different names are paired by the parameters that they were given for,
as far as those are known, then by order and size; of fused calls only the outputs are paired.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trueline.compare.align import Alignment, Match
from trueline.compare.sequences import distinct_rows
from trueline.records import Role
from trueline.store.columns import CALL_COLUMNS, NONE, ROLES, Integers
from trueline.store.trace import Trace
from trueline.tree import tensor_paths

_API = CALL_COLUMNS.index("api")
_ARGUMENTS, _RESULT = CALL_COLUMNS.index("arguments"), CALL_COLUMNS.index("result")
_OUTPUT = ROLES.index(Role.OUTPUT)

Flags = np.ndarray[Any, np.dtype[np.bool_]]
Leaf = tuple[bool, str, int]
"""Whether it is an output, its path, its row in ``Trace.visits``."""


@dataclass(frozen=True, slots=True)
class LeafPairs:
    """Rows sorted by ``row``, the row of the alignment; ``reference`` and ``candidate`` are rows of ``Trace.visits``,
    -1 where that side has no such tensor; ``output`` says whether the tensor is one."""

    row: Integers
    reference: Integers
    candidate: Integers
    output: Flags

    def bounds(self, rows: int) -> tuple[Integers, Integers]:
        """First and last leaf of each of so many rows of the alignment."""
        numbers = np.arange(rows)
        return np.searchsorted(self.row, numbers, side="left"), np.searchsorted(self.row, numbers, side="right")


def pair_leaves(alignment: Alignment, reference: Trace, candidate: Trace, *, across: bool = False) -> LeafPairs:
    """The pairs of tensors of all calls that both sides have; ``across`` frameworks no call has the same name."""
    both = np.flatnonzero((alignment.reference != NONE) & (alignment.candidate != NONE))
    plain = both[:0] if across else both[alignment.match[both] <= int(Match.MOVED)]
    starts = [_first_visits(reference), _first_visits(candidate)]
    left, right = alignment.reference[plain], alignment.candidate[plain]
    same = _same_structure(reference, left, candidate, right, starts)
    quick = _expand(plain[same], left[same], right[same], starts, reference)
    slow_rows = np.concatenate([plain[~same], np.setdiff1d(both, plain)])
    slow = []
    for row in slow_rows.tolist():
        match = Match(int(alignment.match[row]))
        pair = _pair_by_name if across or match > Match.MOVED else _pair_by_path
        left_call, right_call = int(alignment.reference[row]), int(alignment.candidate[row])
        slow += [(row, *leaves) for leaves in pair(reference, left_call, candidate, right_call, starts, match)]
    slow_columns = np.array(slow, dtype=np.int64).reshape(-1, 4)
    columns = np.concatenate([quick, slow_columns]) if len(slow) else quick
    columns = columns[np.argsort(columns[:, 0], kind="stable")]
    return LeafPairs(columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3].astype(bool))


def _first_visits(trace: Trace) -> Integers:
    """The first row of ``visits`` of each call, with one more entry for the end."""
    return np.append(np.searchsorted(trace.visits[:, 0], trace.column("id"), side="left"), len(trace.visits))


def _same_structure(
    reference: Trace, left: Integers, candidate: Trace, right: Integers, starts: list[Integers]
) -> Flags:
    """Whether two calls have the same tensors under the same paths; decided once per distinct pair of trees."""
    count_left, count_right = (
        starts[side][positions + 1] - starts[side][positions] for side, positions in ((0, left), (1, right))
    )
    trees = np.stack(
        [
            reference.columns[left, _ARGUMENTS],
            reference.columns[left, _RESULT],
            candidate.columns[right, _ARGUMENTS],
            candidate.columns[right, _RESULT],
        ],
        axis=1,
    )
    distinct, inverse = distinct_rows(trees)
    paths: list[dict[int, dict[int, str]]] = [{}, {}]

    def paths_of(side: int, number: int) -> dict[int, str]:
        trace = (reference, candidate)[side]
        if number not in paths[side]:
            paths[side][number] = dict(tensor_paths(trace.trees.get(number)))
        return paths[side][number]

    alike = np.array(
        [paths_of(0, a) == paths_of(1, c) and paths_of(0, b) == paths_of(1, d) for a, b, c, d in distinct.tolist()],
        dtype=bool,
    )
    found: Flags = count_left == count_right
    if len(distinct):
        found &= alike[inverse]
    return found


def _expand(rows: Integers, left: Integers, right: Integers, starts: list[Integers], reference: Trace) -> Integers:
    """All leaves of pairs of calls of the same structure, as columns: row, reference, candidate, output."""
    counts = starts[0][left + 1] - starts[0][left]
    total = int(counts.sum())
    within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    at_left = np.repeat(starts[0][left], counts) + within
    at_right = np.repeat(starts[1][right], counts) + within
    output = (reference.visits[at_left, 2] == _OUTPUT).astype(np.int64)
    return np.stack([np.repeat(rows, counts), at_left, at_right, output], axis=1)


def _leaves(trace: Trace, position: int, starts: Integers) -> list[Leaf]:
    first, last = int(starts[position]), int(starts[position + 1])
    return [
        (role == _OUTPUT, trace.path_of(position, leaf), first + offset)
        for offset, (_, leaf, role, _, _) in enumerate(trace.visits[first:last].tolist())
    ]


def _pair_by_path(
    reference: Trace, left: int, candidate: Trace, right: int, starts: list[Integers], _match: Match
) -> list[tuple[int, int, int]]:
    """Of calls of the same name: what has the same path, and what only one of them has."""
    theirs, ours = _leaves(reference, left, starts[0]), _leaves(candidate, right, starts[1])
    waiting = {leaf[:2]: leaf[2] for leaf in ours}
    pairs = [(visit, waiting.pop((output, path), NONE), int(output)) for output, path, visit in theirs]
    return pairs + [(NONE, visit, int(output)) for (output, path), visit in waiting.items()]


def _pair_by_name(
    reference: Trace, left: int, candidate: Trace, right: int, starts: list[Integers], match: Match
) -> list[tuple[int, int, int]]:
    """Of calls of different names: tensors of the same size under the same parameter, then in their order by size. What
    only one of them has says nothing."""
    # Imported here: only calls of different names need to know parameters.
    from trueline.compare.parameters import common_name

    traces, positions = (reference, candidate), (left, right)
    found: list[dict[tuple[bool, str], Leaf]] = []
    for side in (0, 1):
        api = traces[side].names.get(int(traces[side].columns[positions[side], _API]), "")
        leaves = _leaves(traces[side], positions[side], starts[side])
        if match is Match.FUSED:
            leaves = [leaf for leaf in leaves if leaf[0]]
        found.append({(output, common_name(api, path)): (output, path, visit) for output, path, visit in leaves})
    theirs, ours = found
    named = [
        key for key, leaf in theirs.items() if key in ours and _size(reference, leaf) == _size(candidate, ours[key])
    ]
    pairs = [(theirs.pop(key)[2], ours.pop(key)[2], int(key[0])) for key in named]
    pairs += _pair_by_size(reference, list(theirs.values()), candidate, list(ours.values()))
    return sorted(pairs, key=lambda pair: pair[1])


def _pair_by_size(
    reference: Trace, theirs: list[Leaf], candidate: Trace, ours: list[Leaf]
) -> list[tuple[int, int, int]]:
    pairs = []
    for leaf in theirs:
        size = _size(reference, leaf)
        partner = next((other for other in ours if other[0] == leaf[0] and _size(candidate, other) == size), None)
        if partner is not None:
            ours.remove(partner)
            pairs.append((leaf[2], partner[2], int(leaf[0])))
    return pairs


def _size(trace: Trace, leaf: Leaf) -> int:
    size = 1
    for extent in trace.layouts[int(trace.visits[leaf[2], 4])].shape:
        size *= extent
    return size
