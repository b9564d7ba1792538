"""Numbers the argument and result trees of calls: each is written once, however often it comes."""

from __future__ import annotations

from typing import Any

from trueline.frameworks.base import Notebook
from trueline.frameworks.keys import Key, tree_of
from trueline.tree import Tree, tensor_paths


class Trees:
    """The trees of a Run, by the keys of what they were made from. ``known_arguments`` and ``known_results`` may be
    looked into; what they do not hold is to be entered."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self.known_arguments: dict[Key, int] = {}
        self.known_results: dict[Any, int] = {}
        self._backwards: dict[Any, tuple[int, int]] = {}
        self._paths: dict[int, list[str]] = {}

    def arguments(self, key: Key) -> int:
        """The tree of what a call was given; ``key`` holds the keys of its positional arguments, (name, key) of its
        named ones or None, and, for a call of a module, the names of its parameters."""
        number = self.known_arguments.get(key)
        return self.enter_arguments(key) if number is None else number

    def result(self, key: Key, first: int, changed: tuple[int, ...], arguments: int) -> int:
        """The tree of what came out, tensors numbered from ``first``: the result and the inputs that were ``changed``
        (leaf numbers in the tree ``arguments``)."""
        place = (key, first, changed, arguments if changed else 0)
        number = self.known_results.get(place)
        return self.enter_result(place) if number is None else number

    def backward(self, key: tuple[int, int, tuple[int, ...], tuple[int, ...]]) -> tuple[int, int]:
        """The trees of a backward call: the outputs whose gradients arrived, the inputs whose gradients left; ``key``
        holds the trees of the forward call and the leaf numbers."""
        found = self._backwards.get(key)
        if found is not None:
            return found
        arguments, result, arrived, departed = key
        inputs, outputs = self._paths[arguments], self._paths[result]
        arriving = {outputs[leaf - len(inputs)]: {"$t": position} for position, leaf in enumerate(arrived)}
        leaving = {inputs[leaf]: {"$t": len(arrived) + position} for position, leaf in enumerate(departed)}
        trees = self._define(("arrived", key), arriving), self._define(("departed", key), leaving)
        self._backwards[key] = trees
        return trees

    def enter_arguments(self, key: Key) -> int:
        """The number of a tree of arguments that was not seen before."""
        args, first = [], 0
        for item in key[0]:
            tree, first = tree_of(item, first)
            args.append(tree)
        kwargs: dict[str, Tree] = {}
        for name, item in key[1] or ():
            kwargs[name], first = tree_of(item, first)
        whole: dict[str, Tree] = {"args": args, "kwargs": kwargs}
        if len(key) > 2:
            whole["parameters"] = {name: {"$t": first + position} for position, name in enumerate(key[2])}
        number = self.known_arguments[key] = self._define(("arguments", key), whole)
        return number

    def enter_result(self, place: tuple[Key, int, tuple[int, ...], int]) -> int:
        """The number of a tree of results that was not seen before; ``place`` as ``result`` makes it."""
        key, first, changed, arguments = place
        tree, following = tree_of(key, first)
        whole: dict[str, Tree] = {"out": tree}
        for position, leaf in enumerate(changed):
            whole[self._paths[arguments][leaf]] = {"$t": following + position}
        number = self.known_results[place] = self._define(("result", place), whole)
        return number

    def _define(self, key: Any, tree: Tree) -> int:
        number = self._notebook.define("trees", key, lambda: [tree])
        self._paths[number] = [path for _, path in sorted(tensor_paths(tree))]
        return number
