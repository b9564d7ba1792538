"""The head of a Run: what was run, where, with which versions."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from trueline._version import __version__
from trueline.frameworks.several import Several
from trueline.records import RunInfo
from trueline.store.columns import FORMAT_VERSION


def run_info(framework: Several, world: int, options: Mapping[str, Any]) -> RunInfo:
    """The head of a Run that this process begins now."""
    return RunInfo(
        format_version=FORMAT_VERSION,
        tool_version=__version__,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        framework=framework.name,
        framework_version=framework.version(),
        python=platform.python_version(),
        host=platform.node(),
        devices=tuple(framework.devices()),
        command=tuple(sys.orig_argv),
        git_commit=_git_commit(),
        seed=framework.seed(),
        world_size=world,
        options=options,
        ways=framework.ways(),
    )


def _git_commit() -> str:
    """The commit of the program, if it lies in a git checkout; never worth more than a second."""
    folder = os.path.dirname(os.path.abspath(sys.argv[0])) if sys.argv and sys.argv[0] else os.getcwd()
    try:
        answer = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, timeout=1, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""
