"""The inputs of a Case as its Target is given them, each number rounded once; and the dtypes that a gold is held in.

Rules about operators carry their reason; operators go by their canonical name (``ops.names``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from trueline.cases import Case
from trueline.dtypes import DTYPES, dtype_named
from trueline.frameworks.base import ArrayIn, ArrayOut, Bits, Executed, Inputs
from trueline.numerics import widen
from trueline.numerics.narrow import narrow
from trueline.ops.names import canonical
from trueline.tree import Tree

Rounding = Callable[[ArrayIn, str], ArrayIn]
"""An array in another floating dtype, each number rounded once."""

_SMALLEST_DIGITS = 8
"""Types with fewer digits (float8) are formats to store in: a call that takes them takes nothing else instead."""

_DEFINED_BY_DTYPE = {
    "to": "a cast is fixed to the bit by its two types: its gold is what they say, not what was there before",
    "nextafter": "the next number is another one in every dtype",
    "frexp": "takes apart the representation of a number",
}

_KEEPS_ITS_DTYPE: Mapping[str, tuple[str, ...]] = {
    "_fused_adam": ("args.5", "kwargs.state_steps", "kwargs.grad_scale", "kwargs.found_inf"),
    "_fused_adamw": ("args.5", "kwargs.state_steps", "kwargs.grad_scale", "kwargs.found_inf"),
    "_fused_adagrad": ("args.3", "kwargs.state_steps", "kwargs.grad_scale", "kwargs.found_inf"),
}
"""Arguments that count or scale and are float32 by contract, whatever the dtype of the rest."""


def rounded(array: ArrayIn, dtype: str) -> ArrayIn:
    """An array in another floating or complex dtype, each number rounded once, to the nearest."""
    if array.dtype == dtype:
        return array
    bits = narrow(widen(array.bits, dtype_named(array.dtype)), dtype_named(dtype))
    return ArrayIn(bits.reshape(array.bits.shape), dtype)


def settled(case: Case, inputs: Inputs, dtype: str, rounding: Rounding = rounded) -> Inputs:
    """The inputs as all are given them: rounded once, to the dtype of the Target where it has one, else to that of
    autocast where it was on (numbers that autocast would round on the way in are rounded here, so that the gold sees
    them rounded as well)."""
    if inputs.settled:
        return inputs

    def round_one(path: str, array: ArrayIn) -> ArrayIn:
        if dtype:
            return array if keeps_its_dtype(case.api, path) else to_dtype(array, dtype, rounding)
        if _is_lowered(case.autocast) and array.dtype == "float32":
            return rounding(rounding(array, case.autocast), array.dtype)
        return array

    gradients = inputs.gradients
    if dtype:
        gradients = {path: to_dtype(array, dtype, rounding) for path, array in gradients.items()}
    tensors = {path: round_one(path, array) for path, array in inputs.tensors.items()}
    return replace(inputs, tensors=tensors, gradients=gradients, settled=True)


def to_dtype(array: ArrayIn, dtype: str, rounding: Rounding = rounded) -> ArrayIn:
    """A floating array in the dtype of a Target; others as they are."""
    kind = dtype_named(array.dtype)
    if kind.is_float and kind.digits >= _SMALLEST_DIGITS:
        return rounding(array, dtype)
    if kind.is_complex and dtype in ("float32", "float64"):
        return rounding(array, "complex64" if dtype == "float32" else "complex128")
    return array


def is_defined_by_dtype(case: Case) -> bool:
    """Whether an operator means something else in float64: then its gold is its result in its own dtype."""
    name = canonical(case.api)
    return name in _DEFINED_BY_DTYPE or (name == "reshape" and names_a_dtype(case.arguments))  # view(dtype): bits


def names_a_dtype(tree: Tree) -> bool:
    """Whether a dtype stands anywhere in a tree, as such or as the text by which Paddle takes it too."""
    if isinstance(tree, str):
        return tree in DTYPES
    if isinstance(tree, dict):
        return "$dtype" in tree or any(names_a_dtype(value) for value in tree.values())
    return isinstance(tree, list) and any(names_a_dtype(item) for item in tree)


def keeps_its_dtype(api: str, path: str) -> bool:
    """Whether the tensor at a path stays what it is when a Case is executed in another dtype."""
    kept = _KEEPS_ITS_DTYPE.get(canonical(api), ())
    return any(path == one or path.startswith(one + ".") for one in kept)


def widened_bits(array: ArrayIn) -> Bits:
    """The numbers of a floating or complex array in float64 or complex128; longdouble ones stay what they are."""
    if array.bits.dtype.itemsize > 8 and array.bits.dtype.kind == "f":
        return array.bits
    numbers: Bits = widen(array.bits, dtype_named(array.dtype)).reshape(array.bits.shape)
    return numbers


def widened(executed: Executed) -> Executed:
    """Results of another dtype as a gold: the same numbers in float64."""
    return replace(
        executed,
        outputs={path: widened_array(array) for path, array in executed.outputs.items()},
        gradients={path: widened_array(array) for path, array in executed.gradients.items()},
    )


def widened_array(array: ArrayOut) -> ArrayOut:
    """The same numbers in float64 or complex128."""
    kind = dtype_named(array.dtype)
    if array.bits is None or kind.is_exact:
        return array
    bits = widened_bits(ArrayIn(array.bits, array.dtype))
    return replace(array, bits=bits, dtype="complex128" if kind.is_complex else "float64")


def _is_lowered(autocast: str) -> bool:
    return bool(autocast) and autocast != "float32"
