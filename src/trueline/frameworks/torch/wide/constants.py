"""Constants of mathematics that torch rounds to float64 before a wide tensor sees them, made whole again.

Backward formulas multiply by ``2 / sqrt(pi)`` and the like as Python floats. Which number in which formula is such a
constant is a fact about torch (derivatives.yaml), kept here by the name of the autograd node. A number that the user
gave is never touched: it is exactly what it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import torch

from trueline.frameworks.torch.wide.table import LN2, LN10, PI, REAL, SQRT_2PI, SQRT_PI

CONSTANTS: dict[str, tuple[Any, ...]] = {
    "ErfBackward0": (2 / SQRT_PI,),
    "ErfcBackward0": (-2 / SQRT_PI,),
    "SpecialErfcxBackward0": (2 / SQRT_PI,),
    "ErfinvBackward0": (SQRT_PI / 2,),
    "Exp2Backward0": (LN2,),
    "Log2Backward0": (LN2,),
    "Log10Backward0": (LN10,),
    "LdexpBackward0": (LN2,),
    "SpecialNdtriBackward0": (SQRT_2PI,),
    "SpecialLogNdtrBackward0": (SQRT_2PI, 1 / SQRT_2PI),
    "SincBackward0": (PI, PI * PI),
    "Deg2RadBackward0": (PI / 180,),
    "Rad2DegBackward0": (180 / PI,),
}
QUOTIENTS = frozenset("VarBackward0 StdBackward0 VarMeanBackward0 StdMeanBackward0 NativeGroupNormBackward0".split())
"""Formulas that multiply by a quotient of small whole numbers, 2 / (n - 1), computed in float64."""
LARGEST_DIVISOR = 10**6
NEAR = 8 * math.ulp(1.0)
"""Torch computes some of its constants in a few steps of float64."""


def restored(node: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of an operator called by an autograd node, its constants made wide."""
    name = node.name()
    special = _SPECIAL.get(name)
    return _with(args, CONSTANTS.get(name)) if special is None else special(node, args)


def _with(args: tuple[Any, ...], known: tuple[Any, ...] | None) -> tuple[Any, ...]:
    return args if known is None else tuple(_restored(one, known) for one in args)


def _quotients(node: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_quotient(one) if isinstance(one, float) else one for one in args)


def _reciprocal(node: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """elu_backward(gradient, alpha, scale, input_scale, ...), called with the reciprocal of alpha in float32."""
    return (*args[:3], 1 / REAL(args[1]), *args[4:]) if len(args) > 3 else args


def _logarithm(node: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The backward of a power of a number multiplies by its logarithm."""
    base = getattr(node, "_saved_self", None)
    return _with(args, (np.log(REAL(base)),) if isinstance(base, (int, float)) and base > 0 else None)


def _quotient(value: float) -> Any:
    """The quotient of whole numbers that float64 rounds to this; the number itself where there is none."""
    if not math.isfinite(value):
        return value
    near = Fraction(value).limit_denominator(LARGEST_DIVISOR)
    return REAL(near.numerator) / REAL(near.denominator) if float(near) == value else value


def _restored(value: Any, known: tuple[Any, ...]) -> Any:
    if isinstance(value, torch.Tensor) and value.ndim == 0 and type(value) is torch.Tensor:
        value = value.item()
    if not isinstance(value, float):
        return value
    return next((one for one in known if abs(value - one) <= NEAR * abs(one)), value)


_SPECIAL: dict[str, Callable[[Any, tuple[Any, ...]], tuple[Any, ...]]] = {
    **dict.fromkeys(QUOTIENTS, _quotients),
    "CeluBackward0": _reciprocal,
    "CeluBackward1": _reciprocal,
    "PowBackward2": _logarithm,
}
"""Nodes whose constants depend on what they were given."""
