"""What is checked of the files of a Run before anything in them is believed.

A Run may have been copied by halves, lain on a broken disk, or come from a stranger. So its files are plain files
inside its folder; a database is as it was sealed, has the tables of the format and nothing that computes; a question to
it ends, whatever its pages say. What the columns hold is checked where they are read: ``trace``.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from trueline.checked import Unfit
from trueline.errors import CorruptRunError
from trueline.store.seal import is_as_sealed, is_sealed

AGAIN = "copy it again, or capture again"
_OPERATIONS, _OPERATIONS_A_BYTE = 1 << 26, 64
"""No question of ours takes more operations of SQLite, and so many more for each byte of the file: a row takes some
tens."""
_OPERATIONS_EACH = 1 << 16
_LENGTH_LIMIT = 0
"""SQLITE_LIMIT_LENGTH: how large a text or BLOB may be."""


def damaged(path: object, what: object, advice: str = AGAIN) -> NoReturn:
    raise CorruptRunError(f"cannot read {path}: {what}; {advice}")


@contextlib.contextmanager
def reading(path: object) -> Iterator[None]:
    """Says of what does not fit in which file it is."""
    try:
        yield
    except Unfit as error:
        damaged(path, error)


def plain_file(path: Path, root: Path) -> os.stat_result | None:
    """Facts of a file in a Run; None where there is none. Refuses what is no file, and links that lead out of it."""
    inside(path, root)
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        damaged(path, error.strerror or error)
    if not stat.S_ISREG(found.st_mode):
        damaged(path, "it is not a file")
    return found


def plain_entry(path: Path, root: Path) -> os.stat_result | None:
    """The same for a file of a folder that was found to be inside: only where it is a link can it lead out."""
    with contextlib.suppress(OSError):
        found = os.lstat(path)
        if stat.S_ISREG(found.st_mode):
            return found
    return plain_file(path, root)


def inside(path: Path, root: Path) -> None:
    """Refuses a path that leads out of a Run by links: who wrote them decides what is read and written there."""
    try:
        if path.resolve().is_relative_to(root.resolve()):
            return
    except (OSError, RuntimeError):  # links in a circle
        damaged(path, "its links lead nowhere")
    damaged(path, f"it is a link that leads out of {root}", "put what it leads to in its place if you trust it")


def check_seal(database: Path, *, needed: bool) -> None:
    """Refuses a database that is not what was written."""
    if needed and not is_sealed(database):
        damaged(database, "it has lost its checksum")
    if not is_as_sealed(database):
        damaged(database, "it is not as it was written (its checksum is another)")


class Guarded(sqlite3.Connection):
    """A connection whose questions end, and say in our own words what is damaged, whenever that shows."""

    database: Path
    _spent: list[int]

    def __del__(self) -> None:  # of a reader that nobody closed; Python warns of a connection that is left open
        with contextlib.suppress(sqlite3.Error):
            self.close()

    def guard(self, database: Path) -> None:
        """Bounds what a question may take, by the size of the file: pages that lead back to each other never end, and
        a row may claim to be larger than its file."""
        self.database, self._spent = database, [0]
        size, spent = database.stat().st_size, self._spent
        most = _OPERATIONS + _OPERATIONS_A_BYTE * size

        def spend() -> int:
            spent[0] += _OPERATIONS_EACH
            return int(spent[0] > most)

        self.set_progress_handler(spend, _OPERATIONS_EACH)
        if hasattr(self, "setlimit"):  # Python 3.11
            self.setlimit(_LENGTH_LIMIT, max(size, 1 << 20))

    def cursor(self, *_: Any) -> _Cursor:  # type: ignore[override]
        return super().cursor(_Cursor)

    def execute(self, *arguments: Any) -> _Cursor:
        self._spent[0] = 0
        return self.cursor().execute(*arguments)


class _Cursor(sqlite3.Cursor):
    """Says what is damaged."""

    def execute(self, *arguments: Any) -> _Cursor:
        with _damage(self.connection):
            super().execute(*arguments)
        return self

    def fetchone(self) -> Any:
        with _damage(self.connection):
            return super().fetchone()

    def fetchmany(self, size: int | None = 1000) -> list[Any]:
        with _damage(self.connection):
            return super().fetchmany(size)

    def fetchall(self) -> list[Any]:
        with _damage(self.connection):
            return super().fetchall()

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        while chunk := self.fetchmany():
            yield from chunk


@contextlib.contextmanager
def _damage(connection: Any) -> Iterator[None]:
    try:
        yield
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        damaged(connection.database, f"it is damaged ({error})")


def check_tables(connection: sqlite3.Connection, database: Path, tables: Mapping[str, tuple[str, ...]]) -> None:
    """Refuses a database without the tables and columns of the format: a view or a computed column in their place
    would run what a stranger wrote."""
    kinds: dict[Any, Any] = dict(connection.execute("SELECT name, type FROM sqlite_master"))
    for table, columns in tables.items():
        if kinds.get(table) != "table":
            damaged(database, f"it has no table {table}")
        rows = connection.execute(f"PRAGMA table_xinfo({table})").fetchall()
        if tuple(row[1] for row in rows) != columns or any(row[6] for row in rows):
            damaged(database, f"its table {table} does not have the columns of the format")
