"""Which domain the inputs of a Paddle call need: what its row says, with the numbers of the call filled in.

``needs`` of a row may refer to the call in braces: ``index({x.axis})`` is an index into ``x`` along ``axis``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod

from trueline.cases import Case, TensorSpec
from trueline.ops.mapping.converters import items_of
from trueline.ops.mapping.rows import Row
from trueline.ops.mapping.translate import NoCounterpart, arguments_by_name, torch_arguments
from trueline.tree import Tree, tensor_paths

_BRACES = re.compile(r"\{([^{}]*)\}")
_DISTINCT = re.compile(r"distinct(?:_along)?\((\d+)(?:,\s*(-?\d+))?\)")


def need_of_row(row: Row, path: str, arguments: Tree, tensors: Sequence[TensorSpec]) -> str | None:
    """The domain that the row itself asks for the tensor at ``path``; None where it says nothing of it."""
    if not row.needs:
        return None
    try:
        given = arguments_by_name(row, arguments)
    except NoCounterpart:
        return None
    leaves = dict(tensor_paths(arguments))
    name = next((name for name, value in given.items() if path in _paths_in(value, leaves)), "")
    if name not in row.needs:
        return None
    shapes = {spec.path: spec.shape for spec in tensors}
    domain = _BRACES.sub(lambda match: str(_number(match[1], row, given, leaves, shapes)), row.needs[name])
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


def _number(
    text: str, row: Row, given: Mapping[str, Tree], leaves: Mapping[int, str], shapes: Mapping[str, tuple[int, ...]]
) -> int:
    """``x.2``, ``x.axis``, ``x.count`` or ``num_classes`` of this call, or a product of such (``x.2*x.3``). Where there
    is no such thing it is what follows a bar (``num_classes|5``), else 1."""
    if "*" in text:
        return prod(_number(part, row, given, leaves, shapes) for part in text.split("*"))
    text, _, otherwise = text.partition("|")
    name, _, along = text.partition(".")
    if not along:
        return _integer(given.get(name, row.defaults.get(name)), int(otherwise or 1))
    value = given.get(name)
    first = next(iter(tensor_paths(value)), None) if value is not None else None
    shape = shapes.get(leaves.get(first[0], ""), ()) if first is not None else ()
    if first is None:  # a list of numbers
        shape = tuple(item for item in items_of(value) or () if isinstance(item, int))
    if along == "items":
        return len(items_of(value) or [value])
    if along == "count":
        return prod(shape)
    if along == "smallest":
        return min(shape, default=1)
    dimension = int(along) if along.lstrip("-").isdigit() else _integer(given.get(along, row.defaults.get(along)), 0)
    return shape[dimension] if -len(shape) <= dimension < len(shape) else 1


def _integer(value: Tree, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default
