"""An append-only file of checked frames: what a capture leaves on disk while the program still runs.

A frame is ``kind (1 byte), length (u32), CRC-32 of the payload (u32), CRC-32 of these and of all heads before (u32),
payload``. A process that is killed leaves at most one unfinished frame at the end, and a machine that loses its power
zeros behind it; reading stops there. Anything else that does not fit is damage: a frame that is changed, lost, doubled
or out of its place. Nothing but appending is asked of the file system, so a network mount will do. The first version
had no checksum of the heads; it is read as well.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

MAGIC = b"TRUELINE-JOURNAL-2\n"
_FIRST_MAGIC = b"TRUELINE-JOURNAL-1\n"
_HEADER = struct.Struct("<cII")
_CHAIN = struct.Struct("<I")
_MOST_PIECES = 1024
"""In one call; no system takes fewer than 16, and those that we know take this many."""


class JournalWriter:
    """Appends frames to a new file."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "xb", buffering=0)
        self._file.write(MAGIC)
        self._end = len(MAGIC)
        self._chain = 0

    def append(self, kind: bytes, *parts: Any) -> None:
        """Writes a frame whose payload is made of parts: anything that lies in memory as bytes."""
        self.append_all([(kind, parts)])

    def append_all(self, frames: list[tuple[bytes, tuple[Any, ...]]]) -> None:
        """Writes frames at once, without a copy of what is in them."""
        pieces: list[memoryview] = []
        chain = self._chain
        for kind, parts in frames:
            views = [memoryview(part).cast("B") for part in parts if memoryview(part).nbytes]
            checksum = 0
            for view in views:
                checksum = zlib.crc32(view, checksum)
            head = _HEADER.pack(kind, sum(view.nbytes for view in views), checksum)
            chain = zlib.crc32(head, chain)
            pieces.append(memoryview(head + _CHAIN.pack(chain)))
            pieces += views
        if pieces:
            self._append(pieces, sum(piece.nbytes for piece in pieces))
            self._chain = chain

    def _append(self, pieces: list[memoryview], size: int) -> None:
        """All of it, or nothing: what comes later, why we stopped say, must not lie behind half a frame."""
        whole = False
        try:
            whole = _write(self._file.fileno(), pieces) == size
            if not whole:
                raise OSError(28, "the disk took only part of a frame (no space left on device?)", self._file.name)
            self._end += size
        finally:
            if not whole:
                self._file.seek(self._end)
                self._file.truncate()

    def sync(self) -> None:
        """Waits until all of it is on the disk itself, not only with the operating system."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def _write(descriptor: int, pieces: list[memoryview]) -> int:
    if hasattr(os, "writev") and len(pieces) <= _MOST_PIECES:
        return os.writev(descriptor, pieces)
    return os.write(descriptor, b"".join(pieces))


def is_begun(path: Path) -> bool:
    """Whether a journal has its first line, before which nothing else of a capture is written."""
    return path.stat().st_size >= len(MAGIC)


class DamagedJournal(ValueError):
    """A journal that was not merely cut short."""


def read_frames(path: Path) -> Iterator[tuple[bytes, bytes]]:
    """Yields (kind, payload) up to the end, or to the frame that was being written when the program was killed."""
    with open(path, "rb") as file:
        start = file.read(len(MAGIC))
        if start not in (MAGIC, _FIRST_MAGIC):
            if MAGIC.startswith(start):  # killed before the first line was whole
                return
            raise DamagedJournal("it is not a journal of this version")
        chained, chain = start == MAGIC, 0
        size = _HEADER.size + (_CHAIN.size if chained else 0)
        while len(header := file.read(size)) == size:
            place = file.tell() - size
            kind, length, checksum = _HEADER.unpack_from(header)
            if chained:
                chain = zlib.crc32(header[: _HEADER.size], chain)
                if chain != _CHAIN.unpack_from(header, _HEADER.size)[0]:
                    if _only_zeros(file, header):
                        return
                    raise _damaged_at(place)
            payload = file.read(length)
            if len(payload) < length:
                return
            if zlib.crc32(payload) != checksum:
                raise _damaged_at(place)
            yield kind, payload


def _only_zeros(file: BinaryIO, header: bytes) -> bool:
    if any(header):
        return False
    while piece := file.read(1 << 20):
        if any(piece):
            return False
    return True


def _damaged_at(place: int) -> DamagedJournal:
    return DamagedJournal(f"it is damaged at byte {place}; what stands before can be read: truncate -s {place}")
