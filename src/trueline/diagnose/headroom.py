"""Which call will overflow, and about when, if the trend of the recorded steps holds.

Headroom is how many times a call's largest magnitude can still double before it no longer fits its dtype. Its course
over the steps is described by the median of all slopes between two steps, which a few odd steps cannot bend; a call is
told only if nearly all slopes point down and the limit would be reached before long.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from trueline.diagnose.operands import largest
from trueline.dtypes import DTYPES
from trueline.ops.facts import Kind, facts_of
from trueline.ops.overflows import ADVICE
from trueline.overflows import Forecast, OverflowKind
from trueline.records import Role
from trueline.store.columns import CALL_COLUMNS, ROLES
from trueline.store.trace import Trace

LEAST_STEPS = 8
MOST_STEPS = 256
HORIZON = 200
"""So many steps ahead are looked at."""
_CERTAIN = 0.9
"""The share of slopes that must point down."""
_MOST_TOLD = 20
_KEY = [CALL_COLUMNS.index(name) for name in ("level", "phase", "api", "nth")]

_ROW = np.dtype([("series", "<i8"), ("step", "<i8"), ("headroom", "<f8"), ("call", "<i8"), ("leaf", "<i8")])

Rows = np.ndarray[Any, Any]
Floats = np.ndarray[tuple[int], np.dtype[np.float64]]


def forecasts_of(trace: Trace) -> list[Forecast]:
    """The calls of one rank that will overflow, the earliest first."""
    found = [one for one in _forecasts(trace) if one is not None]
    return sorted(found, key=lambda one: one.step)[:_MOST_TOLD]


def _forecasts(trace: Trace) -> Iterator[Forecast | None]:
    steps = np.unique(trace.column("step"))
    if len(steps) < LEAST_STEPS:
        return
    rows = _rows(trace)
    if not len(rows):
        return
    order = np.lexsort((rows["step"], rows["series"]))
    rows = rows[order]
    borders = np.flatnonzero(np.diff(rows["series"])) + 1
    for part in np.split(rows, borders):
        yield _forecast(trace, part[-MOST_STEPS:])


def _rows(trace: Trace) -> Rows:
    """Every floating-point output with its headroom: series (which call and output it is), step, headroom."""
    visits = trace.visits
    outputs = visits[visits[:, 2] == ROLES.index(Role.OUTPUT)]
    extremes = trace.extremes
    place = np.searchsorted(extremes["tensor"], outputs[:, 3])
    known = place < len(extremes)
    outputs, place = outputs[known], place[known]
    same = extremes["tensor"][place] == outputs[:, 3]
    outputs, numbers = outputs[same], extremes[place[same]]
    limits = np.array([_limit(trace.layouts[number].dtype) for number in range(max(trace.layouts, default=-1) + 1)])
    limit = limits[outputs[:, 4]]
    with np.errstate(all="ignore"):
        size = np.fmax(np.abs(numbers["minimum"]), np.abs(numbers["maximum"]))
        headroom = np.log2(limit) - np.log2(size)
    calls = np.searchsorted(trace.column("id"), outputs[:, 0])
    keys = np.column_stack([trace.columns[calls][:, _KEY], outputs[:, 1]])
    series = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
    good = np.isfinite(headroom)
    rows = np.empty(int(good.sum()), _ROW)
    rows["series"], rows["step"], rows["headroom"] = series[good], trace.column("step")[calls][good], headroom[good]
    rows["call"], rows["leaf"] = calls[good], outputs[good, 1]
    return rows


def _limit(dtype: str) -> float:
    kind = DTYPES.get(dtype)
    return largest(kind.name) if kind is not None and kind.is_float else math.nan


def _forecast(trace: Trace, rows: Rows) -> Forecast | None:
    if len(rows) < LEAST_STEPS:
        return None
    steps, headroom = rows["step"].astype(float), rows["headroom"]
    now = float(np.median(headroom[-3:]))
    fall = float(np.median(headroom[: len(rows) // 3 + 1])) - now
    ahead = HORIZON / max(steps[-1] - steps[0], 1.0)
    if now <= 0 or fall <= 0.5 or now > 2.0 * fall * ahead:
        return None
    slopes = _slopes(steps, headroom)
    slope = float(np.median(slopes))
    if slope >= 0 or float(np.mean(slopes < 0)) < _CERTAIN:
        return None
    left = now / -slope
    if left > HORIZON:
        return None
    position = int(rows["call"][-1])
    if facts_of(trace.names.get(int(trace.column("api")[position]), "?")).kind is Kind.UNDEFINED:
        return None
    call = trace.call(position)
    visits = trace.visits_of(position)
    place = int(np.flatnonzero(visits[:, 1] == rows["leaf"][-1])[-1])
    record = call.tensors[place]
    last = int(steps[-1])
    quick, slow = np.quantile(slopes, [0.1, 0.9])
    latest = last + math.ceil(now / -slow) if slow < 0 else last + 10 * HORIZON
    return Forecast(
        call,
        record.path,
        record.dtype,
        len(rows),
        now,
        slope,
        last + math.ceil(left),
        last + math.ceil(now / -float(quick)),
        int(latest),
        ADVICE[OverflowKind.ACCUMULATION],
    )


def _slopes(steps: Floats, headroom: Floats) -> Floats:
    """All slopes between two steps."""
    first, second = np.triu_indices(len(steps), 1)
    apart = steps[second] - steps[first]
    return (headroom[second] - headroom[first])[apart > 0] / apart[apart > 0]
