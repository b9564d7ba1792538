"""Tensor bytes, in safetensors files that are appended to while the program runs.

Safetensors wants its header first, but what will be in the file is not known then. So room for the header is left
at the start, bytes are appended behind it, and the header is written into that room when the file is closed. Until
then the journal says where each tensor lies. Files hold no gaps, as the format demands: where alignment asks for
some, they are tensors of their own named ``padding``.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from trueline.dtypes import DTYPES, DType

HEADER_ROOM = 1 << 18
ALIGNMENT = 64
SEGMENT_BYTES = 8 << 30


def segment_name(number: int) -> str:
    return f"tensors-{number:05d}.safetensors"


class SegmentWriter:
    """Appends tensors to numbered safetensors files in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = -1
        self._descriptor = -1
        self._entries: dict[str, dict[str, Any]] = {}
        self._header_bytes = 0
        self._end = 0
        self.bytes_written = 0

    def append(
        self, tensor: int, dtype: str, shape: tuple[int, ...], content: memoryview, file: Path | None = None
    ) -> tuple[int, int, int]:
        """Stores one tensor; gives (file number, offset in the file, bytes). Where else it lies matters to nobody."""
        if self._descriptor < 0 or self._header_bytes > HEADER_ROOM - 1024 or self._end > SEGMENT_BYTES:
            self._roll()
        gap = -self._end % ALIGNMENT
        start = self._end + gap
        try:
            self._write(memoryview(bytes(gap)), content)
        except OSError:  # a full disk: the room that half a tensor takes is needed to say so
            self._end = start - gap
            os.ftruncate(self._descriptor, HEADER_ROOM + self._end)
            raise
        if gap:
            self._enter(f"padding.{len(self._entries)}", ("U8", [gap]), start - gap, start)
        self._enter(f"tensor.{tensor}", _stored_as(DTYPES[dtype], shape), start, self._end)
        return self._number, HEADER_ROOM + start, content.nbytes

    def close(self) -> None:
        """Writes the header, which makes the file a valid safetensors file."""
        if self._descriptor < 0:
            return
        descriptor, self._descriptor = self._descriptor, -1
        try:
            text = json.dumps(self._entries, separators=(",", ":")).encode()
            os.pwrite(descriptor, (HEADER_ROOM - 8).to_bytes(8, "little") + text.ljust(HEADER_ROOM - 8), 0)
        finally:
            os.close(descriptor)
            self._entries = {}

    def _roll(self) -> None:
        self.close()
        self._number += 1
        path = self._folder / segment_name(self._number)
        self._descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644)
        os.lseek(self._descriptor, HEADER_ROOM, os.SEEK_SET)
        self._end = 0
        self._header_bytes = 0

    def _enter(self, name: str, stored: tuple[str, list[int]], start: int, end: int) -> None:
        entry = {"dtype": stored[0], "shape": stored[1], "data_offsets": [start, end]}
        self._entries[name] = entry
        self._header_bytes += len(name) + 80 + 12 * len(stored[1])

    def _write(self, *pieces: memoryview) -> None:
        left = [piece.cast("B") for piece in pieces if piece.nbytes]
        while left:
            written = _write(self._descriptor, left)
            self._end += written
            self.bytes_written += written
            while left and written >= left[0].nbytes:
                written -= left.pop(0).nbytes
            if written:
                left[0] = left[0][written:]


def _write(descriptor: int, pieces: list[memoryview]) -> int:
    return os.writev(descriptor, pieces) if hasattr(os, "writev") else os.write(descriptor, pieces[0])


def _stored_as(dtype: DType, shape: tuple[int, ...]) -> tuple[str, list[int]]:
    """The safetensors type and shape; types that safetensors does not know are stored as bytes in one more
    dimension (the layout in the Run says what they are)."""
    if dtype.safetensors is not None:
        return dtype.safetensors, list(shape)
    return "U8", [*shape, dtype.itemsize]
