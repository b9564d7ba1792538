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

from collections.abc import Iterator
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
