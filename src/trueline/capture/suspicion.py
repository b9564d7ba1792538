"""Whether the looks at a step are worth an examination of all that it held.

What a step gives away (the loss, gradients of parameters, what an optimizer wrote) must be numbers. A loss scaler that
found infinities in the gradients of a finite loss and skipped the step is probing, as it should, unless it never stops.
Infinity inside of a step which nothing bad comes out of is most often meant: a few such calls are examined once, so
that an overflow which a division turned into zeros is found too; masks of -inf are not.
"""

from __future__ import annotations

from enum import Enum

import numpy as np

from trueline.frameworks.light import LookName, Sink, StepLooks, is_bad
from trueline.records import Phase

MOST_PROBES = 32
"""So many steps in a row a loss scaler may skip: it halves the scale each time."""
_MOST_CURIOUS = 4


class Doubt(Enum):
    """What to think of a step."""

    CLEAN = "clean"
    PROBED = "a loss scaler skipped it"
    STUCK = "a loss scaler skips step after step"
    BAD = "something bad came out of it"
    CURIOUS = "something bad was in it, and did not come out"


class Suspicion:
    """Judges steps in their order."""

    def __init__(self) -> None:
        self._probes = 0
        self._curious = 0
        self._cleared: set[LookName] = set()

    @property
    def probes(self) -> int:
        """How many steps in a row a loss scaler has skipped."""
        return self._probes

    def of(self, step: StepLooks) -> Doubt:
        """What to think of the looks at a step, or at a part of one."""
        bad = is_bad(step.looks)
        if step.found_inf and not _gave_away(step, bad):
            return self._probe(step)
        if not step.partial and step.stepped:
            self._probes = 0
        if not bad.any():
            return Doubt.CLEAN
        sinks = step.looks["sink"]
        if bool((bad & (sinks != Sink.NONE) & (sinks != Sink.SCALER)).any()):
            return Doubt.BAD
        if step.partial and not bool((sinks != Sink.NONE).any()):
            return Doubt.CLEAN  # what comes of it is not known yet
        return self._curiosity(step, bad)

    def _probe(self, step: StepLooks) -> Doubt:
        """The gradients of a loss that is a number are bad, and a scaler knows of it."""
        if step.partial:
            return Doubt.CLEAN
        self._probes += 1
        return Doubt.STUCK if self._probes == MOST_PROBES else Doubt.PROBED

    def _curiosity(self, step: StepLooks, bad: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Doubt:
        looks = step.looks
        names = {
            step.names[int(row["name"])]
            for row in looks[bad]
            if row["nan"] or row["positive_infinity"] or step.names[int(row["name"])].phase is Phase.BACKWARD
        }
        fresh = names - self._cleared
        self._cleared |= fresh
        if not fresh or self._curious >= _MOST_CURIOUS:
            return Doubt.CLEAN
        self._curious += 1
        return Doubt.CURIOUS


def _gave_away(step: StepLooks, bad: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> bool:
    """Whether something bad came out of a step besides gradients."""
    return bool((bad & np.isin(step.looks["sink"], (Sink.LOSS, Sink.RESULT, Sink.PARAMETER))).any())
