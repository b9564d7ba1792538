"""Python source for the values in an argument tree, as they stand in a script that needs only torch and numpy."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from trueline.dtypes import DTYPES
from trueline.tree import Tree


class NotWritable(Exception):
    """A value that no source can be written for; the message says which."""


def refuse_code(names: Iterable[str], words: Iterable[str]) -> None:
    """Names and words of a case come from files. What would be more than that in a script is not written: the script
    is run. ``names`` are dotted names of Python, ``words`` whatever else stands in the script as it is."""
    for name in names:
        parts = name.split(".")
        if parts[0] not in _ROOTS or not all(part.isidentifier() and not keyword.iskeyword(part) for part in parts):
            raise NotWritable(f"the name {name[:80]!r}")
    for word in words:
        if not _WORD.fullmatch(word):
            raise NotWritable(f"{word[:80]!r} among its arguments")


_ROOTS = frozenset({"torch", "paddle", "composite"})
_WORD = re.compile(r"[\w.:/ \[\]+-]*")


def call_source(arguments: Tree, names: Mapping[int, str]) -> str:
    """What stands between the parentheses of the call; ``names`` are the variables of the tensors."""
    parts = [source_of(item, names) for item in arguments.get("args", [])]
    named = arguments.get("kwargs", {})
    plain = {key: value for key, value in named.items() if key.isidentifier() and not keyword.iskeyword(key)}
    parts += [f"{key}={source_of(value, names)}" for key, value in plain.items()]
    odd = {key: value for key, value in named.items() if key not in plain}
    if odd:
        parts.append("**{" + ", ".join(f"{key!r}: {source_of(value, names)}" for key, value in odd.items()) + "}")
    return ", ".join(parts)


def source_of(tree: Tree, names: Mapping[int, str]) -> str:
    """One value."""
    if isinstance(tree, list):
        return "[" + ", ".join(source_of(item, names) for item in tree) + "]"
    if not isinstance(tree, dict):
        return number_source(tree) if isinstance(tree, float) else repr(tree)
    if "$t" in tree:
        return names[tree["$t"]]
    if "$tuple" in tree or "$size" in tree:
        return _tuple_source(tree.get("$tuple", tree.get("$size")), names)
    if any(key.startswith("$") for key in tree) and "$dict" not in tree:
        return _special_source(tree, names)
    pairs = tree["$dict"] if "$dict" in tree else tree.items()
    return "{" + ", ".join(f"{key!r}: {source_of(value, names)}" for key, value in pairs) + "}"


def number_source(value: float) -> str:
    """A float; ``inf`` and ``nan`` are names that the script has from math."""
    if math.isnan(value):
        return "nan"
    return repr(value) if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def array_source(values: np.ndarray[Any, Any]) -> str:
    """The elements of a small array as nested lists, each number as short as it can be said exactly."""
    if values.ndim:
        return "[" + ", ".join(array_source(item) for item in values) + "]"
    value = values[()]
    if isinstance(value, np.floating):
        if not np.isfinite(value):
            return number_source(float(value))
        return str(value.item() if value.dtype == np.float64 else value)
    return repr(value.item())


def _tuple_source(items: Any, names: Mapping[int, str]) -> str:
    inner = ", ".join(source_of(item, names) for item in items)
    return f"({inner},)" if len(items) == 1 else f"({inner})"


def _special_source(tree: dict[str, Any], names: Mapping[int, str]) -> str:
    if "$float" in tree:
        return number_source(float(tree["$float"]))
    if "$complex" in tree:
        real, imaginary = (number_source(float(part)) for part in tree["$complex"])
        return f"complex({real}, {imaginary})"
    if "$dtype" in tree:
        name = str(tree["$dtype"]).rpartition(".")[2]
        if name not in DTYPES:
            raise NotWritable(f"the dtype {name[:60]!r}")
        return f"kind(torch.{name})"
    if "$device" in tree:
        return "device"
    if "$slice" in tree:
        return f"slice({', '.join(source_of(part, names) for part in tree['$slice'])})"
    if "$ellipsis" in tree:
        return "..."
    what = tree.get("$object") or tree.get("$record") or next(iter(tree))
    raise NotWritable(f"an argument of type {what}")


def needs_kind(tree: Tree) -> bool:
    """Whether a dtype stands anywhere in a tree."""
    if isinstance(tree, list):
        return any(needs_kind(item) for item in tree)
    return isinstance(tree, dict) and ("$dtype" in tree or any(needs_kind(item) for item in tree.values()))
