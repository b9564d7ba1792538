"""Writes down the named state of a program among its calls; the same for every framework.

A state is a row of CALL_COLUMNS whose level is *state*, with a tree that leads from a group and a name to a tensor
(``parameters``, ``layers.0.weight``) and a visit for each. Most of these tensors were seen by calls, or will be, so
that they cost no more than the row.
"""

from __future__ import annotations

import dataclasses
import inspect
import threading
import types
import weakref
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, NamedTuple

from trueline.frameworks.base import Notebook
from trueline.frameworks.keys import ATOMS
from trueline.records import Role, StateMoment
from trueline.store.columns import NONE, ROLES, STATE, STATE_PREFIX
from trueline.tree import Tree

Named = Mapping[str, Any]
"""Tensors by name; the name of a single one that needs none is empty."""

LookAll = Callable[[list[Any], int, int, int, list[int]], None]
Write = Callable[[tuple[int, ...], list[int]], None]

_ROLES = {"inputs": Role.INPUT, "outputs": Role.OUTPUT, "loss": Role.OUTPUT}
_DEEPEST = 8
"""So deep are tensors looked for in what a module is given and gives."""


class StateWriter:
    """Writes states into a notebook. ``write`` and ``look_all`` are those of the framework's watch and desk, ``thread``
    tells the number of the running thread."""

    def __init__(self, notebook: Notebook, look_all: LookAll, write: Write, thread: Callable[[], int]) -> None:
        self._notebook = notebook
        self._look_all = look_all
        self._write = write
        self._thread = thread
        self._counts = dict.fromkeys(StateMoment, 0)

    def put(self, moment: StateMoment, model: int, groups: Mapping[str, Named]) -> None:
        """Writes a state; ``model`` is the number of the root module it is about. Nothing where there is no tensor."""
        filled = {group: named for group, named in groups.items() if named}
        if not filled:
            return
        notebook = self._notebook
        number, nth = notebook.next_call(), self._counts[moment]
        self._counts[moment] = nth + 1
        visits: list[int] = []
        first = 0
        for group, named in filled.items():
            role = ROLES.index(_ROLES.get(group, Role.PARAMETER))
            self._look_all(list(named.values()), number, first, role, visits)
            first += len(named)
        key = ("state", tuple([(group, tuple(named)) for group, named in filled.items()]))
        tree = notebook.define("trees", key, lambda: [_tree(filled)])
        api = STATE_PREFIX + moment.value
        name = notebook.define("names", api, lambda: [api])
        step, thread = notebook.step, self._thread()
        self._write((number, STATE, 0, name, nth, step, model, NONE, thread, NONE, tree, NONE, NONE, NONE), visits)

    def end_step(self) -> None:
        """States are counted anew."""
        self._counts = dict.fromkeys(StateMoment, 0)


def _tree(groups: Mapping[str, Named]) -> Tree:
    numbers = count()
    tree: dict[str, Tree] = {}
    for group, named in groups.items():
        leaves: dict[str, Tree] = {name: {"$t": next(numbers)} for name in named}
        if list(leaves) == [""]:
            tree[group] = leaves[""]
        elif any(name.startswith("$") for name in named):
            tree[group] = {"$dict": [[name, leaf] for name, leaf in leaves.items()]}
        else:
            tree[group] = leaves
    return tree


class Root(NamedTuple):
    """A module that was called while no other was running."""

    module: weakref.ref[Any]
    number: int
    """Of its row among the modules, whose class is the name of the model."""
    kind: str
    nth: int
    fleeting: bool
    """It holds nothing that could be named: its number goes to the next one of its kind when it is gone."""


class Roots:
    """Names the outermost modules: by their class, further ones of a class ``Net#2``, ``Net#3``."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self._known: dict[int, Root] = {}
        self._taken: dict[str, set[int]] = {}
        self._lock = threading.RLock()  # a handler of a signal may call a module too
        self.version = 0
        """Another one whenever a root was added."""

    def of(self, module: Any, kind: str, *, fleeting: bool) -> Root:
        """The root that this module is; ``kind`` is the name of its class."""
        known = self._known.get(id(module))
        if known is not None and known.module() is module:
            return known
        with self._lock:
            return self._enter(module, kind, fleeting)

    def _enter(self, module: Any, kind: str, fleeting: bool) -> Root:
        self._sweep()
        taken = self._taken.setdefault(kind, set())
        nth = next(number for number in count(1) if number not in taken)
        taken.add(nth)
        text = kind if nth == 1 else f"{kind}#{nth}"
        number = self._notebook.define("modules", ("", text), lambda: ["", text])
        self.version += 1
        root = self._known[id(module)] = Root(weakref.ref(module), number, kind, nth, fleeting)
        return root

    def living(self) -> Iterator[tuple[Root, Any]]:
        """Those that are there, with their modules, in the order in which they were first entered."""
        for root in list(self._known.values()):
            module = root.module()
            if module is not None:
                yield root, module

    def _sweep(self) -> None:
        """Forgets those that are gone."""
        for place, root in list(self._known.items()):
            if root.module() is None:
                del self._known[place]
                if root.fleeting:
                    self._taken[root.kind].discard(root.nth)


def is_outermost(running: list[tuple[int, int, Any]]) -> bool:
    """Whether no module runs on a thread, by the rows of ``ThreadState.modules``: that of an optimizer has none."""
    return not any(module is not None for _, _, module in running) if running else True


def inputs_of(
    module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], is_tensor: Callable[[Any], bool]
) -> dict[str, Any]:
    """The tensors that a module is given, by the names that they have in its ``forward``, however they are given;
    ``args.0`` where there is no name."""
    names = _names_of(type(module))
    given = {names[place] if place < len(names) else f"args.{place}": value for place, value in enumerate(args)}
    return named_tensors({**given, **kwargs}, is_tensor)


def _names_of(kind: type) -> tuple[str, ...]:
    """What the ``forward`` of a class calls its positional arguments."""
    names = _forwards.get(kind)
    if names is None:
        function: Any = inspect.getattr_static(kind, "forward", None)
        for _ in range(_DEEPEST):
            function = next((there for name in _BEHIND if (there := getattr(function, name, None))), function)
        known = isinstance(function, types.FunctionType)
        names = function.__code__.co_varnames[1 : function.__code__.co_argcount] if known else ()
        _forwards[kind] = names
    return names


_BEHIND = ("__wrapped__", "dygraph_function")
"""Where decorators, and those that make graphs, keep the function that they stand for."""
_forwards: weakref.WeakKeyDictionary[type, tuple[str, ...]] = weakref.WeakKeyDictionary()


def named_tensors(value: Any, is_tensor: Callable[[Any], bool], path: str = "", depth: int = 0) -> dict[str, Any]:
    """The tensors in a value by their paths, as trees of arguments have them: ``hidden.0``, ``more.weight``."""
    found: dict[str, Any] = {}
    _collect(value, is_tensor, path, depth, found)
    return found


def _collect(value: Any, is_tensor: Callable[[Any], bool], path: str, depth: int, found: dict[str, Any]) -> None:
    if type(value) in ATOMS:
        return
    if is_tensor(value):
        found[path] = value
    elif depth < _DEEPEST:
        for name, item in _items(value):
            if type(item) not in ATOMS:
                _collect(item, is_tensor, f"{path}.{name}" if path else str(name), depth + 1, found)


def _items(value: Any) -> list[tuple[Any, Any]]:
    """What a value holds, by name; nothing for what is not known to hold others."""
    if isinstance(value, dict | UserDict):
        return list(value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value, strict=False))
    if isinstance(value, tuple | list):
        return list(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)]
    return []
