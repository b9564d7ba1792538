"""Argument trees as Python values, and tensors in Python values by their path: what is the same in every framework.

Nothing is evaluated: a tree is data, and what it names is made by the framework's ``Maker``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trueline.frameworks.base import CannotExecute
from trueline.tree import Tree


class Maker(Protocol):
    """Makes what only a framework has. What it cannot make raises ``CannotExecute`` with the reason."""

    def text(self, text: str) -> Any:
        """A string; one that names a device or a dtype may have to be another one here."""

    def size(self, items: list[Any]) -> Any: ...
    def dtype(self, name: str) -> Any: ...
    def device(self) -> Any: ...
    def thing(self, kind: str, text: str) -> Any:
        """An object of which its type and a short text were recorded."""


def rebuild(tree: Tree, leaf: Callable[[int], Any], maker: Maker) -> Any:
    """A tree as Python values, with the tensors that ``leaf`` gives for their numbers."""
    if isinstance(tree, list):
        return [rebuild(item, leaf, maker) for item in tree]
    if isinstance(tree, str):
        return maker.text(tree)
    if not isinstance(tree, dict):
        return tree
    if "$t" in tree:
        return leaf(tree["$t"])
    if "$tuple" in tree:
        return tuple(rebuild(item, leaf, maker) for item in tree["$tuple"])
    if "$size" in tree:
        return maker.size([rebuild(item, leaf, maker) for item in tree["$size"]])
    if "$dict" in tree:
        return {key: rebuild(value, leaf, maker) for key, value in tree["$dict"]}
    if any(key.startswith("$") for key in tree):
        return _special(tree, leaf, maker)
    return {key: rebuild(value, leaf, maker) for key, value in tree.items()}


def _special(tree: dict[str, Any], leaf: Callable[[int], Any], maker: Maker) -> Any:
    if "$float" in tree:
        return float(tree["$float"])
    if "$complex" in tree:
        return complex(*(float(part) for part in tree["$complex"]))
    if "$dtype" in tree:
        return maker.dtype(str(tree["$dtype"]))
    if "$device" in tree:
        return _device(str(tree["$device"]), maker)
    if "$slice" in tree:
        return slice(*(rebuild(part, leaf, maker) for part in tree["$slice"]))
    if "$ellipsis" in tree:
        return ...
    kind = tree.get("$object") or tree.get("$record") or "an unknown kind"
    return maker.thing(str(kind), str(tree.get("text", "")))


_KINDS = """cpu cuda gpu meta xpu npu mps hpu mtia dcu ipu xla maia vulkan privateuseone cuda_pinned gpu_pinned mlu gcu
    musa sdaa metax_gpu iluvatar_gpu intel_hpu custom_cpu""".split()
_DEVICE = re.compile(rf"(Place\()?({'|'.join(_KINDS)})(:\d+)?\)?")
"""The devices of both frameworks and of their plugins; where a call is executed, its Target says."""


def _device(text: str, maker: Maker) -> Any:
    if not _DEVICE.fullmatch(text):
        raise CannotExecute(f"no device of either framework is called {text[:60]!r}")
    return maker.device()


def leaves_of(value: Any, path: str, tensor: type[Any], size: type[Any]) -> Iterator[tuple[str, Any]]:
    """The tensors and numbers in a result or in arguments, with their paths as a Run writes them. ``size`` is the
    framework's type of shapes, which are not looked into."""
    if isinstance(value, tensor | bool | int | float | complex | Packed):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from leaves_of(item, f"{path}.{key}", tensor, size)
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for key in value._fields:
            yield from leaves_of(getattr(value, key), f"{path}.{key}", tensor, size)
    elif isinstance(value, list | tuple) and not isinstance(value, size):
        for position, item in enumerate(value):
            yield from leaves_of(item, f"{path}.{position}", tensor, size)


def packed(value: Any) -> Any:
    """A result in which large regular lists of plain numbers (``tolist``) are arrays, ``Packed``: one leaf each, not as
    many as they have numbers."""
    if isinstance(value, dict):
        return {key: packed(item) for key, item in value.items()}
    if type(value) not in (list, tuple):
        return value
    found = _regular(value)
    return type(value)(packed(item) for item in value) if found is None else found


@dataclass(frozen=True, slots=True)
class Packed:
    """A regular list of plain numbers of one type, as an array."""

    array: NDArray[Any]


_MANY_NUMBERS = 64
_PLAIN = (bool, int, float, complex)


def _regular(value: Any) -> Packed | None:
    """None for anything but a regular list of many plain numbers of one type."""
    first, count = value, 1
    while type(first) in (list, tuple) and len(first):
        first, count = first[0], count * len(first)
    if type(first) not in _PLAIN or count < _MANY_NUMBERS:
        return None
    try:
        array = np.array(value)
    except (ValueError, OverflowError):
        return None
    same = array.dtype.kind in "bifc" and array.size == count and _types(value) == {type(first)}
    return Packed(array) if same else None


def _types(value: Any) -> set[type[Any]]:
    if type(value) not in (list, tuple):
        return {type(value)}
    if len(value) and type(value[0]) not in (list, tuple):
        return set(map(type, value))
    return set().union(*map(_types, value))


def replaced(value: Any, copies: Mapping[int, Any], tensor: type[Any]) -> Any:
    """Arguments in which some tensors, by their ``id``, are exchanged for others."""
    if isinstance(value, tensor):
        return copies.get(id(value), value)
    if isinstance(value, dict):
        return {key: replaced(item, copies, tensor) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(replaced(item, copies, tensor) for item in value)
    return value
