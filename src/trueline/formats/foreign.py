"""Calls between a Run and the files of another tool: the words that all formats share.

A reader of a format gives ``ForeignRank``s; a writer takes ``ForeignCall``s. Neither knows what a Run is. Trees are as
in ``trueline.tree``; the n-th tensor leaf is ``tensors[n]``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trueline.dtypes import DTYPES, DType
from trueline.formats.limits import MOST_DEPTH, MOST_LEAVES, name_of, refuse, shape_of
from trueline.records import Frame, Level, Phase, Role
from trueline.tree import Tree

Array = np.ndarray[Any, Any]
Widen = Callable[[Array, DType], Array]
"""Turns bits that numpy has no type for (bfloat16) into float32, for files that numpy must read."""
Sources = Callable[[str, int], str]
"""Gives the text of a line of a file, for the stacks of a program that has just run."""


@dataclass(slots=True)
class Summary:
    """The four numbers that those tools keep of a tensor; None where one was not kept."""

    maximum: float | None = None
    minimum: float | None = None
    mean: float | None = None
    norm: float | None = None

    @property
    def empty(self) -> bool:
        return all(value is None for value in (self.maximum, self.minimum, self.mean, self.norm))


@dataclass(slots=True)
class ForeignTensor:
    """One tensor of a call. ``fetch`` gives its bits in C order, its dtype and what is to be said of them; None where
    they were not kept. ``identity`` is equal for tensors that are known to be the same."""

    dtype: str
    shape: tuple[int, ...]
    requires_grad: bool = False
    device: str = "cpu"
    summary: Summary | None = None
    checksum: str = ""
    fetch: Callable[[], tuple[Array, DType, str]] | None = None
    identity: object = None
    missing: str = ""
    file: Path | None = None
    """A .npy file that holds its bits and nothing else, where there is one."""


@dataclass(slots=True)
class ForeignCall:
    """One call. ``step`` is that of its rank where it is None."""

    api: str
    index: int
    phase: Phase
    level: Level = Level.API
    module: str = ""
    module_class: str = ""
    context: str = ""
    arguments: Tree = None
    result: Tree = None
    tensors: list[tuple[Role, ForeignTensor]] = field(default_factory=list)
    stack: tuple[Frame, ...] = ()
    step: int | None = None


@dataclass(slots=True)
class ForeignRank:
    """The calls of one rank in one step, in their order. ``left_out`` counts what could not be read, by reason."""

    rank: int
    step: int
    calls: Iterable[ForeignCall]
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class ForeignDump:
    """What a folder of another tool holds. ``about`` goes into the head of the Run."""

    format: str
    framework: str
    ranks: list[ForeignRank]
    about: dict[str, Any] = field(default_factory=dict)


def like_forward(arguments: Tree) -> bool:
    """Whether a call was given arguments, in whatever direction it ran; else it was given gradients by their paths."""
    return isinstance(arguments, dict) and isinstance(arguments.get("args"), list)


class Leaves:
    """Collects the tensors of one call while its trees are made."""

    def __init__(self, path: object) -> None:
        self.path = path
        self.tensors: list[tuple[Role, ForeignTensor]] = []
        self._left = MOST_LEAVES

    def add(self, role: Role, tensor: ForeignTensor) -> Tree:
        self.tensors.append((role, tensor))
        return {"$t": len(self.tensors) - 1}

    def count(self, depth: int) -> None:
        self._left -= 1
        if depth > MOST_DEPTH or self._left < 0:
            refuse(self.path, "the arguments of a call are nested absurdly")


def dtype_name(value: Any, path: object) -> str:
    """``torch.float32``, ``paddle.float32``, ``FP32`` or ``FLOAT32`` as ours."""
    text = name_of(value, path, "a dtype").rpartition(".")[2].lower()
    found = _OTHER_NAMES.get(text, text)
    if found not in DTYPES:
        refuse(path, f"the dtype {str(value)[:40]!r} is not known")
    return found


def number(value: Any) -> float | None:
    """A number of a summary; None for what is none. Some tools write them as text."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return None
    if isinstance(value, str) and len(value) < 40:
        try:
            return float(value)
        except ValueError:
            return None
    return None


_OTHER_NAMES = {
    "fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "double": "float64",
    "float": "float32", "half": "float16", "long": "int64", "int": "int32", "short": "int16", "char": "int8",
    "byte": "uint8", "cfloat": "complex64", "cdouble": "complex128", "chalf": "complex32",
}  # fmt: skip


class Nodes:
    """Reads arguments as those tools write them: lists, tables, and leaves that say their type.

    ``tensor`` makes a tensor of a leaf that is one; the rest is read here.
    """

    def __init__(self, leaves: Leaves, tensor: Callable[[dict[str, Any]], ForeignTensor]) -> None:
        self._leaves = leaves
        self._tensor = tensor

    def read(self, node: Any, role: Role, depth: int = 0) -> Tree:
        self._leaves.count(depth)
        if isinstance(node, list):
            return [self.read(item, role, depth + 1) for item in node]
        if not isinstance(node, dict):
            return plain(node)
        kind = node.get("type")
        if not isinstance(kind, str):
            return keyed({key: self.read(value, role, depth + 1) for key, value in node.items()})
        if ("dtype" in node and "shape" in node and kind != "numpy.ndarray") or "datapath" in node:
            return self._leaves.add(role, self._tensor(node))
        return self._value(kind, node)

    def _value(self, kind: str, node: dict[str, Any]) -> Tree:
        value = node.get("value")
        if kind == "slice" and isinstance(value, list) and len(value) == 3:
            return {"$slice": [plain(part) for part in value]}
        if kind.endswith("dtype") and isinstance(value, str):
            return {"$dtype": value.rpartition(".")[2][:64]}
        if kind.endswith("device") and isinstance(value, str | int):
            return {"$device": str(value)[:64]}
        if kind.endswith("Size") and isinstance(value, list):
            return {"$size": list(shape_of(value, self._leaves.path))}
        if kind == "ellipsis":
            return {"$ellipsis": True}
        if kind in ("NoneType", "None") or (value is None and kind in _PLAIN):
            return None
        if kind in _PLAIN:
            return float_tree(float(value)) if kind.startswith("float") and type(value) is int else plain(value)
        return {"$object": kind[:120], "text": "" if value is None else str(value)[:200]}


_PLAIN = frozenset("int float bool str float64 float32 float16 int64 int32 int16 int8 uint8 bool_".split())


def plain(value: Any) -> Tree:
    """A JSON value as a tree."""
    if isinstance(value, float):
        return float_tree(value)
    if isinstance(value, list):
        return [plain(item) for item in value[:MOST_LEAVES]]
    if isinstance(value, dict):
        return {"$object": "dict", "text": str(value)[:200]}
    return value


def float_tree(value: float) -> Tree:
    return value if np.isfinite(value) else {"$float": repr(value)}


def keyed(items: dict[str, Tree]) -> Tree:
    """A table, also where a key looks like one of ours."""
    if any(key.startswith("$") for key in items):
        return {"$dict": [[key, value] for key, value in items.items()]}
    return items


NOT_DUMPED: Tree = {"$object": "unknown", "text": "not in the dump"}
"""Stands for an argument that the other tool has left out, so that nobody takes it for None."""


def outputs_tree(items: list[Tree]) -> Tree:
    """What a call returned, from the list that those tools make of it."""
    return {"out": items[0]} if len(items) == 1 else {"out": {"$tuple": items}}


def gradients_tree(items: list[Tree], names: Callable[[int, int], str]) -> Tree:
    """Gradients by the path of what they belong to; ``names`` is given place and number."""
    return {names(place, len(items)): item for place, item in enumerate(items) if item is not None}
