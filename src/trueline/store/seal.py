"""Checksums by which a reader knows that a file is as it was written.

A database carries its checksum in itself, in the four bytes of the head that SQLite leaves to the program
(``application_id``); a JSON object in a member of its own. Both tell of a disk, a copy or a hand that changed
something, not of somebody who means harm: that is for the checks of what a file says.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CHECKSUM = "checksum"
_PLACE, _WIDTH = 68, 4
"""Where the head of a database has its ``application_id``."""
_CHUNK = 4 << 20


def seal_database(path: Path) -> None:
    """Writes the checksum of a database that nobody has open into its head."""
    with open(path, "r+b") as file:
        found = _checksum(file.fileno())
        file.seek(_PLACE)
        file.write(found.to_bytes(_WIDTH, "big"))


def is_sealed(path: Path) -> bool:
    with open(path, "rb") as file:
        return _seal(file.fileno()) != 0


def is_as_sealed(path: Path) -> bool:
    """Whether a database is, to the bit, what was sealed; one that was never sealed may be anything."""
    with open(path, "rb") as file:
        seal = _seal(file.fileno())
        return seal == 0 or seal == _checksum(file.fileno())


def sealed_text(content: Mapping[str, Any]) -> str:
    """A JSON object as text, with its checksum."""
    plain = {name: value for name, value in content.items() if name != CHECKSUM}
    return json.dumps({**plain, CHECKSUM: _text_checksum(plain)}, indent=1) + "\n"


def is_content_as_sealed(content: Mapping[str, Any]) -> bool:
    """Whether a JSON object is what was sealed."""
    plain = {name: value for name, value in content.items() if name != CHECKSUM}
    return content.get(CHECKSUM) == _text_checksum(plain)


def _text_checksum(content: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(content, sort_keys=True, separators=(',', ':')).encode()):08x}"


def _seal(descriptor: int) -> int:
    return int.from_bytes(os.pread(descriptor, _WIDTH, _PLACE), "big")


def _checksum(descriptor: int) -> int:
    """Of all but the place of the checksum; never 0, which says that there is none."""
    found = zlib.crc32(os.pread(descriptor, _PLACE, 0))
    place = _PLACE + _WIDTH
    while piece := os.pread(descriptor, _CHUNK, place):
        found = zlib.crc32(piece, found)
        place += len(piece)
    return found or 1
