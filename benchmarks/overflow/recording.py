"""How a case is recorded: by a capture of all tensors, or by a watch that keeps only what leads to an overflow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trueline
from trueline.diagnose.watching import watch

WAYS = ("capture", "watch")


def recording(run: Path, through: str, *, data: str = "tensors", framework: str = "auto") -> Any:
    """A context manager that writes the Run of a case and is told its steps."""
    if through == "watch":
        return watch(run, framework=framework)
    return trueline.capture(run, data=data, framework=framework)
