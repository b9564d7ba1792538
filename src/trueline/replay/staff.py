"""Places for workers, and who is hired to sit there: fresh interpreters, or copies of a warm one."""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trueline.cases import Status
from trueline.errors import TruelineError
from trueline.replay.process import Worker, interpreter
from trueline.replay.serve import memory_of
from trueline.replay.tasks import Task
from trueline.replay.zygote import Zygote, can_fork

_START_SECONDS = 300.0
_START_FAILURES = 3
_FIRST_PACE = 0.2
_NOTABLY_MORE = 16 << 20


class WorkerError(TruelineError):
    """Workers cannot be started."""


@dataclass(slots=True, eq=False)
class Seat:
    """A place for a worker, with the tasks that it was sent and has not answered, in order."""

    worker: Worker
    place: int = 0
    """Which of the places it sits at, where each has variables of its own."""
    tasks: deque[Task] = field(default_factory=deque)
    answered: int = 0
    ready: bool = False
    started: float = field(default_factory=time.monotonic)
    pace: float = _FIRST_PACE
    """Seconds a job takes here, smoothed."""
    last_answer: float = 0.0
    resident: int = 0
    """Bytes in memory before the first job."""
    grew: float = 0.0
    """When its running job was last seen to have taken notably more memory than ever before."""
    _looked_at: int = 0
    _most: int = 0

    @property
    def bytes(self) -> int:
        """What the largest of its tasks is guessed to need: it does one at a time."""
        return max((task.job.bytes for task in self.tasks), default=0)

    def used(self) -> int:
        """Bytes that its jobs have really taken."""
        return memory_of(self.worker.process.pid).resident - self.resident

    def look(self, number: int, now: float) -> int:
        """The same, while it does the job of this number; notes whether that still grows."""
        used = self.used()
        if self._looked_at != number:
            self._looked_at, self._most, self.grew = number, used, 0.0
        elif used > self._most + _NOTABLY_MORE:
            self._most, self.grew = used, now
        return used

    def begin(self, process: int) -> None:
        """Its worker is there, as this process."""
        self.ready = True
        self.resident = memory_of(process).resident

    def is_late(self, now: float) -> bool:
        """Whether its worker cannot be expected to come any more."""
        return self.worker.gone() or now - self.started > _START_SECONDS


class Staff:
    """Hires workers for one kind of job. ``warm``: as copies of a process that has imported everything, where this
    system can make them; not where ``places`` have variables of their own (a card each), which a copy would not get."""

    def __init__(
        self,
        head: Mapping[str, Any],
        environment: Mapping[str, str],
        *,
        warm: bool,
        places: Sequence[Mapping[str, str]] = (),
    ) -> None:
        self._head = head
        self._environment = environment
        self._places = places or ({},)
        self._warm = warm and can_fork() and not places
        self._zygote: Zygote | None = None
        self._failures = 0

    def hire(self, others: Iterable[Seat] = ()) -> Seat:
        """Somebody for the place at which the fewest sit."""
        taken = [seat.place for seat in others]
        place = min(range(len(self._places)), key=taken.count)
        if self._warm and self._zygote is None:
            self._zygote = Zygote(self._head, self._environment)
        start = self._zygote.start if self._zygote is not None else interpreter(
            {**self._environment, **self._places[place]}
        )
        return Seat(Worker(self._head, start), place)

    def came(self, seat: Seat, process: int) -> None:
        """A worker is ready, and is this process."""
        seat.begin(process)
        self._failures = 0

    def failed(self, seat: Seat) -> None:
        """A worker never became ready; its seat is given up by the caller. Raises ``WorkerError`` where there is no
        hope."""
        _, reason = how_it_died(seat.worker.wait(), seat.worker.last_words())
        if self._zygote is not None and not self._zygote.usable:  # no copies, or no more: fresh interpreters from here
            self._zygote.close()
            self._zygote, self._warm = None, False
            return
        self._failures += 1
        if self._failures >= _START_FAILURES:
            raise WorkerError(f"workers cannot start: {reason}")

    def close(self) -> None:
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None


def how_it_died(code: int, words: str) -> tuple[Status, str]:
    """From the code with which a process ended, and the last line that it wrote."""
    if code == -signal.SIGKILL:
        return Status.OUT_OF_MEMORY, "the system killed its process (SIGKILL), most likely for want of memory"
    said = f": {words}" if words and code != -signal.SIGSEGV else ""
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return Status.CRASHED, f"its process died of {name}{said}"
    return Status.CRASHED, f"its process ended with exit code {code}{said}"
