"""The reading side of a Run. Needs neither a framework nor a device."""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import re
import sqlite3
import tempfile
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from trueline.checked import Unfit, json_value, record, value_of
from trueline.dtypes import DType, dtype_named
from trueline.errors import CorruptRunError, NotARunError, RunVersionError, UsageError
from trueline.graphs import Graph, graphs_in
from trueline.numerics import digest
from trueline.records import Certificate, RunInfo, TensorRecord
from trueline.store.columns import FORMAT_VERSION, SEALED_FROM, STATE
from trueline.store.finish import DATABASE_FILE, RECOVERED_FILE, TABLES, finish_rank
from trueline.store.intact import Guarded, check_seal, check_tables, damaged, inside, plain_entry, plain_file, reading
from trueline.store.journal import is_begun
from trueline.store.seal import CHECKSUM, is_as_sealed, is_content_as_sealed
from trueline.store.segments import segment_name
from trueline.store.trace import Trace
from trueline.store.writer import JOURNAL_FILE, RUN_FILE

MOST_HEAD_BYTES = 16 << 20
_RANK = re.compile(r"rank(0|[1-9][0-9]{0,8})")


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

    def incomplete(self, ranks: Sequence[int] | None = None) -> str:
        """Which ranks hold less than their program did, and why; empty where all are whole."""
        cut = [rank for rank in ranks or self.ranks if not self.rank(rank).certificate.complete]
        if not cut:
            return ""
        reason = self.rank(cut[0]).certificate.stopped_because or "it stopped early"
        return f"incomplete (rank {', '.join(map(str, cut[:8]))}{', …' if len(cut) > 8 else ''}): {reason}"

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
        self._verified: set[int] = set()
        self._connection = self._connect()
        try:
            self._meta = self._read_meta()
            self._check_segments()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._connection.close()
        self._maps.clear()  # numpy views may still point into them: they go when the last view goes
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None

    @cached_property
    def certificate(self) -> Certificate:
        found = self._meta.get("certificate")
        if found is None:
            counts = dict(
                self._connection.execute(
                    "SELECT CASE level WHEN 0 THEN 'api' WHEN 1 THEN 'module' ELSE 'kernel' END || ' ' ||"
                    " CASE phase WHEN 0 THEN 'forward' ELSE 'backward' END, count(*) FROM calls"
                    f" WHERE level IS NOT {STATE} GROUP BY level, phase"
                )
            )
            return Certificate(calls=counts, complete=False, stopped_because="the program ended without a word")
        with reading(self._connection.database):
            return record(Certificate, found)

    @cached_property
    def steps(self) -> tuple[int, ...]:
        query = f"SELECT DISTINCT step FROM calls WHERE level IS NOT {STATE} ORDER BY step"
        return tuple(row[0] for row in self._connection.execute(query))

    @cached_property
    def call_count(self) -> int:
        return int(self._connection.execute(f"SELECT count(*) FROM calls WHERE level IS NOT {STATE}").fetchone()[0])

    def trace(self, step: int | None = None) -> Trace:
        """The calls of this rank, of one step or of all."""
        return Trace(self._connection, self.rank, step)

    def events(self) -> list[dict[str, Any]]:
        rows = self._connection.execute("SELECT event FROM events ORDER BY id")
        with reading(self._connection.database):
            return [value_of(dict[str, Any], json_value(_text(row[0])), "an event") for row in rows]

    def graphs(self) -> list[Graph]:
        """The graphs of compiled regions, as the compiler was given them and as it made them, in order."""
        events = self.events()
        with reading(self._connection.database):
            return graphs_in(events)

    def tensor(self, record: TensorRecord) -> np.ndarray[Any, Any]:
        """The stored bits of a tensor, as an array of its storage type (bfloat16 as uint16) and shape, read only."""
        return self.tensor_bits(record.tensor_id, record.dtype, record.shape)

    def array_file(self, record: TensorRecord) -> Path | None:
        """The ``.npy`` file that holds a tensor and nothing else; None where it lies in a file with others."""
        if not self._in_arrays:
            return None
        query = "SELECT file, offset, nbytes FROM bytes WHERE tensor = ?"
        place = self._connection.execute(query, (record.tensor_id,)).fetchone()
        path = None if place is None else self.folder / segment_name(place[0])
        return path if path is not None and path.stat().st_size == place[1] + place[2] > place[1] else None

    @cached_property
    def _in_arrays(self) -> bool:
        """Whether each tensor has a file of its own (``arrays``)."""
        try:
            with open(self.folder / segment_name(0), "rb") as file:
                return file.read(6) == b"\x93NUMPY"
        except OSError:
            return False

    def tensor_bits(self, tensor: int, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        query = "SELECT file, offset, nbytes FROM bytes WHERE tensor = ?"
        place = self._connection.execute(query, (tensor,)).fetchone()
        if place is None:
            raise UsageError(f"tensor {tensor} was not kept in {self.folder}; capture with data='tensors' to keep it")
        database, kind = self._connection.database, dtype_named(dtype)
        storage = np.dtype(kind.storage)
        with reading(database):
            file, offset, nbytes = (value_of(int, one, f"the place of tensor {tensor}") for one in place)
        if nbytes != math.prod(shape) * storage.itemsize:
            damaged(database, f"tensor {tensor} has {nbytes} bytes, not those of {list(shape)} in {kind.name}")
        if nbytes == 0:
            return np.empty(shape, dtype=storage)
        content = self._map(file)
        if not 0 <= offset <= len(content) - nbytes:
            damaged(self.folder / segment_name(file), f"tensor {tensor} lies beyond its end; it was cut")
        found = np.frombuffer(content, dtype=np.uint8, count=nbytes, offset=offset).view(storage).reshape(shape)
        self._verify(tensor, found, kind, file)
        return found

    def _verify(self, tensor: int, found: np.ndarray[Any, Any], kind: DType, file: int) -> None:
        """Refuses bytes that are not those whose digest was recorded; each tensor is looked at once."""
        if tensor in self._verified:
            return
        row = self._connection.execute("SELECT digest FROM statistics WHERE tensor = ?", (tensor,)).fetchone()
        recorded = row[0] if row is not None and isinstance(row[0], int) else 0
        if recorded and recorded % (1 << 64) != digest(found, kind):
            damaged(self.folder / segment_name(file), f"tensor {tensor} in it is not what was recorded")
        self._verified.add(tensor)

    def _map(self, file: int) -> mmap.mmap:
        if file not in self._maps:
            path = self.folder / segment_name(file)
            plain_entry(path, self.folder.parent)
            try:
                with open(path, "rb") as handle:
                    self._maps[file] = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
            except (OSError, ValueError) as error:
                raise CorruptRunError(f"cannot read {path}: {error}; the Run is incomplete") from error
        return self._maps[file]

    def _read_meta(self) -> Mapping[str, Any]:
        database = self._connection.database
        check_tables(self._connection, database, {"meta": TABLES["meta"]})
        rows = self._connection.execute("SELECT key, value FROM meta").fetchall()
        with reading(database):
            meta = {key: json_value(_text(value)) for key, value in rows}
            version = value_of(int, meta.get("format_version"), "format_version")
        if meta.get("rank", self.rank) != self.rank:
            damaged(database, f"it is that of rank {meta['rank']}, not of {self.rank}", "put each file in its place")
        if version > FORMAT_VERSION:
            raise RunVersionError(f"{database} has format {version}; this trueline reads {FORMAT_VERSION}: update it")
        check_seal(database, needed=version >= SEALED_FROM)
        check_tables(self._connection, database, TABLES)
        return meta

    def _check_segments(self) -> None:
        """Refuses a Run whose files of tensors are not there, or shorter than they were."""
        ends = self._meta.get("segments")
        if ends is None:  # a Run of the first format
            query = "SELECT file, max(offset + nbytes) FROM bytes WHERE nbytes > 0 GROUP BY file"
            ends = {str(file): end for file, end in self._connection.execute(query)}
        with reading(self._connection.database):
            needed = value_of(dict[str, int], ends, "segments")
        for file, end in needed.items():
            if not file.isdecimal():
                damaged(self._connection.database, f"it names a file of tensors {file[:20]!r}")
            path = self.folder / segment_name(int(file))
            found = plain_entry(path, self.folder.parent)
            if found is None:
                damaged(path, "the file is missing", "copy it from where the Run was made")
            if found.st_size < end:
                damaged(path, f"it has {found.st_size:,} bytes of at least {end:,}: it was cut", "copy it again")

    def _connect(self) -> Guarded:
        inside(self.folder, self.folder.parent)
        database = self.folder / DATABASE_FILE
        if plain_file(database, self.folder.parent) is None:
            database = self._recover()
        # immutable: nobody writes any more, so no lock is needed, which also works on read-only and network mounts.
        location = f"file:{_uri_path(database)}?mode=ro&immutable=1"
        connection = sqlite3.connect(location, uri=True, check_same_thread=False, factory=Guarded)
        connection.guard(database)
        return connection

    def _recover(self) -> Path:
        """Builds a database for a capture that was killed, or still runs: in the Run if it can be written, else in a
        scratch folder. The journal stays as it is, since somebody may still be writing it."""
        journal, recovered = self.folder / JOURNAL_FILE, self.folder / RECOVERED_FILE
        found = plain_file(journal, self.folder.parent)
        if found is None:
            raise CorruptRunError(f"{self.folder} holds neither {DATABASE_FILE} nor {JOURNAL_FILE}; files were removed")
        if not is_begun(journal) and (self.folder / segment_name(0)).exists():
            damaged(journal, "it was cut before its first line, and tensors were written after that")
        if _journal_bytes_in(recovered) == found.st_size:
            return recovered
        try:
            if os.access(self.folder, os.W_OK):
                with contextlib.suppress(OSError, sqlite3.OperationalError):  # a full disk, say
                    return finish_rank(self.folder, self.rank, database=recovered)
            self._scratch = tempfile.TemporaryDirectory(prefix="trueline-")
            return finish_rank(self.folder, self.rank, database=Path(self._scratch.name) / RECOVERED_FILE)
        except (sqlite3.Error, ValueError, OverflowError) as error:
            damaged(journal, error)


def _journal_bytes_in(database: Path) -> int | None:
    """How much of the journal a recovered database holds; None where there is none that can be read."""
    if database.is_symlink() or not database.is_file():
        return None
    try:
        if not is_as_sealed(database):
            return None
        with contextlib.closing(sqlite3.connect(f"file:{_uri_path(database)}?mode=ro&immutable=1", uri=True)) as found:
            return int(found.execute("SELECT value FROM meta WHERE key = 'journal_bytes'").fetchone()[0])
    except (OSError, sqlite3.DatabaseError, TypeError, ValueError):
        return None


def _read_info(path: Path) -> RunInfo:
    file = path / RUN_FILE
    if not path.exists():
        raise NotARunError(f"{path} does not exist")
    if not path.is_dir() or not os.path.lexists(file):
        raise NotARunError(f"{path} is not a Run (no {RUN_FILE} in it); a Run is the folder given to capture --out")
    found = plain_file(file, path)
    if found is None or found.st_size > MOST_HEAD_BYTES:
        damaged(file, "it is not the head of a Run")
    with reading(file):
        content = value_of(dict[str, Any], json_value(file.read_bytes()), "it")
        version = value_of(int, content.get("format_version"), "format_version")
    if version > FORMAT_VERSION:
        raise RunVersionError(
            f"{file} was written in format {version} by trueline {content.get('tool_version', '?')!s:.40}; "
            f"this trueline reads up to format {FORMAT_VERSION}: update trueline"
        )
    if (CHECKSUM in content or version >= SEALED_FROM) and not is_content_as_sealed(content):
        damaged(file, "it is not as it was written (its checksum is another)")
    with reading(file):
        return record(RunInfo, {name: value for name, value in content.items() if name != CHECKSUM})


def _rank_numbers(path: Path) -> list[int]:
    numbers = []
    for entry in path.iterdir():
        if entry.name.startswith("rank") and (entry.is_dir() or entry.is_symlink()):
            found = _RANK.fullmatch(entry.name)
            if found is None:
                damaged(entry, "no rank has such a name", "give it its name again, or move it away")
            numbers.append(int(found[1]))
    return numbers


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Unfit(f"there is {type(value).__name__} where text must be")
    return value


def _uri_path(path: Path) -> str:
    from urllib.parse import quote

    return quote(str(path.absolute()))
