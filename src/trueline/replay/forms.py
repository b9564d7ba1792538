"""Executions in the form in which they may be compared, by the rule of their operator.

Rules see numbers; what is measured are storage bits. What a rule left alone keeps its bits; what it made anew is
rounded to the dtype of the output it stands for. Where equal must mean equal to the last bit, numbers travel as the
integers that their bits are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.cases import Case
from trueline.dtypes import DType, dtype_named
from trueline.frameworks.base import ArrayIn, ArrayOut, Executed, Inputs
from trueline.numerics import widen
from trueline.numerics.floats import Gold
from trueline.numerics.narrow import narrow
from trueline.ops.equivalence import Comparable, Trial, comparable

Array = NDArray[Any]


class Form:
    """One execution, made comparable. ``form`` is what the rule made of it."""

    def __init__(self, case: Case, inputs: Inputs, executed: Executed) -> None:
        self._executed = executed
        self._raw = {
            "output": _numbers_of(executed.outputs),
            "gradient": _numbers_of(executed.gradients),
        }
        trial = Trial(
            case.api,
            case.arguments,
            {path: numbers(array) for path, array in inputs.tensors.items()},
            self._raw["output"],
            {path: numbers(array) for path, array in inputs.gradients.items()},
            self._raw["gradient"],
        )
        self.form: Comparable = comparable(trial)

    def paths(self, part: str) -> list[str]:
        return list(self._made(part))

    def has(self, part: str, path: str) -> bool:
        return path in self._made(part)

    def bits(self, part: str, path: str, dtype: DType, *, exact: bool) -> Array:
        """What to measure at a path, as storage bits of a dtype."""
        made, raw = self._made(part)[path], self._raw[part].get(path)
        if exact:
            return as_integers(made)
        if made is raw:
            array = self._arrays(part)[path]
            if array.bits is not None and array.dtype == dtype.name:
                return array.bits
        return narrow(np.asarray(made), dtype)

    def gold(self, part: str, path: str, *, exact: bool) -> Gold:
        """What to measure against at a path, as numbers."""
        made, raw = self._made(part)[path], self._raw[part].get(path)
        if exact:
            return as_integers(made)
        array = self._arrays(part).get(path)
        if made is raw and array is not None:
            return gold_of(array)
        if made.dtype in (np.longdouble, np.clongdouble):
            high = made.astype(np.complex128 if np.iscomplexobj(made) else np.float64)
            return high, (made - high).astype(high.dtype)
        return made

    def _made(self, part: str) -> Mapping[str, Array]:
        return self.form.outputs if part == "output" else self.form.gradients

    def _arrays(self, part: str) -> Mapping[str, ArrayOut]:
        return self._executed.outputs if part == "output" else self._executed.gradients


def gold_of(array: ArrayOut) -> Gold:
    """The numbers of a gold, with what more digits add to them where it has more."""
    assert array.bits is not None
    return array.bits if array.low is None else (array.bits, array.low)


def numbers(array: ArrayIn) -> Array:
    """The numbers behind bits: float64, complex128, integers and bools as they are."""
    kind = dtype_named(array.dtype)
    if kind.kind == "b":
        return array.bits
    return array.bits.astype(np.int64) if kind.is_exact else widen(array.bits, kind)


def _numbers_of(arrays: Mapping[str, ArrayOut]) -> dict[str, Array]:
    found = {}
    for path, array in arrays.items():
        if array.bits is None:
            continue
        values = numbers(ArrayIn(array.bits, array.dtype))
        if array.low is not None:
            wide = np.clongdouble if np.iscomplexobj(values) else np.longdouble
            values = values.astype(wide) + array.low
        found[path] = values
    return found


def as_integers(values: Array) -> Array:
    """Numbers as integers that are equal where the numbers are, NaN being equal to itself."""
    if values.dtype.kind in "biu":
        return values.astype(np.int64)
    if values.dtype.kind == "c":
        return as_integers(np.stack([values.real, values.imag], axis=-1))
    plain = np.where(np.isnan(values), np.nan, values.astype(np.float64) + 0.0)  # + 0.0: no negative zero
    return np.ascontiguousarray(plain).view(np.int64).reshape(values.shape)
