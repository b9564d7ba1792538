"""Keys of argument trees, and the trees behind them; the same for every framework.

A key is what ``flatten`` of a framework makes of a value: ``"$t"`` for a tensor, (type, value) for plain values,
(type, keys of its items) for what holds others. Equal keys mean equal trees.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

from trueline.tree import Tree

TENSOR = "$t"
Key = Any

ATOMS = frozenset({int, float, bool, str, type(None)})
_TEXT_LIMIT = 80
Flatten = Callable[[Any, list[Any]], Key]


def key_of_other(value: Any, kind: type, leaves: list[Any], flatten: Flatten, texts: tuple[type, ...] = ()) -> Key:
    """The key of a value that no framework knows: what holds others, numbers of other kinds, and objects. ``flatten``
    is the framework's own, for what is inside; ``texts`` are types of it that their text tells."""
    if isinstance(value, dict):
        return (dict, tuple([(_plain_key(key), flatten(item, leaves)) for key, item in value.items()]))
    if isinstance(value, slice):
        return ("$slice", tuple([flatten(part, leaves) for part in (value.start, value.stop, value.step)]))
    if value is Ellipsis:
        return ("$ellipsis", True)
    if kind is complex:
        return ("$complex", (value.real, value.imag))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        fields = zip(value._fields, value, strict=True)
        return ("$record", _type_name(kind), tuple([(name, flatten(item, leaves)) for name, item in fields]))
    if isinstance(value, tuple | list | set | frozenset):  # structured tuples of a framework among them
        return (tuple if isinstance(value, tuple) else list, tuple([flatten(item, leaves) for item in value]))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        parts = tuple([(name, flatten(getattr(value, name, None), leaves)) for name in names])
        return ("$record", _type_name(kind), parts)
    if isinstance(value, int | float):  # numpy's own float, enumerations, symbolic integers
        return _number_key(value)
    return object_key(value, kind, texts)


def object_key(value: Any, kind: type, texts: tuple[type, ...] = ()) -> Key:
    """The key of something of which only a name is kept."""
    return ("$object", _type_name(kind), _text_of(value, texts))


def _number_key(value: Any) -> Key:
    try:
        return (float, float(value)) if isinstance(value, float) else (int, int(value))
    except Exception:  # a symbolic number that has no value yet
        return ("$object", _type_name(type(value)), "")


def _plain_key(key: Any) -> Any:
    return key if isinstance(key, str | int) else str(key)[:_TEXT_LIMIT]


def _type_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _text_of(value: Any, texts: tuple[type, ...]) -> str:
    """A short text that is the same in every process: nothing with an address in it; nothing where it cannot say."""
    try:
        if isinstance(value, (enum.Enum, type, *texts)):
            return str(value)[:_TEXT_LIMIT]
        if hasattr(value, "dtype") and hasattr(value, "shape"):  # arrays of numpy
            return f"{value.dtype}{list(value.shape)}"[:_TEXT_LIMIT]
        name = getattr(value, "__qualname__", "")
        return name[:_TEXT_LIMIT] if isinstance(name, str) else ""
    except Exception:  # somebody else's property: a value of Paddle's graphs that has no type yet, say
        return ""


def tree_of(key: Key, first_leaf: int = 0) -> tuple[Tree, int]:
    """The tree behind a key, tensors numbered from ``first_leaf``; also gives the next number."""
    if key == TENSOR:
        return {"$t": first_leaf}, first_leaf + 1
    kind, content = key[0], key[1]
    if kind is float:
        return _float_tree(content), first_leaf
    if kind in ATOMS:
        return content, first_leaf
    if kind is list:
        return _items(content, first_leaf)
    if kind is tuple:
        items, first_leaf = _items(content, first_leaf)
        return {"$tuple": items}, first_leaf
    if kind is dict:
        return _pairs(content, first_leaf)
    if kind == "$record":
        fields, first_leaf = _pairs(key[2], first_leaf)
        return {"$record": content, "fields": fields}, first_leaf
    if kind == "$slice":
        parts, first_leaf = _items(content, first_leaf)
        return {"$slice": parts}, first_leaf
    if kind == "$object":
        return {"$object": content, "text": key[2]}, first_leaf
    return {kind: list(content) if isinstance(content, tuple) else content}, first_leaf


def _items(keys: tuple[Key, ...], first_leaf: int) -> tuple[list[Tree], int]:
    trees = []
    for key in keys:
        tree, first_leaf = tree_of(key, first_leaf)
        trees.append(tree)
    return trees, first_leaf


def _pairs(pairs: tuple[tuple[Any, Key], ...], first_leaf: int) -> tuple[Tree, int]:
    found = []
    for name, key in pairs:
        tree, first_leaf = tree_of(key, first_leaf)
        found.append([name, tree])
    if all(isinstance(name, str) and not name.startswith("$") for name, _ in found):
        return dict(found), first_leaf
    return {"$dict": found}, first_leaf


def _float_tree(value: float) -> Tree:
    return value if value == value and value not in (float("inf"), float("-inf")) else {"$float": str(value)}
