"""What must be known of Paddle's operators to run one in float64 in place of another dtype, or with arguments that it
may write to.

Each row carries its reason. Operators go by their canonical name (``ops.names``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import paddle

from trueline.dtypes import DTYPES, dtype_named
from trueline.frameworks.paddle.rebuild import paddle_dtype
from trueline.ops.names import canonical

Rule = Callable[[Sequence[Any], dict[str, Any], str], dict[str, Any]]

_WRITING_OPERATORS = ("__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__", "__ifloordiv__", "__imod__",
                      "__ipow__", "__iand__", "__ior__", "__ixor__", "__imatmul__", "__ilshift__",
                      "__irshift__")  # fmt: skip
_WRITING_FUNCTIONS = {
    "increment": "adds to its argument",
    "assign": "writes to ``output``",
    "adam": "steps its parameter",
}


def may_change(api: str, kwargs: Mapping[str, Any]) -> bool:
    """Whether a call may write to its arguments, as far as its name and keywords tell."""
    last = api.rpartition(".")[2]
    if last in _WRITING_OPERATORS or canonical(api) in _WRITING_FUNCTIONS:
        return True
    if last.endswith("_") and not last.endswith("__"):
        return True
    return kwargs.get("out") is not None or bool(kwargs.get("inplace"))


def with_explicit_defaults(api: str, args: Sequence[Any], kwargs: dict[str, Any], dtype: str) -> dict[str, Any]:
    """The keywords of a call with those spelled out whose defaults depend on the dtype, as they are in ``dtype``."""
    rule = _DEFAULTS.get(canonical(api))
    if rule is None or dtype not in DTYPES or not dtype_named(dtype).is_float:
        return kwargs
    return rule(args, kwargs, dtype)


def _nan_to_num(args: Sequence[Any], kwargs: dict[str, Any], dtype: str) -> dict[str, Any]:
    """Infinities become the largest numbers of the dtype."""
    limits = paddle.finfo(paddle_dtype(dtype))
    for position, name, value in ((2, "posinf", limits.max), (3, "neginf", limits.min)):
        if len(args) <= position and kwargs.get(name) is None:
            kwargs = {**kwargs, name: float(value)}
    return kwargs


def _lstsq(args: Sequence[Any], kwargs: dict[str, Any], dtype: str) -> dict[str, Any]:
    """Singular values below max(rows, columns) * epsilon times the largest count as zero."""
    matrix = args[0] if args else kwargs.get("x")
    if len(args) > 2 or kwargs.get("rcond") is not None or not isinstance(matrix, paddle.Tensor) or matrix.ndim < 2:
        return kwargs
    return {**kwargs, "rcond": max(matrix.shape[-2:]) * dtype_named(dtype).epsilon}


_DEFAULTS: Mapping[str, Rule] = {"nan_to_num": _nan_to_num, "lstsq": _lstsq}
