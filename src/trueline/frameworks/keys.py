"""Keys of argument trees, and the trees behind them; the same for every framework.

A key is what ``flatten`` of a framework makes of a value: ``"$t"`` for a tensor, (type, value) for plain values,
(type, keys of its items) for what holds others. Equal keys mean equal trees.
"""

from __future__ import annotations

from typing import Any

from trueline.tree import Tree

TENSOR = "$t"
Key = Any

ATOMS = frozenset({int, float, bool, str, type(None)})


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
