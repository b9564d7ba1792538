"""What a watch is asked to do, checked before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from trueline.capture.options import make_options
from trueline.errors import UsageError


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """The options of ``watch``; see there."""

    steps: tuple[int, ...] | None = None
    ranks: tuple[int, ...] | None = None
    overflow_nums: int | None = None
    exit_after: bool = False
    look_back: int = 64
    rotation: int | None = None
    hold: float = 0.25
    backward: bool = True
    whole: bool = False
    budget: float = 0.03

    def as_json(self) -> dict[str, Any]:
        """As the head of a Run says it: the tensors are those of a capture with ``data="tensors"``."""
        return {"watch": True, "level": "api", "data": "tensors", **asdict(self)}


def make_watch_options(
    *,
    steps: Sequence[int] | str | int | None,
    ranks: Sequence[int] | str | int | None,
    overflow_nums: int | None,
    exit_after: bool,
    look_back: int,
    rotation: int | None,
    hold: float,
    backward: bool,
    whole: bool,
    budget: float,
) -> WatchOptions:
    """Checks options; says which one is wrong and what would be right."""
    scope = make_options(steps=steps, ranks=ranks)
    for name, value, least in (
        ("overflow_nums", overflow_nums, 1),
        ("look_back", look_back, 0),
        ("rotation", rotation, 1),
    ):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise UsageError(f"{name} takes a whole number from {least}; got {value!r}")
    if isinstance(hold, bool) or not isinstance(hold, int | float) or not hold > 0:
        raise UsageError(f"hold takes a share of the free memory, as 0.25, or bytes; got {hold!r}")
    if isinstance(budget, bool) or not isinstance(budget, int | float) or not 0 < budget <= 1:
        raise UsageError(f"budget takes a share of the time, above 0 and at most 1, as 0.03; got {budget!r}")
    if exit_after and overflow_nums is None:
        overflow_nums = 1
    return WatchOptions(
        scope.steps, scope.ranks, overflow_nums, exit_after, look_back, rotation, float(hold), backward, whole,
        float(budget),
    )
