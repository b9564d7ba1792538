"""Where two programs part, as data, and the limits that several questions share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from trueline.diagnose.confirm import Trial
from trueline.diagnose.observables import Observable
from trueline.store.columns import NONE

SKETCH = 3e-6
"""Below this, a distance estimated from sketches is noise of the sketches."""
TIGHT_SINGLE, TIGHT_HALF = 32.0, 4.0
"""Roundings within which two values are taken for the same without asking where they come from."""
LOOSE_SINGLE, LOOSE_HALF = 4096.0, 24.0
"""Roundings that the whole of a program may add up to, where how it computes cannot be laid side by side."""
SIBLINGS = 64.0
"""A gradient that cancels is right to so many roundings of the other gradients of its module."""
FREEDOM = 4.0
LONG = 40
"""Regions of more calls are judged by what the whole of a program may add up to, if that is less."""
BELIEVED_SINGLE, BELIEVED_HALF = 0.02, 0.5
"""No honest rounding takes something that is given away so far, unless it cancels."""


@dataclass(slots=True)
class Divergence:
    """Where the two part. ``row`` is the row of the table in which it shows; ``reference`` and ``candidate`` the calls
    that explain it, by their positions."""

    kind: str
    row: int
    reason: str
    reference: tuple[int, ...] = ()
    candidate: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    headline: str = ""
    trial: Trial | None = None
    distance: float | None = None
    arrives: float = 0.0
    limit: float | None = None
    step: int | None = None
    items: tuple[Observable, ...] = ()
    changes: tuple[str, ...] = field(default_factory=tuple)
    certain: bool = False
    """Whether it parts the two for good. Where it does not, they may only write the same in another way."""
    shift: float = math.inf
    """How far apart the two are behind it."""
    leaf: int = NONE
    """The joint at which it shows; -1 where it is none."""
    of_gradients: bool = False
    """Whether a gradient is the first to differ, though its row is no call of the backward."""
    known: bool = False
    """Whether it is a value that has a name in the model, or among its inputs."""
    leans: bool = False
    """Whether it goes in one direction, as rounding does not."""
    other_size: bool = False
    """Whether it is tensors of other sizes that cannot be laid side by side."""


def present(positions: tuple[int, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    left, right = ((position,) if position != NONE else () for position in positions)
    return left, right


def this_many(count: int) -> str:
    return "this call" if count == 1 else f"these {count} calls"


def some(names: tuple[str, ...] | list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more" if names else "nothing"
