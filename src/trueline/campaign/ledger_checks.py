"""What is checked of a kept check before anything in it is believed, as ``store.intact`` does for Runs.

A ledger is sealed when its writer closes it. While it is written, and after its writer was killed, it has no seal; what
its rows say is checked in any case.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from trueline.campaign.ledger_file import LEDGER_FILE, SEALED_BYTES, VERSION, ledger_version
from trueline.cases import Case, CaseMeasured, Ending
from trueline.checked import Unfit, json_value, unfit, value_of
from trueline.dtypes import DTYPES
from trueline.replay.serial import case_from_json, measured_from_json
from trueline.store.intact import check_seal, check_tables, damaged, plain_file
from trueline.tree import tree_fault

ADVICE = "run the check again into another folder"
_TABLES = {
    "meta": ("key", "value"),
    "cases": (
        "number", "key", "position", "api", "dtype", "line", "count", "cost", "bytes", "case_json", "ending",
        "verdict", "reason", "score", "seconds", "simulated", "measured_json",
    ),
    "skips": ("number", "place", "reason", "count"),
    "flights": ("number",),
    "attempts": ("number", "ending", "verdict", "reason", "seconds", "ended"),
}  # fmt: skip
_ENDINGS = ", ".join(f"'{ending.value}'" for ending in Ending)
_STRANGE = (
    "SELECT 1 FROM cases WHERE position IS NOT NULL AND NOT (typeof(position) = 'integer' AND typeof(api) = 'text' AND "
    "typeof(count) = 'integer' AND count BETWEEN 0 AND 1 << 40 AND typeof(coalesce(dtype, '')) = 'text' AND "
    f"coalesce(ending, 'pass') IN ({_ENDINGS}) AND coalesce(verdict, 0) IN (0, 1, 2, 3, 4) AND "
    "typeof(coalesce(score, 0)) IN ('real', 'integer') AND typeof(coalesce(seconds, 0)) IN ('real', 'integer')) LIMIT 1"
)
"""Rows whose columns cannot be; answered from an index alone."""
_STRANGE_SKIPS = (
    "SELECT 1 FROM skips WHERE typeof(coalesce(place, '')) <> 'text' OR typeof(reason) <> 'text' OR "
    "typeof(count) <> 'integer' OR count NOT BETWEEN 0 AND 1 << 40 LIMIT 1"
)
_checked: dict[str, tuple[int, int]] = {}
"""Ledgers that were looked at, as they were then: a report asks the same one many times."""


def check_file(folder: Path) -> None:
    """Refuses a ledger that is no plain file in its folder, or not as it was sealed."""
    database, log = folder / LEDGER_FILE, folder / f"{LEDGER_FILE}-wal"
    found, more = plain_file(database, folder), plain_file(log, folder)
    if found is None or _known(database) or (more is not None and more.st_size):
        return
    if found.st_size <= SEALED_BYTES:
        check_seal(database, needed=False)


def check_rows(connection: sqlite3.Connection, folder: Path) -> None:
    """Refuses tables that are not those of a ledger, and columns that hold what they cannot."""
    database = folder / LEDGER_FILE
    if ledger_version(connection) != VERSION or _known(database):
        return
    check_tables(connection, database, _TABLES)
    for question in (_STRANGE, _STRANGE_SKIPS):
        if connection.execute(question).fetchone() is not None:
            damaged(database, "a row of it holds what it cannot", ADVICE)
    _checked[str(database.absolute())] = _state(database)


def case_of(text: Any, database: object) -> Case:
    """A case as a ledger holds it."""
    try:
        case = case_from_json(json_value(_text(text)))
        _check_case(case)
    except _STRANGERS as error:
        damaged(database, f"a case in it cannot be read ({error})", ADVICE)
    return case


def measured_of(text: Any, database: object) -> CaseMeasured:
    """What was measured of a case."""
    try:
        return measured_from_json(json_value(_text(text)))
    except _STRANGERS as error:
        damaged(database, f"what was measured of a case cannot be read ({error})", ADVICE)


def remembered(declared: Any, text: Any, name: str, database: object) -> Any:
    """What a ledger remembers under a name, as what is declared."""
    try:
        return value_of(declared, json_value(_text(text)), name)
    except _STRANGERS as error:
        damaged(database, f"what it remembers cannot be read ({error})", ADVICE)


_STRANGERS = (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError)
"""What comes of making a record of something else."""


def _check_case(case: Case) -> None:
    value_of(str, case.api, "api")
    value_of(int, case.seed, "seed")
    value_of(int, case.count, "count")
    value_of(tuple[str, ...], case.calls, "calls")
    if not isinstance(case.arguments, dict) or tree_fault(case.arguments):
        unfit("its arguments are no tree")
    for spec in (*case.tensors, *case.gradients):
        value_of(str, spec.path, "path")
        value_of(tuple[int, ...], spec.shape, "shape")
        if spec.dtype not in DTYPES:
            unfit(f"the dtype {str(spec.dtype)[:40]!r}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Unfit(f"{type(value).__name__} where text must be")
    return value


def _state(database: Path) -> tuple[int, int]:
    found = database.stat()
    return found.st_mtime_ns, found.st_size


def _known(database: Path) -> bool:
    return _checked.get(str(database.absolute())) == _state(database)
