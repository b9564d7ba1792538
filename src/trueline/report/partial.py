"""Says of a report, before anything else, that a Run behind it is only a part of what was asked for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trueline.errors import TruelineError
from trueline.records import Certificate
from trueline.report.blocks import Block, Paragraph, Span
from trueline.store import Run, open_run
from trueline.store.writer import RUN_FILE

WORDS = "PARTIAL RECORD"


def partial_run(run: Run) -> list[str]:
    """What each rank of a Run says is missing."""
    return _said(str(run.path), {rank: run.rank(rank).certificate for rank in run.ranks})


def partial_runs(runs: Iterable[Run | None]) -> list[str]:
    """The same of several."""
    return [text for run in runs if run is not None for text in partial_run(run)]


def partial_paths(paths: Iterable[str]) -> list[str]:
    """The same of those of these that are Runs, and are still there."""
    found: list[str] = []
    for path in paths:
        try:
            if (Path(path) / RUN_FILE).is_file():
                with open_run(path) as run:
                    found += partial_run(run)
        except (TruelineError, OSError):
            continue  # whoever reads it says what is wrong with it
    return found


def partial_certificates(path: str, certificates: dict[int, Certificate]) -> list[str]:
    return _said(path, certificates)


def partial_blocks(texts: list[str]) -> list[Block]:
    """The first line of a report; none for a whole one."""
    return [Paragraph((Span(f"{WORDS}  ", "warn"), Span("; ".join(texts), "strong")))] if texts else []


def partial_first(texts: list[str], content: dict[str, Any]) -> dict[str, Any]:
    """The same for JSON and for the data of a page."""
    return {"partial": texts, **content} if texts else content


def _said(path: str, certificates: dict[int, Certificate]) -> list[str]:
    return [f"{path}, rank {rank}: {one.partial}" for rank, one in certificates.items() if one.partial]
