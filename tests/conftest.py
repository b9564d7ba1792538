"""The order in which files of tests are given out to the processes of ``make test``."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
WITH_PROCESSES = ("campaign", "pipeline", "docs", "compat", "capture", "diagnose", "benchmarks", "replay", "web", "cli")
"""Rooms whose tests start processes, most of which import a framework: a file of theirs may take a minute."""


def _turn(path: Path) -> int:
    parts = path.relative_to(TESTS).parts
    if len(parts) == 1:
        return -1  # the rules and the demo
    return WITH_PROCESSES.index(parts[0]) if parts[0] in WITH_PROCESSES else len(WITH_PROCESSES)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first (with ``--no-loadscope-reorder``): what is left at the end, when one process has nothing more to
    do, is then short. The order within a room stays."""
    items.sort(key=lambda item: _turn(item.path))
