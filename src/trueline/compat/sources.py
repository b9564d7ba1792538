"""The text of the lines in the stacks of a program that has just run."""

from __future__ import annotations

import linecache


def source_line(file: str, line: int) -> str:
    """The text of a line, without what stands around it; empty where there is none."""
    return linecache.getline(file, line).strip()
