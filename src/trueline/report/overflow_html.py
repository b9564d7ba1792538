"""An overflow report as one HTML page that opens from disk, asks nothing of the network and can be mailed (see
``html``): who was the first, whether it had to be, the way it took to the loss, and what will overflow next.

The report alone names calls. Where the Run is at hand the page also shows what these calls gave, how their room shrank
over the steps, and what was called just before.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from trueline.errors import RunError
from trueline.overflows import Birth, Forecast, Nature, OverflowReport
from trueline.records import Phase
from trueline.report.html import Layout, write_page
from trueline.report.json import plain
from trueline.report.overflow_files import birth_dict, forecast_dict
from trueline.report.overflow_text import birth_sentence, forecast_sentence, next_steps, sentence
from trueline.report.page_data import encode, said_once
from trueline.report.partial import partial_first, partial_paths
from trueline.report.phrases import Phrases, counted
from trueline.report.run_story import RunStory
from trueline.report.wording import command, module_of
from trueline.store import open_run

LAYOUT = Layout(
    "overflow.html",
    "birth",
    (
        "chinese_numbers.js", "chinese_overflow.js", "vendor/uPlot.js", "line_chart.js", "small_table.js",
        "overflow_data.js", "table.js", "overflow_way.js", "overflow_details.js", "overflow_main.js",
    ),
    ("vendor/uPlot.css", "line_chart.css", "small_table.css", "overflow.css", "overflow_way.css"),
)  # fmt: skip
_MOST_STORIES = 60
"""Births that are told in full; the others are rows. The first are what counts."""
_MOST_MESSAGES = 500


def write_overflow_html(report: OverflowReport, stream: TextIO) -> None:
    """Writes the page, with what the Run that the report is of knows, where it can be opened."""
    try:
        with open_run(report.path) as run:
            data = overflow_page_data(report, RunStory(run))
    except (RunError, OSError):
        data = overflow_page_data(report)
    write_overflow_page(data, stream)


def write_overflow_page(data: dict[str, Any], stream: TextIO) -> None:
    """Writes the page of such data."""
    word = "Overflow" if data["head"]["wrong"] else "Clean"
    write_page(stream, LAYOUT, f"{word}: {data['head']['summary']}", data)


def overflow_page_data(report: OverflowReport, story: RunStory | None = None) -> dict[str, Any]:
    """Everything the page shows, as JSON values."""
    columns, names = _columns(report.births)
    told = report.births[:_MOST_STORIES]
    return {
        "head": partial_first(partial_paths([report.path]), _head(report, story)),
        "count": len(report.births),
        "columns": columns,
        "names": names,
        "details": {str(place): birth_story(birth, story) for place, birth in enumerate(told)},
    }


def birth_story(birth: Birth, story: RunStory | None) -> dict[str, Any]:
    """A birth as the pages show it: what the report says, the way it took, the course of its room, the calls before."""
    return {
        **birth_dict(birth),
        "sentence": birth_sentence(birth),
        "in_module": module_of(birth.call),
        "stack": [str(frame) for frame in birth.call.stack],
        "way": [{"name": name} for name in birth.chain] if story is None else story.way(birth),
        "course": None if story is None else story.course(birth),
        "before": [] if story is None else story.before(birth),
    }


def _head(report: OverflowReport, story: RunStory | None) -> dict[str, Any]:
    origin = report.origin
    return {
        "path": report.path,
        "name": Path(report.path).name,
        "wrong": report.wrong,
        "summary": sentence(report),
        "scope": Phrases(
            ", ",
            [
                counted(report.calls, "{n} call", "{n} calls"),
                counted(report.tensors, "{n} tensor", "{n} tensors"),
                counted(len(report.ranks), "{n} rank", "{n} ranks"),
            ],
        ),
        "measured": report.measured,
        "position": None if origin is None else report.births.index(origin),
        "alarms": len(report.alarms),
        "meant": sum(birth.nature is Nature.MEANT for birth in report.births),
        "ranks": list(report.ranks),
        "notes": list(report.notes),
        "skipped": plain(report.skipped),
        "watched": [{**plain(one), "messages": list(one.messages[:_MOST_MESSAGES])} for one in report.watched],
        "forecasts": [_forecast(one, story) for one in report.forecasts],
        "next": _next(report),
    }


def _forecast(one: Forecast, story: RunStory | None) -> dict[str, Any]:
    return {
        **forecast_dict(one),
        "sentence": forecast_sentence(one),
        "advice": one.advice,
        "course": None if story is None else story.course(one),
    }


def _next(report: OverflowReport) -> list[dict[str, str]]:
    view = ("view", command("trueline", "view", report.path))
    return [{"why": why, "command": line} for why, line in (*next_steps(report), view)]


def _columns(births: Sequence[Birth]) -> tuple[dict[str, Any], dict[str, list[str]]]:
    texts = {
        "api": [birth.call.api for birth in births],
        "module": [birth.call.module for birth in births],
        "source": [birth.call.source for birth in births],
        "dtype": [birth.dtype for birth in births],
        "kind": [birth.kind.value for birth in births],
        "nature": [birth.nature.value for birth in births],
        "ends": [birth.ends for birth in births],
        "why": [birth.why for birth in births],
    }
    numbers = {
        "step": [birth.call.step for birth in births],
        "rank": [birth.call.rank for birth in births],
        "index": [birth.call.index for birth in births],
        "backward": [birth.call.phase is Phase.BACKWARD for birth in births],
        "alarm": [birth.alarm for birth in births],
        "nan": [min(birth.counts.nan, 2**32 - 1) for birth in births],
        "infinite": [min(birth.counts.infinite, 2**32 - 1) for birth in births],
        "elements": [min(birth.counts.of, 2**32 - 1) for birth in births],
        "victims": [birth.victims for birth in births],
    }
    columns: dict[str, Any] = {}
    names: dict[str, list[str]] = {}
    for name, values in texts.items():
        names[name], codes = said_once(np.array(values, dtype=object))
        columns[name] = encode(codes)
    for name, amounts in numbers.items():
        columns[name] = encode(np.array(amounts, dtype=np.int64))
    return columns, names
