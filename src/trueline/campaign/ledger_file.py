"""The file of a ledger: who may write it, and that anybody may read it meanwhile.

One process at a time writes, the one that holds the lock on ``ledger.lock``; the system takes the lock from a process
that dies. The database has a write-ahead log, so that readers neither wait nor keep anybody waiting. Where a file
system has no such locks, or no shared memory, SQLite's own lock keeps everybody else out, readers as well.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from pathlib import Path

from trueline.errors import UsageError
from trueline.store.seal import seal_database

try:
    import fcntl
except ImportError:  # pragma: no cover - a system without such locks
    fcntl = None  # type: ignore[assignment]

LEDGER_FILE = "ledger.db"
LOCK_FILE = "ledger.lock"
VERSION = 2
SEALED_BYTES = 512 << 20
"""A ledger up to this size is sealed when it is closed: reading more would keep its readers waiting."""
_LOCK_SECONDS = 0.5
"""Whoever asks whether a check is writing holds the lock for a moment."""
_LOG_PAGES = 8192
"""The log is carried over into the database when it has so many pages: each time waits for the disk."""


class LedgerFile:
    """A connection to write with, for as long as it is open. Without a folder: a database that is gone when it is
    closed."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._lock: int | None = None
        if folder is None:
            self.connection = sqlite3.connect("", check_same_thread=False)  # a file once it is large
            return
        self._lock = _locked(folder)
        try:
            self.connection = _connect(folder, alone=self._lock is None)
        except BaseException:
            self._unlock()
            raise

    def close(self) -> None:
        self.connection.close()
        if self._folder is not None:
            _seal(self._folder)
        self._unlock()

    def remove(self) -> None:
        """Takes the files away, and the folder where nothing else is in it."""
        if self._folder is None:
            return
        for path in (*self._folder.glob(f"{LEDGER_FILE}*"), self._folder / LOCK_FILE):
            path.unlink(missing_ok=True)
        if not any(self._folder.iterdir()):
            self._folder.rmdir()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _seal(folder: Path) -> None:
    """Seals a ledger that nobody has open: its log was carried over and is gone. One that is large is not read through
    for that, neither here nor by its readers."""
    database, log = folder / LEDGER_FILE, folder / f"{LEDGER_FILE}-wal"
    with contextlib.suppress(OSError):
        if not log.exists() and database.stat().st_size <= SEALED_BYTES:
            seal_database(database)


def is_being_written(folder: Path) -> bool:
    """Whether a check is writing into a folder now."""
    if fcntl is None:
        return False
    try:
        descriptor = os.open(folder / LOCK_FILE, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def ledger_version(connection: sqlite3.Connection) -> int:
    """The version of a ledger, 0 where there is none yet. The first one did not say."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    tables = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'cases'").fetchone()
    return 1 if version == 0 and tables is not None else version


def _locked(folder: Path) -> int | None:
    """The descriptor of a lock that nobody else has; None where there are no locks."""
    if fcntl is None:
        return None
    try:
        descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
    except OSError as error:
        raise UsageError(f"cannot write into {folder}: {error.strerror}") from None
    patience = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() > patience:
                os.close(descriptor)
                raise _taken(folder) from None
            time.sleep(0.02)
        except OSError:
            os.close(descriptor)
            return None


def _taken(folder: Path) -> UsageError:
    return UsageError(f"another check is writing into {folder}; wait for it or choose another folder")


def _connect(folder: Path, *, alone: bool) -> sqlite3.Connection:
    database = folder / LEDGER_FILE
    try:
        try:
            return _opened(database, alone=alone)
        except sqlite3.OperationalError as error:
            if alone or "locked" in str(error):
                raise
        return _opened(database, alone=True)  # there is no memory that processes share: nobody else, then
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise _taken(folder) from None
        raise UsageError(f"cannot open {database}: {error}") from None
    except sqlite3.DatabaseError as error:
        raise UsageError(f"{database} is damaged ({error}); remove it or choose another folder") from None


def _opened(database: Path, *, alone: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(database, timeout=0.5, check_same_thread=False)
    try:
        if alone:
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        connection.execute("PRAGMA journal_mode=WAL")
        # Each commit costs one write without waiting for the disk: what is written survives the death of this process.
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA cache_size=-32768")
        connection.execute(f"PRAGMA wal_autocheckpoint={_LOG_PAGES}")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("PRAGMA application_id = 0")  # the seal: what is written from now on is not sealed yet
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection
