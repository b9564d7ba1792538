"""Small kernels in numpy, honest and wrong, to be judged: each gives its result in storage bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trueline.cases import Case, Evidence, TensorFinding
from trueline.dtypes import dtype_named
from trueline.judge.calibrated import Calibrated
from trueline.numerics import widen
from trueline.numerics.evidence import measure
from trueline.numerics.sensitivity import PERTURBATIONS, perturb

Array = NDArray[np.float64]
Bits = NDArray
DTYPES = ("float32", "bfloat16", "float16")
NARROW = ("bfloat16", "float16")


def rounded(values: Array, dtype: str) -> Bits:
    """Storage bits of the nearest numbers of the dtype."""
    if dtype != "bfloat16":
        with np.errstate(over="ignore"):
            return np.asarray(values).astype(dtype_named(dtype).storage)
    bits = np.asarray(values, np.float32).view(np.uint32)
    return np.asarray((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def truncated(values: Array, dtype: str) -> Bits:
    """Storage bits of the next number of the dtype towards zero."""
    nearest = widen(rounded(values, dtype), dtype_named(dtype))
    unit = 2.0 ** (np.floor(np.log2(np.abs(nearest))) - dtype_named(dtype).digits + 1)
    return rounded(np.where(np.abs(nearest) > np.abs(values), nearest - np.sign(nearest) * unit, nearest), dtype)


def through(values: Array, dtype: str) -> Array:
    """The numbers after rounding to the dtype."""
    return np.asarray(widen(rounded(values, dtype), dtype_named(dtype)))


@dataclass
class Trial:
    """One function of some inputs in one dtype, whose candidates are to be judged."""

    function: Callable[..., Array]
    inputs: list[Array]
    dtype: str = "float32"
    honest: Bits | None = None
    scale: float = 0.0
    gold: Array = field(init=False)

    def __post_init__(self) -> None:
        self.inputs = [through(one, self.dtype) for one in self.inputs]
        with np.errstate(all="ignore"):
            self.gold = self.function(*self.inputs)
        if self.honest is None:
            self.honest = self.single()

    def single(self) -> Bits:
        """The function computed in float32 and rounded once, as kernels do."""
        with np.errstate(all="ignore"):
            made = self.function(*(one.astype(np.float32) for one in self.inputs))
        assert made.dtype == np.float32
        return rounded(made.astype(np.float64), self.dtype)

    def evidence(self, candidate: Bits) -> Evidence:
        kind = dtype_named(self.dtype)
        moved = [
            [perturb(one, kind, seed=1, path=str(place), round_number=number) for place, one in enumerate(self.inputs)]
            for number in range(PERTURBATIONS)
        ]
        with np.errstate(all="ignore"):
            golds = [self.function(*inputs) for inputs in moved]
        return measure("output", "out", candidate, self.honest, self.gold, golds, dtype=self.dtype, scale=self.scale)

    def judge(self, candidate: Bits) -> TensorFinding:
        return Calibrated().judge_tensor(self.evidence(candidate), Case("torch.anything", None))


def normal(*shape: int, seed: int = 0, std: float = 1.0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape) * std


def product(left: Array, right: Array) -> Array:
    return left @ right


def summed_in(dtype: str, left: Array, right: Array, block: int = 16) -> Array:
    """left @ right with partial sums kept in the dtype."""
    total = np.zeros((left.shape[0], right.shape[1]))
    for start in range(0, left.shape[1], block):
        total = through(total + left[:, start : start + block] @ right[start : start + block], dtype)
    return total


def gelu(x: Array) -> Array:
    """The tanh form."""
    inner = x.dtype.type(0.7978845608028654) * (x + x.dtype.type(0.044715) * x * x * x)
    return np.asarray(x.dtype.type(0.5) * x * (x.dtype.type(1) + np.tanh(inner)))


def standardized(x: Array) -> Array:
    centered = x - x.mean(axis=-1, keepdims=True)
    return np.asarray(centered / np.sqrt((centered * centered).mean(axis=-1, keepdims=True)))
