"""A Run as one HTML page: the course of its calls, how large their numbers are, and each call in detail.

Columns of all calls are in it as in the page of a comparison; details of those that gave NaN or infinity or have little
room left, then of others, up to a fixed amount.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TextIO

import numpy as np

from trueline.dtypes import DTYPES
from trueline.records import Call, Role
from trueline.report.html import Layout, write_page
from trueline.report.json import dumps, plain
from trueline.report.page_data import DETAILED_BYTES, DETAILED_CALLS, Vector, encode, record_details, said_once
from trueline.report.showing import render_call, render_result
from trueline.report.wording import plural
from trueline.store import Run, Trace
from trueline.store.columns import LEVELS, PHASES, ROLES

LAYOUT = Layout(
    "run.html",
    "call",
    ("common.js", "run_data.js", "vendor/uPlot.js", "run_plot.js", "table.js", "run_details.js", "run_main.js"),
    ("page.css", "vendor/uPlot.css", "run.css"),
)
_CLOSE_BITS = 2.0
"""Less room than this and the next steps may overflow."""


def write_run_html(run: Run, stream: TextIO) -> None:
    """Writes the page of a Run."""
    traces = [run.rank(rank).trace() for rank in run.ranks]
    write_run_page(run_page_data(run, traces), stream)


def write_run_page(data: dict[str, Any], stream: TextIO) -> None:
    """Writes the page of such data."""
    write_page(stream, LAYOUT, f"{data['head']['path']}: {data['head']['summary']}", data)


def run_page_data(run: Run, traces: Sequence[Trace]) -> dict[str, Any]:
    """Everything the page shows, as JSON values."""
    parts = [_numbers(trace) for trace in traces]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    texts = _texts(traces)
    names: dict[str, list[str]] = {}
    encoded: dict[str, Any] = {}
    for name, values in texts.items():
        names[name], codes = said_once(values)
        encoded[name] = encode(codes)
    for name, values in columns.items():
        encoded[name] = encode(values)
    return {
        "head": _head(run, columns),
        "count": len(columns["step"]),
        "columns": encoded,
        "names": names,
        "details": _details(traces, columns),
    }


def call_at(traces: Sequence[Trace], position: int) -> Call:
    """The call at a row of the page."""
    for trace in traces:
        if position < len(trace):
            return trace.call(position)
        position -= len(trace)
    raise IndexError(position)


def call_details(call: Call) -> dict[str, Any]:
    """One call as the page's side panel shows it."""
    return {
        "call": render_call(call),
        "result": render_result(call),
        "raised": call.raised,
        "module_class": call.module_class,
        "context": call.context,
        "stack": [str(frame) for frame in call.stack],
        "tensors": [
            {"role": tensor.role.value, "path": tensor.path, "record": record_details(tensor)}
            for tensor in call.tensors
        ],
    }


def _head(run: Run, columns: dict[str, Vector]) -> dict[str, Any]:
    bad = int(((columns["nan"] > 0) | (columns["infinite"] > 0)).sum())
    close = int((columns["headroom"] < _CLOSE_BITS).sum())
    count = len(columns["step"])
    told = [plural(count, "call"), plural(len(np.unique(columns["step"])), "step"), plural(len(run.ranks), "rank")]
    if bad:
        told.append(f"{plural(bad, 'call')} with NaN or infinity")
    return {
        "path": str(run.path),
        "summary": ", ".join(told),
        "bad": bad,
        "close": close,
        "run": {"path": str(run.path), **plain(run.info)},
        "certificates": [
            {"rank": rank, **plain(run.rank(rank).certificate)} for rank in run.ranks
        ],
    }  # fmt: skip


def _texts(traces: Sequence[Trace]) -> dict[str, Vector]:
    api, module, source, dtype = [], [], [], []
    for trace in traces:
        api.append(_said(trace.column("api"), trace.names, "?"))
        module.append(_said(trace.column("module"), {k: path for k, (path, _) in trace.modules.items()}, ""))
        first = {number: str(frames[0]) if frames else "" for number, frames in trace.stacks.items()}
        source.append(_said(trace.column("stack"), first, ""))
        dtype.append(_output_dtypes(trace))
    return {
        "api": np.concatenate(api),
        "module": np.concatenate(module),
        "source": np.concatenate(source),
        "dtype": np.concatenate(dtype),
    }


def _said(numbers: Vector, texts: dict[int, str], nothing: str) -> Vector:
    found = np.empty(len(numbers), dtype=object)
    found[:] = [texts.get(number, nothing) for number in numbers.tolist()]
    return found


def _output_dtypes(trace: Trace) -> Vector:
    """The dtype of each call's first output."""
    outputs = trace.visits[trace.visits[:, 2] == ROLES.index(Role.OUTPUT)]
    calls, first = np.unique(outputs[:, 0], return_index=True)
    found = np.full(len(trace), "", dtype=object)
    places = np.searchsorted(trace.column("id"), calls)
    found[places] = [trace.layouts[number].dtype for number in outputs[first, 4].tolist()]
    return found


def _numbers(trace: Trace) -> dict[str, Vector]:
    """Of each call: where it stands, and of its outputs the largest magnitude (as a power of two), the room that is
    left to the limit of the dtype in bits, and how many elements are NaN or infinite."""
    count = len(trace)
    largest, room = np.full(count, -np.inf), np.full(count, np.inf)
    nan, infinite, elements = (np.zeros(count, dtype=np.int64) for _ in range(3))
    outputs = trace.visits[trace.visits[:, 2] == ROLES.index(Role.OUTPUT)]
    extremes = trace.extremes
    place = np.minimum(np.searchsorted(extremes["tensor"], outputs[:, 3]), max(len(extremes) - 1, 0))
    if len(extremes):
        known = extremes["tensor"][place] == outputs[:, 3]
        outputs, found = outputs[known], extremes[place[known]]
        calls = np.searchsorted(trace.column("id"), outputs[:, 0])
        limits = np.array([_limit(trace.layouts[number].dtype) for number in range(max(trace.layouts, default=-1) + 1)])
        with np.errstate(all="ignore"):
            bits = np.log2(np.fmax(np.abs(found["minimum"]), np.abs(found["maximum"])))
        here = ~np.isnan(bits)
        np.maximum.at(largest, calls[here], bits[here])
        np.minimum.at(room, calls[here], (limits[outputs[:, 4]] - bits)[here])
        np.add.at(nan, calls, found["nan"])
        np.add.at(infinite, calls, found["positive_infinity"] + found["negative_infinity"])
        np.add.at(elements, calls, found["count"])
    return {
        "step": trace.column("step"),
        "rank": np.full(count, trace.rank),
        "index": trace.column("nth"),
        "backward": (trace.column("phase") == PHASES.index(PHASES[1])).astype(np.int64),
        "level": np.clip(trace.column("level"), 0, len(LEVELS) - 1),
        "raised": (trace.column("raised") >= 0).astype(np.int64),
        "largest": np.where(np.isinf(largest), np.nan, largest).astype("<f4"),
        "headroom": np.where(np.isfinite(room), room, np.nan).astype("<f4"),
        "nan": np.minimum(nan, 2**32 - 1),
        "infinite": np.minimum(infinite, 2**32 - 1),
        "elements": np.minimum(elements, 2**32 - 1),
    }


def _limit(dtype: str) -> float:
    kind = DTYPES.get(dtype)
    return math.log2(kind.largest) if kind is not None and kind.is_float else math.nan


def _details(traces: Sequence[Trace], columns: dict[str, Vector]) -> dict[str, Any]:
    bad = (columns["nan"] > 0) | (columns["infinite"] > 0) | (columns["raised"] > 0)
    close = columns["headroom"] < _CLOSE_BITS
    order = np.argsort(np.where(bad, 0, np.where(close, 1, 2)), kind="stable")
    details: dict[str, Any] = {}
    budget = DETAILED_BYTES
    for position in order[:DETAILED_CALLS].tolist():
        if budget < 0:
            break
        detail = call_details(call_at(traces, position))
        budget -= len(dumps(detail))
        details[str(position)] = detail
    return details
