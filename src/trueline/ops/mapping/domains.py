"""Which domain the inputs of a Paddle call need: what its row says, with the numbers of the call filled in.

``needs`` of a row may refer to the call in braces: ``index({x.axis})`` is an index into ``x`` along ``axis``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from trueline.cases import Case, TensorSpec
from trueline.ops.mapping.converters import items_of
from trueline.ops.mapping.rows import Row
from trueline.ops.mapping.translate import NoCounterpart, arguments_by_name, torch_arguments
from trueline.tree import Tree, tensor_paths

_BRACES = re.compile(r"\{([^{}]*)\}")
_AXES = {"axis", "dim"}
"""Parameters that are dimensions of the first one wherever they are given as tensors."""
_DISTINCT = re.compile(r"distinct(?:_along)?\((\d+)(?:,\s*(-?\d+))?\)")


def need_of_row(row: Row, path: str, arguments: Tree, tensors: Sequence[TensorSpec]) -> str | None:
    """The domain that the row itself asks for the tensor at ``path``; None where it says nothing of it."""
    if not row.needs and not _AXES & row.names.keys():
        return None
    try:
        given = arguments_by_name(row, arguments)
    except NoCounterpart:
        return None
    leaves = dict(tensor_paths(arguments))
    name = next((name for name, value in given.items() if path in _paths_in(value, leaves)), "")
    wanted = row.needs.get(name, f"distinct({{{next(iter(row.names))}.rank}})" if name in _AXES else None)
    if wanted is None:
        return None
    shapes = {spec.path: spec.shape for spec in tensors}
    call = _Call(row, given, leaves, shapes, path)
    domain = _BRACES.sub(lambda match: str(call.number(match[1])), wanted)
    return _possible(domain, shapes.get(path, ()))


def _possible(domain: str, shape: tuple[int, ...]) -> str:
    """Different indices where there are enough of them, else any."""
    match = _DISTINCT.fullmatch(domain)
    if match is None:
        return domain
    along = int(match[2]) if match[2] else -1
    wanted = shape[along] if -len(shape) <= along < len(shape) else 1
    return domain if wanted <= int(match[1]) else f"index({match[1]})"


def constants_of(row: Row, arguments: Tree) -> set[str]:
    """The paths of the tensors of a call that carry no gradient in one of the two frameworks."""
    if not row.constant:
        return set()
    try:
        given = arguments_by_name(row, arguments)
    except NoCounterpart:
        return set()
    leaves = dict(tensor_paths(arguments))
    return {path for name in row.constant if name in given for path in _paths_in(given[name], leaves)}


def question_for_torch(row: Row, path: str, arguments: Tree, tensors: Sequence[TensorSpec]) -> Case | None:
    """The call as one of the torch function that the row is like, with its tensors at their new paths, to ask what that
    function needs; the tensor that was at ``path`` is the first of ``calls``. None where it cannot be said."""
    if not row.operator:
        return None
    try:
        moved = torch_arguments(row, arguments)
    except NoCounterpart:
        return None
    if row.composite:
        moved = {"args": moved["args"], "kwargs": {row.torch_name(k): v for k, v in moved["kwargs"].items()}}
    old, new = dict(tensor_paths(arguments)), dict(tensor_paths(moved))
    by_path = {spec.path: spec for spec in tensors}
    specs = tuple(_at(by_path[old[leaf]], where) for leaf, where in new.items() if old[leaf] in by_path)
    asked = [where for leaf, where in new.items() if old[leaf] == path]
    return Case(row.operator, moved, specs, calls=tuple(asked)) if asked else None


def _at(spec: TensorSpec, path: str) -> TensorSpec:
    return TensorSpec(path, spec.dtype, spec.shape, spec.strides, spec.requires_grad, spec.statistics, spec.domain,
                      spec.stored)  # fmt: skip


def _paths_in(value: Tree, leaves: Mapping[int, str]) -> set[str]:
    return {leaves[leaf] for leaf, _ in tensor_paths(value)}


@dataclass(frozen=True, slots=True)
class _Call:
    """A call with its arguments by Paddle's names, asked for numbers on behalf of the tensor at ``path``."""

    row: Row
    given: Mapping[str, Tree]
    leaves: Mapping[int, str]
    shapes: Mapping[str, tuple[int, ...]]
    path: str

    def number(self, text: str) -> int:
        """``x.2``, ``x.axis``, ``x.count`` or ``num_classes`` of this call, or what is made of such: a product
        (``x.2*x.3``), a part (``x.0/2``), the smaller one (``x.1<x.0/2``). Where there is no such thing it is what
        follows a bar (``num_classes|5``), else 1."""
        if "<" in text:
            return min(self.number(part) for part in text.split("<"))
        if "*" in text:
            return prod(self.number(part) for part in text.split("*"))
        if "/" in text:
            whole, _, divisor = text.partition("/")
            return max(self.number(whole) // int(divisor), 1)
        text, _, otherwise = text.partition("|")
        name, _, along = text.partition(".")
        if not along:
            return _integer(self._value(name), int(otherwise or 1))
        if along == "fit":
            return self._fit(name)
        return self._of_shape(name, along)

    def _value(self, name: str) -> Tree:
        return self.given.get(name, self.row.defaults.get(name))

    def _of_shape(self, name: str, along: str) -> int:
        value, shape = self.given.get(name), self._shape(name)
        if along == "items":
            return len(items_of(value) or [value])
        if along == "count":
            return prod(shape)
        if along == "rank":
            return max(len(shape), 1)
        if along == "smallest":
            return min(shape, default=1)
        dimension = int(along) if along.lstrip("-").isdigit() else _integer(self._value(along), 0)
        return shape[dimension] if -len(shape) <= dimension < len(shape) else 1

    def _shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, of the first one of a list, or a list of numbers as they are."""
        value = self.given.get(name)
        first = next(iter(tensor_paths(value)), None) if value is not None else None
        if first is None:
            return tuple(item for item in items_of(value) or () if isinstance(item, int))
        return self.shapes.get(self.leaves.get(first[0], ""), ())

    def _fit(self, name: str) -> int:
        """What is left for a size that a tensor says, so that all sizes multiply to the elements of the first
        parameter: the first tensor of a list takes it all, the others 1."""
        items = items_of(self.given.get(name)) or []
        known = [item for item in items if isinstance(item, int)]
        tensors = [self.leaves[leaf] for leaf, _ in tensor_paths(self.given.get(name))]
        if -1 in known or not tensors or tensors[0] != self.path:
            return 1
        shape = self._shape(next(iter(self.row.names)))
        sizes = [shape[at] if size == 0 and at < len(shape) else size for at, size in enumerate(known)]
        return prod(shape) // max(prod(sizes), 1)


def _integer(value: Tree, default: int) -> int:
    return int(value) if isinstance(value, int) else default
