"""The words of triage, as data and nothing else.

Failures of a check that look alike (**Signature**) are a **Group**. Second **Opinions** on a few of its cases give the
group its **Label**: who is wrong, or that nobody is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from trueline.cases import Ending

ENDLESS = 1e300
"""In place of infinity, which is no number to JSON, in the numbers of opinions."""


class Label(str, Enum):
    """What a group of failures most likely is."""

    TARGET = "target wrong"
    REFERENCE = "reference or mapping wrong"
    NONDETERMINISTIC = "nondeterministic"
    ILL_CONDITIONED = "ill-conditioned"
    UNSUPPORTED = "unsupported"
    TOO_SLOW = "too slow"
    CRASHES = "crashes the process"
    TOOL = "fault of the tool"
    UNDECIDED = "undecided"


class Look(str, Enum):
    """What the failure looks like."""

    RAISES = "raises"
    REFERENCE_RAISES = "the reference raises"
    CRASH = "crash"
    TIMEOUT = "does not return in time"
    MEMORY = "out of memory"
    MISSING_KERNEL = "no such kernel"
    TOOL = "the tool raises"
    STRUCTURE = "wrong dtype, shape or presence"
    NO_GRADIENT = "gradient missing"
    NOT_FINITE = "NaN or infinity differ"
    FACTOR = "constant factor"
    OFFSET = "constant offset"
    NARROWER = "computed in a narrower type inside"
    UNSTABLE = "differs from time to time"
    EDGES = "wrong at the edges"
    ONE_ELEMENT = "one bad element"
    FEW_ELEMENTS = "few bad elements"
    EXACT = "exact values differ"
    ROUNDING = "errors of the size of roundings"
    GROSS = "values differ"


@dataclass(frozen=True, slots=True, order=True)
class Signature:
    """By which failures are held to have one cause. ``family`` is the operator, whatever it is spelled like;
    ``direction`` is forward, backward or empty where nothing was returned; ``detail`` is an error without its numbers,
    or what there is to say about the look."""

    family: str
    dtype: str
    direction: str
    look: Look
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds that a case of ``elements`` took of the target and of the reference."""

    elements: int
    target: float
    reference: float


@dataclass(frozen=True, slots=True)
class Opinion:
    """What came of doing one case of a group again. ``again`` is how it ended in a fresh process, ``seeds`` how it
    ended with other inputs, ``single`` and ``double`` how it ended with everything in float32 and in float64, ``own``
    how it ended against the target's own framework; empty where that was not tried.
    ``numbers`` are those of ``replay.opinions``. ``exponent`` is by which power of the number
    of elements the time of the target grows."""

    key: str
    line: str
    again: str = ""
    seeds: tuple[str, ...] = ()
    single: str = ""
    double: str = ""
    own: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    timings: tuple[Timing, ...] = ()
    exponent: float | None = None
    reference_exponent: float | None = None
    label: Label = Label.UNDECIDED
    why: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """A case of a group."""

    key: str
    api: str
    line: str
    reason: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Group:
    """Failures with one signature. ``members`` are the first of its ``size`` cases; ``of`` counts all cases of its
    operators in the check. ``folder`` holds its script, if there is one; ``reproduced`` says that the script was seen
    to show the failure, ``note`` why not."""

    name: str
    signature: Signature
    ending: Ending
    size: int
    of: int
    members: tuple[Member, ...]
    apis: tuple[str, ...]
    label: Label = Label.UNDECIDED
    why: str = "no second opinion was asked for"
    opinions: tuple[Opinion, ...] = ()
    folder: Path | None = None
    reproduced: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Triage:
    """The failures of a check, in groups, those that need somebody's attention first."""

    check: Path
    folder: Path
    target: str
    reference: str
    cases: int
    endings: Mapping[str, int]
    groups: tuple[Group, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    """What was not looked at: reason -> how many cases."""

    @property
    def labels(self) -> dict[str, int]:
        """How many failed cases have which label."""
        counts: dict[str, int] = {}
        for group in self.groups:
            counts[group.label.value] = counts.get(group.label.value, 0) + group.size
        return counts


def as_plain(value: Any) -> Any:
    """A record of this module in what JSON knows."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): as_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return {name: as_plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
