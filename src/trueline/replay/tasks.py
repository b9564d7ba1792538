"""Jobs as the pool keeps them: what was asked for, what came of it, how long it may take and who may run beside it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from trueline.cases import Outcome, Status

_SHORTEST_LIMIT = 10.0
_TIMES = 50.0
"""A job may take so many times what it was guessed to take: guesses are rough, and machines busy."""
_HOPELESS = 4.0
"""A job that is guessed to need so many times all the memory there is is not even tried."""
_PATIENCE = 5.0
"""So long, in seconds, a job that needs much memory lets smaller ones pass before it; then nobody begins before it."""
_MOST_HELD = 64


class Written(str):
    """JSON that somebody has written already: it is sent as it stands."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Job:
    """Something to do; ``payload`` is JSON, ``Written`` or not. ``seconds`` and ``bytes`` are what it is guessed to
    take; 0 where nobody knows."""

    key: str
    payload: Any
    seconds: float = 0.0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Done:
    """A job with its end: the answer; or the outcome where it ended its worker or ran out of memory; or, in ``fault``,
    the error of the worker's own code. ``stage`` is the last one that the job announced; ``attachment`` is text that
    came with the answer, unread (``serve.Answer``); ``seconds`` is how long a worker was busy with it, 0 where it did
    not say."""

    key: str
    answer: Any = None
    outcome: Outcome | None = None
    fault: str = ""
    stage: str = ""
    attachment: str = ""
    seconds: float = 0.0


@dataclass(slots=True, eq=False)
class Task:
    """A job on its way. ``lost`` counts workers that died before they came to it; it is ``suspected`` where it may have
    killed one; ``alone`` says that no other may run at the same time."""

    number: int
    job: Job
    lost: int = 0
    suspected: bool = False
    alone: bool = False
    held_since: float = 0.0

    def limit(self, most: float) -> float:
        """Seconds that it may take: ``most``, or less where it is guessed to be short."""
        return min(most, max(_SHORTEST_LIMIT, _TIMES * self.job.seconds)) if self.job.seconds > 0.0 else most

    def took_too_long(self, limit: float, most: float) -> Outcome:
        reason = f"it did not return within {limit:.3g} s"
        if limit < most:
            times = limit / self.job.seconds
            reason += f", {times:,.0f} times the {_seconds(self.job.seconds)} that a call of this size takes"
        return Outcome(Status.TIMED_OUT, reason)


class Queue:
    """Tasks that wait. ``budget`` is how many bytes those that run may be guessed to need at once; None: any. One that
    needs more than all of it runs alone."""

    def __init__(self, budget: int | None) -> None:
        self._budget = budget
        self._waiting: deque[Task] = deque()
        self._held: deque[Task] = deque()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._held)

    def add(self, task: Task) -> None:
        self._waiting.append(task)

    def put_back(self, tasks: Iterable[Task]) -> None:
        """Tasks that were taken and not begun, in the order in which they were taken."""
        self._waiting.extendleft(reversed(list(tasks)))

    def clear(self) -> None:
        self._waiting.clear()
        self._held.clear()

    def refusal(self, job: Job) -> Outcome | None:
        """Why a job is not even tried."""
        if self._budget is None or job.bytes <= _HOPELESS * self._budget:
            return None
        needed, there = job.bytes / 1e9, self._budget / 1e9
        reason = f"it would need about {needed:,.0f} GB of memory, and {there:,.1f} are there"
        return Outcome(Status.UNSUPPORTED, reason)

    def take(self, beside: int, others: bool) -> Task | None:
        """The next task that may run beside what others are guessed to need, in bytes; ``others`` says whether there
        are any. None where none may begin now."""
        if self._held:
            first = self._held[0]
            if self.fits(first, beside, others):
                return self._held.popleft()
            if time.monotonic() - first.held_since > _PATIENCE:
                return None
        while self._waiting:
            task = self._waiting.popleft()
            if self.fits(task, beside, others):
                return task
            task.held_since = time.monotonic()
            self._held.append(task)
            if len(self._held) >= _MOST_HELD:
                return None
        return None

    def fits(self, task: Task, beside: int, others: bool) -> bool:
        if not others:
            return True
        return not task.alone and (self._budget is None or beside + task.job.bytes <= self._budget)


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value >= 1.0 else f"{1000 * value:.0f} ms"
