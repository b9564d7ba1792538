"""Functions of arrays that are the same to the last bit on every machine.

Mathematical libraries and vector units round exponentials, logarithms and products of matrices differently. What is
here is made of additions, multiplications, divisions and scalings by powers of two alone, one numpy call each, which
IEEE 754 fixes to the bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Doubles = NDArray[np.float64]

_LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_LN2_INVERSE = float.fromhex("0x1.71547652b82fep+0")
_HALF_ROOT = float.fromhex("0x1.6a09e667f3bcdp-1")
_TERMS = 14
_REFLECTIONS = 3


def exp(values: Any) -> Doubles:
    """The exponential, right to a few of the last bits."""
    x = np.asarray(values, np.float64)
    whole = np.rint(x * _LN2_INVERSE)
    rest = x - whole * _LN2_HIGH
    rest = rest - whole * _LN2_LOW
    total = np.ones_like(rest)
    for term in range(_TERMS, 0, -1):
        total = total * rest
        total = total / term
        total = total + 1.0
    return np.asarray(np.ldexp(total, np.clip(whole, -1100, 1100).astype(np.int32)))


def log(values: Any) -> Doubles:
    """The natural logarithm of positive numbers, right to a few of the last bits."""
    mantissa, exponent = np.frexp(np.asarray(values, np.float64))
    small = mantissa < _HALF_ROOT
    mantissa = np.where(small, mantissa * 2.0, mantissa)
    power = (exponent - small).astype(np.float64)
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    square = ratio * ratio
    total = np.zeros_like(ratio)
    for odd in range(23, 0, -2):
        total = total * square
        total = total + 1.0 / odd
    total = 2.0 * ratio * total
    return np.asarray(power * _LN2_HIGH + (total + power * _LN2_LOW))


def exp2(values: Any) -> Doubles:
    """About two to the power of ``values``: straight lines between the powers."""
    x = np.asarray(values, np.float64)
    whole = np.floor(x)
    return np.asarray(np.ldexp(1.0 + (x - whole), np.clip(whole, -1100, 1100).astype(np.int32)))


def shares(scores: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Exponentials of scores along the last axis as whole numbers, at least one each, and their sums: parts of one."""
    weights = np.maximum(np.rint(exp(np.clip(scores, -20.0, 8.0)) * 2.0**28), 1.0).astype(np.int64)
    return weights, weights.sum(axis=-1, keepdims=True)


def reflections(generator: np.random.Generator, batch: tuple[int, ...], size: int, *, is_complex: bool) -> list[Array]:
    """Vectors of small whole numbers, none of them zero, each of which stands for a reflection of a space."""
    found = []
    for _ in range(_REFLECTIONS):
        vector = generator.integers(-7, 8, (*batch, size)).astype(np.float64)
        vector[..., 0] = np.where(np.all(vector == 0, axis=-1), 1.0, vector[..., 0])
        if is_complex:
            vector = _joined(vector, generator.integers(-7, 8, (*batch, size)).astype(np.float64))
        found.append(vector)
    return found


def reflected(matrix: Array, vectors: list[Array], *, columns: bool = False) -> Array:
    """A matrix, or matrices, with its rows reflected by all vectors, or its columns: products with orthogonal matrices
    from the left, or from the right."""
    if columns:
        turned = np.swapaxes(matrix, -1, -2).conj()
        return np.asarray(np.swapaxes(reflected(turned, vectors), -1, -2).conj())
    for vector in vectors:
        column = vector[..., :, None]
        length = (vector.real * vector.real + vector.imag * vector.imag).sum(axis=-1)[..., None, None]
        along = _times(column.conj(), matrix).sum(axis=-2, keepdims=True)
        matrix = matrix - _times(column, _times(along, 2.0 / length))
    return matrix


def _times(left: Array, right: Array) -> Array:
    """A product; that of complex numbers by its parts, since machines that multiply and add at once round it once."""
    if not (np.iscomplexobj(left) and np.iscomplexobj(right)):
        if not np.iscomplexobj(left) and not np.iscomplexobj(right):
            return np.asarray(left * right)
        return _joined(left.real * right.real, left.imag * right.real + left.real * right.imag)
    first, second = left.real * right.real, left.imag * right.imag
    third, fourth = left.real * right.imag, left.imag * right.real
    return _joined(first - second, third + fourth)


def _joined(real: Array, imaginary: Array) -> Array:
    made = np.empty(real.shape, np.complex128)
    made.real, made.imag = real, imaginary
    return made
