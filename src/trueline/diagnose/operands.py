"""What a call was given where its result is bad: the numbers at that element, or the range of each argument."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.diagnose.replaying import numbers_of
from trueline.dtypes import DTYPES, dtype_named
from trueline.ops.facts import Kind, facts_of
from trueline.ops.overflows import Failure, Operand, scalar
from trueline.records import Call, Phase, Statistics, TensorRecord

Array = NDArray[Any]
Fetch = Callable[[TensorRecord], Array]

_BY_ELEMENT = frozenset({Kind.MOVE, Kind.SELECT, Kind.SUM, Kind.PRODUCT, Kind.SINGULAR, Kind.SMOOTH, Kind.EXPONENTIAL})
_NOT_BY_ELEMENT = frozenset({"softmax", "log_softmax", "softmin", "cat", "stack", "index", "gather", "clip_grad_norm"})
_REVERSED = ("__rtruediv__", "__rsub__", "__rpow__", "__rdiv__", "rsub")


def first_bad(record: TensorRecord, fetch: Fetch) -> tuple[int, ...] | None:
    """The index of the first element that is no number; None where the tensor was not kept or is all right."""
    if not record.stored or dtype_named(record.dtype).is_exact:
        return None
    found = np.flatnonzero(~np.isfinite(numbers_of(fetch(record), record.dtype)))
    if not len(found):
        return None
    return tuple(int(one) for one in np.unravel_index(int(found[0]), record.shape or (1,)))[: len(record.shape)]


def failure_of(
    call: Call, forward: Call, record: TensorRecord, element: tuple[int, ...] | None, fetch: Fetch
) -> Failure:
    """A bad result with all that is known of what it was made of."""
    backward = call.phase is Phase.BACKWARD
    facts = facts_of(forward.api)
    exact = element is not None and facts.kind in _BY_ELEMENT and facts.name not in _NOT_BY_ELEMENT
    at = element if exact else None
    operands = _operands(forward, record, at, fetch)
    if forward.api.rpartition(".")[2] in _REVERSED:
        operands = operands[::-1]
    gradient = None
    if backward:
        arriving = next((one for one in call.inputs if is_float(one.dtype)), None)
        gradient = None if arriving is None else _operand(arriving, record.shape, at, fetch)
    kinds = [dtype_named(one.dtype) for one in forward.inputs if is_float(one.dtype)]
    counts = record.statistics
    return Failure(
        forward.api,
        backward,
        counts is not None and counts.nan > 0,
        operands,
        max(kinds, key=lambda kind: kind.exponent_max, default=None),
        dtype_named(record.dtype),
        gradient,
    )


def _operands(forward: Call, record: TensorRecord, at: tuple[int, ...] | None, fetch: Fetch) -> list[Operand]:
    """Tensors and numbers among the arguments, in order. Of lists of tensors, as optimizers pass them, the one that
    belongs to the bad result."""
    by_path = {one.path: one for one in forward.inputs}
    arguments = forward.arguments if isinstance(forward.arguments, dict) else {}
    listed = record.path.split(".")[2:3]
    found: list[Operand] = []
    named = [(f"args.{place}", value) for place, value in enumerate(arguments.get("args", []))]
    named += [(f"kwargs.{name}", value) for name, value in (arguments.get("kwargs") or {}).items()]
    for path, value in named:
        if isinstance(value, bool):
            continue
        if isinstance(value, int | float):
            found.append(scalar(path, float(value)))
        elif isinstance(value, dict) and "$float" in value:
            found.append(scalar(path, float(value["$float"])))
        else:
            one = by_path.get(path) or by_path.get(".".join([path, *listed]))
            if one is not None and is_float(one.dtype):
                found.append(_operand(one, record.shape, at, fetch))
    return found


def _operand(record: TensorRecord, shape: Sequence[int], at: tuple[int, ...] | None, fetch: Fetch) -> Operand:
    counts = record.statistics or Statistics(0, math.nan, math.nan, 0.0, 0.0, 0, 0, 0, 0, 0, -1)
    return Operand(
        record.path,
        counts.minimum,
        counts.maximum,
        counts.zeros,
        counts.positive_infinity + counts.negative_infinity,
        counts.nan,
        None if at is None else _value_at(record, shape, at, fetch),
    )


def _value_at(record: TensorRecord, shape: Sequence[int], at: tuple[int, ...], fetch: Fetch) -> float | None:
    """The element that goes into the element ``at`` of a result of this shape, where one is stretched to the other."""
    if not record.stored or len(record.shape) > len(shape):
        return None
    offset = len(shape) - len(record.shape)
    index = []
    for size, wanted, place in zip(record.shape, shape[offset:], at[offset:], strict=True):
        if size not in (1, wanted):
            return None
        index.append(0 if size == 1 else place)
    values = numbers_of(fetch(record), record.dtype).reshape(record.shape)
    value = values[tuple(index)]
    return float(value.real)


def is_float(dtype: str) -> bool:
    """Whether a dtype, by its name, can hold NaN and infinity."""
    kind = DTYPES.get(dtype)
    return kind is not None and not kind.is_exact
