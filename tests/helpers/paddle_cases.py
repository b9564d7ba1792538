"""Makes Cases and their inputs without any framework, for tests of executing Paddle's calls and of both frameworks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trueline.cases import Case, TensorSpec
from trueline.dtypes import dtype_named
from trueline.frameworks.base import ArrayIn, ArrayOut, Inputs
from trueline.numerics import widen
from trueline.numerics.narrow import narrow


@dataclass(frozen=True)
class T:
    """A tensor argument: its numbers, its dtype, whether it needs a gradient, its strides."""

    values: Any
    dtype: str = "float32"
    grad: bool = False
    strides: tuple[int, ...] | None = None

    @property
    def array(self) -> ArrayIn:
        kind = dtype_named(self.dtype)
        values = np.asarray(self.values)
        return ArrayIn(np.ascontiguousarray(narrow(values, kind)).reshape(values.shape), kind.name)


def case_of(api: str, *args: Any, seed: int = 5, **kwargs: Any) -> tuple[Case, Inputs]:
    """A call as a Case with its inputs; it goes backward where one of the tensors needs a gradient."""
    specs: list[TensorSpec] = []
    arrays: dict[str, ArrayIn] = {}

    def tree_of(value: Any, path: str) -> Any:
        if isinstance(value, T):
            array = value.array
            specs.append(TensorSpec(path, array.dtype, array.bits.shape, value.strides, value.grad))
            arrays[path] = array
            return {"$t": len(specs) - 1}
        if isinstance(value, list):
            return [tree_of(item, f"{path}.{place}") for place, item in enumerate(value)]
        if isinstance(value, tuple):
            return {"$tuple": [tree_of(item, f"{path}.{place}") for place, item in enumerate(value)]}
        if isinstance(value, slice):
            return {"$slice": [value.start, value.stop, value.step]}
        return value

    tree = {
        "args": [tree_of(value, f"args.{place}") for place, value in enumerate(args)],
        "kwargs": {name: tree_of(value, f"kwargs.{name}") for name, value in kwargs.items()},
    }
    case = Case(api, tree, tuple(specs), backward=any(spec.requires_grad for spec in specs), seed=seed)
    return case, Inputs(arrays, draw=ones)


def ones(path: str, shape: tuple[int, ...], dtype: str) -> ArrayIn:
    """Gradients of one, exact in every dtype."""
    return ArrayIn(np.ones(shape, dtype=np.float32), "float32")


def numbers(array: ArrayOut) -> Any:
    """An output as numbers."""
    assert array.bits is not None, array.note
    return widen(array.bits, dtype_named(array.dtype)).reshape(array.shape)


def drawn(*shape: int, seed: int = 0) -> Any:
    """Numbers that float32 has exactly."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
