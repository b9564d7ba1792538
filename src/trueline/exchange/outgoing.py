"""A Run -> calls for another tool."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from trueline.dtypes import DType, dtype_named
from trueline.formats.foreign import NOT_DUMPED, ForeignCall, ForeignTensor, Summary
from trueline.numerics.cpu import widen as as_doubles
from trueline.records import Call, Role, Statistics, TensorRecord
from trueline.store.reader import RankReader
from trueline.store.trace import Trace
from trueline.tree import Tree

Array = np.ndarray[Any, Any]


def calls_of(reader: RankReader, step: int) -> Iterator[tuple[Call, ForeignCall]]:
    """The calls of one rank in one step, as they are and as another tool takes them."""
    trace = reader.trace(step)
    for position in range(len(trace)):
        yield (call := trace.call(position)), foreign_call(reader, trace, position, call)


def foreign_call(reader: RankReader, trace: Trace, position: int, call: Call) -> ForeignCall:
    numbers: dict[int, int] = {}
    tensors: list[tuple[Role, ForeignTensor]] = []
    for visit, record in zip(trace.visits_of(position).tolist(), call.tensors, strict=True):
        numbers[visit[1]] = len(tensors)
        tensors.append((record.role, _tensor(reader, record)))
    return ForeignCall(
        api=call.api,
        index=call.index,
        phase=call.phase,
        level=call.level,
        module=call.module,
        module_class=call.module_class,
        context=call.context,
        arguments=_renumbered(call.arguments, numbers),
        result=_renumbered(call.result, numbers),
        tensors=tensors,
        stack=call.stack,
        step=call.step,
    )


def _renumbered(tree: Tree, numbers: dict[int, int]) -> Tree:
    """A tree whose leaves are those that were recorded."""
    if isinstance(tree, list):
        return [_renumbered(item, numbers) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if "$t" in tree:
        return {"$t": numbers[tree["$t"]]} if tree["$t"] in numbers else NOT_DUMPED
    return {key: _renumbered(value, numbers) for key, value in tree.items()}


def _tensor(reader: RankReader, record: TensorRecord) -> ForeignTensor:
    return ForeignTensor(
        dtype=record.dtype,
        shape=record.shape,
        requires_grad=record.requires_grad,
        device=record.device,
        summary=None if record.statistics is None else summary_of(record.statistics),
        fetch=partial(_fetch, reader, record) if record.stored else None,
        missing=record.missing,
        file=reader.array_file(record) if record.stored else None,
    )


def _fetch(reader: RankReader, record: TensorRecord) -> tuple[Array, DType, str]:
    return reader.tensor(record), dtype_named(record.dtype), ""


def summary_of(statistics: Statistics) -> Summary:
    """The four numbers as those tools take them: over all elements, so that one NaN makes all of them NaN."""
    if not statistics.count:
        return Summary()
    if statistics.nan:
        return Summary(math.nan, math.nan, math.nan, math.nan)
    above, below = statistics.positive_infinity, statistics.negative_infinity
    mean = math.nan if above and below else math.inf if above else -math.inf if below else statistics.mean
    none = not statistics.finite
    return Summary(
        math.inf if above else (-math.inf if none else statistics.maximum),
        -math.inf if below else (math.inf if none else statistics.minimum),
        mean,
        math.inf if above or below else statistics.norm,
    )


def widened(array: Array, dtype: DType) -> Array:
    """Bits that numpy has no type for as float32 (complex64), anything else as it is."""
    if dtype.name == "complex32":
        return as_doubles(array, dtype).astype(np.complex64)
    if dtype.is_float and np.dtype(dtype.storage).kind == "u":
        return as_doubles(array, dtype).astype(np.float32)
    return array
