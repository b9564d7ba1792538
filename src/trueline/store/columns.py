"""The columns in which calls travel from a capture to the disk and back.

Everything that repeats (names, stacks, argument trees, layouts) is said once, as a *definition* with a number, and
referred to by that number. So a recorded call is a dozen integers, which costs the captured program little.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trueline.records import Level, Phase, Role

FORMAT_VERSION = 3
"""2: ``run.json`` and databases carry checksums, and so do the heads of a journal's frames. 3: the named state of the
program stands among the calls."""
SEALED_FROM = 2

LEVELS: tuple[Level, ...] = (Level.API, Level.MODULE, Level.KERNEL, Level.STATE)
PHASES: tuple[Phase, ...] = (Phase.FORWARD, Phase.BACKWARD)
ROLES: tuple[Role, ...] = (Role.INPUT, Role.OUTPUT, Role.PARAMETER)

CALL_COLUMNS = (
    "id",
    "level",
    "phase",
    "api",
    "nth",
    "step",
    "module",
    "context",
    "thread",
    "forward",
    "arguments",
    "result",
    "raised",
    "stack",
)
VISIT_COLUMNS = ("call", "position", "role", "tensor", "layout")
BYTES_COLUMNS = ("tensor", "file", "offset", "nbytes")

STATE = LEVELS.index(Level.STATE)
"""The level of rows that are no calls; whoever asks for calls leaves them out."""

STATE_PREFIX = "trueline.state."
"""How the names of states begin, in the place of an API; a ``StateMoment`` follows."""

NONE = -1
"""Stands for "no such thing" in any column that refers to a definition."""

Integers = np.ndarray[Any, np.dtype[np.int64]]


def empty(columns: tuple[str, ...]) -> Integers:
    return np.empty((0, len(columns)), dtype=np.int64)


@dataclass(slots=True)
class Payload:
    """The bytes of one tensor, to be stored: in C order, exact bits. ``fetch`` is called by the writing thread.
    ``file`` is one that ends with these very bytes, where there is one."""

    tensor: int
    dtype: str
    shape: tuple[int, ...]
    fetch: Callable[[], memoryview]
    file: Path | None = None


@dataclass(slots=True)
class Batch:
    """What a capture hands to the writer at once.

    ``definitions`` maps a table (names, modules, stacks, trees, layouts) to rows whose first field is the number.
    ``statistics`` is called by the writing thread and gives tensor numbers and their STATISTICS rows; it may wait
    for a device. ``prepare`` is called by the writing thread before anything else, ``done`` when nothing of this
    batch is needed any more.
    """

    definitions: dict[str, list[list[Any]]] = field(default_factory=dict)
    calls: Integers = field(default_factory=lambda: empty(CALL_COLUMNS))
    visits: Integers = field(default_factory=lambda: empty(VISIT_COLUMNS))
    statistics: Callable[[], tuple[Integers, np.ndarray[Any, Any]]] | None = None
    missing: list[tuple[int, str]] = field(default_factory=list)
    payloads: list[Payload] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    prepare: Callable[[], None] | None = None
    done: Callable[[], None] | None = None
