"""What times Cases, and how the one for a framework is found.

A ``Timer`` makes a Case ready on its Target once; what it gives is run again and again. Who decides how often, and
what is made of the numbers, needs no framework.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any, Protocol

from trueline.cases import Case, Outcome, Target
from trueline.frameworks.base import Inputs
from trueline.profiles import Footprint, Lap, OutputSpec, Roofline
from trueline.records import Phase


class CallFailed(Exception):
    """A call that is to be timed did not return."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


class Prepared(Protocol):
    """A Case that was made ready on a Target, and has been run once. ``phases`` are the directions that it has;
    ``outputs`` what its call gave; ``notes`` what a reader must know of how it is timed; ``taken_off`` the seconds that
    a lap of the backward has less than it took, being no part of the call."""

    phases: tuple[Phase, ...]
    outputs: tuple[OutputSpec, ...]
    notes: list[str]
    taken_off: float

    def lap(self, phase: Phase, times: int) -> Lap:
        """Runs one direction so many times in a row and waits for the end."""

    def memory(self, phase: Phase) -> Footprint | None:
        """Runs one direction once and says what it did to memory; None where this device does not tell."""


class Timer(Protocol):
    """Makes Cases ready on one Target."""

    def prepare(self, case: Case, inputs: Inputs) -> Prepared:
        """Makes a Case ready; ``CallFailed`` where it does not return, ``CannotExecute`` where it cannot be run."""

    def roofline(self, dtypes: Iterable[str]) -> Roofline:
        """What the device does at best, by short trials."""


def timer(target: Target) -> Timer:
    """What times Cases on a Target."""
    module: Any = importlib.import_module(f"trueline.frameworks.{target.framework}.timing")
    made: Timer = module.make(target)
    return made
