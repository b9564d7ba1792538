"""What the old tools had at their tops, to be changed there: ``TEST_LOG_PATH`` and ``LOG_PREFIXES``.

An argument comes before the environment variable of the name, that before what stands in the script. A path is looked
for from the current folder, then from the project that the script lies in: it may be started from ``tools``.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from pathlib import Path

from trueline.compat.command import Parser
from trueline.compat.paddleapitest.engine import DEFAULT_FOLDER

_FILE_PREFIX = "api_config_"


def add_log_path(options: Parser) -> None:
    options.add_argument("test_log_path", nargs="?", default="", help=f"the log folder ({DEFAULT_FOLDER})")


def log_path(options: argparse.Namespace, written: str | Path, project: Path | None) -> Path:
    """The log folder that is meant; it need not be there."""
    chosen = Path(options.test_log_path or os.environ.get("TEST_LOG_PATH") or written)
    if project is not None and not chosen.exists() and (project / chosen).exists():
        return project / chosen
    return chosen


def prefixes(given: str, written: Iterable[str]) -> list[str]:
    """Which files are meant: words, or the names of the files, as the tools had them."""
    text = given or os.environ.get("LOG_PREFIXES", "")
    words = text.split(",") if text else list(written)
    return [bare.removeprefix(_FILE_PREFIX).removesuffix(".txt") for word in words if (bare := word.strip())]
