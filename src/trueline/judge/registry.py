"""Standards by name."""

from __future__ import annotations

from collections.abc import Callable

from trueline.errors import UsageError
from trueline.judge.evidence import Standard
from trueline.judge.honest import Honest
from trueline.judge.ptdbg import Ptdbg

STANDARDS: dict[str, Callable[[], Standard]] = {"honest": Honest, "ptdbg": Ptdbg}
"""What ships; users add theirs."""


def standard_named(standard: str | Standard) -> Standard:
    """A standard by its name, or the one that was given."""
    if not isinstance(standard, str):
        return standard
    try:
        return STANDARDS[standard]()
    except KeyError:
        raise UsageError(f"unknown standard {standard!r}; known: {', '.join(sorted(STANDARDS))}") from None
