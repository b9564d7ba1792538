"""Argument trees: what a call was given, with tensors replaced by placeholders, as plain JSON.

A tree is built from JSON values and these one-key objects, so that it can be stored, compared and printed
anywhere:

    {"$t": n}                     the n-th tensor leaf of this call, inputs first
    {"$tuple": [...]}             a tuple (a JSON list is a list)
    {"$dict": [[key, value]...]}  a dict whose keys are not all strings
    {"$float": "nan"}             a float that JSON cannot say
    {"$complex": [re, im]}        a complex number
    {"$dtype": "float32"}         a dtype
    {"$device": "cuda:0"}         a device
    {"$slice": [start, stop, step]}
    {"$ellipsis": true}
    {"$size": [...]}              a torch.Size or the like
    {"$object": "module.Class", "text": "..."}   anything else: its type and a short text; cannot be replayed
    {"$record": "module.Class", "fields": {...}} a dataclass or named tuple
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Tree = Any
"""A JSON value as described above."""


def tensor_paths(tree: Tree, prefix: str = "") -> Iterator[tuple[int, str]]:
    """Gives (leaf number, path) for each tensor leaf, in the order of the tree: ``args.0``, ``kwargs.weight``."""
    found: list[tuple[int, str]] = []
    _collect(tree, prefix, found)
    return iter(found)


def _collect(tree: Tree, prefix: str, found: list[tuple[int, str]]) -> None:
    """A list, not a generator in a generator: it is done for every line of a campaign."""
    if isinstance(tree, list):
        for position, item in enumerate(tree):
            if isinstance(item, dict | list):
                _collect(item, _join(prefix, position), found)
    elif isinstance(tree, dict):
        if "$t" in tree:
            found.append((tree["$t"], prefix))
        elif "$tuple" in tree:
            _collect(tree["$tuple"], prefix, found)
        elif "$size" in tree:
            _collect(tree["$size"], prefix, found)
        elif "$dict" in tree:
            for key, value in tree["$dict"]:
                _collect(value, _join(prefix, key), found)
        elif "$record" in tree:
            _collect(tree["fields"], prefix, found)
        elif not any(key.startswith("$") for key in tree):
            for key, value in tree.items():
                _collect(value, _join(prefix, key), found)


def render(tree: Tree, leaves: dict[int, str] | None = None) -> str:
    """Writes a tree the way it would look in Python, tensors as given by ``leaves`` (else ``<tensor n>``)."""
    if isinstance(tree, list):
        return "[" + ", ".join(render(item, leaves) for item in tree) + "]"
    if not isinstance(tree, dict):
        return repr(tree)
    if "$t" in tree:
        return (leaves or {}).get(tree["$t"], f"<tensor {tree['$t']}>")
    if "$tuple" in tree:
        inner = ", ".join(render(item, leaves) for item in tree["$tuple"])
        return f"({inner},)" if len(tree["$tuple"]) == 1 else f"({inner})"
    return _render_special(tree, leaves)


def _render_special(tree: dict[str, Any], leaves: dict[int, str] | None) -> str:
    if "$size" in tree:
        return "[" + ", ".join(render(item, leaves) for item in tree["$size"]) + "]"
    if "$float" in tree:
        return f"float({tree['$float']!r})"
    if "$complex" in tree:
        return repr(complex(*(float(part) for part in tree["$complex"])))
    if "$dtype" in tree:
        return str(tree["$dtype"])
    if "$device" in tree:
        return repr(tree["$device"])
    if "$slice" in tree:
        return ":".join("" if part is None else render(part, leaves) for part in tree["$slice"])
    if "$ellipsis" in tree:
        return "..."
    if "$object" in tree:
        return f"<{tree['$object']} {tree.get('text', '')}>".replace(" >", ">")
    pairs = tree["$dict"] if "$dict" in tree else tree.get("fields", tree).items()
    return "{" + ", ".join(f"{key}: {render(value, leaves)}" for key, value in pairs) + "}"


def _join(prefix: str, key: object) -> str:
    return f"{prefix}.{key}" if prefix else str(key)


def tree_fault(tree: Tree) -> str:
    """What is wrong with a tree that came from a file; empty where nothing is. Nothing here calls itself: whoever read
    the JSON has bounded its depth, not the depth of Python."""
    waiting = [tree]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting += one
        elif isinstance(one, dict):
            name = next((key for key in one if key in _FORMS), None)
            if name is None:
                waiting += one.values()
            elif not _FORMS[name](one):
                return f"{str(one)[:60]} is no {name}"
            else:
                waiting += _inside(one, name)
    return ""


def _inside(one: dict[str, Any], name: str) -> list[Any]:
    """The trees that a special object holds."""
    if name == "$dict":
        return [part for pair in one[name] for part in pair]
    if name == "$record":
        return list(one["fields"].values())
    return one[name] if name in ("$tuple", "$size", "$slice") else []


def _is_float(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in ("nan", "inf", "-inf", "infinity", "-infinity")
    return isinstance(value, int | float) and not isinstance(value, bool)


_FORMS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "$t": lambda one: type(one["$t"]) is int and 0 <= one["$t"] < 1 << 31,
    "$tuple": lambda one: isinstance(one["$tuple"], list),
    "$dict": lambda one: isinstance(one["$dict"], list)
    and all(isinstance(pair, list) and len(pair) == 2 for pair in one["$dict"]),
    "$float": lambda one: _is_float(one["$float"]),
    "$complex": lambda one: isinstance(one["$complex"], list)
    and len(one["$complex"]) == 2
    and all(_is_float(part) for part in one["$complex"]),
    "$dtype": lambda one: isinstance(one["$dtype"], str),
    "$device": lambda one: isinstance(one["$device"], str),
    "$slice": lambda one: isinstance(one["$slice"], list) and len(one["$slice"]) == 3,
    "$size": lambda one: isinstance(one["$size"], list),
    "$object": lambda one: isinstance(one["$object"], str) and isinstance(one.get("text", ""), str),
    "$record": lambda one: isinstance(one["$record"], str) and isinstance(one.get("fields"), dict),
}
