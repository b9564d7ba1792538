"""What the tables of a Run say, checked where it is read, so that nobody behind this door has to wonder.

Everything here raises ``Unfit``, which says the table and the row; the caller knows the file.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trueline.checked import json_value, unfit, value_of
from trueline.numerics.layout import STATISTICS
from trueline.records import SKETCH_SIZE, Frame
from trueline.store.columns import CALL_COLUMNS, LEVELS, NONE, PHASES, ROLES, Integers
from trueline.tree import Tree, tree_fault

MOST_DIMENSIONS = 64
MOST_ELEMENTS = 1 << 56

Row = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Layout:
    """What a tensor looked like to the call that saw it."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: str
    requires_grad: bool


def texts(rows: Iterable[Row], table: str) -> dict[int, str]:
    """A number and a text a row."""
    return {number: _text(text, table, number) for number, text in rows}


def modules(rows: Iterable[Row]) -> dict[int, tuple[str, str]]:
    return {row[0]: (_text(row[1], "modules", row[0]), _text(row[2], "modules", row[0])) for row in rows}


def trees(rows: Iterable[Row], given: Collection[int]) -> dict[int, Tree]:
    """``given`` are the numbers of those that forward calls were given."""
    return {number: _tree(text, number, number in given) for number, text in rows}


def _tree(text: Any, number: int, given: bool) -> Tree:
    tree = _json(text, "trees", number)
    whole = isinstance(tree, dict) and not (given and _no_arguments(tree)) if tree is not None else not given
    fault = tree_fault(tree) if whole else "it is no tree of arguments"
    if fault:
        unfit(f"row {number} of trees: {fault}")
    return tree


def _no_arguments(tree: dict[str, Any]) -> bool:
    return any(not isinstance(tree.get(key, kind()), kind) for key, kind in _ARGUMENTS.items())


_ARGUMENTS: dict[str, type[Any]] = {"args": list, "kwargs": dict, "parameters": dict}


def stacks(rows: Iterable[Row]) -> dict[int, tuple[Frame, ...]]:
    return {number: tuple(Frame(*frame) for frame in _frames(text, number)) for number, text in rows}


def _frames(text: Any, number: int) -> list[tuple[str, int, str]]:
    found: list[tuple[str, int, str]] = value_of(
        list[tuple[str, int, str]], _json(text, "stacks", number), f"row {number} of stacks"
    )
    return found


def layouts(rows: Iterable[Row]) -> dict[int, Layout]:
    return {row[0]: _layout(*row) for row in rows}


def _layout(number: int, dtype: Any, shape: Any, strides: Any, device: Any, requires_grad: Any) -> Layout:
    where = f"row {number} of layouts"
    sizes, steps = (value_of(tuple[int, ...], _json(text, "layouts", number), where) for text in (shape, strides))
    if len(sizes) > MOST_DIMENSIONS or any(size < 0 for size in sizes) or math.prod(sizes) > MOST_ELEMENTS:
        unfit(f"{where}: {str(list(sizes))[:60]} is no shape")
    return Layout(_text(dtype, "layouts", number), sizes, steps, _text(device, "layouts", number), bool(requires_grad))


def _json(text: Any, table: str, number: int) -> Any:
    try:
        return json_value(_text(text, table, number))
    except ValueError as error:
        unfit(f"row {number} of {table}: {error}")


def _text(value: Any, table: str, number: int) -> str:
    if not isinstance(value, str):
        unfit(f"row {number} of {table} holds {type(value).__name__} where text must be")
    return value


# Columns of numbers


def integers(rows: list[Row], table: str) -> Integers:
    """Rows of integers as a matrix."""
    try:
        return np.array(rows, dtype=np.int64)
    except (TypeError, ValueError, OverflowError):
        unfit(f"a row of {table} holds something else than integers")


def check_calls(columns: Integers, known: dict[str, Integers]) -> None:
    """``known`` holds the numbers of what calls refer to, by table."""
    if not len(columns):
        return
    for name, most in (("level", len(LEVELS)), ("phase", len(PHASES))):
        _within(_column(columns, name), 0, most, f"calls.{name}")
    for name in ("nth", "step"):
        _within(_column(columns, name), 0, 1 << 40, f"calls.{name}")
    for name, table in _REFERENCES.items():
        _refers(_column(columns, name), known[table], f"calls.{name}", table)
    forward, numbers = _column(columns, "forward"), _column(columns, "id")
    _refers(forward, numbers, "calls.forward", "calls")
    if (forward == numbers).any():
        unfit("a row of calls is its own forward call")


_REFERENCES = {
    "api": "names", "context": "names", "raised": "names", "module": "modules", "arguments": "trees",
    "result": "trees", "stack": "stacks",
}  # fmt: skip
DEFINITIONS = ("names", "modules", "trees", "stacks", "layouts")


def check_visits(visits: Integers, layouts_known: Integers) -> None:
    if not len(visits):
        return
    if (np.diff(visits[:, 0]) < 0).any():
        unfit("the rows of visits are out of their order")
    _within(visits[:, 1], 0, 1 << 31, "visits.position")
    _within(visits[:, 2], 0, len(ROLES), "visits.role")
    _within(visits[:, 3], 0, 1 << 62, "visits.tensor")
    _refers(visits[:, 4], layouts_known, "visits.layout", "layouts", optional=False)


def _column(columns: Integers, name: str) -> Integers:
    return columns[:, CALL_COLUMNS.index(name)]


def _within(values: Integers, least: int, end: int, what: str) -> None:
    lowest, highest = int(values.min()), int(values.max())
    if lowest < least or highest >= end:
        unfit(f"{what} is {lowest if lowest < least else highest}, which cannot be")


def _refers(values: Integers, known: Integers, what: str, table: str, *, optional: bool = True) -> None:
    """Numbers are given from 0 on, so that nearly always their count says which there are."""
    least = NONE if optional else 0
    lowest, highest = int(values.min()), int(values.max())
    if lowest >= least and highest < len(known) and _is_dense(known):
        return
    strange = values[(values != NONE if optional else True) & ~np.isin(values, known)]
    if len(strange):
        unfit(f"{what} refers to number {int(strange[0])} of {table}, which is not there")


def _is_dense(known: Integers) -> bool:
    return len(known) == 0 or (int(known[0]) == 0 and int(known[-1]) == len(known) - 1)


def statistics(rows: list[Row]) -> np.ndarray[Any, Any]:
    """Rows of the table as STATISTICS; SQLite keeps NaN as NULL."""
    packed = np.zeros(len(rows), dtype=STATISTICS)
    if not rows:
        return packed
    columns = list(zip(*rows, strict=True))
    try:
        for name, values in zip(STATISTICS.names or (), columns[1:], strict=True):
            if name == "sketch":
                packed[name] = np.frombuffer(b"".join(values), dtype="<f4").reshape(len(rows), SKETCH_SIZE)
            elif name == "digest":
                packed[name] = np.array(values, dtype=np.int64).view(np.uint64)
            else:
                packed[name] = [math.nan if value is None else value for value in values]
    except (TypeError, ValueError, OverflowError):
        unfit("a row of statistics holds something else than numbers")
    check_counts(packed)
    return packed


def extremes(rows: list[Row], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Rows of the columns of the table that this dtype names."""
    try:
        packed = np.array([tuple(np.nan if one is None else one for one in row) for row in rows], dtype)
    except (TypeError, ValueError, OverflowError):
        unfit("a row of statistics holds something else than numbers")
    check_counts(packed)
    return packed


def check_counts(rows: np.ndarray[Any, Any]) -> None:
    """Refuses statistics of more elements than there are."""
    if not len(rows):
        return
    counts = np.stack([rows[name] for name in ("count", "nan", "positive_infinity", "negative_infinity", "zeros")])
    if counts.min() < 0 or counts.max() > MOST_ELEMENTS or (counts[1:].sum(axis=0) > counts[0]).any():
        unfit("a row of statistics counts more elements than there are")
