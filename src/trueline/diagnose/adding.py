"""What an optimizer added to each parameter, where both sides wrote it by the same call, asked for the same.

A parameter in half precision is so much larger than its update that most of the update is lost when it is added: what
became of the parameter no longer says what was added. The operands of the call that added it do.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from trueline.diagnose.explain import argument_changes
from trueline.diagnose.observables import Observable, Observables
from trueline.diagnose.updating import FLOOR, NARROW, NO_SIGNAL, Update, Updates
from trueline.dtypes import dtype_named
from trueline.numerics.layout import sketch_distance
from trueline.records import Call, Role
from trueline.store.columns import NONE, ROLES

if TYPE_CHECKING:
    from trueline.compare.graph import ValueGraph

_WRITTEN = re.compile(r"(?:args\.0|out)(\.\d+)?")
_OPERAND = re.compile(r"(args\.[1-9]\d*|kwargs\.\w+)(\.\d+)?")
_OUTPUT = ROLES.index(Role.OUTPUT)
_Operands = dict[str, dict[str, tuple[int, int]]]
"""By the place of a parameter in a call, and by argument: an operand and its layout."""


class Added(Updates):
    """Judges the operands instead of the parameters."""

    def __init__(self, observables: Observables, graphs: tuple[ValueGraph, ValueGraph]) -> None:
        super().__init__(observables)
        self._graphs = graphs
        self._calls: tuple[dict[int, tuple[Call, _Operands]], dict[int, tuple[Call, _Operands]]] = ({}, {})
        self._asked_alike: dict[tuple[int, int], bool] = {}

    def _update(self, one: Observable) -> Update | None:
        here, there = self._operands(0, one), self._operands(1, one)
        if here is None or there is None:
            return None
        (position, left), (other, right) = here, there
        if left.keys() != right.keys() or not self._alike(position, other):
            return None
        explained = self._arrives(one)
        if self._says_nothing(one):
            return None
        judged = [self._operand(one, left[name], right[name], explained) for name in left]
        return max((each for each in judged if each is not None), key=_excess, default=None)

    def _says_nothing(self, one: Observable) -> bool:
        """Whether the gradient, or a state that it is added to, is rounding alone."""
        gradient = self._all.by_name.get(("gradient", one.model, one.name, one.step))
        given = [other for other in (gradient, *self._states_before(one)) if other is not None and other.both]
        return any(not self._all.distance(other) <= NO_SIGNAL for other in given)

    def _operand(
        self, one: Observable, left: tuple[int, int], right: tuple[int, int], explained: float
    ) -> Update | None:
        rows, units = [], []
        for side, (value, layout) in enumerate((left, right)):
            trace = self._all.traces[side]
            row = trace.statistics_rows([value]).get(value)
            kind = dtype_named(trace.layouts[layout].dtype.rpartition(".")[2])
            if row is None or kind.is_exact:
                return None
            rows.append(row)
            units.append(kind.epsilon / 2)
        if rows[0]["count"] != rows[1]["count"]:
            return None
        distance = float(sketch_distance(rows[0]["sketch"], rows[1]["sketch"]))
        sizes = [float(row["norm"]) for row in rows]
        if not math.isfinite(distance) or not all(0.0 < size < math.inf for size in sizes):
            return None
        return Update(one, distance, explained + FLOOR + NARROW * max(units), sizes[1] / sizes[0])

    def _alike(self, left: int, right: int) -> bool:
        if (left, right) not in self._asked_alike:
            calls = self._calls[0][left][0], self._calls[1][right][0]
            self._asked_alike[left, right] = calls[0].api == calls[1].api and not any(argument_changes(*calls))
        return self._asked_alike[left, right]

    def _operands(self, side: int, one: Observable) -> tuple[int, dict[str, tuple[int, int]]] | None:
        """The call that wrote a parameter last, and what it took besides."""
        value, graph, trace = self._all.value(side, one), self._graphs[side], self._all.traces[side]
        position = graph.maker(value)
        if position == NONE or graph.is_backward(position):
            return None
        visits = trace.visits_of(position).tolist()
        if position not in self._calls[side]:
            found: _Operands = {}
            for _, leaf, role, tensor, layout in visits:
                match = _OPERAND.fullmatch(trace.path_of(position, leaf)) if role != _OUTPUT else None
                if match is not None:
                    found.setdefault(match[2] or "", {})[match[1]] = tensor, layout
            self._calls[side][position] = trace.call(position, statistics=False), found
        given = next(leaf for _, leaf, role, made, _ in visits if role == _OUTPUT and made == value)
        match = _WRITTEN.fullmatch(trace.path_of(position, given))
        if match is None:
            return None
        operands = self._calls[side][position][1].get(match[1] or "")
        return None if not operands else (position, operands)


def _excess(one: Update) -> float:
    return one.distance / one.limit if one.limit > 0.0 else math.inf
