"""Captures a function of Paddle's and opens what was recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import trueline
from trueline.records import Call
from trueline.store import RankReader, open_run


def captured(path: Path, function: Callable[[], Any], **options: Any) -> RankReader:
    """Records a function into a new Run below ``path``."""
    run = path / f"run{len(list(path.iterdir()))}"
    with trueline.capture(run, framework="paddle", **options):
        function()
    reader = open_run(run).rank(0)
    faults = [reason for reason in reader.certificate.not_recorded if "internal fault" in reason]
    assert not faults, faults
    return reader


def calls(path: Path, function: Callable[[], Any], **options: Any) -> list[Call]:
    return list(captured(path, function, **options).trace())
