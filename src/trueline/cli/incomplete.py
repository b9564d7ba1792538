"""Says that a Run holds less than its program did: its answers are about what is there."""

from __future__ import annotations

import sys

from trueline.report.terminal import visible
from trueline.store import Run


def tell_incomplete(run: Run) -> None:
    """On stderr, so that what is piped stays what it is."""
    if found := run.incomplete():
        print(visible(f"note: {run.path} is {' '.join(found.split())}"), file=sys.stderr)
