"""The writing side of a Run: one background thread per process, fed through a bounded queue.

Law: no fault of ours reaches the user's program. When anything goes wrong here (a full disk, say) the writer says so
once, keeps what is already on disk, and swallows the rest; the capture asks ``failed`` and stops recording.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import sqlite3
import sys
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from trueline.errors import UsageError
from trueline.records import RunInfo
from trueline.store.columns import Batch, Payload
from trueline.store.finish import finish_rank
from trueline.store.interrupts import Latch
from trueline.store.journal import JournalWriter
from trueline.store.seal import sealed_text
from trueline.store.segments import SegmentWriter

RUN_FILE = "run.json"
JOURNAL_FILE = "journal.bin"
RESERVE_FILE = "reserve"
RESERVE_BYTES = 1 << 15
"""Room on the disk that is given back at the end, so that a Run that filled the disk can still say that it did."""
QUEUE_LENGTH = 32
FULL_PAUSE = 0.0005
"""Seconds between two looks whether a full queue has room again."""


def rank_folder(run: Path, rank: int) -> Path:
    return run / f"rank{rank}"


def write_run_info(run: Path, info: RunInfo) -> None:
    """Writes ``run.json``, whole or not at all. Many ranks may do so at once: the first one wins."""
    target = run / RUN_FILE
    draft = run / f".{RUN_FILE}.{os.getpid()}"
    draft.write_text(sealed_text(asdict(info)), encoding="utf-8")
    try:
        os.link(draft, target)
    except FileExistsError:
        pass
    except OSError:  # a file system without hard links
        if not target.exists():
            os.replace(draft, target)
            return
    draft.unlink(missing_ok=True)


class Tensors(Protocol):
    """Where the bytes of tensors go."""

    bytes_written: int

    def append(
        self, tensor: int, dtype: str, shape: tuple[int, ...], content: memoryview, file: Path | None = None
    ) -> tuple[int, int, int]: ...

    def close(self) -> None: ...


class RankWriter:
    """Writes one rank of a Run; ``tensors`` makes what takes their bytes.

    ``submit`` hands over a Batch; ``drain`` waits until all of them are on disk; ``close`` finishes the rank.
    """

    def __init__(self, run: Path, rank: int, tensors: Callable[[Path], Tensors] = SegmentWriter) -> None:
        self.folder = rank_folder(run, rank)
        self._rank = rank
        self.failed = ""
        self._closed = False
        try:
            self.folder.mkdir(parents=True)
        except FileExistsError:
            raise UsageError(
                f"{self.folder} exists already; choose another path for this Run or remove the old one"
            ) from None
        self._journal = JournalWriter(self.folder / JOURNAL_FILE)
        self._journal.append(b"R", str(rank).encode())
        self._segments = tensors(self.folder)
        self._reserve = _reserve(self.folder / RESERVE_FILE)
        self._queue: queue.SimpleQueue[Batch | dict[str, Any]] = queue.SimpleQueue()
        self._ended = Latch()
        self._thread = threading.Thread(target=self._serve, name="trueline-writer", daemon=True)
        self._thread.start()

    @property
    def bytes_stored(self) -> int:
        return self._segments.bytes_written

    def wait_for_room(self) -> None:
        """Waits while the queue is full."""
        while self._queue.qsize() >= QUEUE_LENGTH and not self._ended.is_open:
            time.sleep(FULL_PAUSE)

    def submit(self, batch: Batch) -> None:
        """Hands a batch over, when there is room. After ``close`` nobody would take it: it is dropped."""
        self.wait_for_room()
        if not self._closed:
            self._queue.put(batch)

    def drain(self) -> None:
        """Waits until all that was handed over is written."""
        done = self._ended
        if not self._closed:
            done = Latch()
            self._queue.put(Batch(done=done.open))
        done.wait()

    def close(self, certificate: dict[str, Any]) -> None:
        """Ends the writing and turns the journal into ``calls.db``; all of it in the thread that writes, which no
        signal disturbs. Where the waiting was interrupted, another call waits for the same end."""
        if not self._closed:
            self._queue.put(certificate)
            self._closed = True
        self._ended.wait()
        self._thread.join()  # nothing is left to do but to go

    def _serve(self) -> None:
        while isinstance(batch := self._queue.get(), Batch):
            try:
                if batch.prepare is not None:
                    batch.prepare()
                if not self.failed:
                    self._write(batch)
            except Exception as error:
                self._fail(error)
            finally:
                self._done(batch)
                del batch  # the next get() may wait long: do not hold the user's tensors meanwhile
        self._end(batch)

    def _end(self, certificate: dict[str, Any]) -> None:
        try:
            self._segments.close()
        except OSError as error:
            self._fail(error)
        if self.failed:
            certificate = {"stopped_because": self.failed, **_given(certificate), "complete": False}
        try:
            try:
                self._reserve.unlink(missing_ok=True)
                self._journal.append(b"X", json.dumps(certificate).encode())
            finally:
                self._journal.close()
            if not self.failed:
                finish_rank(self.folder, self._rank)
        except (OSError, sqlite3.Error) as error:
            self._fail(error)
        finally:
            self._ended.open()

    def _done(self, batch: Batch) -> None:
        try:
            if batch.done is not None:
                batch.done()
        except Exception as error:
            self._fail(error)

    def _write(self, batch: Batch) -> None:
        frames: list[tuple[bytes, tuple[Any, ...]]] = []
        if batch.definitions:
            frames.append((b"D", (json.dumps(batch.definitions).encode(),)))
        if len(batch.visits):
            frames.append((b"V", (batch.visits,)))
        if len(batch.calls):
            frames.append((b"C", (batch.calls,)))
        if batch.missing:
            frames.append((b"M", (json.dumps(batch.missing).encode(),)))
        self._journal.append_all(frames)
        places = self._store(batch.payloads)
        self._journal.append_all(self._rest(batch, places))

    def _rest(self, batch: Batch, places: list[tuple[int, int, int, int]]) -> list[tuple[bytes, tuple[Any, ...]]]:
        """The frames that come last."""
        frames: list[tuple[bytes, tuple[Any, ...]]] = []
        if batch.statistics is not None:
            # Comes last: a tensor that was changed while it was read has no row here, and its bytes do not count.
            numbers, rows = batch.statistics()
            if len(numbers):
                frames.append((b"S", (numbers, np.ascontiguousarray(rows).view(np.uint8))))
            if places:
                right = set(numbers.tolist())
                places = [place for place in places if place[0] in right]
        if places:
            frames.append((b"B", (np.array(places, dtype="<i8"),)))
        return [*frames, *((b"E", (json.dumps(event).encode(),)) for event in batch.events)]

    def _store(self, payloads: list[Payload]) -> list[tuple[int, int, int, int]]:
        """Appends the bytes of tensors; gives BYTES_COLUMNS of each."""
        places = []
        for payload in payloads:
            place = self._segments.append(payload.tensor, payload.dtype, payload.shape, payload.fetch(), payload.file)
            places.append((payload.tensor, *place))
        return places

    def _fail(self, error: Exception) -> None:
        if self.failed:
            return
        self.failed = f"{type(error).__name__}: {error}"
        message = (
            f"trueline stopped recording, the program goes on: {self.failed} (in {self.folder}). "
            "What was recorded before is kept."
        )
        try:
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        except Exception:  # the user made warnings errors: ours must not end this thread, or the program
            print(message, file=sys.stderr)


def _reserve(path: Path) -> Path:
    """Takes the room. A disk that has less keeps it for the capture, which may be over before it is full."""
    try:
        path.write_bytes(b"\xff" * RESERVE_BYTES)  # not zeros, of which some file systems keep nothing
    except OSError:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
    return path


def _given(certificate: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in certificate.items() if value or name != "stopped_because"}
