"""Values that come out of files: JSON within limits, records whose fields are what they are declared to be.

What a file says is checked once, where it is read, so that nothing behind that door has to wonder. ``Unfit`` says what
does not fit; the reader says in which file.
"""

from __future__ import annotations

import json
import math
import os
import stat
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, TypeVar

Record = TypeVar("Record")

MOST_INTEGER = 1 << 63
MOST_DEPTH = 100
MOST_TEXT_BYTES = 1 << 20
MOST_VALUES = 1 << 22
"""Values in one JSON text."""


class Unfit(ValueError):
    """A value is not what it must be."""


def unfit(what: str) -> NoReturn:
    raise Unfit(what)


def bytes_of(path: Path, most: int = MOST_TEXT_BYTES) -> bytes:
    """What is in a file that a person wrote: a config, a list, limits. Raises ``Unfit`` where it is no such file: a
    device or a pipe never ends, and nobody writes so much by hand."""
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            raise Unfit("it is not a file")
        if found.st_size > most:
            raise Unfit(f"it has {found.st_size:,} bytes, more than the {most:,} that are read of such a file")
        return path.read_bytes()
    except OSError as error:
        unfit(error.strerror or str(error))


def text_of(path: Path, most: int = MOST_TEXT_BYTES) -> str:
    """The same as text."""
    try:
        return bytes_of(path, most).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        unfit(f"it is not UTF-8 text (byte {error.start})")


def json_value(text: str | bytes) -> Any:
    """The value of a JSON text that is neither nested beyond measure nor holds numbers beyond all."""
    try:
        value = json.loads(text)
    except RecursionError:
        unfit(f"it is nested deeper than {MOST_DEPTH} levels")
    except UnicodeDecodeError as error:
        unfit(f"it is not UTF-8 text (byte {error.start})")
    except ValueError as error:
        unfit(f"it is not whole JSON ({error})")
    check_limits(value)
    return value


def check_limits(value: Any) -> None:
    """Refuses JSON that is too deep, too much, or holds an integer that no machine word does. Level by level: nothing
    calls itself."""
    level, count = [value], 0
    for _ in range(MOST_DEPTH):
        count += len(level)
        if count > MOST_VALUES:
            unfit(f"it holds more than {MOST_VALUES:,} values")
        inner: list[Any] = []
        for one in level:
            if isinstance(one, list):
                inner += one
            elif isinstance(one, dict):
                inner += one.values()
            elif isinstance(one, int) and not -MOST_INTEGER <= one < MOST_INTEGER:
                unfit(f"an integer of {one.bit_length()} bits is in it")
        if not inner:
            return
        level = inner
    unfit(f"it is nested deeper than {MOST_DEPTH} levels")


def record(kind: type[Record], content: Any) -> Record:
    """A record from a JSON object. Each field has to be there unless it has a default, to be of its declared type, and
    nothing else may be there."""
    if not isinstance(content, dict):
        unfit(f"{kind.__name__} is {_named(content)}, not an object")
    known = _converters(typing.cast(Any, kind))
    strange = content.keys() - known.keys()
    if strange:
        unfit(f"unknown fields: {_listed(strange)}")
    missing = [name for name, (_, needed) in known.items() if needed and name not in content]
    if missing:
        unfit(f"fields are missing: {_listed(missing)}")
    return kind(**{name: _converted(known[name][0], value, name) for name, value in content.items()})


def value_of(declared: Any, value: Any, what: str) -> Any:
    """A JSON value as what is declared: ``int``, ``tuple[int, ...]``, ``str | None``, a dataclass, an enum, ..."""
    return _converted(_converter(declared), value, what)


Converter = Callable[[Any], Any]


def _converted(converter: Converter, value: Any, what: str) -> Any:
    try:
        return converter(value)
    except Unfit as error:
        unfit(f"{what}: {error}")


@cache
def _converters(kind: type[Any]) -> Mapping[str, tuple[Converter, bool]]:
    """What makes the fields of a record from JSON, and whether one must be given."""
    hints = typing.get_type_hints(kind)
    return {
        field.name: (
            _converter(hints[field.name]),
            field.default is MISSING and field.default_factory is MISSING,
        )
        for field in fields(kind)
    }


@cache
def _converter(declared: Any) -> Converter:
    origin, inner = typing.get_origin(declared), typing.get_args(declared)
    if declared is Any:
        return lambda value: value
    if origin in (typing.Union, types.UnionType):
        return _either([_converter(one) for one in inner if one is not type(None)], declared)
    if origin is tuple:
        return _tuple(inner)
    if origin is list:
        return _list(_converter(inner[0]))
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(_converter(inner[1]))
    if is_dataclass(declared):
        return lambda value: record(typing.cast(Any, declared), value)
    if isinstance(declared, type) and issubclass(declared, Enum):
        return _enum(declared)
    return _PLAIN[declared]


def _either(converters: list[Converter], declared: Any) -> Converter:
    optional = type(None) in typing.get_args(declared)

    def convert(value: Any) -> Any:
        if value is None and optional:
            return None
        for converter in converters[:-1]:
            try:
                return converter(value)
            except Unfit:
                pass
        return converters[-1](value)

    return convert


def _tuple(inner: tuple[Any, ...]) -> Converter:
    endless = len(inner) == 2 and inner[1] is Ellipsis
    parts = [_converter(one) for one in inner if one is not Ellipsis]

    def convert(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            unfit(f"{_named(value)}, not a list")
        if not endless and len(value) != len(parts):
            unfit(f"{len(value)} values, not {len(parts)}")
        return tuple(part(one) for part, one in zip(parts * len(value) if endless else parts, value, strict=True))

    return convert


def _list(inner: Converter) -> Converter:
    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list):
            unfit(f"{_named(value)}, not a list")
        return [inner(one) for one in value]

    return convert


def _mapping(inner: Converter) -> Converter:
    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            unfit(f"{_named(value)}, not an object")
        return {name: inner(one) for name, one in value.items()}

    return convert


def _enum(kind: type[Enum]) -> Converter:
    def convert(value: Any) -> Enum:
        try:
            return kind(value)
        except ValueError:
            unfit(f"{str(value)[:40]!r}, not one of {', '.join(str(one.value) for one in kind)}")

    return convert


def _integer(value: Any) -> int:
    if type(value) is not int:
        unfit(f"{_named(value)}, not an integer")
    if not -MOST_INTEGER <= value < MOST_INTEGER:
        unfit(f"an integer of {value.bit_length()} bits")
    return value


def _number(value: Any) -> float:
    """JSON has no words for what is not finite; ``"nan"``, ``"inf"`` and ``"-inf"`` are ours."""
    if value in ("nan", "inf", "-inf"):
        return float(value)
    if type(value) not in (int, float):
        unfit(f"{_named(value)}, not a number")
    return value if type(value) is float else float(_integer(value))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        unfit(f"{_named(value)}, not text")
    return value


def _truth(value: Any) -> bool:
    if type(value) is not bool:
        unfit(f"{_named(value)}, not true or false")
    return value


_PLAIN: dict[Any, Converter] = {int: _integer, float: _number, str: _text, bool: _truth}


def _named(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "nothing"}
    return names.get(type(value), "a number")


def _listed(names: Any) -> str:
    return ", ".join(sorted(str(name)[:40] for name in names)[:8])
