"""The tensors of a Case: loaded from the Run that recorded them, or drawn.

What is drawn depends on the seed of the Case and the path of the tensor, and on nothing else: every machine draws the
same bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.cases import Case, TensorSpec
from trueline.dtypes import DType, dtype_named
from trueline.errors import UsageError
from trueline.frameworks.base import ArrayIn, CannotExecute, Inputs
from trueline.numerics import widen
from trueline.numerics.narrow import narrow
from trueline.numerics.sensitivity import perturb
from trueline.ops.domains import draw, is_structural
from trueline.ops.values import Maker, values_for
from trueline.replay.likeness import in_likeness
from trueline.replay.stream import Stream
from trueline.store import Run, open_run

Array = NDArray[Any]

_PERIOD = 2**22 - 3
"""A larger tensor repeats itself after so many elements: drawing more takes longer than all the rest of its check. A
prime, so that no two rows are alike."""


def inputs_for(case: Case) -> Inputs:
    """What a Case is given. Gradients that it does not name are drawn when the outputs are known."""
    tensors = {
        spec.path: load(spec) if spec.stored else drawn(spec, case.seed, spec.path, case) for spec in case.tensors
    }
    gradients = {
        spec.path: load(spec) if spec.stored else drawn(spec, case.seed, f"gradient {spec.path}")
        for spec in case.gradients
    }

    @cache  # several executions ask for the same
    def arriving(path: str, shape: tuple[int, ...], dtype: str) -> ArrayIn:
        return drawn(TensorSpec(path, dtype, shape), case.seed, f"gradient {path}")

    return Inputs(tensors, gradients, arriving)


def load(spec: TensorSpec) -> ArrayIn:
    """The recorded bits of a tensor."""
    assert spec.stored is not None
    reader = _run(spec.stored.run).rank(spec.stored.rank)
    return ArrayIn(reader.tensor_bits(spec.stored.tensor_id, spec.dtype, spec.shape), dtype_named(spec.dtype).name)


def drawn(spec: TensorSpec, seed: int, name: str, case: Case | None = None) -> ArrayIn:
    """A tensor as its spec describes it; with the values that matter to the call where it is one of ``case``'s. One
    that overlaps itself in memory (an expanded one) is drawn in memory, so that elements that are the same are the
    same."""
    strides = spec.strides
    if strides is None or not _overlaps(spec.shape, strides):
        if math.prod(spec.shape) > _PERIOD and spec.statistics is None and not is_structural(spec.domain):
            period = _drawn(spec, (_PERIOD,), seed, name, case)
            return ArrayIn(np.resize(period.bits, spec.shape), period.dtype)
        return _drawn(spec, spec.shape, seed, name, case)
    length = 1 + sum((size - 1) * stride for size, stride in zip(spec.shape, strides, strict=True))
    memory = _drawn(spec, (length,), seed, name, case)
    itemsize = memory.bits.dtype.itemsize
    bits = np.lib.stride_tricks.as_strided(memory.bits, spec.shape, [stride * itemsize for stride in strides])
    return ArrayIn(np.ascontiguousarray(bits), memory.dtype)


def perturbed(inputs: Inputs, working: str, seed: int, rounds: int, *, longdouble: bool = False) -> Iterator[Inputs]:
    """Settled inputs, moved again and again by one rounding in the dtype that the call works in, each for a gold of its
    own; by one in their own dtype where it works in none, as with complex numbers alone. With ``longdouble`` the moves
    are kept where float64 would round them away."""
    coarsest = dtype_named(working or "float64")
    tensors = {path: _Movable(path, array, coarsest, longdouble) for path, array in inputs.tensors.items()}
    gradients = {
        path: _Movable(f"gradient {path}", array, coarsest, longdouble) for path, array in inputs.gradients.items()
    }
    for number in range(rounds):
        yield replace(
            inputs,
            tensors={path: one.moved(seed, number) for path, one in tensors.items()},
            gradients={path: one.moved(seed, number) for path, one in gradients.items()},
            settled=True,
        )


def nudged(inputs: Inputs, seed: int) -> Iterator[Inputs]:
    """Settled inputs moved to neighbours in their own dtypes, twice, to opposite sides."""
    for number in range(2):
        yield replace(
            inputs,
            tensors={path: _nudged(array, path, seed, number) for path, array in inputs.tensors.items()},
            gradients={
                path: _nudged(array, f"gradient {path}", seed, number) for path, array in inputs.gradients.items()
            },
        )


def _nudged(array: ArrayIn, name: str, seed: int, number: int) -> ArrayIn:
    kind = dtype_named(array.dtype)
    if kind.is_exact or array.bits.size == 0:
        return array
    values = widen(array.bits, kind)
    # A whole unit at least: half of one may be rounded away.
    step = replace(kind, digits=kind.digits - 1)
    made = perturb(values, step, seed=seed, path=name, round_number=number, still=_edges(values, kind))
    return ArrayIn(narrow(made, kind), array.dtype)


class _Movable:
    """An array that is to be moved by one rounding."""

    def __init__(self, name: str, array: ArrayIn, coarsest: DType, longdouble: bool) -> None:
        self._name = name
        self._array = array
        kind = dtype_named(array.dtype)
        self._still = kind.is_exact or array.bits.size == 0
        if self._still:
            return
        self._step = replace(kind, digits=min(kind.digits, coarsest.digits))
        self._values = widen(array.bits, kind)
        self._edges = _edges(self._values, kind)
        if longdouble:
            self._values = self._values.astype(np.clongdouble if kind.is_complex else np.longdouble)
        self._dtype = "complex128" if kind.is_complex else "float64"

    def moved(self, seed: int, number: int) -> ArrayIn:
        if self._still:
            return self._array
        step, name = self._step, self._name
        made = perturb(self._values, step, seed=seed, path=name, round_number=number, still=self._edges)
        return ArrayIn(made, self._dtype)


def _edges(values: Array, kind: DType) -> NDArray[np.bool_] | None:
    """Ones and minus ones that end the range of an array, where many functions end as well: a probability of 1 must not
    become more than 1. It must not become less either: what moves to one side alone would look like a jump. An array
    of equal numbers spans no range."""
    if kind.is_complex:
        return None
    low, high = float(values.min()), float(values.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        finite = values[np.isfinite(values)]
        low, high = float(finite.min(initial=np.inf)), float(finite.max(initial=-np.inf))
    ends = [end for end in (low, high) if abs(end) == 1.0]
    return np.isin(values, ends) if ends and low < high else None


def _drawn(spec: TensorSpec, shape: tuple[int, ...], seed: int, name: str, case: Case | None) -> ArrayIn:
    kind = dtype_named(spec.dtype)
    stream = Stream(seed, name)
    known = spec.statistics is not None and spec.statistics.count and not is_structural(spec.domain)
    make = _maker(case, spec) if case is not None and not known else None
    if known:
        assert spec.statistics is not None
        values = in_likeness(spec.statistics, stream, shape, kind)
    elif make is not None:
        values = make(stream.generator, shape)
    elif spec.domain:
        values = _from_domain(spec, stream, shape, kind)
    elif kind.is_exact:
        values = (stream.words(math.prod(shape)) & np.uint64(1)).reshape(shape)
    else:
        count = math.prod(shape) * (2 if kind.is_complex else 1)
        numbers = stream.normal(count)
        values = (numbers.view(np.complex128) if kind.is_complex else numbers).reshape(shape)
    return ArrayIn(np.ascontiguousarray(narrow(values, kind)).reshape(shape), kind.name)


def _maker(case: Case, spec: TensorSpec) -> Maker | None:
    """Who makes the values of a tensor that is drawn for a call; None where its domain alone says it all."""
    place = next((number for number, one in enumerate(case.tensors) if one.path == spec.path), 0)
    return values_for(case.api, spec.domain, spec.dtype, case.draw, case.arguments, position=place, seed=case.seed)


def _from_domain(spec: TensorSpec, stream: Stream, shape: tuple[int, ...], kind: DType) -> Array:
    try:
        return draw(spec.domain, stream.generator, shape, kind.name)
    except (UsageError, ValueError) as error:  # seven different indices below six, a number from an empty range
        asked = f"{spec.domain} of {list(shape)}"
        raise CannotExecute(f"its input {spec.path} cannot be drawn, {asked}: {error}") from error


def _overlaps(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether two elements may share memory: true of expanded tensors and sliding windows."""
    steps = sorted((stride, size) for size, stride in zip(shape, strides, strict=True) if size > 1)
    reach = 0
    for stride, size in steps:
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


@lru_cache(maxsize=8)
def _run(path: str) -> Run:
    return open_run(path)
