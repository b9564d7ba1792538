"""What two programs of different frameworks give away, side by side: names, packed parameters and layouts of weights
are brought to one form by the table of conventions (``conventions``), and what no row names by its numbers.

Gradients are those that autograd left: one framework clips them before its optimizer begins, the other in it.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from trueline.compare.graph import ValueGraph
from trueline.compare.measure import MEASURED, compare_statistics, describe
from trueline.compare.turning import order_free, orders
from trueline.diagnose.conventions import Averaging, averagings, biased, common, transposed
from trueline.diagnose.namesakes import Names, Namesakes
from trueline.diagnose.observables import KINDS, Observable, Observables
from trueline.diagnose.table import RankTable, frameworks_of
from trueline.dtypes import dtype_named
from trueline.numerics import widen
from trueline.numerics.layout import STATISTICS, sketch_distance
from trueline.records import StateMoment
from trueline.store.columns import NONE

Array = Any
_Rows = dict[int, tuple[int, int]]
"""Place among the parts of a parameter -> (row in ``Trace.state_visits``, number of the moment)."""
_SIZES = 4
_NO_DATA = 3
_ALIKE = 1e-3
"""Tensors that are nearer than this lie alike."""
_HELD = ("parameters", "buffers", "gradients")
"""Groups of a snapshot whose names are those of the model; others are known by their order."""


@dataclass(slots=True)
class Ported(Observable):
    """One of them; ``rows`` are all rows of ``Trace.state_visits`` of each side: several where it is packed on the
    other side."""

    rows: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())


class PortedObservables(Observables):
    """Those of one rank of two Runs of different frameworks."""

    def __init__(self, table: RankTable) -> None:
        self.table = table
        self.graphs = (ValueGraph(table.traces[0]), ValueGraph(table.traces[1]))
        self._torch = 0 if "torch" in frameworks_of(table.traces[0]) else 1
        super().__init__(table)

    # Pairing.

    @cached_property
    def _models(self) -> tuple[dict[str, str], dict[str, str]]:
        names = [list(dict.fromkeys(one.model for one in trace.states)) for trace in self.table.traces]
        rest = [[name for name in own if name not in other] for own, other in (names, names[::-1])]
        return {}, dict(zip(rest[1], rest[0], strict=False))

    @cached_property
    def _names(self) -> dict[str, Names]:
        """The common names of what each model holds, from when it was first seen."""
        held: tuple[dict[str, dict[str, int]], dict[str, dict[str, int]]] = (defaultdict(dict), defaultdict(dict))
        for side, trace in enumerate(self.table.traces):
            for one in trace.states:
                if one.moment is StateMoment.ENTERED:
                    mine = held[side][self._models[side].get(one.model, one.model)]
                    for name, row in one.values.items():
                        if name.partition(".")[0] in _HELD:
                            mine.setdefault(name, row)
        namesakes = Namesakes(self.table.traces)
        return {model: namesakes.paired(held[0][model], held[1].get(model, {})) for model in list(held[0])}

    def _named(
        self,
        step: int,
        moment: StateMoment,
        model: str,
        left: Mapping[str, tuple[int, int]],
        right: Mapping[str, tuple[int, int]],
        *,
        named_only: bool = False,
    ) -> Iterator[Observable]:
        groups: list[dict[tuple[str, str], _Rows]] = [defaultdict(dict), defaultdict(dict)]
        parts: Counter[str] = Counter()
        for side, values in enumerate((left, right)):
            for name, value in values.items():
                group, _, rest = name.partition(".")
                known = self._common_name(side, model, rest) if group in _HELD else None
                if known is not None:
                    groups[side][group, known[0]].setdefault(known[1], value)
                    parts[known[0]] = max(parts[known[0]], known[2])
        for (_, name), rows in [*groups[0].items(), *groups[1].items()]:
            if 1 < len(rows) < parts[name]:
                rows.clear()  # what has some of its parts only is not there as the whole that the other side has
        for here, there in () if named_only else self._by_place(left, right):
            groups[0][(here.partition(".")[0], here)][0] = left[here]
            groups[1][(here.partition(".")[0], here)][0] = right[there]
        for key in [*groups[0], *(key for key in groups[1] if key not in groups[0])]:
            kind = KINDS.get((moment, key[0]))
            if kind is not None and (one := self._as_one(kind, key, step, model, groups)) is not None:
                yield one

    def _by_place(
        self, left: Mapping[str, tuple[int, int]], right: Mapping[str, tuple[int, int]]
    ) -> Iterator[tuple[str, str]]:
        """Inputs, outputs and losses, which have no names of the model's: each beside the first that is as large."""
        waiting = [name for name in right if name.partition(".")[0] not in (*_HELD, "optimizer")]
        for here, (row, _) in left.items():
            for there in waiting:
                same = here.partition(".")[0] == there.partition(".")[0]
                if same and self._size(0, row) == self._size(1, right[there][0]):
                    yield here, there
                    waiting.remove(there)
                    break

    def _common_name(self, side: int, model: str, name: str) -> tuple[str, int, int] | None:
        """Of what a model holds; None for what the other side has no counterpart of."""
        names = self._names.get(model)
        if names is None:
            return None
        return names.of[side].get(f"parameters.{name}") or names.of[side].get(f"buffers.{name}")

    @staticmethod
    def _as_one(
        kind: str, key: tuple[str, str], step: int, model: str, groups: Sequence[Mapping[Any, _Rows]]
    ) -> Observable | None:
        here, there = (groups[side].get(key, {}) for side in (0, 1))
        if (not here or not there) and kind not in ("gradient", "update"):
            return None  # one framework counts batches, or holds a constant as a buffer
        rows = tuple(tuple(value[0] for _, value in sorted(side.items())) for side in (here, there))
        when = max(value[1] for value in (there or here).values())
        first = [side[0] if side else NONE for side in rows]
        name = key[1] if key[0] in _HELD else key[1].partition(".")[2] or key[0]
        return Ported(kind, name, step, when, first[0], first[1], model, rows=(rows[0], rows[1]))

    # Numbers.

    def value(self, side: int, one: Observable) -> int:
        return self.tensors(side, one)[0]

    def tensors(self, side: int, one: Observable) -> list[int]:
        """The values of which one consists on a side."""
        assert isinstance(one, Ported)
        found = [int(self.traces[side].state_visits[row, 3]) for row in one.rows[side]]
        return [self._raw(side, value) for value in found] if one.kind == "gradient" else found

    def _raw(self, side: int, value: int) -> int:
        """A gradient as autograd left it, before the program changed it in place."""
        seen = {value}
        while (before := self.graphs[side].before_change(value)) is not None and before not in seen:
            seen.add(before)
            value = before
        return value

    def stored(self, side: int, one: Observable) -> bool:
        """Whether its elements were kept."""
        return all(value in self.traces[side].stored for value in self.tensors(side, one))

    def elements(self, side: int, one: Observable) -> Array | None:
        """Its elements, flat, in wide numbers, as torch lays them out; None where they were not kept."""
        assert isinstance(one, Ported)
        if not self.stored(side, one):
            return None
        trace, parts = self.traces[side], []
        for row, value in zip(one.rows[side], self.tensors(side, one), strict=True):
            layout = trace.layouts[int(trace.state_visits[row, 4])]
            bits = np.asarray(self.table.readers[side].tensor_bits(value, layout.dtype, layout.shape))
            array = np.asarray(widen(bits, dtype_named(layout.dtype))).reshape(layout.shape)
            parts.append(array.transpose(self._axes(one)) if side != self._torch and self._axes(one) else array)
        return np.concatenate([part.reshape(-1) for part in parts]).astype(np.float64)

    def shapes(self, one: Observable) -> tuple[tuple[int, ...], tuple[int, ...]]:
        assert isinstance(one, Ported)
        sizes = [sum(self._size(side, row) for row in rows) for side, rows in enumerate(one.rows)]
        return (sizes[0],), (sizes[1],)

    def _size(self, side: int, row: int) -> int:
        trace = self.table.traces[side]
        return math.prod(trace.layouts[int(trace.state_visits[row, 4])].shape)

    def _axes(self, one: Observable) -> tuple[int, ...]:
        """The order of the axes in which the other side's numbers lie as torch's do; empty where they lie alike."""
        key = (one.model, one.name)
        if one.kind not in ("parameter", "gradient", "update"):
            return self._turned_by_shape(one)
        if key not in self._lying:
            begins = (item for item in self.items if item.kind == "parameter" and key == (item.model, item.name))
            self._lying[key] = self._of_weight(next(begins, one))
        return self._lying[key]

    @cached_property
    def _lying(self) -> dict[tuple[str, str], tuple[int, ...]]:
        return {}

    def _of_weight(self, one: Observable) -> tuple[int, ...]:
        assert isinstance(one, Ported)
        other = 1 - self._torch
        shapes = [self._shape(side, one.rows[side][0]) for side in (self._torch, other)]
        if len(shapes[1]) == 2 and any(value in self._transposed for value in self.tensors(other, one)):
            return 1, 0
        return (1, 0) if len(shapes[1]) == 2 and shapes[0] != shapes[1] and len(one.rows[other]) == 1 else ()

    def _turned_by_shape(self, one: Observable) -> tuple[int, ...]:
        assert isinstance(one, Ported)
        shapes = [self._shape(side, one.rows[side][0]) for side in (1 - self._torch, self._torch)]
        return () if shapes[0] == shapes[1] else next(iter(orders(shapes[0], shapes[1])), ())

    def _shape(self, side: int, row: int) -> tuple[int, ...]:
        trace = self.table.traces[side]
        return trace.layouts[int(trace.state_visits[row, 4])].shape

    @cached_property
    def _transposed(self) -> frozenset[int]:
        return transposed(self.table.traces[1 - self._torch])

    # Measuring.

    def _measure(self) -> None:
        both = [one for one in self.items if one.both]
        self.measured = np.zeros(len(both), dtype=MEASURED)
        for place, one in enumerate(both):
            one.place = place
            self._measure_one(one, self.measured[place : place + 1])

    def _measure_one(self, one: Observable, row: Array) -> None:
        sizes = self.shapes(one)
        row["count"] = sizes[0][0]
        if sizes[0] != sizes[1]:
            row["note"], row["distance"] = _SIZES, np.nan
            return
        arrays = [self.elements(side, one) for side in (0, 1)]
        expected = self._expected(one, arrays[self._torch], exact=True)
        if expected is not None:
            arrays[self._torch] = expected
        if arrays[0] is not None and arrays[1] is not None:
            _compare(arrays[0], arrays[1], row)
            return
        self._from_statistics(one, row)

    def _from_statistics(self, one: Observable, row: Array) -> None:
        assert isinstance(one, Ported)
        sides = [self.combined(side, one) for side in (0, 1)]
        if sides[0] is None or sides[1] is None:
            row["note"], row["distance"] = _NO_DATA, np.nan
            return
        packs = [np.zeros(1, dtype=STATISTICS) for _ in sides]
        for pack, side in zip(packs, sides, strict=True):
            pack[0] = side
        expected = self._expected(one, packs[self._torch]["sketch"].astype(np.float64), exact=False)
        if expected is not None:
            packs[self._torch]["sketch"] = expected
        describe(packs[0], row)
        compare_statistics(packs[0], packs[1], np.ones(1, dtype=bool), row)
        if not self.straight(one):
            row["distance"], row["cosine"] = order_free(sides[0], sides[1]), 1.0
            square = len(set(self._shape(1 - self._torch, one.rows[1 - self._torch][0]))) == 1
            if square and max(len(side) for side in one.rows) == 1 and self._lies_alike(packs):
                row["distance"] = 1.0  # it lies as in the other framework, where it must not

    def straight(self, one: Observable) -> bool:
        """Whether it is one tensor on both sides whose elements lie in the same order."""
        assert isinstance(one, Ported)
        return max(len(side) for side in one.rows) == 1 and not self._axes(one)

    @staticmethod
    def _lies_alike(packs: list[Array]) -> bool:
        scratch = np.zeros(1, dtype=MEASURED)
        compare_statistics(packs[0], packs[1], np.ones(1, dtype=bool), scratch)
        return bool(scratch["distance"][0] <= _ALIKE)

    def combined(self, side: int, one: Observable) -> Array | None:
        """The statistics of all its values together; the sketch is that of the first."""
        rows: list[Any] = [self._row_of(side, value) for value in self.tensors(side, one)]
        if any(row is None for row in rows):
            return None
        whole = rows[0].copy()
        means = sum(float(row["mean"]) * int(row["count"]) for row in rows)
        for name in ("count", "nan", "positive_infinity", "negative_infinity", "zeros"):
            whole[name] = sum(int(row[name]) for row in rows)
        whole["minimum"], whole["maximum"] = min(row["minimum"] for row in rows), max(row["maximum"] for row in rows)
        whole["mean"] = means / max(int(whole["count"]), 1)
        whole["norm"] = math.sqrt(sum(float(row["norm"]) ** 2 for row in rows))
        return whole

    def _row_of(self, side: int, value: int) -> Array | None:
        known = self._rows[side]
        if value not in known:
            known[value] = self.table.traces[side].statistics_rows([value]).get(value)
        return known[value]

    @cached_property
    def _rows(self) -> tuple[dict[int, Any], dict[int, Any]]:
        return {}, {}

    def parts_apart(self, one: Observable, left: Sequence[int], right: Sequence[int]) -> float:
        """How far apart values are that are laid out as a parameter is, one by one; NaN where that cannot be told."""
        worst = 0.0 if left and len(left) == len(right) else math.nan
        for pair in zip(left, right, strict=False):
            rows = [self._row_of(side, value) for side, value in enumerate(pair)]
            if rows[0] is None or rows[1] is None:
                return math.nan
            straight = float(sketch_distance(rows[0]["sketch"], rows[1]["sketch"]))
            worst = max(worst, straight if self.straight(one) else order_free(rows[0], rows[1]))
        return worst

    # Running statistics.

    @cached_property
    def _averagings(self) -> dict[int, Averaging]:
        return averagings(self.table.traces[self._torch])

    def _expected(self, one: Observable, after: Array | None, *, exact: bool) -> Array | None:
        """What the other framework must have where torch's running variance is this; None where they are the same."""
        if one.kind != "buffer" or not common(one.name).endswith("running_var") or after is None:
            return None
        begin = self.by_name.get(("begin of buffer", one.model, one.name, one.step))
        averaging = None if begin is None else self._averagings.get(self.value(self._torch, begin))
        if begin is None or averaging is None or averaging.count < 2:
            return None
        before = []
        for side in (self._torch, 1 - self._torch):
            found = self.elements(side, begin) if exact else self.combined(side, begin)
            if found is None:
                return None
            before.append(found if exact else found["sketch"].astype(np.float64))
        return biased((before[0], before[1]), after, averaging)

    # Looking up.

    @cached_property
    def names(self) -> tuple[dict[int, Observable], dict[int, Observable]]:
        found: tuple[dict[int, Observable], dict[int, Observable]] = ({}, {})
        for one in self.items:
            if one.kind in ("input", "parameter", "begin of buffer"):
                for side in (0, 1):
                    for value in self.tensors(side, one):
                        found[side].setdefault(value, one)
        return found

    def of(self, *kinds: str, step: int) -> Iterable[Observable]:
        """Those of some kinds in a step."""
        return (one for one in self.items if one.kind in kinds and one.step == step)


def _compare(left: Array, right: Array, row: Array) -> None:
    good = np.isfinite(left) & np.isfinite(right)
    row["bad_mismatch"] = int((np.isfinite(left) != np.isfinite(right)).sum())
    left, right = left[good], right[good]
    sizes = [float(np.linalg.norm(side)) for side in (left, right)]
    off = float(np.linalg.norm(left - right))
    root = math.sqrt(max(len(left), 1))
    row["distance"] = 0.0 if off == 0.0 else off / sizes[0] if sizes[0] > 0.0 else math.inf
    row["equal"] = off == 0.0 and not row["bad_mismatch"][0]
    row["rms"], row["candidate_rms"] = sizes[0] / root, sizes[1] / root
    magnitudes = np.abs(left[left != 0.0])
    row["smallest"] = float(magnitudes.min()) if magnitudes.size else 0.0
    row["largest"] = float(magnitudes.max()) if magnitudes.size else 0.0
    row["peak"] = float(np.abs(left - right).max(initial=0.0)) / (float(magnitudes.max()) if magnitudes.size else 1.0)
    row["cosine"] = 1.0
