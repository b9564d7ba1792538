"""An append-only file of checked frames: what a capture leaves on disk while the program still runs.

A frame is ``kind (1 byte), length (u32), CRC-32 of the payload (u32), payload``. A process that is killed leaves at
most one unfinished frame at the end; reading stops there. Nothing but appending is asked of the file system, so a
network mount will do.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

MAGIC = b"TRUELINE-JOURNAL-1\n"
_HEADER = struct.Struct("<cII")


class JournalWriter:
    """Appends frames to a new file."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "xb", buffering=0)
        self._file.write(MAGIC)

    def append(self, kind: bytes, payload: bytes) -> None:
        frame = _HEADER.pack(kind, len(payload), zlib.crc32(payload)) + payload
        written = self._file.write(frame)
        if written != len(frame):
            raise OSError(28, "the disk took only part of a frame (no space left on device?)", self._file.name)

    def close(self) -> None:
        self._file.close()


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
