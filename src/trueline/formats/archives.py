"""Zip archives as torch writes them, read by hand: entries are stored as they are, and nothing is unpacked.

A compressed entry is refused, since torch never writes one and a few bytes of it can fill a memory. Names are looked up
and never become paths. What is given back are views of the mapped file.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

from trueline.formats.limits import plain_file, refuse

MAGIC = b"PK\x03\x04"
_END, _END64, _LOCATOR = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"
_TAIL = 22 + (1 << 16)
_MOST_DIRECTORY = 64 << 20
_MOST_ENTRIES = 1 << 18
_FULL = 0xFFFFFFFF
_ENTRY = struct.Struct("<4sHHHHHHIIIHHHHHII")


@dataclass(frozen=True, slots=True)
class _Entry:
    offset: int
    size: int
    method: int
    packed: int


class Archive:
    """The entries of one archive, by name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        size = plain_file(path)
        if size < 22:
            refuse(path, "it is too short for an archive", "was it cut off?")
        with open(path, "rb") as file:
            self._content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        try:
            self._entries = self._directory()
        except (struct.error, IndexError, ValueError):
            refuse(path, "the directory of the archive is damaged", "was it cut off?")

    @property
    def names(self) -> list[str]:
        return list(self._entries)

    def read(self, name: str) -> memoryview:
        """The bytes of an entry, as a view."""
        entry = self._entries.get(name)
        if entry is None:
            refuse(self._path, f"the archive has no entry {name[:80]!r}")
        if entry.method != 0 or entry.packed != entry.size:
            refuse(self._path, f"the entry {name[:80]!r} is compressed", "torch stores tensors as they are")
        head = bytes(self._content[entry.offset : entry.offset + 30])
        if len(head) < 30 or head[:4] != MAGIC:
            refuse(self._path, f"the entry {name[:80]!r} is not where the directory says")
        name_length, extra_length = struct.unpack("<HH", head[26:30])
        start = entry.offset + 30 + name_length + extra_length
        if start + entry.size > len(self._content):
            refuse(self._path, f"the entry {name[:80]!r} goes beyond the end of the file", "was it cut off?")
        return self._content[start : start + entry.size]

    def _directory(self) -> dict[str, _Entry]:
        count, length, start = self._end()
        if count > _MOST_ENTRIES or length > _MOST_DIRECTORY:
            refuse(self._path, f"the archive lists {count:,} entries, more than any dump has")
        view = self._content[start : start + length]
        if len(view) < length:
            raise ValueError
        found: dict[str, _Entry] = {}
        at = 0
        for _ in range(count):
            fields = _ENTRY.unpack_from(view, at)
            name_length, extra_length, comment_length = fields[10:13]
            if fields[0] != b"PK\x01\x02":
                raise ValueError
            name_at = at + _ENTRY.size
            name = bytes(view[name_at : name_at + name_length]).decode("utf-8", "replace")
            extra = bytes(view[name_at + name_length : name_at + name_length + extra_length])
            size, packed, offset = _wide(extra, fields[9], fields[8], fields[16])
            found[name] = _Entry(offset, size, fields[4], packed)
            at = name_at + name_length + extra_length + comment_length
        return found

    def _end(self) -> tuple[int, int, int]:
        """Number of entries, length and place of the directory."""
        tail = bytes(self._content[-_TAIL:])
        at = tail.rfind(_END)
        if at < 0:
            refuse(self._path, "the archive has no end", "was it cut off?")
        count, length, start = struct.unpack_from("<HII", tail, at + 10)
        if at >= 20 and tail[at - 20 : at - 16] == _LOCATOR and (count == 0xFFFF or _FULL in (length, start)):
            place = struct.unpack_from("<Q", tail, at - 12)[0]
            record = bytes(self._content[place : place + 56])
            if record[:4] != _END64:
                raise ValueError
            count, length, start = struct.unpack_from("<QQQ", record, 32)
        return count, length, start


def _wide(extra: bytes, size: int, packed: int, offset: int) -> tuple[int, int, int]:
    """Sizes and offset that do not fit into 32 bits stand in an extra field, in this order, if they do not fit."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            words = list(struct.unpack_from(f"<{length // 8}Q", extra, at + 4))
            size = words.pop(0) if size == _FULL else size
            packed = words.pop(0) if packed == _FULL else packed
            offset = words.pop(0) if offset == _FULL else offset
            break
        at += 4 + length
    return size, packed, offset
