"""What a check has done, on disk: one row a case, final once written. Only the coordinator writes; anybody may read.

    cases      what is to be executed, with what it is guessed to cost; and, once it ended, how: ending, verdict,
               reason, score, seconds, and all that was measured. A row without an ending has not ended.
    skips      calls and lines that became no case, each with its reason
    flights    cases that were given out and have not come back
    attempts   the history: what had been given out when a check was killed ("interrupted"), and endings that were taken
               back to try again
    meta       what was asked for, how far planning came, by what the rows were judged

Results are written and committed together, within ``COMMIT_SECONDS``: a check that is killed loses the cases in
flight, which run again, and nothing else. The folder remembers what was asked for; something else asked of the same
folder is an error. Plain SQLite and JSON, for other tools to read, also while it is written; without a folder it lives
as long as the report. Who may write: ``ledger_file``; how rows are read back: ``shelf``.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from trueline.campaign.ledger_checks import ADVICE, check_file, remembered
from trueline.campaign.ledger_file import LEDGER_FILE, LOCK_FILE, VERSION, LedgerFile, ledger_version
from trueline.cases import CaseResult, CheckInfo, Ending
from trueline.checked import Unfit, bytes_of, json_value, record, value_of
from trueline.errors import UsageError
from trueline.replay.serial import info_to_json, written_measured
from trueline.store.intact import damaged, plain_file
from trueline.store.interrupts import shielded
from trueline.store.seal import CHECKSUM, is_content_as_sealed, sealed_text

__all__ = ["CHECK_FILE", "LEDGER_FILE", "SCHEMA", "VERSION", "Ledger", "Waiting", "judgement", "read_info"]

CHECK_FILE = "check.json"
FORMAT = "trueline-check"
_MOST_HEAD_BYTES = 64 << 20
COMMIT_SECONDS = 0.2
_TOGETHER = 128
"""So many results are written in one go, at the latest."""
PAGE = 256
"""So many cases are read, and given out, at a time."""
INTERRUPTED = "interrupted"

SCHEMA = f"""
BEGIN;
PRAGMA user_version = {VERSION};
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS cases (
  number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, position INTEGER, api TEXT, dtype TEXT, line TEXT,
  count INTEGER, cost REAL, bytes INTEGER, case_json TEXT,
  ending TEXT, verdict INTEGER, reason TEXT, score REAL, seconds REAL, simulated TEXT, measured_json TEXT);
CREATE UNIQUE INDEX IF NOT EXISTS case_positions ON cases (position) WHERE position IS NOT NULL;
CREATE INDEX IF NOT EXISTS case_waiting ON cases (cost DESC, number) WHERE ending IS NULL AND position IS NOT NULL;
CREATE INDEX IF NOT EXISTS case_findings ON cases (verdict, score) WHERE verdict > 0;
CREATE INDEX IF NOT EXISTS case_apis ON cases (api, position) WHERE position IS NOT NULL;
CREATE INDEX IF NOT EXISTS case_simulated ON cases (simulated) WHERE simulated IS NOT NULL;
DROP INDEX IF EXISTS case_endings;
CREATE INDEX IF NOT EXISTS case_cells ON cases (ending, verdict, api, dtype, count, position, seconds, score)
  WHERE position IS NOT NULL;
CREATE TABLE IF NOT EXISTS skips (number INTEGER PRIMARY KEY, place TEXT, reason TEXT, count INTEGER);
CREATE TABLE IF NOT EXISTS flights (number INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS attempts (
  number INTEGER, ending TEXT, verdict INTEGER, reason TEXT, seconds REAL, ended TEXT);
CREATE INDEX IF NOT EXISTS attempt_numbers ON attempts (number);
COMMIT;
"""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A case that has not ended: its row, and what it is guessed to cost."""

    number: int
    key: str
    api: str
    line: str
    case: str
    """As JSON."""
    cost: float
    bytes: int


Columns = tuple[str, int, str, float | None, float, str | None]
"""What a standard fills: ending, verdict, reason, score, seconds, simulated."""


class Ledger:
    """The rows of one check. ``identity`` is what must be the same for the check to go on."""

    def __init__(self, folder: Path | None, identity: Mapping[str, Any]) -> None:
        self.folder = folder
        self.fresh = folder is None or not (folder / LEDGER_FILE).exists()
        if folder is not None:
            _refuse_lost(folder)
            _make_folder(folder)
            check_file(folder)
        self._file = LedgerFile(folder)
        self.connection = self._file.connection
        self._lock = threading.RLock()
        self._unwritten: list[tuple[Any, ...]] = []
        self._pending = False
        self._committed = time.monotonic()
        self._stopping = threading.Event()
        try:
            _check_version(self.connection, folder)
            self.connection.executescript(SCHEMA)
            self._identify(dict(identity))
            self._land()
        except BaseException:
            self._file.close()
            raise
        self._committer: threading.Thread | None = None

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Commits; a ledger in memory stays open, for whoever reads it."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        if self._committer is not None:
            self._committer.join()
        self.commit()
        if self.folder is not None:
            self._file.close()

    def abandon(self) -> None:
        """Takes a ledger away that was made for a check which cannot begin."""
        self.close()
        if self.fresh:
            self._file.remove()

    # What there is to do

    def waiting(self) -> Iterator[Waiting]:
        """The cases that have not ended, those that are guessed to take longest first. Each is in flight from when it
        is given; few are read at a time."""
        last: tuple[float, int] | None = None
        while page := self._page(last):
            last = (page[-1].cost, page[-1].number)
            with self._lock:
                self.connection.executemany("INSERT OR IGNORE INTO flights VALUES (?)", [(one.number,) for one in page])
                self.commit()
            yield from page

    def _page(self, last: tuple[float, int] | None) -> list[Waiting]:
        """The next cases after one, in two questions that the index can answer."""
        query = (
            f"SELECT number, key, api, line, case_json, cost, bytes FROM {_UNFINISHED} {{}} "
            "ORDER BY cost DESC, number LIMIT ?"
        )
        with self._lock:
            self._write_out()
            if last is None:
                rows = self.connection.execute(query.format(""), (PAGE,)).fetchall()
            else:
                rows = self.connection.execute(query.format("AND cost = ? AND number > ?"), (*last, PAGE)).fetchall()
                if len(rows) < PAGE:
                    more = self.connection.execute(query.format("AND cost < ?"), (last[0], PAGE - len(rows)))
                    rows += more.fetchall()
        return [Waiting(*row) for row in rows]

    def unfinished(self) -> tuple[int, float]:
        """How many cases have not ended, and the sum of what they are guessed to cost."""
        query = f"SELECT COUNT(*), TOTAL(cost) FROM {_UNFINISHED}"
        with self._lock:
            self._write_out()
            count, cost = self.connection.execute(query).fetchone()
        return count, cost

    def planned(self) -> int:
        """How many cases there are."""
        with self._lock:
            found = self.connection.execute("SELECT COUNT(*) FROM cases WHERE position IS NOT NULL").fetchone()
        return int(found[0])

    # What was done

    def record(self, number: int, result: CaseResult) -> None:
        """Writes a result down, for good. A case that has ended already stays as it is."""
        with self._lock:
            self.write(number, judgement(result), written_measured(result.measured))
            self._write_out()

    def write(self, number: int, columns: Columns, measured: str) -> None:
        """The same of a result whose columns, and what was measured as JSON, somebody has: written with others."""
        with self._lock:
            self._unwritten.append((*columns, measured, number))
            self._see_to_it()
            if time.monotonic() - self._committed > COMMIT_SECONDS:
                self.commit()
            elif len(self._unwritten) >= _TOGETHER:
                self._write_out()

    @shielded  # an interrupt between the rows and the note that they are written would have them written twice
    def _write_out(self) -> None:
        rows = self._unwritten
        if not rows:
            return
        changed = self.connection.executemany(_FINAL, rows).rowcount
        if changed != len(rows):
            self._unwritten = []
            raise AssertionError(f"a case has ended before, or is not there: one of {[row[-1] for row in rows]}")
        self.connection.executemany("DELETE FROM flights WHERE number = ?", [(row[-1],) for row in rows])
        self._unwritten = []

    def commit(self) -> None:
        """Makes everything that was written permanent."""
        with self._lock:
            self._write_out()
            if self.connection.in_transaction:
                self.connection.commit()
            self._pending = False
            self._committed = time.monotonic()

    @shielded
    def take_back(self, endings: Sequence[Ending]) -> int:
        """Lets the cases with these endings be executed again; gives how many. What they ended in stays in the
        history."""
        names = [ending.value for ending in endings]
        which = f"position IS NOT NULL AND ending IN ({', '.join('?' * len(names))})"
        with self._lock:
            self._write_out()
            self.connection.execute(
                "INSERT INTO attempts SELECT number, ending, verdict, reason, seconds, datetime('now') FROM cases "
                f"WHERE {which} ORDER BY position", names,
            )  # fmt: skip
            changed = self.connection.execute(
                "UPDATE cases SET ending = NULL, verdict = NULL, reason = NULL, score = NULL, seconds = NULL, "
                f"simulated = NULL, measured_json = NULL WHERE {which}", names,
            ).rowcount  # fmt: skip
            self.commit()
        return changed

    def undo(self) -> None:
        """Takes back what was written since the last commit."""
        with self._lock:
            self.connection.rollback()

    def rewrite(self, judgements: Iterable[tuple[int, CaseResult]]) -> None:
        """Writes down what another standard says of cases that have ended."""
        with self._lock:
            self.connection.executemany(
                "UPDATE cases SET ending = ?, verdict = ?, reason = ?, score = ?, seconds = ?, simulated = ? "
                "WHERE number = ?",
                ((*judgement(result), number) for number, result in judgements),
            )
            self.commit()

    def _see_to_it(self) -> None:
        """From the first result that is not committed on, somebody sees to it that it will be."""
        self._pending = True
        if self._committer is None and self.folder is not None:
            self._committer = threading.Thread(target=self._commit_now_and_then, name="ledger", daemon=True)
            self._committer.start()

    def _commit_now_and_then(self) -> None:
        """Results do not wait for the next one, which may take a minute."""
        while not self._stopping.wait(COMMIT_SECONDS):
            with self._lock:
                if self._pending and time.monotonic() - self._committed > COMMIT_SECONDS:
                    with contextlib.suppress(sqlite3.Error):  # a full disk: whoever writes next is told
                        self.commit()

    # What is remembered

    def get(self, name: str, declared: Any = Any) -> Any:
        """Something remembered, of the kind that is declared; None where there is nothing."""
        with self._lock:
            found = self.connection.execute("SELECT value FROM meta WHERE key = ?", (name,)).fetchone()
        database = LEDGER_FILE if self.folder is None else self.folder / LEDGER_FILE
        return None if found is None else remembered(declared, found[0], name, database)

    def put(self, name: str, value: Any) -> None:
        """Remembers something, as JSON, with the next commit."""
        with self._lock:
            self.connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, json.dumps(value)))

    def write_info(self, info: CheckInfo) -> None:
        """Writes ``check.json``, whole or not at all."""
        if self.folder is None:
            return
        content = {"format": FORMAT, "version": VERSION, **info_to_json(info)}
        draft = self.folder / f".{CHECK_FILE}.part"
        draft.write_text(sealed_text(content), encoding="utf-8")
        os.replace(draft, self.folder / CHECK_FILE)

    def _identify(self, identity: dict[str, Any]) -> None:
        known = self.get("identity", dict[str, Any])
        if known is None:
            self.put("identity", identity)
            self.commit()
            return
        for name in [*identity, *known]:
            if known.get(name) != json.loads(json.dumps(identity.get(name))):
                raise UsageError(
                    f"{self.folder} holds a check with another {name} ({_short(known.get(name))}, not "
                    f"{_short(identity.get(name))}); choose another folder or remove this one"
                )

    def _land(self) -> None:
        """What was in flight when the last coordinator ended did not come back."""
        self.connection.execute(
            "INSERT INTO attempts SELECT number, ?, NULL, NULL, NULL, datetime('now') FROM flights", (INTERRUPTED,)
        )
        self.connection.execute("DELETE FROM flights")
        self.commit()


def _refuse_lost(folder: Path) -> None:
    """Refuses a folder whose ledger was removed or emptied: whoever goes on there would begin anew without a word."""
    database = folder / LEDGER_FILE
    if (folder / CHECK_FILE).exists() and not (database.exists() and database.stat().st_size):
        damaged(database, f"it is missing or empty, and {CHECK_FILE} of a check that began is there", ADVICE)


_UNFINISHED = "cases INDEXED BY case_waiting WHERE ending IS NULL AND position IS NOT NULL"
"""SQLite would choose an index that does not have their order."""
_FINAL = (
    "UPDATE cases SET ending = ?, verdict = ?, reason = ?, score = ?, seconds = ?, simulated = ?, measured_json = ? "
    "WHERE number = ? AND ending IS NULL"
)


def judgement(result: CaseResult) -> Columns:
    """The columns of a result."""
    candidate = result.measured.candidate
    return (
        result.ending.value, int(result.verdict), result.reason, result.score, candidate.seconds,
        candidate.simulated or None,
    )  # fmt: skip


def read_info(folder: Path) -> CheckInfo:
    """The head of a check that was kept."""
    head = folder / CHECK_FILE
    if not head.exists() or not (folder / LEDGER_FILE).exists():
        raise UsageError(f"{folder} is not a check (no {CHECK_FILE} in it); it is the folder given to check --out")
    try:
        plain_file(head, folder)
        content = value_of(dict[str, Any], json_value(bytes_of(head, _MOST_HEAD_BYTES)), "it")
        if content.get("format") != FORMAT or value_of(int, content.get("version"), "version") > VERSION:
            raise UsageError(f"{head} is not of a kind that this trueline reads: update it")
        if CHECKSUM in content and not is_content_as_sealed(content):
            raise Unfit("it is not as it was written (its checksum is another)")
        known = {field.name for field in fields(CheckInfo)}
        return record(CheckInfo, {name: value for name, value in content.items() if name in known})
    except Unfit as error:
        damaged(head, error, "run the check again into another folder")


def _check_version(connection: sqlite3.Connection, folder: Path | None) -> None:
    version = ledger_version(connection)
    if version not in (0, VERSION):
        age = "an older" if version < VERSION else "a newer"
        raise UsageError(f"{folder} holds a check of {age} trueline, which this one cannot go on with (trueline report "
                         "reads it); choose another folder")  # fmt: skip


def _make_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; --out names a folder")
    empty = not folder.is_dir() or {path.name for path in folder.iterdir()} <= {LOCK_FILE}
    if not empty and not (folder / LEDGER_FILE).exists():
        raise UsageError(f"{folder} holds something other than a check; choose another folder")
    folder.mkdir(parents=True, exist_ok=True)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
