"""What long work says while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Progress = Callable[[str, int, int], None]
"""Called now and then with what is being done, how much is done and how much there is (0 where that is not known)."""


@dataclass(frozen=True, slots=True)
class CaseEnded:
    """One case of a check has its final row.

    ``line`` is the config line or the place it came from, ``ending`` one of ``cases.Ending`` as text, ``reason`` one
    line, empty where it passed. ``seconds`` is how long it ran. ``done`` of ``total`` cases are finished with it, those
    of an earlier run of the same check included. ``cost`` is how long it was expected to run and ``cost_left`` how
    long, one after the other, all that are not finished are; 0 where nobody estimated. ``worked`` is how long a worker
    was busy with it, references, golds and measuring included; 0 where the case ended its worker.
    """

    api: str
    line: str
    ending: str
    reason: str
    seconds: float
    done: int
    total: int
    cost: float = 0.0
    cost_left: float = 0.0
    worked: float = 0.0


OnCase = Callable[[CaseEnded], None]
