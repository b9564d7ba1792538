"""Numbers that stand for infinity: masks that are added to scores, or filled in.

Beside them nothing else of a tensor counts: however far apart two masked tensors are elsewhere, their distance is next
to nothing, and a sketch of them says nothing at all. So they are measured as what they were made from, before the mask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from trueline.ops.facts import facts_of
from trueline.store.columns import NONE

if TYPE_CHECKING:
    from trueline.diagnose.table import RankTable

Array = np.ndarray[Any, Any]

_FILLING = frozenset({"add", "sub", "where", "masked_fill"})
"""Operators that put such numbers beside others."""
_FACTOR = 256.0
"""So many times as large as all else are numbers that were filled in: scores that differ by less matter beside each
other."""
_ALIKE = 1e-3
_TAKEN_OVER = ("distance", "peak", "cosine", "estimated", "rms", "mean", "smallest", "largest", "candidate_rms")


def fills(large: float, small: float) -> bool:
    """Whether numbers stand for infinity beside others."""
    return 0.0 < small * _FACTOR <= large


def is_filling(api: str) -> bool:
    """Whether an operator puts such numbers beside others."""
    return facts_of(api).name in _FILLING


def without_fillings(values: Array) -> Array:
    """Which elements of an array do not stand for infinity: those are the largest by far, several, and all alike."""
    sizes = np.abs(values)
    with np.errstate(invalid="ignore"):
        largest = float(np.max(sizes, initial=0.0, where=np.isfinite(sizes)))
        upper = sizes >= (1.0 - _ALIKE) * largest
        rest = float(np.max(sizes, initial=0.0, where=np.isfinite(sizes) & ~upper))
    return ~upper if fills(largest, rest) and int(upper.sum()) > 1 else np.ones(values.shape, dtype=bool)


def look_beside_fillings(table: RankTable) -> None:
    """Gives pairs of tensors that hold such numbers what was measured of the tensors that they were made from."""
    measured, leaves = table.measured, table.leaves
    if not len(measured) or not len(suspects := _suspects(table)):
        return
    known: set[int] = set()
    for leaf in suspects:
        pair, row = int(table.pair[leaf]), int(leaves.row[leaf])
        if pair in known or measured["equal"][pair]:
            continue
        facts = facts_of(table.api(row))
        given = [
            int(table.pair[one])
            for one in range(int(table.first_leaf[row]), int(table.last_leaf[row]))
            if not leaves.output[one] and table.pair[one] != NONE and not measured["note"][table.pair[one]]
        ]
        whole = [one for one in given if measured["count"][one] == measured["count"][pair]]
        if facts.moves and any(one in known for one in given):
            beside = next(one for one in given if one in known)
        elif facts.name in _FILLING:
            floats = [one for one in whole if measured["largest"][one] > 0.0 and _unit(table, row, one)]
            beside = min(floats, key=lambda one: float(measured["largest"][one]), default=NONE)
            if beside == NONE or not fills(measured["largest"][pair], measured["largest"][beside]):
                continue
            others = [one for one in given if one != beside and _unit(table, row, one)]
            # A mask holds nothing but zeros and such numbers; what else is large was computed.
            if any(not fills(measured["smallest"][one], measured["largest"][beside]) for one in others):
                continue
            if any(measured["distance"][one] > 0.0 for one in others):
                continue  # two masks: that is the difference
        else:
            continue
        known.add(pair)
        for name in _TAKEN_OVER:
            measured[name][pair] = measured[name][beside]


def _suspects(table: RankTable) -> list[int]:
    """The outputs, in the order of time, that hold numbers as large as those that are filled in."""
    outputs = np.flatnonzero(table.leaves.output & (table.pair != NONE))
    largest, rms = (table.measured[name][table.pair[outputs]] for name in ("largest", "rms"))
    with np.errstate(invalid="ignore"):
        found: list[int] = outputs[(largest >= 1e3) & (rms > 0.0)].tolist()
    return found


def _unit(table: RankTable, row: int, pair: int) -> float:
    """The rounding of the tensors of a pair among what a row is given; 0.0 for exact types."""
    for leaf in range(int(table.first_leaf[row]), int(table.last_leaf[row])):
        if int(table.pair[leaf]) == pair:
            return float(table.layout(1, int(table.leaves.candidate[leaf]))[0].epsilon)
    return 0.0
