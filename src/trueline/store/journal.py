"""An append-only file of checked frames: what a capture leaves on disk while the program still runs.

A frame is ``kind (1 byte), length (u32), CRC-32 of the payload (u32), payload``. A process that is killed leaves at
most one unfinished frame at the end; reading stops there. Nothing but appending is asked of the file system, so a
network mount will do.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MAGIC = b"TRUELINE-JOURNAL-1\n"
_HEADER = struct.Struct("<cII")
_MOST_PIECES = 1024
"""In one call; no system takes fewer than 16, and those that we know take this many."""


class JournalWriter:
    """Appends frames to a new file."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "xb", buffering=0)
        self._file.write(MAGIC)

    def append(self, kind: bytes, *parts: Any) -> None:
        """Writes a frame whose payload is made of parts: anything that lies in memory as bytes."""
        self.append_all([(kind, parts)])

    def append_all(self, frames: list[tuple[bytes, tuple[Any, ...]]]) -> None:
        """Writes frames at once, without a copy of what is in them."""
        pieces: list[memoryview] = []
        for kind, parts in frames:
            views = [memoryview(part).cast("B") for part in parts if memoryview(part).nbytes]
            checksum = 0
            for view in views:
                checksum = zlib.crc32(view, checksum)
            pieces.append(memoryview(_HEADER.pack(kind, sum(view.nbytes for view in views), checksum)))
            pieces += views
        if pieces and _write(self._file.fileno(), pieces) != sum(piece.nbytes for piece in pieces):
            raise OSError(28, "the disk took only part of a frame (no space left on device?)", self._file.name)

    def sync(self) -> None:
        """Waits until all of it is on the disk itself, not only with the operating system."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def _write(descriptor: int, pieces: list[memoryview]) -> int:
    if hasattr(os, "writev") and len(pieces) <= _MOST_PIECES:
        return os.writev(descriptor, pieces)
    return os.write(descriptor, b"".join(pieces))


def read_frames(path: Path) -> Iterator[tuple[bytes, bytes]]:
    """Yields (kind, payload) up to the end or to the first frame that is not whole."""
    with open(path, "rb") as file:
        start = file.read(len(MAGIC))
        if not MAGIC.startswith(start):
            raise ValueError(f"{path} is not a journal of this version")
        if start != MAGIC:  # killed before the first line was whole
            return
        while True:
            header = file.read(_HEADER.size)
            if len(header) < _HEADER.size:
                return
            kind, length, checksum = _HEADER.unpack(header)
            payload = file.read(length)
            if len(payload) < length or zlib.crc32(payload) != checksum:
                return
            yield kind, payload
