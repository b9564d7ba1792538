"""What every reader of other people's files keeps to: nothing executed, nothing outside the folder, memory bounded.

A dump comes from another machine, maybe from another person. So sizes are compared with what the file really holds
before anything is allocated, names are checked before they become paths, and whatever does not fit is a
``ForeignFileError`` that says which file, what is wrong, and what to do.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from trueline.dtypes import DType
from trueline.errors import TruelineError

MOST_JSON_BYTES = 256 << 20
"""The largest JSON or text file that is read: parsed, it takes ten to twenty times as much memory."""
MOST_TENSOR_BYTES = 64 << 30
"""The largest single tensor."""
MOST_DIMENSIONS = 64
MOST_NAME = 1024
MOST_DEPTH = 64
"""Nesting of arguments."""
MOST_LEAVES = 1 << 20
"""Values in the arguments of one call."""
_BLOWN_UP, _BLOWN_UP_BYTES = 8, 256 << 20
"""A tensor may be a view that repeats what is stored; beyond this it is taken for an attack."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


class ForeignFileError(TruelineError):
    """A file of another tool that cannot be read, or must not be."""


def refuse(path: object, what: str, advice: str = "") -> NoReturn:
    raise ForeignFileError(f"cannot read {path}: {what}" + (f"; {advice}" if advice else ""))


def plain_file(path: Path) -> int:
    """The size of a file that is one: no folder, no device, no pipe that never ends."""
    try:
        found = os.stat(path)
    except (OSError, ValueError) as error:
        refuse(path, getattr(error, "strerror", None) or str(error))
    if not stat.S_ISREG(found.st_mode):
        refuse(path, "it is not a file")
    return found.st_size


def read_bytes(path: Path, most: int) -> bytes:
    size = plain_file(path)
    if size > most:
        refuse(path, f"it has {size:,} bytes, more than the {most:,} that are read of such a file")
    try:
        with open(path, "rb") as file:
            return file.read(size)
    except OSError as error:
        refuse(path, error.strerror or str(error))


def read_text(path: Path, most: int = MOST_JSON_BYTES) -> str:
    try:
        return read_bytes(path, most).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        refuse(path, f"it is not UTF-8 text (byte {error.start})")


def read_json(path: Path, most: int = MOST_JSON_BYTES) -> Any:
    return parse_json(read_text(path, most), path)


def parse_json(text: str, path: object) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        refuse(path, f"it is not whole JSON ({_first_line(error)})", "was the program that wrote it killed?")


def table(value: Any, path: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        refuse(path, f"{what} is {_kind(value)}, not an object")
    return value


def name_of(value: Any, path: object, what: str) -> str:
    """A name that may be shown, stored and split; no control characters, no kilometres of it."""
    if not isinstance(value, str) or not value:
        refuse(path, f"{what} is {_kind(value)}, not a name")
    if len(value) > MOST_NAME or _CONTROL.search(value):
        refuse(path, f"{what} is not a name: {value[:60]!r}")
    return value


def inside(folder: Path, name: Any, path: object) -> Path:
    """The path of a file that a dump names, which must lie in the folder of the dump itself: a plain file name."""
    text = name_of(name, path, "the name of a file")
    if "/" in text or "\\" in text or ":" in text or text in (".", ".."):
        refuse(path, f"it names the file {text[:80]!r}, which is not a plain name inside {folder}")
    found = folder / text
    if _is_link(found, path) and not _lies_in(found, folder):
        refuse(path, f"{text[:80]!r} is a link that leads out of {folder}")
    return found


def _is_link(found: Path, path: object) -> bool:
    """Whether a file is a link; refuses what cannot be the name of a file at all: a name may be too long for that."""
    try:
        return stat.S_ISLNK(found.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:
        why = (isinstance(error, OSError) and error.strerror) or error
        refuse(path, f"it names the file {found.name[:80]!r}, which no file can be called ({why})")


def shape_of(value: Any, path: object) -> tuple[int, ...]:
    """A shape whose number of elements is a number that memory knows."""
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) > MOST_DIMENSIONS:
        refuse(path, f"{str(value)[:60]!r} is not a shape")
    sizes = tuple(value)
    if not all(type(size) is int and 0 <= size < 1 << 62 for size in sizes):
        refuse(path, f"{str(value)[:60]!r} is not a shape")
    if math.prod(sizes) >= 1 << 56:
        refuse(path, f"the shape {list(sizes)} is absurd")
    return sizes


def check_tensor(shape: Sequence[int], dtype: DType, stored: int, path: object) -> None:
    """Refuses a tensor larger than any, or much larger than what is stored of it (a view that repeats one number)."""
    needed = math.prod(shape) * dtype.itemsize
    if needed > MOST_TENSOR_BYTES:
        refuse(path, f"a tensor of shape {list(shape)} and {dtype.name} would take {needed:,} bytes")
    if needed > _BLOWN_UP_BYTES and needed > _BLOWN_UP * stored:
        refuse(path, f"a tensor of {needed:,} bytes is made from {stored:,} that are stored")


def _lies_in(path: Path, folder: Path) -> bool:
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):
        return False


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "nothing"}
    return names.get(type(value), "a number")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:120] or type(error).__name__
