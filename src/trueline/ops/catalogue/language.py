"""The small language in which the catalogue is written.

    op("torch.nn.functional.layer_norm", T(8, 16, 64), [64], T(64), T(64), eps=1e-6)

``T`` is a floating-point tensor in the dtype that is asked for, ``I`` an integer tensor, ``B`` a bool tensor, ``Z`` a
complex one; ``of=`` names a domain of ``ops.domains``, ``layout=`` how it lies in memory. Everything else is written as
it would be in a call. Rows become Cases in ``cases_of``; nothing here knows a framework.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from trueline.cases import Case, TensorSpec
from trueline.errors import UsageError
from trueline.tree import Tree

FLOAT, COMPLEX = "float", "complex"
"""Stand for the dtype that is asked for, and for the complex type of the same precision."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a row. ``layout``: ``""`` contiguous, ``turned`` the last two axes exchanged in memory, ``strided``
    every second element of the last axis, ``expanded`` the first axis repeated without copies, ``channels_last``."""

    shape: tuple[int, ...]
    dtype: str = FLOAT
    of: str = "normal"
    layout: str = ""
    grad: bool = True


@dataclass(frozen=True, slots=True)
class Word:
    """A value that JSON cannot say, as the argument tree writes it."""

    tree: Tree


@dataclass(frozen=True, slots=True)
class Row:
    """One call of the catalogue. ``forward_only`` asks for no backward where gradients would be possible;
    ``gradients`` are those that arrive, by the path of the output, where not every output is to have one."""

    api: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    forward_only: bool = False
    gradients: dict[str, Tensor] = field(default_factory=dict)


def T(*shape: int, of: str = "normal", layout: str = "", grad: bool = True) -> Tensor:
    return Tensor(shape, FLOAT, of, layout, grad)


def I(*shape: int, of: str = "index(8)", dtype: str = "int64", layout: str = "") -> Tensor:  # noqa: E743
    return Tensor(shape, dtype, of, layout, False)


def B(*shape: int, of: str = "boolean(0.5)", layout: str = "") -> Tensor:
    return Tensor(shape, "bool", of, layout, False)


def Z(*shape: int, of: str = "normal", layout: str = "", grad: bool = True) -> Tensor:
    return Tensor(shape, COMPLEX, of, layout, grad)


def dtype(name: str) -> Word:
    return Word({"$dtype": name})


def cut(start: int | None = None, stop: int | None = None, step: int | None = None) -> Word:
    return Word({"$slice": [start, stop, step]})


ELLIPSIS = Word({"$ellipsis": True})


def op(api: str, *args: Any, **kwargs: Any) -> Row:
    return Row(api, args, kwargs)


def forward(api: str, *args: Any, **kwargs: Any) -> Row:
    """A row without backward: an integer result, or an operator that autograd does not know."""
    return Row(api, args, kwargs, forward_only=True)


def arriving(row: Row, **gradients: Tensor) -> Row:
    """The row with gradients at these outputs only (``out_1`` is the path ``out.1``), where the gradients of the others
    would depend on a free choice."""
    return replace(row, gradients={name.replace("_", "."): tensor for name, tensor in gradients.items()})


def each(apis: str, *args: Any, **kwargs: Any) -> list[Row]:
    """The same call of several APIs, named in one text."""
    return [Row(api, args, kwargs) for api in apis.split()]


def unary(apis: str, of: str = "normal", extremes: Iterable[str] = ("wide", "normal nan inf", "tiny")) -> list[Row]:
    """Element by element, one tensor: usual and odd sizes, layouts, none and one element, and the ends of the range."""
    rows: list[Row] = []
    for api in apis.split():
        rows += [
            op(api, T(32, 65, of=of)),
            op(api, T(3, 7, 13, of=of, layout="strided")),
            op(api, T(17, 31, of=of, layout="turned")),
            op(api, T(of=of)),
            op(api, T(0, 5, of=of)),
        ]
        rows += [op(api, T(16, 33, of=extreme)) for extreme in extremes]
    return rows


def without_backward(rows: Iterable[Row]) -> list[Row]:
    """Rows of operators that autograd does not know."""
    return [replace(row, forward_only=True) for row in rows]


def first_constant(rows: Iterable[Row]) -> list[Row]:
    """Rows of operators that have no gradient for their first argument."""
    return [replace(row, args=(replace(row.args[0], grad=False), *row.args[1:])) for row in rows]


def binary(
    apis: str, of: str = "normal", other: str = "normal", extremes: Iterable[str] = ("wide", "normal nan inf")
) -> list[Row]:
    """Element by element, two tensors: equal shapes, broadcasting either way, layouts, none and one element."""
    rows: list[Row] = []
    for api in apis.split():
        rows += [
            op(api, T(32, 65, of=of), T(32, 65, of=other)),
            op(api, T(4, 1, 33, of=of), T(7, 1, of=other)),
            op(api, T(9, of=of), T(5, 9, of=other)),
            op(api, T(6, 11, of=of), T(of=other)),
            op(api, T(12, 10, of=of, layout="turned"), T(12, 10, of=other)),
            op(api, T(5, 12, of=of, layout="expanded"), T(5, 12, of=other, layout="strided")),
            op(api, T(0, 4, of=of), T(4, of=other)),
        ]
        rows += [op(api, T(16, 33, of=extreme), T(16, 33, of=extreme)) for extreme in extremes]
    return rows


def reduction(
    apis: str, of: str = "normal", *, extremes: Iterable[str] = ("wide",), whole: bool = True, **kwargs: Any
) -> list[Row]:
    """Over all (``whole``), over one axis, kept or not, over a long one, over one that is not the last in memory."""
    rows: list[Row] = []
    for api in apis.split():
        rows += [op(api, T(24, 37, of=of), **kwargs)] if whole else []
        rows += [
            op(api, T(6, 11, 13, of=of), dim=1, **kwargs),
            op(api, T(6, 11, 13, of=of), dim=-1, keepdim=True, **kwargs),
            op(api, T(4, 8192, of=of), dim=1, **kwargs),
            op(api, T(2048, 5, of=of), dim=0, **kwargs),
            op(api, T(16, 48, of=of, layout="turned"), dim=1, **kwargs),
            op(api, T(1, of=of), dim=0, **kwargs),
        ]
        rows += [op(api, T(16, 33, of=extreme), dim=-1, **kwargs) for extreme in extremes]
    return rows


def cases_of(rows: Iterable[Row], dtype_name: str) -> list[Case]:
    """Rows as Cases in a dtype, each with a seed of its own that stays the same when other rows come or go."""
    return [_case(row, dtype_name) for row in rows]


def _case(row: Row, dtype_name: str) -> Case:
    tensors: list[TensorSpec] = []
    args = [_tree(value, f"args.{place}", tensors, dtype_name) for place, value in enumerate(row.args)]
    kwargs = {name: _tree(value, f"kwargs.{name}", tensors, dtype_name) for name, value in row.kwargs.items()}
    backward = not row.forward_only and any(spec.requires_grad for spec in tensors)
    if not backward:
        tensors = [TensorSpec(one.path, one.dtype, one.shape, one.strides, False, None, one.domain) for one in tensors]
    seed = zlib.crc32(repr((row.api, row.args, sorted(row.kwargs.items(), key=str))).encode())
    gradients = tuple(_spec(tensor, path, dtype_name) for path, tensor in row.gradients.items())
    return Case(row.api, {"args": args, "kwargs": kwargs}, tuple(tensors), gradients, backward, seed=seed)


def _tree(value: Any, path: str, tensors: list[TensorSpec], dtype_name: str) -> Tree:
    if isinstance(value, Tensor):
        tensors.append(_spec(value, path, dtype_name))
        return {"$t": len(tensors) - 1}
    if isinstance(value, Word):
        return value.tree
    if isinstance(value, list):
        return [_tree(item, f"{path}.{place}", tensors, dtype_name) for place, item in enumerate(value)]
    if isinstance(value, tuple):
        return {"$tuple": [_tree(item, f"{path}.{place}", tensors, dtype_name) for place, item in enumerate(value)]}
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    if isinstance(value, complex):
        return {"$complex": [value.real, value.imag]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise UsageError(f"{path}: {value!r} cannot be written in a row of the catalogue")


def _spec(tensor: Tensor, path: str, dtype_name: str) -> TensorSpec:
    kinds = {FLOAT: dtype_name, COMPLEX: "complex128" if dtype_name == "float64" else "complex64"}
    strides = strides_of(tensor.shape, tensor.layout)
    name = kinds.get(tensor.dtype, tensor.dtype)
    return TensorSpec(path, name, tensor.shape, strides, tensor.grad, None, tensor.of)


def strides_of(shape: tuple[int, ...], layout: str) -> tuple[int, ...] | None:
    """The strides of a layout; None for a contiguous tensor."""
    if not layout:
        return None
    axes = list(range(len(shape)))
    if layout == "turned":
        axes[-1], axes[-2] = axes[-2], axes[-1]
    elif layout == "channels_last":
        axes = [0, *axes[2:], 1]
    elif layout not in ("strided", "expanded"):
        raise UsageError(f"unknown layout {layout!r}; known: turned, strided, expanded, channels_last")
    step = 2 if layout == "strided" else 1
    strides = [0] * len(shape)
    for axis in reversed(axes):
        strides[axis] = step
        step *= max(shape[axis], 1)
    if layout == "expanded":
        strides[0] = 0
    return tuple(strides)
