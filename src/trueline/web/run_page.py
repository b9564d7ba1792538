"""The page of a Run, with the details of any call at hand; where its bad numbers were born, and what its calls cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from trueline.diagnose.overflow import overflow
from trueline.overflows import OverflowReport
from trueline.report.profile_json import read_profile_json
from trueline.report.run_page import (
    call_at,
    call_details,
    has_bad_numbers,
    run_page_data,
    write_run_html,
    write_run_page,
)
from trueline.store import Run, Trace
from trueline.web.pages import Page, detail_of


def run_page(run: Run, profile: str | Path | None = None) -> Page:
    """A Run, which must stay open as long as the page is served; ``profile`` is where one of it was kept."""
    traces = [run.rank(rank).trace() for rank in run.ranks]
    data = run_page_data(run, traces, overflow=_overflow(run, traces), profile=_profile(profile)) | {"served": True}
    return Page(
        lambda stream: write_run_page(data, stream),
        {"data/detail": detail_of(data["count"], lambda position: call_details(call_at(traces, position)))},
    )


def write_run_file(run: Run, stream: TextIO, profile: str | Path | None = None) -> None:
    """The same page as one file."""
    traces = [run.rank(rank).trace() for rank in run.ranks]
    write_run_html(run, stream, overflow=_overflow(run, traces), profile=_profile(profile))


def _overflow(run: Run, traces: Sequence[Trace]) -> OverflowReport | None:
    """Where its NaN and infinities were born; nothing is executed for it, so a page opens at once."""
    return overflow(run.path, replay=False, forecast=False) if has_bad_numbers(traces) else None


def _profile(path: str | Path | None) -> Mapping[str, Any] | None:
    return None if path is None else read_profile_json(Path(path))
