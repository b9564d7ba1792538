"""The words of an overflow report, as data and nothing else.

A **Birth** is a call that made NaN or infinity of clean inputs, or NaN of infinities. Its **OverflowKind** says what
happened, its **Nature** whether it had to. Births that a later call absorbed, or that the program asked for, are no
alarm. A **WatchEvent** is what a watch found while the program ran.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from trueline.records import Call


class OverflowKind(str, Enum):
    """What happened."""

    ZERO_BY_ZERO = "0/0"
    DIVISION_BY_ZERO = "division by zero"
    INFINITY_MINUS_INFINITY = "inf - inf"
    ZERO_TIMES_INFINITY = "0 x inf"
    EXPONENTIAL = "exp or pow overflow"
    OUTSIDE_DOMAIN = "log or sqrt of a negative"
    CAST = "cast overflow"
    ACCUMULATION = "accumulation overflow"
    PRODUCT = "product overflow"
    UNINITIALISED = "uninitialised memory"
    INPUT = "input data"
    GRADIENT_SCALED = "a gradient scaled too far"
    PARAMETER = "a parameter already bad"
    FILLED = "filled by the program"
    RECEIVED = "received from another rank"
    UNKNOWN = "unknown"


class Nature(str, Enum):
    """Whether it had to happen."""

    EXPECTED = "expected"
    """The exact result does not fit the dtype, or is not a number."""
    ABNORMAL = "abnormal"
    """The exact result fits: the kernel is wrong."""
    INHERITED = "inherited"
    """What came in was bad already."""
    MEANT = "meant"
    """The program asked for it, or a later call makes numbers of it, or the loss scaler was probing."""
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class Counts:
    """How many elements of a tensor are no numbers, and which."""

    nan: int = 0
    positive_infinity: int = 0
    negative_infinity: int = 0
    of: int = 0

    @property
    def infinite(self) -> int:
        return self.positive_infinity + self.negative_infinity

    def __bool__(self) -> bool:
        return bool(self.nan or self.infinite)

    def __str__(self) -> str:
        parts = [
            f"{count:,} {word}"
            for count, word in (
                (self.nan, "NaN"),
                (self.positive_infinity, "+inf"),
                (self.negative_infinity, "-inf"),
            )
            if count
        ]
        return f"{', '.join(parts) or 'all finite'} of {self.of:,}"


@dataclass(frozen=True, slots=True)
class Birth:
    """Where something stopped being a number. ``path``, ``dtype``, ``shape`` and ``counts`` are of the tensor in which
    it shows; ``element`` is the index of the first bad one and ``operands`` what the call was given there, where the
    tensors were kept. ``chain`` names the calls through which it went on, to its end. ``ends`` says in what it ended:
    the loss, a gradient, a parameter, or the call that absorbed it."""

    call: Call
    path: str
    dtype: str
    shape: tuple[int, ...]
    counts: Counts
    kind: OverflowKind
    nature: Nature
    why: str
    alarm: bool
    element: tuple[int, ...] | None = None
    operands: Mapping[str, float] = field(default_factory=dict)
    chain: tuple[str, ...] = ()
    victims: int = 0
    ends: str = ""
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Forecast:
    """A call whose numbers grow towards the limit of their dtype. ``headroom`` is in bits, now; ``slope`` in bits a
    step; ``step`` is when it will be used up if the trend holds, between ``earliest`` and ``latest``."""

    call: Call
    path: str
    dtype: str
    steps: int
    headroom: float
    slope: float
    step: int
    earliest: int
    latest: int
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A step that the loss scaler skipped, with the scale that was too large."""

    rank: int
    step: int
    scale: float


class EventKind(str, Enum):
    """What a watch may find."""

    OVERFLOW = "overflow"
    MEANT = "meant"
    """NaN or infinity that the program asked for, or that a loss scaler took care of."""
    FORECAST = "forecast"


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """What a watch found in a step. ``run`` is the folder in which the calls before it were kept, with their tensors;
    ``call`` the name of the call to blame, empty where a bad step followed another and was not looked into again."""

    kind: EventKind
    step: int
    rank: int
    message: str
    run: str = ""
    api: str = ""
    call: str = ""
    module: str = ""
    source: str = ""
    birth: Birth | None = None
    forecast: Forecast | None = None


@dataclass(frozen=True, slots=True)
class Watched:
    """What a watch looked at in one rank: how many steps, how many tensors in them, in which steps it found something,
    and what it foresaw. ``first`` is what it said of the first overflow."""

    rank: int
    steps: int
    looks: int
    overflows: tuple[int, ...] = ()
    meant: tuple[int, ...] = ()
    messages: tuple[str, ...] = ()
    first: str = ""


@dataclass(frozen=True, slots=True)
class OverflowReport:
    """All births of a Run, the origin first; ``origin`` is None where nothing is wrong. ``watched`` tells of a Run that
    a watch made."""

    path: str
    births: tuple[Birth, ...]
    forecasts: tuple[Forecast, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    calls: int = 0
    tensors: int = 0
    ranks: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    watched: tuple[Watched, ...] = ()

    @property
    def measured(self) -> int:
        """How many tensors were looked at in all."""
        return self.tensors + sum(one.looks for one in self.watched)

    @property
    def origin(self) -> Birth | None:
        return next((birth for birth in self.births if birth.alarm), None)

    @property
    def wrong(self) -> bool:
        """Whether something is wrong: a call is to blame, or a watch saw what came of one that it did not hold."""
        return self.origin is not None or any(one.overflows for one in self.watched)

    @property
    def alarms(self) -> tuple[Birth, ...]:
        return tuple(birth for birth in self.births if birth.alarm)
