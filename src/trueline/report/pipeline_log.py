"""The end of what a command of a pipeline wrote, read safely.

A report is a file that may come from anybody, so the path of a log in it is a claim: it is taken relative to the folder
that the report says it was written to, looked for in the folder where the report lies now, and read only if it is a
plain file below it, whatever links it goes through.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from trueline.pipelines import PipelineReport, StageResult


def log_link(report: PipelineReport, result: StageResult) -> str:
    """The log beside the page, relative to the folder of the report; empty where there is none below it."""
    if not result.log or report.info is None:
        return ""
    place = os.path.relpath(result.log, report.info.folder or ".")
    return "" if place.startswith("..") or os.path.isabs(place) else f"./{Path(place).as_posix()}"


def log_tail(report: PipelineReport, result: StageResult, folder: Path, most: int) -> dict[str, Any] | None:
    """The last ``most`` bytes of the log as text, and how many bytes come before; None where it cannot be read."""
    link = log_link(report, result)
    if not link:
        return None
    try:
        root = folder.resolve(strict=True)
        file = (root / link).resolve(strict=True)
        if not file.is_relative_to(root):
            return None
        number = os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError):
        return None
    try:
        found = os.fstat(number)
        if not stat.S_ISREG(found.st_mode):
            return None
        start = max(0, found.st_size - most)
        content = os.pread(number, most, start)
    finally:
        os.close(number)
    return {"text": content.decode("utf-8", errors="replace"), "before": start, "size": found.st_size}
