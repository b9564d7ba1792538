"""Which call will overflow, and about when, if the trend of the recorded steps holds.

Headroom is how many times a call's largest magnitude can still double before it no longer fits its dtype. Its course
over the steps is described by the median of all slopes between two steps, which a few odd steps cannot bend; a call is
told only if nearly all slopes point down, it still falls, and the limit would be reached before long.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trueline.dtypes import limit_of
from trueline.ops.facts import Kind, facts_of
from trueline.ops.overflows import ADVICE
from trueline.overflows import Forecast, OverflowKind
from trueline.records import Call, Frame, Level, Phase, Role
from trueline.store.columns import CALL_COLUMNS, ROLES
from trueline.store.trace import Trace
from trueline.store.watch_log import Recent, Series, WatchHistory

LEAST_STEPS = 8
MOST_STEPS = 256
HORIZON = 200
"""So many steps ahead are looked at."""
_CERTAIN = 0.9
"""The share of slopes that must point down."""
_LEAST_FALL = 0.5
"""Bits that must have been lost so far."""
_STILL = 0.25
"""The slope of the last third of the steps, as a share of the whole one, at which it counts as falling still."""
_NEAR = 40.0
"""Bits of headroom beyond which nothing is told, however fast they go: a loss scaler that halves its scale looks like
that."""
_MOST_TOLD = 20
_KEY = [CALL_COLUMNS.index(name) for name in ("level", "phase", "api", "nth")]

_ROW = np.dtype([("series", "<i8"), ("step", "<i8"), ("headroom", "<f8"), ("call", "<i8"), ("leaf", "<i8")])

Rows = np.ndarray[Any, Any]
Floats = np.ndarray[tuple[int], np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Trend:
    """How headroom falls: ``headroom`` bits are left after the step ``last``, ``slope`` bits go with each step;
    ``left`` steps remain, between ``soonest`` and ``latest``."""

    last: int
    steps: int
    headroom: float
    slope: float
    left: int
    soonest: int
    latest: int

    def forecast(self, call: Call, path: str, dtype: str) -> Forecast:
        return Forecast(
            call,
            path,
            dtype,
            self.steps,
            self.headroom,
            self.slope,
            self.last + self.left,
            self.last + self.soonest,
            self.last + self.latest,
            ADVICE[OverflowKind.ACCUMULATION],
        )


def trend_of(steps: Floats, headroom: Floats) -> Trend | None:
    """The trend of one series, in the order of its steps; None where there is nothing to be told."""
    if len(steps) < LEAST_STEPS:
        return None
    now = float(np.median(headroom[-3:]))
    fall = float(np.median(headroom[: len(steps) // 3 + 1])) - now
    ahead = HORIZON / max(float(steps[-1] - steps[0]), 1.0)
    if not _worth_a_look(now, fall, ahead):
        return None
    slopes = _slopes(steps, headroom)
    slope = float(np.median(slopes)) if len(slopes) else 0.0
    if slope >= 0 or float(np.mean(slopes < 0)) < _CERTAIN or not _falls_still(steps, headroom, slope):
        return None
    left = now / -slope
    if left > HORIZON:
        return None
    quick, slow = (float(one) for one in np.quantile(slopes, [0.1, 0.9]))
    latest = math.ceil(now / -slow) if slow < 0 else 10 * HORIZON
    return Trend(int(steps[-1]), len(steps), now, slope, math.ceil(left), math.ceil(now / -quick), latest)


def _worth_a_look(now: float, fall: float, ahead: float) -> bool:
    """Whether a series can be one to tell at all; cheap, and nearly always says no."""
    return 0 < now <= _NEAR and fall > _LEAST_FALL and now <= 2.0 * fall * ahead


def _falls_still(steps: Floats, headroom: Floats, slope: float) -> bool:
    """Numbers that grew in the beginning and then stay where they are will not overflow."""
    part = max(len(steps) // 3, 4)
    recent = _slopes(steps[-part:], headroom[-part:])
    return len(recent) > 0 and float(np.median(recent)) <= _STILL * slope


def _slopes(steps: Floats, headroom: Floats) -> Floats:
    """All slopes between two steps."""
    first, second = np.triu_indices(len(steps), 1)
    apart = steps[second] - steps[first]
    return (headroom[second] - headroom[first])[apart > 0] / apart[apart > 0]


# Of a Run.


def forecasts_of(trace: Trace) -> list[Forecast]:
    """The calls of one rank that will overflow, the earliest first."""
    return earliest(_forecasts(trace))


def earliest(found: Iterator[Forecast] | Sequence[Forecast]) -> list[Forecast]:
    """The forecasts that are told, the earliest first."""
    return sorted(found, key=lambda one: one.step)[:_MOST_TOLD]


def _forecasts(trace: Trace) -> Iterator[Forecast]:
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
        found = _forecast(trace, part[-MOST_STEPS:])
        if found is not None:
            yield found


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
    limit = trace.limits(outputs[:, 4])
    with np.errstate(all="ignore"):
        size = np.fmax(np.abs(numbers["minimum"]), np.abs(numbers["maximum"]))
        headroom = limit - np.log2(size)
    calls = np.searchsorted(trace.column("id"), outputs[:, 0])
    keys = np.column_stack([trace.columns[calls][:, _KEY], outputs[:, 1]])
    series = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
    good = np.isfinite(headroom)
    rows = np.empty(int(good.sum()), _ROW)
    rows["series"], rows["step"], rows["headroom"] = series[good], trace.column("step")[calls][good], headroom[good]
    rows["call"], rows["leaf"] = calls[good], outputs[good, 1]
    return rows


def _forecast(trace: Trace, rows: Rows) -> Forecast | None:
    found = trend_of(rows["step"].astype(float), rows["headroom"])
    if found is None:
        return None
    position = int(rows["call"][-1])
    if _is_undefined(trace.names.get(int(trace.column("api")[position]), "?")):
        return None
    call = trace.call(position)
    visits = trace.visits_of(position)
    record = call.tensors[int(np.flatnonzero(visits[:, 1] == rows["leaf"][-1])[-1])]
    return found.forecast(call, record.path, record.dtype)


def _is_undefined(api: str) -> bool:
    """Whether what a call gives means nothing, as with memory that nobody wrote yet."""
    return facts_of(api).kind is Kind.UNDEFINED


# Of the log of a watch.


def forecasts_in(history: WatchHistory, rank: int) -> list[Forecast]:
    """The calls that will overflow, by the log of one rank."""
    points = history.points[np.lexsort((history.points["step"], history.points["series"]))]
    borders = np.flatnonzero(np.diff(points["series"])) + 1
    found = []
    for part in np.split(points, borders) if len(points) else []:
        series = history.series[int(part["series"][0])]
        one = forecast_of(series, part["step"][-MOST_STEPS:], part["size"][-MOST_STEPS:], rank)
        found += [] if one is None else [one]
    return earliest(found)


def forecast_of(series: Series, steps: Rows, sizes: Rows, rank: int) -> Forecast | None:
    """The forecast of one series of a watch."""
    if _is_undefined(series.api):
        return None
    headroom = limit_of(series.dtype) - sizes.astype(float)
    good = np.isfinite(headroom)
    found = trend_of(steps.astype(float)[good], headroom[good])
    if found is None:
        return None
    return found.forecast(_call(series, found.last, rank), series.path, series.dtype)


def candidates(recent: Recent, limits: Floats) -> Sequence[int]:
    """The series that may have something to tell, by a look at all of them at once; ``limits`` are their dtypes'."""
    count = len(limits)
    if not count:
        return []
    width = recent.sizes.shape[1]
    enough = np.flatnonzero(recent.count[:count] >= LEAST_STEPS)
    if not len(enough):
        return []
    held = np.minimum(recent.count[enough], width)
    newest = (recent.count[enough] - 1) % width
    oldest = np.where(recent.count[enough] > width, recent.count[enough] % width, 0)
    with np.errstate(invalid="ignore"):
        now = limits[enough] - recent.sizes[enough, newest]
        fall = limits[enough] - recent.sizes[enough, oldest] - now
        span = np.maximum(recent.steps[enough, newest] - recent.steps[enough, oldest], 1)
        chosen = (
            (now > 0)
            & (now <= _NEAR)
            & (fall > _LEAST_FALL)
            & (now <= 4.0 * fall * HORIZON / span)
            & (held >= LEAST_STEPS)
        )
    found: list[int] = enough[chosen].tolist()
    return found


def _call(series: Series, step: int, rank: int) -> Call:
    """The call of a series, as far as a log knows it."""
    return Call(
        id=-1,
        api=series.api,
        index=series.nth,
        step=step,
        rank=rank,
        phase=Phase(series.phase),
        level=Level.API,
        module=series.module,
        module_class=series.module_class,
        context=series.context,
        stack=_stack(series.source),
    )


def _stack(source: str) -> tuple[Frame, ...]:
    """``train.py:42 in step`` -> one frame."""
    place, _, function = source.rpartition(" in ")
    file, _, line = place.rpartition(":")
    return (Frame(file, int(line), function),) if line.isdigit() else ()
