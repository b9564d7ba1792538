"""Turns a journal into ``calls.db``, the SQLite file that every reader uses.

Done by the capture when it ends. A reader of a Run whose program was killed, or still runs, makes ``recovered.db``
instead and leaves the journal alone. A database is built beside its place and moved there when whole. Each kind of
frame fills one table, so a Run of any size is finished in a bounded amount of memory.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trueline.checked import json_value, value_of
from trueline.numerics.layout import STATISTICS
from trueline.store.columns import BYTES_COLUMNS, CALL_COLUMNS, FORMAT_VERSION, STATE, VISIT_COLUMNS
from trueline.store.journal import DamagedJournal, read_frames
from trueline.store.seal import seal_database

DATABASE_FILE = "calls.db"
RECOVERED_FILE = "recovered.db"
"""What a reader makes of a journal that nobody has finished; the capture that still runs will write its own file."""

STATISTICS_COLUMNS = tuple(name for name in STATISTICS.names or ())

SCHEMA = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE names (id INTEGER PRIMARY KEY, text TEXT);
CREATE TABLE modules (id INTEGER PRIMARY KEY, path TEXT, class TEXT);
CREATE TABLE stacks (id INTEGER PRIMARY KEY, frames TEXT);
CREATE TABLE trees (id INTEGER PRIMARY KEY, tree TEXT);
CREATE TABLE layouts (id INTEGER PRIMARY KEY, dtype TEXT, shape TEXT, strides TEXT, device TEXT, requires_grad INTEGER);
CREATE TABLE calls ({", ".join(f"{name} INTEGER" + (" PRIMARY KEY" if name == "id" else "") for name in CALL_COLUMNS)});
CREATE TABLE visits ({", ".join(f"{name} INTEGER" for name in VISIT_COLUMNS)},
  PRIMARY KEY (call, position)) WITHOUT ROWID;
CREATE TABLE statistics (tensor INTEGER PRIMARY KEY, count INTEGER, minimum REAL, maximum REAL, mean REAL, norm REAL,
  nan INTEGER, positive_infinity INTEGER, negative_infinity INTEGER, zeros INTEGER, exponent_min INTEGER,
  exponent_max INTEGER, digest INTEGER, sketch BLOB);
CREATE TABLE bytes (tensor INTEGER PRIMARY KEY, file INTEGER, offset INTEGER, nbytes INTEGER);
CREATE TABLE missing (tensor INTEGER PRIMARY KEY, reason TEXT);
CREATE TABLE events (id INTEGER PRIMARY KEY, kind TEXT, event TEXT);
CREATE VIEW call_list AS SELECT calls.id, calls.step, names.text AS api, calls.nth,
  CASE calls.phase WHEN 0 THEN 'forward' ELSE 'backward' END AS phase, modules.path AS module, stacks.frames AS stack
  FROM calls LEFT JOIN names ON names.id = calls.api LEFT JOIN modules ON modules.id = calls.module
  LEFT JOIN stacks ON stacks.id = calls.stack WHERE calls.level != {STATE} ORDER BY calls.id;
CREATE VIEW tensor_list AS SELECT visits.call, visits.position,
  CASE visits.role WHEN 0 THEN 'input' WHEN 1 THEN 'output' ELSE 'parameter' END AS role, visits.tensor,
  layouts.dtype, layouts.shape, layouts.device, statistics.minimum, statistics.maximum, statistics.mean,
  statistics.norm, statistics.nan, statistics.zeros
  FROM visits LEFT JOIN layouts ON layouts.id = visits.layout LEFT JOIN statistics ON statistics.tensor = visits.tensor;
"""

TABLES: Mapping[str, tuple[str, ...]] = {
    "meta": ("key", "value"),
    "names": ("id", "text"),
    "modules": ("id", "path", "class"),
    "stacks": ("id", "frames"),
    "trees": ("id", "tree"),
    "layouts": ("id", "dtype", "shape", "strides", "device", "requires_grad"),
    "calls": CALL_COLUMNS,
    "visits": VISIT_COLUMNS,
    "statistics": ("tensor", *STATISTICS_COLUMNS),
    "bytes": BYTES_COLUMNS,
    "missing": ("tensor", "reason"),
    "events": ("id", "kind", "event"),
}
"""The same, as a reader looks for it."""


def finish_rank(folder: Path, rank: int, *, database: Path | None = None) -> Path:
    """Builds the database of one rank from its journal; gives its path. The journal is removed when the database
    has taken its place in the Run (it is kept when the database is made elsewhere)."""
    journal = folder / "journal.bin"
    target = database or folder / DATABASE_FILE
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    size = journal.stat().st_size
    connection = sqlite3.connect(draft, isolation_level=None)
    try:
        # One writer that nobody else reads yet: no lock and no rollback file is needed, only speed.
        connection.executescript("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE;")
        connection.executescript(SCHEMA)
        connection.execute("BEGIN")
        complete = _copy_frames(connection, journal, rank)
        ends = dict(connection.execute("SELECT file, max(offset + nbytes) FROM bytes WHERE nbytes > 0 GROUP BY file"))
        meta = {"format_version": FORMAT_VERSION, "rank": rank, "complete": complete, "journal_bytes": size}
        rows = [(key, json.dumps(value)) for key, value in {**meta, "segments": ends}.items()]
        connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)
        connection.execute("COMMIT")
        connection.close()
        seal_database(draft)
    except BaseException:
        connection.close()
        draft.unlink(missing_ok=True)
        raise
    os.replace(draft, target)
    if database is None:
        journal.unlink(missing_ok=True)
        (folder / RECOVERED_FILE).unlink(missing_ok=True)
    return target


def _copy_frames(connection: sqlite3.Connection, journal: Path, rank: int) -> bool:
    """Copies every whole frame; tells whether the journal was closed by the capture itself."""
    complete = False
    for kind, payload in read_frames(journal):
        if kind == b"X":
            connection.execute("INSERT INTO meta VALUES ('certificate', ?)", (payload.decode(),))
            complete = True
        elif kind == b"R":
            if payload != str(rank).encode():
                raise DamagedJournal(f"it is that of rank {payload[:20].decode('ascii', 'replace')}")
        elif kind in _COPIERS:
            _COPIERS[kind](connection, payload)
        else:
            raise DamagedJournal(f"it has a frame of the kind {kind!r}, which is not known")
    return complete


def _copy_definitions(connection: sqlite3.Connection, payload: bytes) -> None:
    for table, rows in value_of(dict[str, list[list[Any]]], json_value(payload), "definitions").items():
        if table not in _DEFINITION_WIDTHS:
            raise DamagedJournal(f"it defines {table[:20]!r}, which is not known")
        width = _DEFINITION_WIDTHS[table]
        flat = [[value if isinstance(value, str | int) else json.dumps(value) for value in row] for row in rows]
        connection.executemany(f"INSERT INTO {table} VALUES ({_marks(width)})", flat)


def _integer_copier(table: str, width: int) -> Callable[[sqlite3.Connection, bytes], None]:
    statement = f"INSERT INTO {table} VALUES ({_marks(width)})"

    def copy(connection: sqlite3.Connection, payload: bytes) -> None:
        connection.executemany(statement, np.frombuffer(payload, dtype="<i8").reshape(-1, width).tolist())

    return copy


def _copy_statistics(connection: sqlite3.Connection, payload: bytes) -> None:
    count = len(payload) // (8 + STATISTICS.itemsize)
    numbers = np.frombuffer(payload, dtype="<i8", count=count)
    rows = np.frombuffer(payload, dtype=STATISTICS, offset=8 * count, count=count)
    columns: list[list[Any]] = [numbers.tolist()]
    columns += [rows[name].tolist() for name in STATISTICS_COLUMNS if name not in ("digest", "sketch")]
    columns.append(rows["digest"].astype(np.int64).tolist())  # SQLite has no unsigned integers
    columns.append([sketch.tobytes() for sketch in rows["sketch"]])
    statement = f"INSERT OR REPLACE INTO statistics VALUES ({_marks(len(columns))})"
    connection.executemany(statement, zip(*columns, strict=True))


def _copy_missing(connection: sqlite3.Connection, payload: bytes) -> None:
    rows = value_of(list[tuple[int, str]], json_value(payload), "missing tensors")
    connection.executemany("INSERT OR REPLACE INTO missing VALUES (?, ?)", rows)


def _copy_event(connection: sqlite3.Connection, payload: bytes) -> None:
    event = value_of(dict[str, Any], json_value(payload), "an event")
    row = str(event.get("kind", "")), json.dumps(event)
    connection.execute("INSERT INTO events (kind, event) VALUES (?, ?)", row)


def _marks(count: int) -> str:
    return ", ".join("?" * count)


_DEFINITION_WIDTHS = {"names": 2, "modules": 3, "stacks": 2, "trees": 2, "layouts": 6}
_COPIERS: dict[bytes, Callable[[sqlite3.Connection, bytes], None]] = {
    b"D": _copy_definitions,
    b"V": _integer_copier("visits", len(VISIT_COLUMNS)),
    b"C": _integer_copier("calls", len(CALL_COLUMNS)),
    b"M": _copy_missing,
    b"S": _copy_statistics,
    b"B": _integer_copier("bytes", len(BYTES_COLUMNS)),
    b"E": _copy_event,
}
