"""The calls of one rank, loaded: columns of integers, made into Calls on demand.

A Trace of 200,000 calls is some tens of megabytes; sketches and stacks stay in the database until asked for.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from trueline.checked import unfit
from trueline.dtypes import DTYPES, limit_of
from trueline.numerics.layout import to_statistics
from trueline.records import Call, Frame, Phase, Snapshot, Statistics, TensorRecord
from trueline.store import tables
from trueline.store.columns import CALL_COLUMNS, LEVELS, NONE, PHASES, ROLES, STATE, VISIT_COLUMNS, Integers, empty
from trueline.store.intact import Guarded, reading
from trueline.store.states import snapshots
from trueline.store.tables import DEFINITIONS, Layout, check_calls, check_visits
from trueline.tree import Tree, tensor_paths

Table = TypeVar("Table")

EXTREMES = np.dtype(
    [
        ("tensor", "<i8"),
        ("count", "<i8"),
        ("minimum", "<f8"),
        ("maximum", "<f8"),
        ("mean", "<f8"),
        ("norm", "<f8"),
        ("nan", "<i8"),
        ("positive_infinity", "<i8"),
        ("negative_infinity", "<i8"),
        ("zeros", "<i8"),
    ]
)
"""The part of the statistics that tells how large the numbers are and whether they still are numbers."""

_FETCH = 500
"""Rows asked for in one query; SQLite allows a limited number of parameters."""


class Trace:
    """The calls of one rank (of all its steps, or of one), in the order in which they began."""

    def __init__(self, connection: Guarded, rank: int, step: int | None = None) -> None:
        self._connection = connection
        self.rank = rank
        self._step = step
        with reading(connection.database):
            self.columns, self.visits = self._rows("IS NOT")
            self._check(self.columns, self.visits)
        self._find_visits()
        if int((self._last_visit - self._first_visit).sum()) != len(self.visits):
            # A program that is killed may have written what a call was given, and not the call.
            self.visits = self.visits[np.isin(self.visits[:, 0], self.columns[:, 0])]
            self._find_visits()

    def _rows(self, sign: str) -> tuple[Integers, Integers]:
        """The rows of calls whose level is that of states, or is not, and those of their visits."""
        step, parameters = ("", ()) if self._step is None else (" AND step = ?", (self._step,))
        wanted = f"FROM calls WHERE level {sign} {STATE}{step}"
        calls = self._connection.execute(f"SELECT {', '.join(CALL_COLUMNS)} {wanted} ORDER BY id", parameters)
        inner = f"IN (SELECT id {wanted})"
        if sign == "IS NOT" and self._step is None:  # nearly all: the few others are the shorter list
            inner = f"NOT IN (SELECT id FROM calls WHERE level IS {STATE})"
        seen = f"SELECT {', '.join(VISIT_COLUMNS)} FROM visits WHERE call {inner} ORDER BY call, position"
        columns = _integers(calls, "calls", len(CALL_COLUMNS))
        return columns, _integers(self._connection.execute(seen, parameters), "visits", len(VISIT_COLUMNS))

    def _find_visits(self) -> None:
        self._first_visit = np.searchsorted(self.visits[:, 0], self.columns[:, 0], side="left")
        self._last_visit = np.searchsorted(self.visits[:, 0], self.columns[:, 0], side="right")

    def _check(self, columns: Integers, visits: Integers) -> None:
        """Refuses calls that refer to nothing. Of one step the forward calls may be those of another."""
        known = {table: self._column_of(table) for table in DEFINITIONS}
        known["calls"] = columns[:, 0] if self._step is None else self._column_of("calls")
        check_calls(columns, known)
        check_visits(visits, known["layouts"])

    def _column_of(self, table: str) -> Integers:
        rows = self._connection.execute(f"SELECT id FROM {table} ORDER BY id")
        return _integers(rows, table, 1)[:, 0]

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[Call]:
        return (self.call(position) for position in range(len(self)))

    def column(self, name: str) -> Integers:
        return self.columns[:, CALL_COLUMNS.index(name)]

    @cached_property
    def _states(self) -> tuple[Integers, Integers]:
        """The rows of states, which are no calls, and of their visits."""
        with reading(self._connection.database):
            columns, visits = self._rows("IS")
            self._check(columns, visits)
        self._check_kept(visits, self.layouts)
        return columns, visits[np.isin(visits[:, 0], columns[:, 0])]

    @property
    def state_visits(self) -> Integers:
        """Rows (call, position, role, tensor, layout) of what ``states`` names."""
        return self._states[1]

    def state_record(self, row: int) -> TensorRecord:
        """The record of a tensor that ``states`` names, by its row in ``state_visits``."""
        columns, visits = self._states
        visit = visits[row].tolist()
        tree = int(columns[int(np.searchsorted(columns[:, 0], visit[0])), CALL_COLUMNS.index("arguments")])
        numbers = self.statistics([visit[3]])
        return self._record(self._paths.get(tree, {}).get(visit[1], ""), visit, numbers)

    @cached_property
    def states(self) -> tuple[Snapshot, ...]:
        """What the program held and gave away, by name, in the order of time. Runs of before format 3 have none, and
        neither have those for which only some calls were wanted."""
        columns, visits = self._states
        with reading(self._connection.database):
            return snapshots(columns, visits, self.names, self.modules, self._paths)

    @cached_property
    def names(self) -> dict[int, str]:
        return self._read("id, text FROM names", lambda rows: tables.texts(rows, "names"))

    def numbers_of(self, name: str) -> list[int]:
        """The numbers under which a name stands in the columns; none where it is never said."""
        return [number for number, text in self.names.items() if text == name]

    @cached_property
    def modules(self) -> dict[int, tuple[str, str]]:
        return self._read("id, path, class FROM modules", tables.modules)

    @cached_property
    def layouts(self) -> dict[int, Layout]:
        found = self._read("id, dtype, shape, strides, device, requires_grad FROM layouts", tables.layouts)
        self._check_kept(self.visits, found)
        return found

    def _check_kept(self, visits: Integers, layouts: dict[int, Layout]) -> None:
        """Refuses tensors that were kept in a dtype that is not known: nothing writes such."""
        strange = [number for number, layout in layouts.items() if layout.dtype.rpartition(".")[2] not in DTYPES]
        rows = visits[np.isin(visits[:, 4], strange)] if strange else empty(VISIT_COLUMNS)
        for tensor, layout in rows[:, 3:].tolist():
            if tensor in self.stored:
                with reading(self._connection.database):
                    unfit(f"tensor {tensor} was kept in {layouts[layout].dtype[:40]!r}, which is no dtype")

    def limits(self, layouts: Integers) -> np.ndarray[Any, Any]:
        """The limits of the dtypes of layouts (see ``limit_of``), by their numbers: those need not be consecutive."""
        numbers, place = np.unique(layouts, return_inverse=True)
        found = np.array([limit_of(self.layouts[number].dtype) for number in numbers.tolist()], dtype=np.float64)
        return found[place]

    @cached_property
    def trees(self) -> dict[int, Tree]:
        forward = self.column("phase") == PHASES.index(Phase.FORWARD)
        given = frozenset(np.unique(self.column("arguments")[forward]).tolist())
        return self._read("id, tree FROM trees", lambda rows: tables.trees(rows, given))

    @cached_property
    def stacks(self) -> dict[int, tuple[Frame, ...]]:
        return self._read("id, frames FROM stacks", tables.stacks)

    @cached_property
    def stored(self) -> frozenset[int]:
        """The tensors whose bytes were kept."""
        return frozenset(row[0] for row in self._connection.execute("SELECT tensor FROM bytes"))

    @cached_property
    def missing(self) -> dict[int, str]:
        """Why a tensor has no statistics."""
        return self._read("tensor, reason FROM missing", lambda rows: tables.texts(rows, "missing"))

    def _read(self, what: str, read: Callable[[Iterable[Any]], Table]) -> Table:
        with reading(self._connection.database):
            return read(self._connection.execute(f"SELECT {what}"))

    @cached_property
    def _paths(self) -> dict[int, dict[int, str]]:
        return {number: dict(tensor_paths(tree)) for number, tree in self.trees.items()}

    def visits_of(self, position: int) -> Integers:
        """The rows (call, position, role, tensor, layout) of one call."""
        return self.visits[self._first_visit[position] : self._last_visit[position]]

    def visit_range(self, position: int) -> tuple[int, int]:
        """Where in ``visits`` the rows of one call lie."""
        return int(self._first_visit[position]), int(self._last_visit[position])

    def path_of(self, position: int, leaf: int) -> str:
        """The path of a tensor leaf in the argument or result tree of a call."""
        arguments, result = self.columns[position, 10], self.columns[position, 11]
        paths = self._paths.get(int(arguments), {})
        return paths[leaf] if leaf in paths else self._paths.get(int(result), {}).get(leaf, f"leaf.{leaf}")

    def statistics_rows(self, tensors: Sequence[int] | Integers) -> dict[int, np.ndarray[Any, Any]]:
        """STATISTICS rows by tensor number, for those that have any."""
        wanted = [int(tensor) for tensor in tensors]
        found: dict[int, np.ndarray[Any, Any]] = {}
        for start in range(0, len(wanted), _FETCH):
            part = wanted[start : start + _FETCH]
            marks = ", ".join("?" * len(part))
            rows = self._connection.execute(f"SELECT * FROM statistics WHERE tensor IN ({marks})", part).fetchall()
            with reading(self._connection.database):
                packed = tables.statistics(rows)
            found.update((row[0], packed[index]) for index, row in enumerate(rows))
        return found

    def statistics(self, tensors: Sequence[int] | Integers) -> dict[int, tuple[Statistics, int]]:
        """Statistics and digest (0 where none was asked for) by tensor number."""
        return {
            tensor: (to_statistics(row, sketch=True), int(row["digest"]))
            for tensor, row in self.statistics_rows(tensors).items()
        }

    @cached_property
    def extremes(self) -> np.ndarray[Any, Any]:
        """Of every tensor that has statistics, in order of their numbers, what tells whether it is in danger: see
        ``EXTREMES``."""
        names = ", ".join(EXTREMES.names or ())
        rows = self._connection.execute(f"SELECT {names} FROM statistics ORDER BY tensor")
        parts = []
        while chunk := rows.fetchmany(50_000):
            with reading(self._connection.database):
                parts.append(tables.extremes(chunk, EXTREMES))
        return np.concatenate(parts) if parts else np.empty(0, EXTREMES)

    def call(self, position: int, *, statistics: bool = True) -> Call:
        """The call at a position of this trace, whole; without statistics it is cheaper."""
        row = dict(zip(CALL_COLUMNS, self.columns[position].tolist(), strict=True))
        visits = self.visits_of(position)
        numbers = self.statistics(np.unique(visits[:, 3])) if statistics else {}
        module, module_class = self.modules.get(row["module"], ("", ""))
        return Call(
            id=row["id"],
            api=self.names.get(row["api"], "?"),
            index=row["nth"],
            step=row["step"],
            rank=self.rank,
            phase=PHASES[row["phase"]],
            level=LEVELS[row["level"]],
            module=module,
            module_class=module_class,
            context=self.names.get(row["context"], ""),
            thread=row["thread"],
            forward_id=None if row["forward"] == NONE else row["forward"],
            arguments=self.trees.get(row["arguments"]),
            result=self.trees.get(row["result"]),
            raised=self.names.get(row["raised"], ""),
            stack=self.stacks.get(row["stack"], ()),
            tensors=tuple(self._tensor(position, visit, numbers) for visit in visits.tolist()),
        )

    def find(self, name: str, step: int | None = None) -> list[int]:
        """Positions of the calls with this name: ``torch.relu.3.backward``, ``torch.relu.3``, ``torch.relu`` or any
        part of an API's name; or a call's number (``#812`` or ``812``)."""
        if name.lstrip("#").isdigit():
            return np.flatnonzero(self.column("id") == int(name.lstrip("#"))).tolist()
        found = [position for position in range(len(self)) if _matches(self._name(position), name)]
        if not found:
            found = [position for position in range(len(self)) if name in self._name(position)]
        return [p for p in found if step is None or self.column("step")[p] == step]

    def _name(self, position: int) -> str:
        row = self.columns[position]
        return f"{self.names.get(int(row[3]), '?')}.{row[4]}.{PHASES[row[2]].value}"

    def _tensor(self, position: int, visit: list[int], numbers: dict[int, tuple[Statistics, int]]) -> TensorRecord:
        return self._record(self.path_of(position, visit[1]), visit, numbers)

    def _record(self, path: str, visit: list[int], numbers: dict[int, tuple[Statistics, int]]) -> TensorRecord:
        _, _, role, tensor, layout_number = visit
        layout = self.layouts[layout_number]
        statistics, digest = numbers.get(tensor, (None, 0))
        return TensorRecord(
            role=ROLES[role],
            path=path,
            tensor_id=tensor,
            dtype=layout.dtype,
            shape=layout.shape,
            strides=layout.strides,
            device=layout.device,
            requires_grad=layout.requires_grad,
            statistics=statistics,
            digest=digest or None,
            stored=tensor in self.stored,
            missing=self.missing.get(tensor, ""),
        )


def _matches(full: str, name: str) -> bool:
    return full == name or full.startswith(name + ".")


def _integers(rows: sqlite3.Cursor, table: str, width: int) -> Integers:
    """Fetches rows of integers, a slice at a time so that the Python objects never pile up."""
    parts = []
    while chunk := rows.fetchmany(50_000):
        parts.append(tables.integers(chunk, table))
    return np.concatenate(parts) if parts else np.empty((0, width), dtype=np.int64)
