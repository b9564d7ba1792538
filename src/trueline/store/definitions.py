"""What repeats in a Run (names, modules, trees, layouts, stacks), said once and referred to by its number.

For whoever writes a Run from one thread; a capture, whose program has many, keeps a book of its own (``Notebook``).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from trueline.tree import Tree


class Definitions:
    """Numbers for what was said, table by table, and the rows that no batch has carried yet."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._defined: Counter[str] = Counter()
        self._fresh: dict[str, list[list[Any]]] = {}

    def define(self, table: str, key: str, row: list[Any]) -> int:
        """The number of something; ``row`` is its content, kept the first time."""
        number = self._numbers.get((table, key))
        if number is None:
            number = self._numbers[table, key] = self._defined[table]
            self._defined[table] += 1
            self._fresh.setdefault(table, []).append([number, *row])
        return number

    def name(self, text: str) -> int:
        return self.define("names", text, [text])

    def tree(self, tree: Tree) -> int:
        return self.define("trees", repr(tree), [tree])

    def take(self) -> dict[str, list[list[Any]]]:
        """The rows that are new since the last time, for ``Batch.definitions``."""
        fresh, self._fresh = self._fresh, {}
        return fresh
