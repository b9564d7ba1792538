"""Wide operators that work element by element: arithmetic, rounding, comparison, transcendental functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from trueline.frameworks.torch.wide import special as special
from trueline.frameworks.torch.wide.table import (
    LN10,
    PI,
    REAL,
    Array,
    Entry,
    NoWideGold,
    Number,
    cast,
    enter_all,
    entry,
    has_numpy_type,
    promoted,
)


def _sign(x: Array) -> Array:
    return np.where(np.isnan(x), 0, np.sign(x)) if not np.iscomplexobj(x) else _direction(x)


def _direction(x: Array) -> Array:
    if not np.iscomplexobj(x):
        return _sign(x)
    size = np.abs(x)
    return np.where(size == 0, 0, x / np.where(size == 0, 1, size))


def sigmoid(x: Array) -> Array:
    if np.iscomplexobj(x):
        return 1 / (1 + np.exp(-x))
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def softplus_one(x: Array) -> Array:
    """log(1 + exp(x)), with no overflow and no loss on either side."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _exp2(x: Array) -> Array:
    return np.exp2(x)


def _log10(x: Array) -> Array:
    return np.log(x) / LN10 if np.iscomplexobj(x) else np.log10(x)


def _real_only(function: Entry) -> Entry:
    """A special function of real numbers, as an entry; what torch lets be an integer becomes wide first."""

    def computed(x: Array) -> Array:
        x = promoted(x)
        if np.iscomplexobj(x):
            raise NoWideGold("special functions", "of complex numbers are not in the table")
        return function(np.asarray(x, REAL))

    return computed


UNARY: dict[str, Entry] = {
    "abs": np.abs, "neg": np.negative, "exp": np.exp, "exp2": _exp2, "expm1": np.expm1, "log": np.log,
    "log2": np.log2, "log10": _log10, "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "frac": lambda x: x - np.trunc(x),
    "sign": _sign, "sgn": _direction, "sigmoid": sigmoid,
    "isnan": np.isnan, "isinf": np.isinf, "isposinf": np.isposinf, "isneginf": np.isneginf,
    "signbit": np.signbit, "logical_not": np.logical_not, "conj_physical": np.conj, "_conj_physical": np.conj,
    "deg2rad": lambda x: x * (PI / 180), "rad2deg": lambda x: x * (180 / PI),
    "erf": _real_only(special.erf), "erfc": _real_only(special.erfc), "special_erfcx": _real_only(special.erfcx),
    "erfinv": _real_only(special.erfinv), "lgamma": _real_only(special.lgamma),
    "digamma": _real_only(special.digamma), "special_ndtri": _real_only(special.ndtri),
    "special_log_ndtr": _real_only(special.log_ndtr),
    "sinc": _real_only(special.sinc),
}  # fmt: skip
enter_all(UNARY)

COMPARISONS: dict[str, Entry] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
}  # fmt: skip
enter_all(COMPARISONS)

BINARY: dict[str, Entry] = {
    "mul": np.multiply, "atan2": np.arctan2, "hypot": np.hypot, "maximum": np.maximum, "minimum": np.minimum,
    "fmax": np.fmax, "fmin": np.fmin, "copysign": lambda x, y: np.copysign(promoted(x), _wide(y)), "fmod": np.fmod,
    "logaddexp": lambda x, y: _logaddexp(x, y), "logaddexp2": lambda x, y: special.logaddexp2(x, y),
    "floor_divide": lambda x, y: np.floor_divide(x, y), "complex": lambda x, y: _complex(x, y),
    "polar": lambda x, y: _complex(x * np.cos(y), x * np.sin(y)),
}  # fmt: skip
enter_all(BINARY)


def _wide(value: Number) -> Array:
    """A number or an array of any real type as longdouble."""
    return np.asarray(value, REAL) if not np.iscomplexobj(value) else np.asarray(value)


def _complex(real: Array, imaginary: Array) -> Array:
    result = np.empty(np.broadcast_shapes(np.shape(real), np.shape(imaginary)), np.clongdouble)
    result.real, result.imag = real, imaginary
    return result


def _logaddexp(x: Array, y: Array) -> Array:
    high, low = np.maximum(x, y), np.minimum(x, y)
    same = high == low
    return np.where(same, high + np.log(REAL(2)), high + np.log1p(np.exp(np.where(same, 0, low - high))))


@entry("add")
def add(self: Array, other: Number, alpha: Number = 1) -> Array:
    return np.add(self, other if alpha == 1 else np.multiply(alpha, other))


@entry("sub")
def sub(self: Array, other: Number, alpha: Number = 1) -> Array:
    return np.subtract(self, other if alpha == 1 else np.multiply(alpha, other))


@entry("rsub")
def rsub(self: Array, other: Number, alpha: Number = 1) -> Array:
    return np.subtract(other, self if alpha == 1 else np.multiply(alpha, self))


@entry("div")
def div(self: Array, other: Number, rounding_mode: str | None = None) -> Array:
    if rounding_mode == "floor":
        return np.floor_divide(self, other)
    quotient = np.divide(self, other)
    return np.trunc(quotient) if rounding_mode == "trunc" else quotient


@entry("remainder")
def remainder(self: Number, other: Number) -> Array:
    rest = np.fmod(self, other)
    return np.where((rest != 0) & (np.signbit(rest) != np.signbit(other)), rest + other, rest)


@entry("pow")
def power(self: Number, exponent: Number) -> Array:
    if isinstance(exponent, (int, float)):
        if exponent == 2:
            return np.multiply(self, self)
        if exponent == 0.5:
            return np.sqrt(self)
    return np.power(promoted(self), _wide(exponent))


@entry("round")
def rounded(self: Array, decimals: int = 0) -> Array:
    if decimals == 0:
        return np.rint(self)
    scale = REAL(10) ** abs(decimals)
    return np.rint(self * scale) / scale if decimals > 0 else np.rint(self / scale) * scale


@entry("clamp")
def clamp(self: Array, min: Number = None, max: Number = None) -> Array:
    result = self if min is None else np.maximum(self, min)
    return result if max is None else np.minimum(result, max)


@entry("clamp_min")
def clamp_min(self: Array, min: Number) -> Array:
    return np.maximum(self, min)


@entry("clamp_max")
def clamp_max(self: Array, max: Number) -> Array:
    return np.minimum(self, max)


@entry("where")
def where(condition: Array, self: Number, other: Number) -> Array:
    return np.where(condition, np.asarray(self), other)


@entry("masked_fill")
def masked_fill(self: Array, mask: Array, value: Number) -> Array:
    return np.where(mask, np.asarray(value).astype(self.dtype), self)


@entry("nan_to_num")
def nan_to_num(
    self: Array, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Array:
    if np.iscomplexobj(self):
        return _complex(nan_to_num(self.real, nan, posinf, neginf), nan_to_num(self.imag, nan, posinf, neginf))
    limit = np.finfo(np.float64).max
    result = np.where(np.isnan(self), nan or 0.0, self)
    result = np.where(np.isposinf(self), limit if posinf is None else posinf, result)
    return np.where(np.isneginf(self), -limit if neginf is None else neginf, result)


@entry("addcmul")
def addcmul(self: Array, tensor1: Array, tensor2: Array, value: Number = 1) -> Array:
    return self + np.multiply(value, tensor1) * tensor2


@entry("addcdiv")
def addcdiv(self: Array, tensor1: Array, tensor2: Array, value: Number = 1) -> Array:
    return self + np.multiply(value, tensor1) / tensor2


@entry("lerp")
def lerp(self: Array, end: Array, weight: Number) -> Array:
    weight = _wide(weight)
    return np.where(np.abs(weight) < 0.5, self + weight * (end - self), end - (end - self) * (1 - weight))


@entry("xlogy")
def xlogy(self: Number, other: Number) -> Array:
    x, y = _wide(self), _wide(other)
    return np.where(np.isnan(y), y, np.where(x == 0, 0, x * np.log(y)))


@entry("special_xlog1py")
def xlog1py(self: Number, other: Number) -> Array:
    x, y = _wide(self), _wide(other)
    return np.where(np.isnan(y), y, np.where(x == 0, 0, x * np.log1p(y)))


@entry("special_entr")
def entr(self: Array) -> Array:
    inside = np.where(self > 0, self, 1)
    return np.where(np.isnan(self), self, np.where(self > 0, -self * np.log(inside), np.where(self == 0, 0, -np.inf)))


@entry("logit")
def logit(self: Array, eps: float | None = None) -> Array:
    x = promoted(self)
    if eps is not None:
        x = np.clip(x, REAL(eps), 1 - REAL(eps))
    # Near one half the quotient is near one, where its logarithm would lose what the difference keeps.
    return np.where(np.abs(x - 0.5) < 0.25, np.log1p((2 * x - 1) / (1 - x)), np.log(x / (1 - x)))


@entry("heaviside")
def heaviside(self: Array, values: Array) -> Array:
    return np.where(self == 0, values, np.where(np.isnan(self), self, (self > 0).astype(self.dtype)))


@entry("nextafter")
def nextafter(self: Array, other: Array) -> Array:
    """The next number of float64: a question about the type, not about numbers."""
    return np.nextafter(self.astype(np.float64), other.astype(np.float64)).astype(REAL)


@entry("frexp")
def frexp(self: Array) -> tuple[Array, Array]:
    mantissa, exponent = np.frexp(self)
    return mantissa, exponent.astype(np.int32)


@entry("ldexp")
def ldexp(self: Array, other: Number) -> Array:
    return promoted(self) * np.exp2(_wide(other))


@entry("angle")
def angle(self: Array) -> Array:
    if np.iscomplexobj(self):
        return np.arctan2(self.imag, self.real)
    return np.where(np.isnan(self), self, np.where(self < 0, PI, REAL(0)))


@entry("isin.Tensor_Tensor", "isin.Tensor_Scalar", "isin.Scalar_Tensor")
def isin(elements: Number, tests: Number, assume_unique: bool = False, invert: bool = False) -> Array:
    return np.isin(elements, tests, invert=invert)


@entry("_to_copy")
def to_copy(self: Array, dtype: Any = None) -> Any:
    if dtype is not None and not has_numpy_type(dtype):
        return torch.from_numpy(cast(self, torch.complex128 if dtype.is_complex else torch.float64).astype(
            np.complex128 if dtype.is_complex else np.float64)).to(dtype)  # fmt: skip
    return cast(self, dtype).copy()


enter_all(
    {
        "bitwise_and": np.bitwise_and,
        "bitwise_or": np.bitwise_or,
        "bitwise_xor": np.bitwise_xor,
        "bitwise_not": np.invert,
        "gcd": np.gcd,
        "lcm": np.lcm,
        "bitwise_left_shift": np.left_shift,
        "bitwise_right_shift": np.right_shift,
        "__lshift__": np.left_shift,
        "__rshift__": np.right_shift,
    }
)
