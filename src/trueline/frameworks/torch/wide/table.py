"""The table of operators that can be computed wider than float64, and what its entries share.

An entry computes one aten operator on numpy arrays: ``longdouble`` where torch has float64, ``clongdouble`` where it
has complex128, the same type everywhere else. It takes the arguments of the operator's schema and returns arrays. It
knows nothing of autograd, of in-place and ``out=`` forms, nor of views: an entry for a view returns a numpy view, one
for anything else whatever is convenient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from trueline.errors import TruelineError

Array: TypeAlias = npt.NDArray[Any]
Number: TypeAlias = Any
"""An array or a Python number."""
Dims: TypeAlias = "int | Sequence[int] | None"
Entry: TypeAlias = Callable[..., Any]
_Entry = TypeVar("_Entry", bound=Entry)

REAL: Any = np.longdouble
COMPLEX: Any = np.clongdouble
WIDE_TYPES: dict[torch.dtype, Any] = {torch.float64: REAL, torch.complex128: COMPLEX}

ENTRIES: dict[str, Entry] = {}
"""By the name of the operator without ``aten::``, or name.overload where the overloads differ."""


class NoWideGold(TruelineError):
    """An operator, named by ``operator``, that has no reference wider than float64."""

    def __init__(self, operator: str, reason: str = "it is not in the table of wide operators") -> None:
        super().__init__(f"no reference wider than float64 for {operator}: {reason}")
        self.operator = operator
        self.reason = reason


def entry(*names: str) -> Callable[[_Entry], _Entry]:
    """Enters a function into the table, under these names."""

    def enter(function: _Entry) -> _Entry:
        for name in names:
            assert name not in ENTRIES, f"{name} is in the table already"
            ENTRIES[name] = function
        return function

    return enter


def enter_all(functions: dict[str, Entry]) -> None:
    """Enters each function under its name."""
    for name, function in functions.items():
        entry(name)(function)


def has_numpy_type(dtype: torch.dtype) -> bool:
    return dtype not in (torch.bfloat16, torch.complex32) and not (dtype.itemsize == 1 and dtype.is_floating_point)


def wide_type(dtype: torch.dtype) -> Any:
    """The numpy type in which tensors of a torch type are held."""
    if dtype in WIDE_TYPES:
        return WIDE_TYPES[dtype]
    if not has_numpy_type(dtype):
        raise NoWideGold(str(dtype), "numpy has no such type")
    return torch.empty(0, dtype=dtype).numpy().dtype.type


def cast(array: Array, dtype: torch.dtype | None) -> Array:
    """The array in the type that is asked for, itself where none is."""
    if dtype is None:
        return array
    wanted = wide_type(dtype)
    if np.iscomplexobj(array) and not np.issubdtype(wanted, np.complexfloating):
        array = array.real if wanted is not np.bool_ else array != 0
    return array.astype(wanted, copy=False)


def promoted(array: Number, dtype: torch.dtype | None = None) -> Array:
    """As ``cast``, but integers become wide where no type is asked for."""
    array = np.asarray(array)
    if dtype is not None:
        return cast(array, dtype)
    return array if np.issubdtype(array.dtype, np.inexact) else array.astype(REAL)


def axes_of(dim: Dims, ndim: int) -> tuple[int, ...]:
    """The axes that a reduction goes over; none given (or an empty list) means all."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return tuple(range(ndim))
    if ndim == 0:
        return ()
    return tuple(one % ndim for one in ([dim] if isinstance(dim, int) else dim))


def along(array: Array, dim: int) -> tuple[Array, int]:
    """The array with at least one dimension, and the axis; torch lets dimension 0 of a scalar be named."""
    return (array.reshape(1), 0) if array.ndim == 0 else (array, dim % array.ndim)


def shaped(index: Array, axis: int, ndim: int) -> Array:
    """A vector, standing along one axis of an ndim-dimensional array."""
    return index.reshape([-1 if one == axis else 1 for one in range(ndim)])


def count_of(shape: Sequence[int], axes: Iterable[int]) -> int:
    """How many elements one result of a reduction is made of."""
    count = 1
    for axis in axes:
        count *= shape[axis]
    return count


def folded(values: Array, shape: Sequence[int]) -> Array:
    """Sums out what broadcasting from ``shape`` had added."""
    extra = values.ndim - len(shape)
    values = values.sum(axis=tuple(range(extra))) if extra else values
    kept = tuple(axis for axis, size in enumerate(shape) if size == 1 and values.shape[axis] != 1)
    return values.sum(axis=kept, keepdims=True) if kept else values


def add_at(target: Array, places: Any, values: Number) -> None:
    """Adds in place, also where a place is named more than once."""
    np.add.at(target, places, values)


def owner_of(array: Array) -> Array:
    """The array whose memory this one looks at."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def offset_of(array: Array) -> int:
    """Where an array begins in the memory of its owner, in elements."""
    if array.base is None or array.size == 0:
        return 0
    start: int = owner_of(array).__array_interface__["data"][0]
    return (array.__array_interface__["data"][0] - start) // array.itemsize


def look(array: Array, shape: Sequence[int], strides: Sequence[int], start: int | None = None) -> Array:
    """Any pattern in the memory behind an array, in elements, from where it begins if nothing else is said. It may be
    written to; numpy checks that it stays inside."""
    owner = owner_of(array)
    outermost_first = sorted(range(owner.ndim), key=lambda axis: -owner.strides[axis])
    memory = owner.transpose(outermost_first).reshape(-1).view(array.dtype)
    begin = offset_of(array) if start is None else start
    apart = tuple(one * array.itemsize for one in strides)
    if 0 in shape:
        return np.empty(tuple(shape), array.dtype)
    return np.ndarray(tuple(shape), array.dtype, memory, begin * array.itemsize, apart)


def strides_of(array: Array) -> list[int]:
    """In elements, as torch counts."""
    return [one // array.itemsize for one in array.strides]


def constant(digits: str) -> Any:
    """A constant of mathematics as a longdouble, from its decimal digits."""
    return REAL(digits)


PI = constant("3.14159265358979323846264338327950288419716939937510")
LN2 = constant("0.69314718055994530941723212145817656807550013436026")
LN10 = constant("2.30258509299404568401799145468436420760110148862877")
SQRT2 = constant("1.41421356237309504880168872420969807856967187537695")
SQRT_PI = constant("1.77245385090551602729816748334114518279754945612239")
SQRT_2PI = constant("2.50662827463100050241576528481104525300698674060994")
