"""When a training step begins and ends.

What follows an optimizer's step (averages of weights, schedules, ``loss.item()``, an evaluation) belongs to the step
that it ends. So where a program has a model, the step lasts until that is called again and gradients are wanted, or the
same optimizer steps, or the program says so; without one, it ends with the optimizer's step.
"""

from __future__ import annotations


class StepClock:
    """Counts steps from 0. They end with ``optimizer.step()`` (found) or where the program says so (told). A program
    that tells is believed: from then on what is found no longer counts. Its first word usually comes right after
    the first optimizer step, and means the same one."""

    def __init__(self, steps: tuple[int, ...] | None, every: int = 1) -> None:
        """``every``: of the steps only those whose number it divides are wanted."""
        self._every = every
        self._steps = None if steps is None else frozenset(steps)
        self._last = max(steps) if steps else -1
        self._telling = False
        self.now = 0

    def lasts(self) -> bool:
        """Whether a step that an optimizer has ended may wait for its end: where the program does not tell, and the
        next one is recorded as well."""
        return not self._telling and self.wanted and self._is_wanted(self.now + 1)

    @property
    def wanted(self) -> bool:
        return self._is_wanted(self.now)

    @property
    def over(self) -> bool:
        """Whether every wanted step has been."""
        return self._steps is not None and self.now > self._last

    def _is_wanted(self, step: int) -> bool:
        return step % self._every == 0 and (self._steps is None or step in self._steps)

    def found(self) -> bool:
        """An optimizer has stepped; True if a step ended with that."""
        if self._telling:
            return False
        self.now += 1
        return True

    def told(self, *, waiting: bool = False) -> bool:
        """The program says that a step ends; True if one does. ``waiting``: an optimizer has ended it already, and it
        waits for its end."""
        if waiting:
            self._telling = True
            self.now += 1
            return True
        first, self._telling = not self._telling, True
        if first and self.now == 1:
            return False
        self.now += 1
        return True
