"""An overflow report as JSON and CSV.

{"format": "trueline-overflow", "version": 1, "summary", "alarms", "births": [{call, api, phase, step, rank, module,
 source, path, dtype, shape, nan, positive_infinity, negative_infinity, count, element, operands, kind, nature, why,
 alarm, chain, victims, ends, advice}], "forecasts": [...], "skipped": [...], "notes": [...], "watched": [{rank, steps,
 looks, overflows, meant, messages, first}], "events": [...] (of a watch that still runs)}
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Any, TextIO

from trueline.overflows import Birth, Forecast, OverflowReport, WatchEvent
from trueline.records import Call
from trueline.report.csv import safe
from trueline.report.json import dumps, plain
from trueline.report.overflow_text import sentence
from trueline.report.partial import partial_first, partial_paths

FORMAT = "trueline-overflow"
VERSION = 1
COLUMNS = (
    "Call", "API", "Phase", "Step", "Rank", "Module", "Source", "Tensor", "Dtype", "Shape", "NaN", "+Inf", "-Inf",
    "Elements", "Kind", "Nature", "Alarm", "Why", "Ends In", "Victims", "Advice",
)  # fmt: skip


def write_overflow_json(report: OverflowReport, stream: TextIO, events: Sequence[WatchEvent] = ()) -> None:
    content = {
        "format": FORMAT,
        "version": VERSION,
        "run": report.path,
        "summary": sentence(report),
        "alarms": len(report.alarms),
        "calls": report.calls,
        "tensors": report.tensors,
        "births": [birth_dict(birth) for birth in report.births],
        "forecasts": [forecast_dict(one) for one in report.forecasts],
        "skipped": plain(report.skipped),
        "notes": list(report.notes),
        "watched": plain(report.watched),
        "events": [event_dict(one) for one in events],
    }
    stream.write(dumps(partial_first(partial_paths([report.path]), content)) + "\n")


def birth_dict(birth: Birth) -> dict[str, Any]:
    counts = birth.counts
    content = {
        **_place(birth.call),
        "path": birth.path,
        "dtype": birth.dtype,
        "shape": list(birth.shape),
        "nan": counts.nan,
        "positive_infinity": counts.positive_infinity,
        "negative_infinity": counts.negative_infinity,
        "count": counts.of,
        "element": None if birth.element is None else list(birth.element),
        "operands": dict(birth.operands),
        "kind": birth.kind.value,
        "nature": birth.nature.value,
        "why": birth.why,
        "alarm": birth.alarm,
        "chain": list(birth.chain),
        "victims": birth.victims,
        "ends": birth.ends,
        "advice": birth.advice,
    }
    found: dict[str, Any] = plain(content)
    return found


def forecast_dict(one: Forecast) -> dict[str, Any]:
    numbers = {name: getattr(one, name) for name in ("steps", "headroom", "slope", "step", "earliest", "latest")}
    found: dict[str, Any] = plain({**_place(one.call), "path": one.path, "dtype": one.dtype, **numbers})
    return found


def event_dict(event: WatchEvent) -> dict[str, Any]:
    words = ("step", "rank", "message", "run", "api", "call", "module", "source")
    return {"kind": event.kind.value, **{name: getattr(event, name) for name in words}}


def _place(call: Call) -> dict[str, Any]:
    return {
        "call": call.name,
        "api": call.api,
        "phase": call.phase.value,
        "at_step": call.step,
        "rank": call.rank,
        "module": call.module,
        "source": call.source,
    }


def write_overflow_csv(report: OverflowReport, stream: TextIO) -> None:
    writer = csv.writer(stream)
    writer.writerow(COLUMNS)
    for birth in report.births:
        call, counts = birth.call, birth.counts
        row = (
            call.name, call.api, call.phase.value, call.step, call.rank, call.module, call.source, birth.path,
            birth.dtype, list(birth.shape), counts.nan, counts.positive_infinity, counts.negative_infinity, counts.of,
            birth.kind.value, birth.nature.value, birth.alarm, birth.why, birth.ends, birth.victims, birth.advice,
        )  # fmt: skip
        writer.writerow([safe(str(cell)) for cell in row])
