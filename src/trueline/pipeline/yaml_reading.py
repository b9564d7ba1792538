"""YAML with the number of every line, so that what is wrong can be pointed at.

PyYAML is needed for this alone (``pip install trueline[pipeline]``); only plain values are read, nothing is executed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from trueline.checked import MOST_INTEGER, Unfit, text_of
from trueline.errors import UsageError

_MOST_BYTES, _MOST_VALUES, _MOST_DEPTH = 1 << 18, 50_000, 50
"""Of one config."""

_LARGEST = 1e9
"""Of a number in a config: seconds, times."""
_NO_TEXT = re.compile("[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff]")

Place = tuple[str | int, ...]


class Document:
    """A YAML file: its values, and where each of them stands."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._lines: dict[Place, int] = {}
        self._values = 0
        self.content = self._read(path)

    def where(self, place: Place) -> str:
        """The line of a value; of the nearest one around it where it is not there."""
        while place and place not in self._lines:
            place = place[:-1]
        return f"{self.path}, line {self._lines.get(place, 1)}"

    def error(self, place: Place, message: str) -> UsageError:
        name = ".".join(str(part) for part in place)
        return UsageError(f"{self.where(place)}: {name + ': ' if name else ''}{message}")

    def mapping(self, value: Any, place: Place, known: Collection[str] | None = None) -> Mapping[str, Any]:
        """A mapping with text keys, all of them known."""
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self.error(place, f"is {_kind(value)}; names with values are expected")
        for key in value:
            if known is not None and key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
                raise self.error((*place, key), f"is not known here; {hint}")
        return value

    def text(self, value: Any, place: Place, default: str = "") -> str:
        if value is None:
            return default
        if isinstance(value, (Mapping, list)):
            raise self.error(place, f"is {_kind(value)}; one value is expected")
        return str(value)

    def texts(self, value: Any, place: Place) -> tuple[str, ...]:
        """A list; one value is a list of one."""
        items = value if isinstance(value, list) else [] if value is None else [value]
        return tuple(self.text(item, (*place, number)) for number, item in enumerate(items))

    def number(self, value: Any, place: Place, *, zero: bool = False) -> float:
        """A number above 0; with ``zero`` it may be 0 as well."""
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not (value > 0 or (zero and value == 0)):
            raise self.error(place, f"is {value!r}; a number {'of 0 or more' if zero else 'above 0'} is expected")
        if value > _LARGEST:
            raise self.error(place, f"is {value:g}; at most {_LARGEST:g} is possible")
        return float(value)

    def _read(self, path: Path) -> Mapping[str, Any]:
        try:
            import yaml
        except ImportError:
            raise UsageError(f"{path} is YAML, for which PyYAML is needed: pip install 'trueline[pipeline]'") from None
        try:
            node = yaml.compose(text_of(path, _MOST_BYTES), Loader=yaml.SafeLoader)
            if node is None:
                raise UsageError(f"{path} is empty")
            value = self._value(node, (), yaml.SafeLoader(""))
        except Unfit as error:
            raise UsageError(f"{path}: {error}") from None
        except RecursionError:
            raise UsageError(f"{path}: no valid config: it is nested deeper than {_MOST_DEPTH} levels") from None
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = f", line {mark.line + 1}" if mark is not None else ""
            problem = getattr(error, "problem", None) or error
            raise UsageError(f"{path}{line}: no valid YAML: {problem}") from None
        return self.mapping(value, ())

    def _value(self, node: Any, place: Place, loader: Any) -> Any:
        self._values += 1  # aliases repeat what they stand for: few lines can say more than fits any memory
        if self._values > _MOST_VALUES:
            raise Unfit(f"it says more than {_MOST_VALUES:,} values")
        if len(place) > _MOST_DEPTH:
            raise RecursionError
        self._lines[place] = node.start_mark.line + 1
        if node.id == "scalar":
            return _scalar(node, loader)
        if node.id == "sequence":
            return [self._value(item, (*place, number), loader) for number, item in enumerate(node.value)]
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.id != "scalar":
                raise Unfit(f"line {key_node.start_mark.line + 1}: a list or a mapping stands where a name should")
            key = str(key_node.value)
            _check_text(key, key_node)
            here = (*place, key)
            self._lines[here] = key_node.start_mark.line + 1
            if key in found:
                raise self.error(here, "stands here twice; keep one")
            found[key] = self._value(value_node, here, loader)
            self._lines[here] = key_node.start_mark.line + 1
        return found


def _scalar(node: Any, loader: Any) -> Any:
    try:
        value = loader.construct_object(node)
    except ValueError as error:  # a date that is none, more digits than Python reads
        raise Unfit(f"line {node.start_mark.line + 1}: {error}") from None
    if isinstance(value, int) and abs(value) >= MOST_INTEGER:
        raise Unfit(f"line {node.start_mark.line + 1}: an integer of {value.bit_length()} bits")
    if isinstance(value, str):
        _check_text(value, node)
    return value


def _check_text(text: str, node: Any) -> None:
    """Refuses what can be no word of a command and no name of a file."""
    if _NO_TEXT.search(text):
        raise Unfit(f"line {node.start_mark.line + 1}: {text[:40]!r} has a character that no command can have")


def _kind(value: Any) -> str:
    names = ((Mapping, "a mapping"), (list, "a list"), (str, "text"), (bool, "true or false"))
    return next((name for kind, name in names if isinstance(value, kind)), "a number")
