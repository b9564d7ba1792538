"""A smaller case made from a case: parts of its tensors, fewer arguments, plainer content.

A Reduction says what to take; it is applied in the worker, where the tensors are, so that looking for the smallest
case that still fails sends no tensors around.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from trueline.cases import Case, TensorSpec
from trueline.dtypes import dtype_named
from trueline.frameworks.base import ArrayIn, Inputs
from trueline.numerics.narrow import narrow
from trueline.tree import Tree, tensor_paths

Cut = tuple[int, int]
"""From where and to where, in one dimension."""

PLAIN_SEED = 0
WRITTEN_OUT = 24
"""A tensor of at most so many elements is written out in a script; of a larger one a plain drawing is tried."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """What is left of a case. ``cuts`` by the path of a tensor, a pair for each dimension; tensors without are whole.
    ``contiguous`` drops strides; ``ones`` makes the arriving gradients ones; ``plain`` draws what is too large to be
    written out from numpy's default generator, as a script can do; ``within`` takes integers for indices and keeps them
    within dimensions that are shorter now."""

    arguments: Tree
    cuts: Mapping[str, tuple[Cut, ...]] = field(default_factory=dict)
    contiguous: bool = False
    ones: bool = False
    plain: bool = False
    within: bool = False

    def as_json(self) -> dict[str, Any]:
        cuts = {path: [list(cut) for cut in cuts] for path, cuts in self.cuts.items()}
        flags = {name: getattr(self, name) for name in _FLAGS}
        return {"arguments": self.arguments, "cuts": cuts, **flags}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Reduction:
        cuts = {path: tuple((start, stop) for start, stop in cuts) for path, cuts in content["cuts"].items()}
        return cls(content["arguments"], cuts, **{name: content[name] for name in _FLAGS})

    def shape(self, spec: TensorSpec) -> tuple[int, ...]:
        """The shape that is left of a tensor."""
        return tuple(stop - start for start, stop in self.cuts_of(spec))

    def cuts_of(self, spec: TensorSpec) -> tuple[Cut, ...]:
        return self.cuts.get(spec.path, tuple((0, size) for size in spec.shape))


_FLAGS = ("contiguous", "ones", "plain", "within")


def reduced_case(case: Case, reduction: Reduction, dtypes: Mapping[str, str]) -> Case:
    """The case that is left; ``dtypes`` are those of the tensors as they are fed."""
    left = set(dict(tensor_paths(reduction.arguments)).values())
    tensors = tuple(
        replace(
            spec,
            dtype=dtypes.get(spec.path, spec.dtype),
            shape=reduction.shape(spec),
            strides=None if reduction.contiguous else spec.strides,
            statistics=None,
            stored=None,
            domain="",
        )
        for spec in case.tensors
        if spec.path in left
    )
    gradients = tuple(TensorSpec(spec.path, spec.dtype, spec.shape) for spec in case.gradients)
    return replace(case, arguments=reduction.arguments, tensors=tensors, gradients=gradients)


def reduced_inputs(case: Case, inputs: Inputs, arrived: Mapping[str, ArrayIn], reduction: Reduction) -> Inputs:
    """What is fed to the case that is left: parts of settled ``inputs`` and of the gradients that ``arrived``."""
    specs = {spec.path: spec for spec in case.tensors}
    left = set(dict(tensor_paths(reduction.arguments)).values())
    shrunk = {
        (size, stop - start): start
        for spec in case.tensors
        for size, (start, stop) in zip(spec.shape, reduction.cuts_of(spec), strict=True)
        if stop - start < size
    }
    tensors = {
        path: _part(array, reduction.cuts_of(specs[path]), shrunk if reduction.within else {}, reduction.plain)
        for path, array in inputs.tensors.items()
        if path in left
    }
    return Inputs(tensors, {}, _arriving(arrived, shrunk, ones=reduction.ones), settled=True)


def _part(array: ArrayIn, cuts: tuple[Cut, ...], shrunk: Mapping[tuple[int, int], int], plain: bool) -> ArrayIn:
    bits = np.array(array.bits[tuple(slice(start, stop) for start, stop in cuts)], order="C")
    if dtype_named(array.dtype).kind in "iu" and bits.size:
        bits = _within(bits, int(array.bits.max()), shrunk)
    made = ArrayIn(bits, array.dtype)
    return plain_array(made) if plain and bits.size > WRITTEN_OUT and is_plain(array.dtype) else made


def _within(bits: np.ndarray[Any, Any], largest: int, shrunk: Mapping[tuple[int, int], int]) -> np.ndarray[Any, Any]:
    """Integers that were indices into a dimension which is shorter now are kept within it."""
    fitting = [left for size, left in shrunk if left <= largest < size]
    return bits % bits.dtype.type(min(fitting)) if fitting else bits


def is_plain(dtype: str) -> bool:
    """Whether a script can draw such a tensor."""
    return dtype_named(dtype).is_exact or dtype in ("float64", "float32", "float16", "bfloat16")


def integer_range(array: ArrayIn) -> tuple[int, int]:
    """Between which integers a plain drawing of such a tensor lies, the upper one excluded; (0, 0) for floats."""
    if not dtype_named(array.dtype).is_exact:
        return 0, 0
    return (0, 2) if array.dtype == "bool" else (int(array.bits.min()), int(array.bits.max()) + 1)


def plain_array(array: ArrayIn) -> ArrayIn:
    """What ``numpy.random.default_rng`` draws first in place of the content: integers in its range, or normal numbers,
    rounded."""
    generator, shape = np.random.default_rng(PLAIN_SEED), array.bits.shape
    low, high = integer_range(array)
    if high > low:
        return ArrayIn(generator.integers(low, high, shape).astype(array.bits.dtype), array.dtype)
    wide = np.float64 if array.dtype == "float64" else np.float32
    drawn: Any = generator.standard_normal(shape, wide)
    bits = narrow(np.asarray(drawn, dtype=np.float64), dtype_named(array.dtype))
    return ArrayIn(np.asarray(bits).reshape(shape), array.dtype)


def _arriving(
    arrived: Mapping[str, ArrayIn], shrunk: Mapping[tuple[int, int], int], *, ones: bool
) -> Callable[[str, tuple[int, ...], str], ArrayIn]:
    def gradient(path: str, shape: tuple[int, ...], dtype: str) -> ArrayIn:
        known = arrived.get(path)
        if not ones and known is not None and known.bits.ndim == len(shape):
            sizes = list(zip(known.bits.shape, shape, strict=True))
            if all(left <= size for size, left in sizes):
                starts = [shrunk.get((size, left), 0) if left < size else 0 for size, left in sizes]
                part = known.bits[tuple(slice(start, start + left) for start, left in zip(starts, shape, strict=True))]
                return ArrayIn(np.array(part, order="C"), known.dtype)
        return ArrayIn(narrow(np.ones(shape), dtype_named(dtype)), dtype)

    return gradient
