"""What a framework's watcher and the rest of trueline say to each other.

A watcher sees calls and tells a ``Notebook`` about them, in the integer columns of ``store.columns``; it never
touches files. A ``Notebook`` never touches a framework.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from trueline.records import Data, Level
from trueline.store.columns import Payload


@dataclass(frozen=True, slots=True)
class Scope:
    """What a watcher is to look at. Globs match whole names; empty means everything. ``calls`` are names such as
    ``torch.relu.3.forward`` or ``torch.relu.3``; ``between`` is the first and the last of a range of such names."""

    levels: frozenset[Level] = frozenset({Level.API})
    data: Data = Data.STATS
    apis: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    between: tuple[str, str] | None = None
    stacks: bool = True
    integers: bool = True
    backward: bool = True
    witness: bool = False


@dataclass(slots=True)
class Tally:
    """Counts that end up in the certificate."""

    calls: dict[str, int] = field(default_factory=dict)
    visits: int = 0
    bytes_seen: int = 0
    not_recorded: dict[str, int] = field(default_factory=dict)
    kernels_outside: dict[str, int] = field(default_factory=dict)
    kernels_inside: int = 0
    gradient_sums: int = 0

    def miss(self, reason: str, count: int = 1) -> None:
        self.not_recorded[reason] = self.not_recorded.get(reason, 0) + count


class Notebook(Protocol):
    """Where a watcher writes. ``calls`` and ``visits`` are flat lists of integers, a row after another; extending
    them by whole rows is atomic, so several threads may write."""

    calls: list[int]
    visits: list[int]
    missing: list[tuple[int, str]]
    step: int
    tally: Tally

    def next_call(self) -> int: ...
    def next_tensor(self) -> int: ...
    def define(self, table: str, key: Any, row: Callable[[], list[Any]]) -> int: ...
    def hand_over(
        self,
        statistics: Callable[[], Any] | None = None,
        payloads: list[Payload] | None = None,
        done: Callable[[], None] | None = None,
    ) -> None: ...
    def trouble(self, error: BaseException) -> None: ...


class Watcher(Protocol):
    """Looks at a running program through one framework."""

    def start(self) -> None:
        """Begins to look; called at the beginning of each step that is wanted."""

    def pause(self) -> None:
        """Stops looking and leaves nothing behind; called at the end of each wanted step."""

    def close(self) -> None:
        """Stops looking for good."""

    def abandon(self) -> None:
        """Stops looking and writes nothing more; called in a child that was forked from the captured process."""

    def optimizer_begins(self, optimizer: Any) -> None:
        """An optimizer is about to step."""

    def optimizer_ends(self, optimizer: Any) -> None:
        """An optimizer has stepped."""
