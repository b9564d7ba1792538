"""The page of a pipeline, with the end of what its commands wrote."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from trueline.pipelines import PipelineReport
from trueline.report.pipeline_html import pipeline_page_data, write_pipeline_page
from trueline.report.pipeline_log import log_tail
from trueline.web.pages import Page, detail_of

_LOG_BYTES = 128 << 10


def pipeline_page(report: PipelineReport, path: str | os.PathLike[str]) -> Page:
    """A pipeline. ``path`` is the folder of the report, or its file: logs are read from below that folder alone, and
    only those that the report names."""
    place = Path(path)
    folder = place if place.is_dir() else place.parent
    data = pipeline_page_data(report, folder) | {"served": True}

    def log(position: int) -> Any:
        return log_tail(report, report.results[position], folder, _LOG_BYTES)

    return Page(lambda stream: write_pipeline_page(data, stream), {"data/log": detail_of(data["count"], log)})
