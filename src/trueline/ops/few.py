"""The values of tensors of a few elements, where chance cannot be relied on.

Among four bools there may be no true one, and two tensors of three numbers seldom have an equal pair. So what a
comparison or a logical operator is given is laid out: every combination of answers occurs as early as it can, beginning
somewhere else for every seed. A single element lies where the operator differs from its neighbours: beyond the limit of
``relu6``, below zero for ``abs``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.dtypes import DType

Array = NDArray[Any]
Maker = Callable[[np.random.Generator, tuple[int, ...]], Array]

FEW = 16
"""Tensors of more elements are drawn by chance."""

_COMPARED = frozenset("eq ne gt ge lt le equal isclose isin".split())
_LOGICAL = frozenset("logical_and logical_or logical_xor logical_not any all".split())
_ASKING = {
    "isnan": (math.nan, 1.5, math.inf, -math.inf),
    "isinf": (math.inf, -math.inf, 1.5, math.nan),
    "isposinf": (math.inf, -math.inf, 1.5, math.nan),
    "isneginf": (-math.inf, math.inf, 1.5, math.nan),
    "isfinite": (math.nan, 1.5, math.inf, -math.inf),
    "nan_to_num": (math.nan, 1.5, -0.75),
}
_ALONE = {
    **dict.fromkeys("abs leaky_relu elu celu selu silu floor sgn".split(), -1.25),
    **dict.fromkeys("tanh erf atan asinh sin cos exp expm1 gelu".split(), 1.75),
    **dict.fromkeys("relu6 softshrink hardshrink".split(), 7.5),
    **dict.fromkeys("sigmoid hardswish hardsigmoid tanhshrink".split(), 2.25),
    "round": 2.5,
    "ceil": 1.25,
    "trunc": -1.25,
}


def few_elements(name: str, kind: DType, position: int, seed: int) -> Maker | None:
    """Who makes the values of a small tensor of an operator; None where chance will do."""
    if kind.kind == "b":
        return lambda generator, shape: _bits(shape, position, seed)
    if name in _COMPARED:
        return lambda generator, shape: _typed(_meeting(shape, position, seed), kind)
    if name in _LOGICAL:
        return lambda generator, shape: _typed(
            np.where(_bits(shape, position, seed), _sizes(generator, shape), 0.0), kind
        )
    if kind.is_exact or kind.is_complex:
        return None
    if name in _ASKING:
        return lambda generator, shape: _cycled(_ASKING[name], shape)
    if name in _ALONE:
        return lambda generator, shape: _alone(_ALONE[name], generator, shape)
    return None


def _numbers(shape: tuple[int, ...]) -> NDArray[np.int64]:
    return np.arange(math.prod(shape)).reshape(shape)


def _bits(shape: tuple[int, ...], position: int, seed: int) -> Array:
    """The digit of a count that the tensor stands for: true and false in turn for the first, by pairs for the next."""
    return np.asarray((((_numbers(shape) + seed % 7) >> position) & 1) == 0)


def _meeting(shape: tuple[int, ...], position: int, seed: int) -> Array:
    """Numbers of which those of two tensors at the same place are equal, then less, then equal, then greater."""
    places = _numbers(shape) + seed % 5
    ordered = np.array([0.0, 1.0, 2.0])
    return ordered[places % 3 if position % 2 == 0 else (places + places % 2) % 3]


def _sizes(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Both signs, far enough from zero."""
    return np.where(generator.random(shape) < 0.5, -1.0, 1.0) * (1.0 + 4.0 * generator.random(shape))


def _cycled(values: tuple[float, ...], shape: tuple[int, ...]) -> Array:
    return np.array(values)[_numbers(shape) % len(values)]


def _alone(value: float, generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """The value, or one a little farther out, for the first element; others on both sides of zero. A half stays one."""
    reach = max(3.0, 1.6 * abs(value))
    values = reach * (2.0 * generator.random(shape) - 1.0)
    farther = 1.0 if value == 2.5 else 1.0 + float(generator.random()) / 8.0
    values.reshape(-1)[:1] = value * farther
    return values


def _typed(values: Array, kind: DType) -> Array:
    return values.astype(kind.storage) if kind.is_exact else values.astype(np.complex128) if kind.is_complex else values
