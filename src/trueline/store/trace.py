"""The calls of one rank, loaded: columns of integers, made into Calls on demand.

A Trace of 200,000 calls is some tens of megabytes; sketches and stacks stay in the database until asked for.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from trueline.numerics.layout import STATISTICS, to_statistics
from trueline.records import Call, Frame, Statistics, TensorRecord
from trueline.store.columns import CALL_COLUMNS, LEVELS, NONE, PHASES, ROLES, VISIT_COLUMNS, Integers
from trueline.tree import Tree, tensor_paths

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


@dataclass(frozen=True, slots=True)
class Layout:
    """What a tensor looked like to the call that saw it."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: str
    requires_grad: bool


class Trace:
    """The calls of one rank (of all its steps, or of one), in the order in which they began."""

    def __init__(self, connection: sqlite3.Connection, rank: int, step: int | None = None) -> None:
        self._connection = connection
        self.rank = rank
        where, parameters = ("", ()) if step is None else (" WHERE step = ?", (step,))
        self.columns = _integers(
            connection.execute(f"SELECT {', '.join(CALL_COLUMNS)} FROM calls{where} ORDER BY id", parameters),
            len(CALL_COLUMNS),
        )
        inner = "" if step is None else " WHERE call IN (SELECT id FROM calls WHERE step = ?)"
        self.visits = _integers(
            connection.execute(
                f"SELECT {', '.join(VISIT_COLUMNS)} FROM visits{inner} ORDER BY call, position", parameters
            ),
            len(VISIT_COLUMNS),
        )
        self._first_visit = np.searchsorted(self.visits[:, 0], self.columns[:, 0], side="left")
        self._last_visit = np.searchsorted(self.visits[:, 0], self.columns[:, 0], side="right")

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[Call]:
        return (self.call(position) for position in range(len(self)))

    def column(self, name: str) -> Integers:
        return self.columns[:, CALL_COLUMNS.index(name)]

    @cached_property
    def names(self) -> dict[int, str]:
        return dict(self._connection.execute("SELECT id, text FROM names"))

    @cached_property
    def modules(self) -> dict[int, tuple[str, str]]:
        return {row[0]: (row[1], row[2]) for row in self._connection.execute("SELECT id, path, class FROM modules")}

    @cached_property
    def layouts(self) -> dict[int, Layout]:
        rows = self._connection.execute("SELECT id, dtype, shape, strides, device, requires_grad FROM layouts")
        return {
            row[0]: Layout(row[1], tuple(json.loads(row[2])), tuple(json.loads(row[3])), row[4], bool(row[5]))
            for row in rows
        }

    @cached_property
    def trees(self) -> dict[int, Tree]:
        return {row[0]: json.loads(row[1]) for row in self._connection.execute("SELECT id, tree FROM trees")}

    @cached_property
    def stacks(self) -> dict[int, tuple[Frame, ...]]:
        rows = self._connection.execute("SELECT id, frames FROM stacks")
        return {row[0]: tuple(Frame(*frame) for frame in json.loads(row[1])) for row in rows}

    @cached_property
    def stored(self) -> frozenset[int]:
        """The tensors whose bytes were kept."""
        return frozenset(row[0] for row in self._connection.execute("SELECT tensor FROM bytes"))

    @cached_property
    def missing(self) -> dict[int, str]:
        """Why a tensor has no statistics."""
        return dict(self._connection.execute("SELECT tensor, reason FROM missing"))

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
            packed = _pack_statistics(rows)
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
        while chunk := rows.fetchmany(50_000):  # SQLite keeps NaN as NULL
            parts.append(np.array([tuple(np.nan if one is None else one for one in row) for row in chunk], EXTREMES))
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
        _, leaf, role, tensor, layout_number = visit
        layout = self.layouts[layout_number]
        statistics, digest = numbers.get(tensor, (None, 0))
        return TensorRecord(
            role=ROLES[role],
            path=self.path_of(position, leaf),
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


def _integers(rows: sqlite3.Cursor, width: int) -> Integers:
    """Fetches rows of integers, a slice at a time so that the Python objects never pile up."""
    parts = []
    while chunk := rows.fetchmany(50_000):
        parts.append(np.array(chunk, dtype=np.int64))
    return np.concatenate(parts) if parts else np.empty((0, width), dtype=np.int64)


def _pack_statistics(rows: list[tuple[Any, ...]]) -> np.ndarray[Any, Any]:
    packed = np.zeros(len(rows), dtype=STATISTICS)
    if not rows:
        return packed
    columns = list(zip(*rows, strict=True))
    for name, values in zip(STATISTICS.names or (), columns[1:], strict=True):
        if name == "sketch":
            packed[name] = np.frombuffer(b"".join(values), dtype="<f4").reshape(len(rows), -1)
        elif name == "digest":
            packed[name] = np.array(values, dtype=np.int64).view(np.uint64)
        else:  # SQLite keeps NaN as NULL
            packed[name] = [float("nan") if value is None else value for value in values]
    return packed
