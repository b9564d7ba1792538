"""A Run as one HTML page: the course of its calls, how large their numbers are, and each call in detail.

Columns of all calls are in it as in the page of a comparison; details of those that gave NaN or infinity or have little
room left, then of others, up to a fixed amount. Where bad numbers were born is said by an overflow report, how long
calls take by a profile: whoever has these hands them in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TextIO

import numpy as np

from trueline.errors import UsageError
from trueline.overflows import OverflowReport
from trueline.records import Call, Phase, Role
from trueline.report.call_numbers import Vector, call_numbers
from trueline.report.html import Layout, write_page
from trueline.report.json import dumps, plain
from trueline.report.overflow_html import birth_story
from trueline.report.overflow_text import sentence
from trueline.report.page_data import DETAILED_BYTES, DETAILED_CALLS, encode, said_once
from trueline.report.pair_details import record_details
from trueline.report.partial import partial_first, partial_run
from trueline.report.phrases import Phrases, counted
from trueline.report.run_story import RunStory
from trueline.report.run_times import call_times
from trueline.report.showing import render_call, render_result
from trueline.store import Run, Trace
from trueline.store.columns import LEVELS, PHASES, ROLES

LAYOUT = Layout(
    "run.html",
    "call",
    (
        "chinese_numbers.js", "chinese_run.js", "vendor/uPlot.js", "line_chart.js", "small_table.js", "run_data.js",
        "run_plot.js", "table.js", "run_steps.js", "run_modules.js", "overflow_way.js", "run_details.js",
        "run_main.js",
    ),
    ("vendor/uPlot.css", "line_chart.css", "run.css", "overflow_way.css"),
)  # fmt: skip
_CLOSE_BITS = 2.0
"""Less room than this and the next steps may overflow."""


def write_run_html(
    run: Run, stream: TextIO, *, overflow: OverflowReport | None = None, profile: Mapping[str, Any] | None = None
) -> None:
    """Writes the page of a Run; ``overflow`` says where its NaN and infinities were born, ``profile`` (as JSON has it)
    how long its calls take and how much memory."""
    traces = [run.rank(rank).trace() for rank in run.ranks]
    write_run_page(run_page_data(run, traces, overflow=overflow, profile=profile), stream)


def write_run_page(data: dict[str, Any], stream: TextIO) -> None:
    """Writes the page of such data."""
    write_page(stream, LAYOUT, f"{data['head']['path']}: {data['head']['summary']}", data)


def run_page_data(
    run: Run,
    traces: Sequence[Trace],
    *,
    overflow: OverflowReport | None = None,
    profile: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Everything the page shows, as JSON values."""
    try:
        parts = [_columns(trace, profile) for trace in traces]
        profiled = None if profile is None else _profiled(profile)
    except (KeyError, TypeError, AttributeError):
        raise UsageError(f"the profile for {run.path} cannot be read; run trueline profile --out again") from None
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    names: dict[str, list[str]] = {}
    encoded: dict[str, Any] = {}
    for name, values in _texts(traces).items():
        names[name], codes = said_once(values)
        encoded[name] = encode(codes)
    encoded |= {name: encode(values) for name, values in columns.items()}
    head = _head(run, columns)
    if overflow is not None:
        head["overflow"] = _overflow(overflow, RunStory(run, traces))
    if profiled is not None:
        head["profile"] = profiled
    return {
        "head": head,
        "count": len(columns["step"]),
        "columns": encoded,
        "names": names,
        "details": _details(traces, columns),
    }


def has_bad_numbers(traces: Sequence[Trace]) -> bool:
    """Whether any tensor of a Run holds NaN or infinity, so that somebody should find out where it was born."""
    names = ("nan", "positive_infinity", "negative_infinity")
    return any(bool(trace.extremes[name].any()) for trace in traces for name in names)


def _overflow(report: OverflowReport, story: RunStory) -> dict[str, Any]:
    """The origin and the way that it took, for the picture of it."""
    origin = report.origin
    return {
        "summary": sentence(report),
        "wrong": report.wrong,
        "alarms": len(report.alarms),
        "births": len(report.births),
        "origin": None if origin is None else birth_story(origin, story),
    }


def _profiled(profile: Mapping[str, Any]) -> dict[str, Any]:
    info = profile["info"]
    return {"target": info["target"], "against": info["against"], "summary": profile["summary"]}


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
    told: list[str] = [
        counted(count, "{n} call", "{n} calls"),
        counted(len(np.unique(columns["step"])), "{n} step", "{n} steps"),
        counted(len(run.ranks), "{n} rank", "{n} ranks"),
    ]
    if bad:
        told.append(counted(bad, "{n} call with NaN or infinity", "{n} calls with NaN or infinity"))
    content = {
        "path": str(run.path),
        "summary": Phrases(", ", told),
        "bad": bad,
        "close": close,
        "run": {"path": str(run.path), **plain(run.info)},
        "certificates": [
            {"rank": rank, **plain(run.rank(rank).certificate)} for rank in run.ranks
        ],
    }  # fmt: skip
    return partial_first(partial_run(run), content)


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


def _columns(trace: Trace, profile: Mapping[str, Any] | None) -> dict[str, Vector]:
    """Of each call: where it stands, how large its numbers are and, where there is a profile, what it costs."""
    count = len(trace)
    return {
        "step": trace.column("step"),
        "rank": np.full(count, trace.rank),
        "index": trace.column("nth"),
        "backward": (trace.column("phase") == PHASES.index(Phase.BACKWARD)).astype(np.int64),
        "level": np.clip(trace.column("level"), 0, len(LEVELS) - 1),
        "raised": (trace.column("raised") >= 0).astype(np.int64),
        **call_numbers(trace),
        **({} if profile is None else call_times(trace, profile)),
    }


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
