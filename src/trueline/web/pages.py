"""What can be viewed: a Run, a comparison, a check, an overflow report and a pipeline, as the pages of ``report``;
where a page has rows, with the details of any of them at hand."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from trueline.cases import CaseResult, CheckInfo
from trueline.overflows import OverflowReport
from trueline.pipelines import PipelineReport
from trueline.report.check_html import case_details, check_page_data, shown_cases, write_check_page
from trueline.report.html import COMPARISON, title_of, write_page
from trueline.report.json import dumps
from trueline.report.overflow_html import write_overflow_html
from trueline.report.page_data import page_data, pair_details
from trueline.report.pipeline_html import write_pipeline_html
from trueline.report.run_page import call_at, call_details, run_page_data, write_run_page
from trueline.report.subject import ComparisonView
from trueline.report.tensor_error import tensor_error
from trueline.store import Run
from trueline.web.server import Answer

_NO_FRAMES = "frame-ancestors 'none'"


Words = Mapping[str, str]


class Page:
    """A page that was written once, and what it asks for afterwards: by name, a function of the words of the request
    that gives None where there is no such thing."""

    def __init__(self, write: Callable[[TextIO], None], answers: Mapping[str, Callable[[Words], Any]]) -> None:
        stream = io.StringIO()
        write(stream)
        self._content = stream.getvalue().encode("utf-8")
        self._answers = answers
        self._lock = threading.Lock()  # a Run is read by one at a time

    def page(self) -> Answer:
        """The page; its own element says what it may run and load, the header only who may frame it."""
        return Answer(self._content, "text/html; charset=utf-8", _NO_FRAMES)

    def answer(self, name: str, words: Words) -> Answer | None:
        if name not in self._answers:
            return None
        with self._lock:
            found = self._answers[name](words)
        return None if found is None else Answer(dumps(found).encode("utf-8"))


def detail_of(rows: int, detail: Callable[[int], Any]) -> Callable[[Words], Any]:
    """Answers with the detail of the row that a request names."""

    def answer(words: Words) -> Any:
        position = _number(words.get("position", ""), rows)
        return None if position is None else detail(position)

    return answer


def _number(text: str, end: int) -> int | None:
    """A number below ``end``; None where the text is none."""
    if not (text.isascii() and text.isdecimal() and len(text) < 12):
        return None
    return int(text) if int(text) < end else None


def comparison_page(comparison: ComparisonView) -> Page:
    """A comparison, which must stay open as long as the page is served."""
    data = page_data(comparison) | {"served": True}
    calls = comparison.calls

    def tensor(words: Words) -> Any:
        position = _number(words.get("position", ""), data["count"])
        pair = None if position is None else calls[position]
        place = None if pair is None else _number(words.get("place", ""), len(pair.tensors))
        if pair is None or place is None:
            return None
        at = [_number(text, 1 << 40) or 0 for text in words.get("at", "").split(",")]
        return tensor_error(comparison.reference, comparison.candidate, pair, place, at)

    return Page(
        lambda stream: write_page(stream, COMPARISON, title_of(comparison), data),
        {
            "data/detail": detail_of(data["count"], lambda position: pair_details(calls[position])),
            "data/tensor": tensor,
        },
    )


def check_page(info: CheckInfo, results: Sequence[CaseResult], folder: Path) -> Page:
    """A check that was kept."""
    data = check_page_data(info, results, folder=folder) | {"served": True}
    shown = shown_cases(results)
    return Page(
        lambda stream: write_check_page(data, stream),
        {"data/detail": detail_of(data["count"], lambda position: case_details(shown[position], folder))},
    )


def run_page(run: Run) -> Page:
    """A Run, which must stay open as long as the page is served."""
    traces = [run.rank(rank).trace() for rank in run.ranks]
    data = run_page_data(run, traces) | {"served": True}
    return Page(
        lambda stream: write_run_page(data, stream),
        {"data/detail": detail_of(data["count"], lambda position: call_details(call_at(traces, position)))},
    )


def overflow_page(report: OverflowReport) -> Page:
    return Page(lambda stream: write_overflow_html(report, stream), {})


def pipeline_page(report: PipelineReport) -> Page:
    return Page(lambda stream: write_pipeline_html(report, stream), {})
