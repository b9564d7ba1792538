"""What a check has done, on disk: one row a case, final once written. Only the coordinator writes.

Every result is committed when it arrives, so that a check which is killed goes on where it stopped: finished cases are
not done again. The folder remembers what was asked for; something else asked of the same folder is an error. Plain
SQLite and JSON, for other tools to read; without a folder it lives in memory.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trueline.cases import Case, CaseMeasured, CheckInfo
from trueline.errors import UsageError
from trueline.replay.serial import (
    case_from_json,
    case_to_json,
    info_from_json,
    info_to_json,
    measured_from_json,
    measured_to_json,
)

LEDGER_FILE = "ledger.db"
CHECK_FILE = "check.json"
FORMAT = "trueline-check"
VERSION = 1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS cases (
  key TEXT PRIMARY KEY, position INTEGER, api TEXT, count INTEGER, case_json TEXT,
  status TEXT, reason TEXT, seconds REAL, measured_json TEXT);
CREATE INDEX IF NOT EXISTS case_positions ON cases (position);
"""


class Ledger:
    """The rows of one check. ``identity`` is what must be the same for the check to go on."""

    def __init__(self, folder: Path | None, identity: Mapping[str, Any]) -> None:
        self.folder = folder
        if folder is not None:
            _make_folder(folder)
        self._connection = _connect(folder)
        try:
            self._connection.executescript(_SCHEMA)
            self._identify(dict(identity))
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def plan(self, cases: Sequence[Case]) -> None:
        """Says which cases there are. Those that an earlier, shorter or longer, plan had and this one has not are left
        in the file but are not part of the check."""
        rows = (
            (case.key, position, case.api, case.count, json.dumps(case_to_json(case)))
            for position, case in enumerate(cases)
        )
        with self._connection:
            self._connection.execute("UPDATE cases SET position = NULL")
            self._connection.executemany(
                "INSERT INTO cases (key, position, api, count, case_json) VALUES (?, ?, ?, ?, ?) ON CONFLICT (key)"
                " DO UPDATE SET position = excluded.position, count = excluded.count, case_json = excluded.case_json",
                rows,
            )

    def finished(self) -> frozenset[str]:
        """The keys of the cases that are done."""
        rows = self._connection.execute("SELECT key FROM cases WHERE measured_json IS NOT NULL")
        return frozenset(row[0] for row in rows)

    def record(self, measured: CaseMeasured) -> None:
        """Writes a result down, for good."""
        outcome = measured.candidate
        status = "skipped" if measured.skipped else outcome.status.value
        row = (status, measured.skipped or outcome.reason, outcome.seconds)
        with self._connection:
            self._connection.execute(
                "UPDATE cases SET status = ?, reason = ?, seconds = ?, measured_json = ? WHERE key = ?",
                (*row, json.dumps(measured_to_json(measured), separators=(",", ":")), measured.key),
            )

    def write_info(self, info: CheckInfo) -> None:
        """Writes ``check.json``, whole or not at all."""
        if self.folder is None:
            return
        content = {"format": FORMAT, "version": VERSION, **info_to_json(info)}
        draft = self.folder / f".{CHECK_FILE}.part"
        draft.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        os.replace(draft, self.folder / CHECK_FILE)

    def rows(self) -> Iterator[tuple[Case, CaseMeasured | None]]:
        """The planned cases in order, with what was measured where they are done."""
        yield from _rows(self._connection)

    def close(self) -> None:
        self._connection.close()

    def _identify(self, identity: dict[str, Any]) -> None:
        found = self._connection.execute("SELECT value FROM meta WHERE key = 'identity'").fetchone()
        if found is None:
            with self._connection:
                self._connection.execute("INSERT INTO meta VALUES ('identity', ?)", (json.dumps(identity),))
            return
        known = json.loads(found[0])
        for name in [*identity, *known]:
            if known.get(name) != json.loads(json.dumps(identity.get(name))):
                raise UsageError(
                    f"{self.folder} holds a check with another {name} ({_short(known.get(name))}, not "
                    f"{_short(identity.get(name))}); choose another folder or remove this one"
                )


def read_check(folder: Path) -> tuple[CheckInfo, list[tuple[Case, CaseMeasured | None]]]:
    """A check from its folder, without running anything and without writing there."""
    head, database = folder / CHECK_FILE, folder / LEDGER_FILE
    if not head.exists() or not database.exists():
        raise UsageError(f"{folder} is not a check (no {CHECK_FILE} in it); it is the folder given to check --out")
    try:
        content = json.loads(head.read_text(encoding="utf-8"))
        if content.get("format") != FORMAT or int(content["version"]) > VERSION:
            raise UsageError(f"{head} is not of a kind that this trueline reads: update it")
        info = info_from_json(content)
        connection = _connect(folder, read_only=True)
        try:
            return info, list(_rows(connection))
        finally:
            connection.close()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{folder} is damaged: {error}") from error
    except sqlite3.Error as error:
        raise UsageError(f"{database} cannot be read: {error}") from error


def _rows(connection: sqlite3.Connection) -> Iterator[tuple[Case, CaseMeasured | None]]:
    query = "SELECT case_json, measured_json FROM cases WHERE position IS NOT NULL ORDER BY position"
    for case_text, measured_text in connection.execute(query):
        measured = None if measured_text is None else measured_from_json(json.loads(measured_text))
        yield case_from_json(json.loads(case_text)), measured


def _connect(folder: Path | None, *, read_only: bool = False) -> sqlite3.Connection:
    if folder is None:
        return sqlite3.connect(":memory:")
    database = folder / LEDGER_FILE
    if read_only and not os.access(folder, os.W_OK):
        return sqlite3.connect(f"file:{_uri_path(database)}?mode=ro&immutable=1", uri=True)
    try:
        connection = sqlite3.connect(database, timeout=0.5)
        # One process at a time, so no shared memory is needed and each commit costs one write without waiting for the
        # disk: what is written survives the death of this process.
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("COMMIT")
        return connection
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise UsageError(f"another check is writing into {folder}; wait for it or choose another folder") from None
        raise UsageError(f"cannot open {database}: {error}") from None
    except sqlite3.DatabaseError as error:
        raise UsageError(f"{database} is damaged ({error}); remove it or choose another folder") from None


def _make_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; --out names a folder")
    if folder.is_dir() and not (folder / LEDGER_FILE).exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} holds something other than a check; choose another folder")
    folder.mkdir(parents=True, exist_ok=True)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _uri_path(path: Path) -> str:
    from urllib.parse import quote

    return quote(str(path.absolute()))
