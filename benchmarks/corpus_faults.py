"""Faults planted into results of a call, and the rule of the predecessor for telling them.

A value fault takes the array that an operator gave and makes it wrong: everything shifted by 0.005, rounded to
bfloat16, one element zeroed. Arrays are bits with a dtype, as executors give them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.cases import Case, TensorSpec
from trueline.dtypes import DType, dtype_named
from trueline.frameworks.base import ArrayIn, ArrayOut, Executed, Inputs
from trueline.numerics import widen
from trueline.numerics.narrow import narrow
from trueline.ops.domains import is_structural
from trueline.replay.inputs import drawn, inputs_for

Array = NDArray[Any]
Fault = Callable[[Array, DType], Array | None]
"""Widened values and their dtype -> what a faulty kernel gives in their place; None where it has nothing to spoil."""

TOLERANCE = 1e-2
"""The predecessor's, absolute and relative, for every dtype."""


def _shifted(values: Array, kind: DType) -> Array | None:
    return None if kind.is_exact else values + 0.005


def _scaled(factor: float) -> Fault:
    return lambda values, kind: None if kind.is_exact else values * factor


def _rounded_to(name: str) -> Fault:
    narrower = dtype_named(name)

    def rounded(values: Array, kind: DType) -> Array | None:
        if kind.digits <= narrower.digits:
            return None
        if kind.is_complex:
            return _round(values.real, narrower) + 1j * _round(values.imag, narrower)
        return _round(values, narrower)

    return rounded


def _round(values: Array, kind: DType) -> Array:
    with np.errstate(over="ignore"):
        return widen(narrow(np.ascontiguousarray(values), kind), kind)


def _one_zeroed(values: Array, kind: DType) -> Array | None:
    """The element in the middle of those that are not zero."""
    places = np.flatnonzero(values)
    if not places.size:
        return None
    made = values.copy()
    made.reshape(-1)[places[places.size // 2]] = 0
    return made


def _rolled(values: Array, kind: DType) -> Array:
    return np.roll(values, 1)


def _negated(values: Array, kind: DType) -> Array | None:
    return ~values if kind.kind == "b" else None if kind.kind == "u" else -values


def _zeros(values: Array, kind: DType) -> Array:
    return np.zeros_like(values)


FAULTS: dict[str, Fault] = {
    "+0.005 everywhere": _shifted,
    "x1.005": _scaled(1.005),
    "x1.02": _scaled(1.02),
    "rounded to bfloat16": _rounded_to("bfloat16"),
    "rounded to float16": _rounded_to("float16"),
    "float64 rounded to float32": lambda values, kind: (
        _rounded_to("float32")(values, kind) if kind.digits == 53 else None
    ),
    "one element zeroed": _one_zeroed,
    "rolled by one": _rolled,
    "negated": _negated,
    "all zeros": _zeros,
}


def spoiled(executed: Executed, part: str, fault: Fault) -> Executed | None:
    """What was executed with a fault in all its outputs, or gradients; None where no bit of it changes."""
    arrays = executed.outputs if part == "output" else executed.gradients
    made, changed = {}, False
    for path, array in arrays.items():
        made[path] = _spoiled(array, fault)
        changed |= made[path] is not array
    if not changed:
        return None
    return replace(executed, outputs=made) if part == "output" else replace(executed, gradients=made)


def _spoiled(array: ArrayOut, fault: Fault) -> ArrayOut:
    if array.bits is None or array.bits.size == 0:
        return array
    kind = dtype_named(array.dtype)
    values = array.bits if kind.is_exact else widen(array.bits, kind)
    with np.errstate(all="ignore"):
        wrong = fault(values, kind)
    if wrong is None:
        return array
    bits = wrong.astype(array.bits.dtype) if kind.is_exact else narrow(np.ascontiguousarray(wrong), kind)
    bits = np.ascontiguousarray(bits).reshape(array.bits.shape)
    return array if _equal(bits, array.bits, kind) else replace(array, bits=bits)


def _equal(left: Array, right: Array, kind: DType) -> bool:
    """Whether two arrays hold the same numbers; zeros of both signs are the same, and so is every NaN."""
    if kind.is_exact:
        return bool(np.array_equal(left, right))
    return bool(np.array_equal(widen(left, kind), widen(right, kind), equal_nan=True))


def same_results(left: Executed, right: Executed) -> bool:
    """Whether two executions gave the same numbers."""
    for ours, theirs in ((left.outputs, right.outputs), (left.gradients, right.gradients)):
        if set(ours) != set(theirs):
            return False
        for path, one in ours.items():
            other = theirs[path]
            if (one.bits is None) != (other.bits is None) or one.dtype != other.dtype or one.shape != other.shape:
                return False
            if (
                one.bits is not None
                and other.bits is not None
                and not _equal(one.bits, other.bits, dtype_named(one.dtype))
            ):
                return False
    return True


def faithful(candidate: Executed, gold: Executed, part: str) -> bool:
    """Whether every element is one of the two numbers of its type around the exact result: nothing that can be called
    wrong, whoever computed it."""
    arrays = candidate.outputs if part == "output" else candidate.gradients
    exact = gold.outputs if part == "output" else gold.gradients
    for path, array in arrays.items():
        right = exact.get(path)
        if array.bits is None:
            continue
        kind = dtype_named(array.dtype)
        if (
            right is None
            or right.bits is None
            or right.bits.shape != array.bits.shape
            or kind.is_exact
            or kind.is_complex
        ):
            return False
        values = widen(array.bits, kind)
        wanted = np.asarray(widen(right.bits, dtype_named(right.dtype)), np.float64)
        step = np.ldexp(1.0, np.maximum(np.frexp(wanted)[1], kind.exponent_min + 1) - kind.digits)
        if not np.all((np.abs(values - wanted) < step) | (np.isnan(values) & np.isnan(wanted)) | (values == wanted)):
            return False
    return True


# The predecessor


def predecessor_inputs(case: Case) -> Inputs:
    """The numbers that the predecessor draws: floats between -0.5 and 0.5, integers up to 65,535 on both sides, bools
    all true, complex numbers without imaginary parts. Indices and matrices with a structure are as ours."""
    ours = inputs_for(case)
    generator = np.random.default_rng(case.seed)
    tensors = {spec.path: _theirs(spec, generator, ours.tensors[spec.path]) for spec in case.tensors}

    def arriving(path: str, shape: tuple[int, ...], dtype: str) -> ArrayIn:
        return _theirs(TensorSpec(path, dtype, shape), generator, None)

    return Inputs(tensors, {}, arriving)


def _theirs(spec: TensorSpec, generator: np.random.Generator, ours: ArrayIn | None) -> ArrayIn:
    kind = dtype_named(spec.dtype)
    if ours is not None and (is_structural(spec.domain) or (kind.is_exact and spec.domain not in ("", "normal"))):
        return ours
    if ours is None and spec.domain:
        return drawn(spec, 0, spec.path)
    if kind.kind == "b":
        return ArrayIn(np.ones(spec.shape, np.bool_), kind.name)
    if kind.is_exact:
        return ArrayIn(np.asarray(generator.integers(-65535, 65535, spec.shape)).astype(kind.storage), kind.name)
    values = np.asarray(generator.random(spec.shape) - 0.5)
    values = values.astype(np.complex128) if kind.is_complex else values
    return ArrayIn(np.ascontiguousarray(narrow(values, kind)).reshape(spec.shape), kind.name)


def predecessor_accepts(candidate: Executed, honest: Executed) -> bool:
    """Its rule: every tensor within 1e-2 of torch's in the same dtype, absolute or relative, NaN equal to NaN. What is
    no tensor is not compared, and neither is what only one side has."""
    for ours, theirs in ((candidate.outputs, honest.outputs), (candidate.gradients, honest.gradients)):
        for path, one in ours.items():
            other = theirs.get(path)
            if other is None or one.bits is None or other.bits is None or not one.device:
                continue
            if one.shape != other.shape or one.dtype != other.dtype:
                return False
            if not _within(one, other):
                return False
    return True


def _within(one: ArrayOut, other: ArrayOut) -> bool:
    kind = dtype_named(one.dtype)
    left, right = (array.bits if kind.is_exact else widen(array.bits, kind) for array in (one, other))
    assert left is not None and right is not None
    if kind.kind == "b":
        return bool(np.array_equal(left, right))
    left, right = (side.astype(np.complex128 if kind.is_complex else np.float64) for side in (left, right))
    return bool(np.allclose(left, right, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True))
