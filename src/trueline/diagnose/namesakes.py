"""Which parameter or buffer of one framework's model is which of the other's: by their names as the table of
conventions has them, then by their numbers, and what is left by size and order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trueline.compare.turning import order_free
from trueline.diagnose.conventions import common, packed
from trueline.store.trace import Trace

_ALIKE = 1e-3
"""Parameters of other names are the same where what does not depend on the order of their elements is so near."""


@dataclass(slots=True)
class Names:
    """Of one model: a name of a side -> (the common name, which part of it, of how many)."""

    of: tuple[dict[str, tuple[str, int, int]], dict[str, tuple[str, int, int]]] = field(
        default_factory=lambda: ({}, {})
    )


class Namesakes:
    """Finds them for two traces."""

    def __init__(self, traces: tuple[Trace, Trace]) -> None:
        self._traces = traces

    def paired(self, left: Mapping[str, int], right: Mapping[str, int]) -> Names:
        """The common names of what a model holds on each side: name -> row in ``Trace.state_visits``."""
        self._also: tuple[dict[str, str], dict[str, str]] = ({}, {})
        found = Names()
        waiting = [self._distinct(side, names) for side, names in enumerate((left, right))]

        def pair(here: str, there: str, part: int = 0, parts: int = 1) -> None:
            name = here.partition(".")[2]
            found.of[0][here], found.of[1][there] = (name, 0, 1), (name, part, parts)

        by_common = {_common(name): name for name in waiting[1]}
        for here in list(waiting[0]):
            there = by_common.get(_common(here))
            if there is not None and self._size(0, waiting[0][here]) == self._size(1, waiting[1][there]):
                pair(here, there)
                del waiting[0][here], waiting[1][there]
        self._unpack(found, waiting)
        self._by_numbers(waiting, pair)
        self._by_order(waiting, pair)
        for side in (0, 1):  # other names of the same memory
            for name, other in self._also[side].items():
                if other in found.of[side]:
                    found.of[side].setdefault(name, found.of[side][other])
        return found

    def _distinct(self, side: int, names: Mapping[str, int]) -> dict[str, int]:
        """Each tensor under its first name."""
        first: dict[int, str] = {}
        kept = {}
        for name, row in names.items():
            tensor = int(self._traces[side].state_visits[row, 3])
            if tensor in first:
                self._also[side][name] = first[tensor]
            else:
                first[tensor] = name
                kept[name] = row
        return kept

    @staticmethod
    def _unpack(found: Names, waiting: list[dict[str, int]]) -> None:
        for side in (0, 1):
            others = {_common(name): name for name in waiting[1 - side]}
            for name in list(waiting[side]):
                group, _, rest = name.partition(".")
                parts = [others.get(f"{group}.{part}") for part in packed(common(rest))]
                if not parts or None in parts:
                    continue
                del waiting[side][name]
                found.of[side][name] = (common(rest), 0, 1)
                for place, part in enumerate(parts):
                    assert part is not None
                    del waiting[1 - side][part]
                    found.of[1 - side][part] = (common(rest), place, len(parts))

    def _by_numbers(self, waiting: list[dict[str, int]], pair: Any) -> None:
        for here, row in list(waiting[0].items()):
            mine = self._statistics(0, row)
            for there, other in waiting[1].items():
                theirs = self._statistics(1, other)
                if mine is None or theirs is None or here.partition(".")[0] != there.partition(".")[0]:
                    continue
                if order_free(mine, theirs) <= _ALIKE and mine["minimum"] != mine["maximum"]:
                    pair(here, there)
                    del waiting[0][here], waiting[1][there]
                    break

    def _by_order(self, waiting: list[dict[str, int]], pair: Any) -> None:
        keys = [
            {name: (name.partition(".")[0], self._size(side, row)) for name, row in names.items()}
            for side, names in enumerate(waiting)
        ]
        counts = [Counter(one.values()) for one in keys]
        for key in counts[0]:
            if counts[0][key] == counts[1].get(key):
                names = [[name for name, own in keys[side].items() if own == key] for side in (0, 1)]
                for here, there in zip(*names, strict=True):
                    pair(here, there)

    def _size(self, side: int, row: int) -> int:
        trace = self._traces[side]
        return math.prod(trace.layouts[int(trace.state_visits[row, 4])].shape)

    def _statistics(self, side: int, row: int) -> Any:
        tensor = int(self._traces[side].state_visits[row, 3])
        return self._traces[side].statistics_rows([tensor]).get(tensor)


def _common(name: str) -> str:
    group, _, rest = name.partition(".")
    return f"{group}.{common(rest)}"
