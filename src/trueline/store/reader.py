"""The reading side of a Run. Needs neither a framework nor a device."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from trueline.dtypes import dtype_named
from trueline.errors import CorruptRunError, NotARunError, RunVersionError, UsageError
from trueline.records import Certificate, RunInfo, TensorRecord
from trueline.store.columns import FORMAT_VERSION
from trueline.store.finish import DATABASE_FILE, RECOVERED_FILE, finish_rank
from trueline.store.segments import segment_name
from trueline.store.trace import Trace
from trueline.store.writer import JOURNAL_FILE, RUN_FILE


def open_run(path: str | os.PathLike[str]) -> Run:
    """Opens a Run folder; raises a RunError that says what is wrong with it."""
    return Run(Path(path))


class Run:
    """A Run folder, opened for reading."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.info = _read_info(path)
        self.ranks: tuple[int, ...] = tuple(sorted(_rank_numbers(path)))
        if not self.ranks:
            raise NotARunError(f"{path} has a {RUN_FILE} but no rank folder: the capture ended before it began")
        self._readers: dict[int, RankReader] = {}

    def rank(self, rank: int) -> RankReader:
        if rank not in self.ranks:
            raise UsageError(f"{self.path} has no rank {rank}; it has {', '.join(map(str, self.ranks))}")
        if rank not in self._readers:
            self._readers[rank] = RankReader(self.path / f"rank{rank}", rank)
        return self._readers[rank]

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class RankReader:
    """One rank of a Run."""

    def __init__(self, folder: Path, rank: int) -> None:
        self.folder = folder
        self.rank = rank
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._maps: dict[int, mmap.mmap] = {}
        self._connection = self._connect()

    def close(self) -> None:
        self._connection.close()
        self._maps.clear()  # numpy views may still point into them: they go when the last view goes
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None

    @cached_property
    def certificate(self) -> Certificate:
        text = self._meta().get("certificate")
        if text is None:
            counts = dict(
                self._connection.execute(
                    "SELECT CASE level WHEN 0 THEN 'api' WHEN 1 THEN 'module' ELSE 'kernel' END || ' ' ||"
                    " CASE phase WHEN 0 THEN 'forward' ELSE 'backward' END, count(*) FROM calls GROUP BY level, phase"
                )
            )
            return Certificate(calls=counts, complete=False, stopped_because="the program ended without a word")
        return Certificate(**json.loads(text))

    @cached_property
    def steps(self) -> tuple[int, ...]:
        return tuple(row[0] for row in self._connection.execute("SELECT DISTINCT step FROM calls ORDER BY step"))

    @cached_property
    def call_count(self) -> int:
        return int(self._connection.execute("SELECT count(*) FROM calls").fetchone()[0])

    def trace(self, step: int | None = None) -> Trace:
        """The calls of this rank, of one step or of all."""
        return Trace(self._connection, self.rank, step)

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(row[0]) for row in self._connection.execute("SELECT event FROM events ORDER BY id")]

    def tensor(self, record: TensorRecord) -> np.ndarray[Any, Any]:
        """The stored bits of a tensor, as an array of its storage type (bfloat16 as uint16) and shape, read only."""
        return self.tensor_bits(record.tensor_id, record.dtype, record.shape)

    def tensor_bits(self, tensor: int, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        query = "SELECT file, offset, nbytes FROM bytes WHERE tensor = ?"
        place = self._connection.execute(query, (tensor,)).fetchone()
        if place is None:
            raise UsageError(f"tensor {tensor} was not kept in {self.folder}; capture with data='tensors' to keep it")
        file, offset, nbytes = place
        storage = np.dtype(dtype_named(dtype).storage)
        if nbytes == 0:
            return np.empty(shape, dtype=storage)
        content = self._map(file)
        if offset + nbytes > len(content):
            raise CorruptRunError(f"{self.folder / segment_name(file)} is shorter than the Run says; it was truncated")
        return np.frombuffer(content, dtype=np.uint8, count=nbytes, offset=offset).view(storage).reshape(shape)

    def _map(self, file: int) -> mmap.mmap:
        if file not in self._maps:
            path = self.folder / segment_name(file)
            try:
                with open(path, "rb") as handle:
                    self._maps[file] = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
            except (OSError, ValueError) as error:
                raise CorruptRunError(f"cannot read {path}: {error}; the Run is incomplete") from error
        return self._maps[file]

    def _meta(self) -> Mapping[str, str]:
        return dict(self._connection.execute("SELECT key, value FROM meta"))

    def _connect(self) -> sqlite3.Connection:
        database = self.folder / DATABASE_FILE
        if not database.exists():
            database = self._recover()
        # immutable: nobody writes any more, so no lock is needed, which also works on read-only and network mounts.
        location = f"file:{_uri_path(database)}?mode=ro&immutable=1"
        connection = sqlite3.connect(location, uri=True, check_same_thread=False, factory=_Connection)
        connection.database = database
        version = connection.execute("SELECT value FROM meta WHERE key = 'format_version'").fetchone()
        connection.execute("SELECT count(*) FROM calls").fetchone()
        if version is None or int(version[0]) > FORMAT_VERSION:
            found = version and version[0]
            raise RunVersionError(f"{database} has format {found}; this trueline reads {FORMAT_VERSION}: update it")
        return connection

    def _recover(self) -> Path:
        """Builds a database for a capture that was killed, or still runs: in the Run if it can be written, else in a
        scratch folder. The journal stays as it is, since somebody may still be writing it."""
        journal, recovered = self.folder / JOURNAL_FILE, self.folder / RECOVERED_FILE
        if not journal.exists():
            raise CorruptRunError(f"{self.folder} holds neither {DATABASE_FILE} nor {JOURNAL_FILE}; files were removed")
        if _journal_bytes_in(recovered) == journal.stat().st_size:
            return recovered
        try:
            if os.access(self.folder, os.W_OK):
                with contextlib.suppress(OSError, sqlite3.OperationalError):  # a full disk, say
                    return finish_rank(self.folder, self.rank, database=recovered)
            self._scratch = tempfile.TemporaryDirectory(prefix="trueline-")
            return finish_rank(self.folder, self.rank, database=Path(self._scratch.name) / RECOVERED_FILE)
        except (sqlite3.DatabaseError, ValueError, KeyError) as error:
            raise CorruptRunError(f"the journal in {self.folder} is damaged: {error}") from error


class _Cursor(sqlite3.Cursor):
    """Says in our own words that a database is damaged, whenever that shows."""

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


class _Connection(sqlite3.Connection):
    database: Path

    def cursor(self, *_: Any) -> _Cursor:  # type: ignore[override]
        return super().cursor(_Cursor)

    def execute(self, *arguments: Any) -> _Cursor:
        return self.cursor().execute(*arguments)


@contextlib.contextmanager
def _damage(connection: Any) -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise CorruptRunError(f"{connection.database} is damaged ({error}); capture again") from error


def _journal_bytes_in(database: Path) -> int | None:
    """How much of the journal a recovered database holds; None where there is none that can be read."""
    if not database.exists():
        return None
    try:
        with contextlib.closing(sqlite3.connect(f"file:{_uri_path(database)}?mode=ro&immutable=1", uri=True)) as found:
            return int(found.execute("SELECT value FROM meta WHERE key = 'journal_bytes'").fetchone()[0])
    except (sqlite3.DatabaseError, TypeError, ValueError):
        return None


def _read_info(path: Path) -> RunInfo:
    file = path / RUN_FILE
    if not path.exists():
        raise NotARunError(f"{path} does not exist")
    if not path.is_dir() or not file.exists():
        raise NotARunError(f"{path} is not a Run (no {RUN_FILE} in it); a Run is the folder given to capture --out")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        version = int(content["format_version"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptRunError(f"{file} cannot be read: {error}") from error
    if version > FORMAT_VERSION:
        raise RunVersionError(
            f"{path} was written in format {version} by trueline {content.get('tool_version', '?')}; "
            f"this trueline reads up to format {FORMAT_VERSION}: update trueline"
        )
    try:
        content["devices"] = tuple(content["devices"])
        content["command"] = tuple(content["command"])
        return RunInfo(**content)
    except (TypeError, KeyError) as error:
        raise CorruptRunError(f"{file} lacks or has unknown fields: {error}") from error


def _rank_numbers(path: Path) -> list[int]:
    names = (entry.name[4:] for entry in path.iterdir() if entry.name.startswith("rank") and entry.is_dir())
    return [int(name) for name in names if name.isdigit()]


def _uri_path(path: Path) -> str:
    from urllib.parse import quote

    return quote(str(path.absolute()))
