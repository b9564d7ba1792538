"""The reference for float64: torch programs computed in numpy's longdouble (64 bits of significand on x86).

A ``Wide`` is a tensor that says it is float64 (or complex128) and holds a longdouble array. Every aten operator that
reaches one is computed by the table of ``table``; torch's autograd works on top of it as on any tensor, so that
backward formulas are computed wide as well. What the table lacks is decomposed where torch can do that without rounding
constants to float64; what remains raises ``NoWideGold`` with the name of the operator.

    run = run_wide(torch.nn.functional.gelu, (x,), {}, output_gradients=[g])
    high, low = narrow(run.outputs)        # the value is high + low

Numbers that a program carries as Python floats keep the value that float64 gives them; the constants of mathematics
inside torch's own formulas do not (``constants``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from trueline.frameworks.torch.wide import apart, constants, entries, random_names, whole
from trueline.frameworks.torch.wide.table import (
    ENTRIES,
    WIDE_TYPES,
    Array,
    Entry,
    NoWideGold,
    has_numpy_type,
    offset_of,
)

__all__ = ["NoWideGold", "Wide", "WideMode", "WideRun", "narrow", "run_wide", "widen"]

DOUBLES = {np.dtype(np.longdouble): torch.float64, np.dtype(np.clongdouble): torch.complex128}
NOT_OURS = frozenset({"device", "layout", "pin_memory", "memory_format", "non_blocking"})
"""Arguments that change where or how a tensor lies, never its numbers."""


class Wide(torch.Tensor):
    """A tensor of float64 or complex128 to everyone else, with a wider array inside."""

    array: Array

    @staticmethod
    def __new__(cls, array: Array) -> Wide:
        strides = [stride // array.itemsize for stride in array.strides]
        made = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, array.shape, strides=strides, storage_offset=offset_of(array), dtype=DOUBLES[array.dtype]
        )
        made.array = array
        return made

    def __repr__(self, *, tensor_contents: object = None) -> str:
        return f"Wide({self.array!r})"

    def tolist(self) -> Any:
        return narrow(self)[0].tolist()

    def numpy(self, *, force: bool = False) -> Any:
        raise NoWideGold("numpy", "what is computed outside of torch is not computed wide")

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _compute(function, args, kwargs or {})


class WideMode(TorchDispatchMode):
    """Inside it, tensors of float64 that are made from nothing (``torch.zeros``, ``torch.rand``) are wide too."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: torch would import its compiler to skip it, which takes seconds. Nothing is compiled here."""
        return False

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _compute(function, args, kwargs or {})


@dataclass(frozen=True, slots=True)
class WideRun:
    """What a function gave. ``outputs`` and ``arguments`` (as the function left them: it may have changed some in
    place) have the structure of what was returned and given; ``gradients`` one entry for each leaf of the arguments, in
    the order of ``torch.utils._pytree``, None where there is none."""

    outputs: Any
    arguments: tuple[Any, Any]
    gradients: list[torch.Tensor | None]


def widen(tensor: torch.Tensor) -> Wide:
    """The same numbers, ready to be computed with more digits. Refused where longdouble is no wider than float64."""
    _require_a_wider_type()
    if isinstance(tensor, Wide):
        return tensor
    with torch._C._DisableTorchDispatch():  # type: ignore[attr-defined]
        return Wide(_numpy(tensor).astype(WIDE_TYPES[tensor.dtype]))


def narrow(tensor: torch.Tensor) -> tuple[Array, Array]:
    """The number as two of float64 (complex128), ``high`` the nearest one and ``low`` what it lacks, zero where
    ``high`` is not finite."""
    if not isinstance(tensor, Wide):
        high = _numpy(tensor)
        return high, np.zeros_like(high)
    plain = np.complex128 if tensor.array.dtype == np.clongdouble else np.float64
    with np.errstate(all="ignore"):
        high = tensor.array.astype(plain)
        rest = tensor.array - high
        return high, np.where(np.isfinite(rest), rest, 0).astype(plain)


def run_wide(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    output_gradients: Sequence[torch.Tensor | None] | None = None,
) -> WideRun:
    """Calls a function with every float64 and complex128 tensor of its arguments widened.

    ``output_gradients`` are those that arrive at the leaves of what it returns, in the order of
    ``torch.utils._pytree``, None where none does; without any of them no backward is run. Gradients are asked for
    where an argument has ``requires_grad``. Arguments may be ``Wide`` already.
    """
    leaves, structure = tree_flatten((tuple(args), dict(kwargs or {})))
    known: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    wide = [_argument(leaf, known) for leaf in leaves]
    with WideMode(), whole.WholeFunctions():
        given, named = tree_unflatten([used for _, used in wide], structure)
        outputs = tree_map(_wide_leaf, function(*given, **named))
        gradients: list[torch.Tensor | None] = [None] * len(leaves)
        if output_gradients is not None:
            gradients = _gradients([leaf for leaf, _ in wide], outputs, output_gradients)
    return WideRun(outputs, (given, named), gradients)


def _wide_leaf(leaf: Any) -> Any:
    """What a function made as float64 without us is wide from here on; an empty tensor that it returns, for one."""
    return widen(leaf) if isinstance(leaf, torch.Tensor) and leaf.dtype in WIDE_TYPES else leaf


def _argument(leaf: Any, known: dict[int, tuple[torch.Tensor, torch.Tensor]]) -> tuple[Any, Any]:
    """The leaf of autograd and what the function is given: a copy, since it may be changed in place."""
    if not isinstance(leaf, torch.Tensor) or leaf.dtype not in WIDE_TYPES:
        return leaf, leaf.clone() if isinstance(leaf, torch.Tensor) else leaf
    if id(leaf) not in known:
        made = Wide(widen(leaf).array.copy())
        made.requires_grad_(leaf.requires_grad)
        known[id(leaf)] = (made, made.clone() if leaf.requires_grad else made)
    return known[id(leaf)]


def _gradients(
    inputs: Sequence[Any], outputs: Any, arriving: Sequence[torch.Tensor | None]
) -> list[torch.Tensor | None]:
    """The gradients of those inputs that ask for one."""
    results = tree_flatten(outputs)[0]
    if len(results) != len(arriving):
        raise ValueError(f"{len(arriving)} gradients for {len(results)} outputs")
    pairs = [
        (result, widen(gradient) if gradient.dtype in WIDE_TYPES else gradient)
        for result, gradient in zip(results, arriving, strict=True)
        if gradient is not None and isinstance(result, torch.Tensor) and result.requires_grad
    ]
    wanted = [place for place, leaf in enumerate(inputs) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    found: list[torch.Tensor | None] = [None] * len(inputs)
    if pairs and wanted:
        ends, starts = [result for result, _ in pairs], [inputs[place] for place in wanted]
        answers = torch.autograd.grad(ends, starts, [gradient for _, gradient in pairs], allow_unused=True)
        for place, answer in zip(wanted, answers, strict=True):
            found[place] = answer
    return found


@cache
def _require_a_wider_type() -> None:
    if np.finfo(np.longdouble).nmant <= np.finfo(np.float64).nmant:
        raise NoWideGold("any operator", "on this machine numpy's longdouble is no wider than float64")


@dataclass(frozen=True, slots=True)
class _Plan:
    """What there is to know of an operator before it runs."""

    name: str
    computed: Entry | None
    random: bool
    factory: bool
    reshapes: bool
    """``squeeze_`` and the like: the tensor itself becomes a view."""
    view: bool
    written: tuple[tuple[int, str, bool], ...]
    """The arguments that are written to: place, name, whether they are given by name only."""
    returns: int
    aliased: bool
    """Whether what it returns is what was written to."""


@cache
def _plan(function: Any) -> _Plan:
    schema = function._schema
    name, overload = schema.name.removeprefix("aten::"), function._overloadname
    base = name[:-1] if name not in ENTRIES and name.endswith("_") and schema.is_mutable else name
    written = tuple(
        (place, one.name, one.kwarg_only)
        for place, one in enumerate(schema.arguments)
        if one.alias_info is not None and one.alias_info.is_write
    )
    view = any(one.alias_info is not None for one in schema.returns)
    return _Plan(
        name=name,
        computed=ENTRIES.get(f"{base}.{overload}") or ENTRIES.get(base),
        random=name in random_names.RANDOM or f"{name}.{overload}" in random_names.RANDOM,
        factory=name in entries.FACTORIES,
        reshapes=torch.Tag.inplace_view in function.tags,
        view=view,
        written=written,
        returns=len(schema.returns),
        aliased=bool(written) and (view or not schema.returns),
    )


def _compute(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One aten operator: by the table, by torch itself where nothing is float64, or by torch's decomposition."""
    plan = _plan(function)
    if plan.random:
        return _draw(function, args, kwargs)
    if not _has_doubles(args, kwargs) and not (plan.computed and _makes_doubles(plan, args, kwargs)):
        return _made_by_torch(plan, _whole_numbers(plan, function, args, kwargs))
    if plan.computed is None:
        return _decompose(function, args, kwargs)
    if plan.view and not plan.written and not isinstance(args[0], Wide):
        # A wide view of it would be a copy, and what is written there would be lost.
        raise NoWideGold(f"aten.{plan.name}", "it looks at memory that is not wide")
    node = torch._C._current_autograd_node()
    if node is not None:
        args = constants.restored(node, args)
    given = [_array(one) for one in args]
    named = {key: _array(one) for key, one in kwargs.items() if key not in NOT_OURS}
    for _, key, by_name in plan.written:
        if by_name:
            named.pop(key, None)
    with np.errstate(all="ignore"):
        result = None if named else apart.vouched(plan.name, function, plan.computed, given)
        if result is None:
            result = plan.computed(*given, **named)
        if plan.reshapes:
            return _reshape_in_place(function, result, args, kwargs)
        return _finish(plan, result, given, args, kwargs)


def _whole_numbers(plan: _Plan, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An operator that is given no float64: by the table as well, where all are whole numbers or bools."""
    given = [one for one in tree_flatten((args, kwargs))[0] if isinstance(one, torch.Tensor)]
    if plan.computed is None or plan.written or plan.view or not given or not all(map(_is_exact, given)):
        return function(*args, **kwargs)
    named = {key: _array(one) for key, one in kwargs.items() if key not in NOT_OURS}
    with np.errstate(all="ignore"):
        return apart.exactly(plan.computed, function(*args, **kwargs), [_array(one) for one in args], named)


def _is_exact(tensor: torch.Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex())


def _has_doubles(args: Any, kwargs: dict[str, Any]) -> bool:
    return any(
        (isinstance(one, torch.Tensor) and one.dtype in WIDE_TYPES)
        or (isinstance(one, (list, tuple)) and _has_doubles(one, {}))
        for one in (*args, *kwargs.values())
    )


def _makes_doubles(plan: _Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether an operator without float64 arguments gives float64, as far as can be told before it ran."""
    dtype = kwargs.get("dtype")
    if dtype is None and plan.factory and not (plan.name in entries.LIKE_ITS_NUMBERS and _whole(args, kwargs)):
        dtype = torch.get_default_dtype()
    return dtype in WIDE_TYPES


def _whole(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether no number that was given is one with a fraction."""
    return not any(isinstance(one, (float, complex)) for one in (*args, *kwargs.values()))


def _array(value: Any) -> Any:
    if isinstance(value, Wide):
        return value.array
    if isinstance(value, torch.Tensor):
        array = _numpy(value)
        return array.astype(WIDE_TYPES[value.dtype]) if value.dtype in WIDE_TYPES else array
    if isinstance(value, (list, tuple)):
        return [_array(one) for one in value]
    return value


def _numpy(tensor: torch.Tensor) -> Array:
    """An ordinary tensor as numpy sees it; types that numpy lacks as float64 or complex128."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor._is_zerotensor():
        tensor = torch.zeros(tensor.shape, dtype=tensor.dtype)
    if not has_numpy_type(tensor.dtype):
        tensor = tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)
    array: Array = tensor.numpy()
    return array


def _plain(value: Any) -> Any:
    return torch.from_numpy(narrow(value)[0]) if isinstance(value, Wide) else value


def _draw(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Random numbers: drawn by torch in float64, into the place where they are wanted."""
    drawn = function(*tree_map(_plain, args), **tree_map(_plain, kwargs))
    if not function._schema.is_mutable:
        return _widened(drawn)
    target = args[0]
    if isinstance(target, Wide):
        target.array[...] = drawn.numpy()
    return target


def _made_by_torch(plan: _Plan, made: Any) -> Any:
    """What torch made of arguments that are not float64. What it computed in float64 may not be taken for wide."""
    if plan.name == "empty":
        # C++ fills such tensors by their memory, which a wide one does not have (``whole._empty``).
        return made
    if plan.name not in entries.EXACT_MAKERS and any(
        isinstance(one, torch.Tensor) and one.dtype in WIDE_TYPES for one in tree_flatten(made)[0]
    ):
        raise NoWideGold(f"aten.{plan.name}", "it makes float64 numbers by itself, and is not in the table")
    return _widened(made)


def _widened(result: Any) -> Any:
    """What torch itself made, with float64 tensors widened."""
    if isinstance(result, (list, tuple)):
        return type(result)(_widened(one) for one in result)
    if not isinstance(result, torch.Tensor) or result.dtype not in WIDE_TYPES or isinstance(result, Wide):
        return result
    return widen(result)


def _finish(plan: _Plan, result: Any, given: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The arrays of an entry as tensors, written where an in-place or ``out=`` form wants them. Where only running
    statistics are written to, the entry itself has done it."""
    if not plan.aliased:
        if isinstance(result, (list, tuple)):
            return type(result)(_tensor(one, given, plan.view) for one in result)
        return _tensor(result, given, plan.view)
    targets = [args[place] if place < len(args) else kwargs.get(name) for place, name, _ in plan.written]
    results = result if isinstance(result, (list, tuple)) else [result]
    for target, one in zip(targets, results, strict=False):
        _write(plan.name, target, one)
    return targets[0] if plan.returns == 1 else tuple(targets[: plan.returns]) if plan.returns else None


def _reshape_in_place(function: Any, result: Array, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``squeeze_`` and the like: the tensor itself becomes the view."""
    args[0].array = result
    with torch._C._DisableTorchDispatch():  # type: ignore[attr-defined]
        function(*args, **kwargs)
    return args[0]


def _write(name: str, target: Any, value: Any) -> None:
    array = np.asarray(value)
    if tuple(target.shape) != array.shape:
        raise NoWideGold(name, "it resizes its output")
    if isinstance(target, Wide):
        target.array[...] = array if not np.iscomplexobj(array) or np.iscomplexobj(target.array) else array.real
    elif target.dtype in WIDE_TYPES:
        raise NoWideGold(name, "it writes into a tensor that is not wide")
    else:
        target.copy_(torch.from_numpy(np.ascontiguousarray(array).reshape(array.shape)))


def _tensor(value: Any, given: list[Any], view: bool) -> Any:
    """An array as a tensor: its own memory, unless the operator makes a view."""
    if value is None or isinstance(value, (bool, int, float, complex, torch.Tensor)):
        return value
    if isinstance(value, (list, tuple)):
        return type(value)(_tensor(one, given, view) for one in value)
    array = np.asarray(value)
    if any(stride < 0 or stride % array.itemsize for stride in array.strides):
        array = array.copy()
    if not view and (array.base is not None or any(array is one for one in given)):
        array = array.copy()
    if array.dtype in DOUBLES:
        return Wide(array)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _decompose(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Torch's own way of writing an operator with others, in C++; that in Python rounds constants of its own."""
    with WideMode():
        result = function.decompose(*args, **kwargs)
    if result is NotImplemented:
        raise NoWideGold(str(function))
    return result
