"""Worker processes that do jobs and may die of them: a crash, a hang or a flood of memory costs one job, not the rest.

    with Pool("package.module:maker", setup, workers=2, timeout=60) as pool:
        for done in pool.run(Job(key, payload) for ...):
            done.answer        # what the job gave, or
            done.outcome       # how it ended its worker

Each worker is a fresh interpreter that keeps its imports and is sent jobs ahead of need. When one dies, its board says
which job it was doing. That job is tried once more, alone, in a fresh worker (an earlier job may have damaged the
memory of the first one); if it kills that one as well, the death is its outcome. The jobs that waited behind it go to
another worker.
"""

from __future__ import annotations

import contextlib
import selectors
import signal
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from trueline.cases import Outcome, Status
from trueline.errors import TruelineError, UsageError
from trueline.replay.board import IDLE
from trueline.replay.process import Worker
from trueline.replay.serial import outcome_from_json
from trueline.replay.serve import attempt, memory_of, resolve

_TICK = 0.02
"""So often, in seconds, a running job is looked at: its time and its memory."""
_AHEAD_SECONDS = 0.2
_AHEAD_MOST = 64
_START_SECONDS = 300.0
_START_FAILURES = 3
_MOST_LOST = 3
"""A job whose worker died so often before it came to this job is given up: something is wrong with the machine."""


class WorkerError(TruelineError):
    """Workers cannot be started."""


@dataclass(frozen=True, slots=True)
class Job:
    """Something to do; ``payload`` is JSON."""

    key: str
    payload: Any


@dataclass(frozen=True, slots=True)
class Done:
    """A job with its end: the answer; or the outcome where it ended its worker or ran out of memory; or, in ``fault``,
    the error of the worker's own code. ``stage`` is the last one that the job announced."""

    key: str
    answer: Any = None
    outcome: Outcome | None = None
    fault: str = ""
    stage: str = ""


@dataclass(slots=True, eq=False)
class _Task:
    number: int
    job: Job
    lost: int = 0
    suspected: bool = False


@dataclass(slots=True)
class _Seat:
    """A place for a worker, with the tasks that it was sent and has not answered, in order."""

    worker: Worker
    tasks: deque[_Task] = field(default_factory=deque)
    answered: int = 0
    ready: bool = False
    started: float = field(default_factory=time.monotonic)
    pace: float = _AHEAD_SECONDS
    """Seconds a job takes here, smoothed."""
    last_answer: float = 0.0
    resident: int = 0
    """Bytes in memory before the first job."""


class Pool:
    """Workers for one kind of job. ``workers=0`` does the jobs in this process, for debugging: nothing is survived."""

    def __init__(
        self,
        maker: str,
        setup: Mapping[str, Any],
        *,
        workers: int = 1,
        timeout: float = 60.0,
        memory: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        if workers < 0:
            raise UsageError(f"workers must be 0 or more, not {workers}")
        if timeout <= 0:
            raise UsageError(f"the timeout must be more than 0 seconds, not {timeout}")
        self._maker = maker
        self._setup = dict(setup)
        self._size = workers
        self.timeout = timeout
        self._memory = memory
        self._environment = dict(environment or {})
        self._selector = selectors.DefaultSelector()
        self._seats: list[_Seat] = []
        self._suspects: deque[_Task] = deque()
        self._waiting: deque[_Task] = deque()
        self._failed_starts = 0
        self._numbers = 0
        self._next_watch = 0.0
        self.restarts = 0

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all workers."""
        for seat in self._seats:
            self._dismiss(seat)
        self._seats.clear()
        self._selector.close()

    def run(self, jobs: Iterable[Job]) -> Iterator[Done]:
        """Does all jobs; gives them as they end, each exactly once."""
        if self._size == 0:
            yield from self._run_here(jobs)
            return
        source = iter(jobs)
        try:
            while self._feed(source) or self._busy():
                yield from self._listen()
                yield from self._watch()
        finally:  # the caller stopped early, or it was interrupted: what still runs is of no use
            for seat in [seat for seat in self._seats if seat.tasks]:
                self._remove(seat)
            self._waiting.clear()
            self._suspects.clear()

    def _run_here(self, jobs: Iterable[Job]) -> Iterator[Done]:
        stages: list[str] = []
        work = resolve(self._maker)(self._setup, stages.append)
        for job in jobs:
            stages.clear()
            answer = attempt(work, job.payload)
            yield _done(job.key, {"stage": stages[-1] if stages else "", **answer})

    # Giving out work

    def _feed(self, source: Iterator[Job]) -> bool:
        """Sends jobs to whoever has room; False where nothing is left to send."""
        self._pull(source, 1)
        self._staff()
        for seat in self._seats:
            if seat.ready:
                self._fill(seat, source)
        return bool(self._waiting or self._suspects)

    def _staff(self) -> None:
        """Hires as many workers as there is work for, and always one that is fresh for a suspect."""
        busy = sum(1 for seat in self._seats if seat.tasks)
        fresh = sum(1 for seat in self._seats if not seat.answered and not seat.tasks)
        wanted = min(self._size, len(self._waiting) + len(self._suspects) + busy)
        wanted = max(wanted, len(self._seats) + 1) if self._suspects and not fresh else wanted
        if wanted > self._size:
            idle = next((seat for seat in self._seats if not seat.tasks), None)
            if idle is not None:
                self._remove(idle)
            wanted = self._size
        while len(self._seats) < wanted:
            self._seats.append(self._hire())

    def _pull(self, source: Iterator[Job], count: int) -> None:
        while len(self._waiting) < count:
            job = next(source, None)
            if job is None:
                return
            self._numbers += 1
            self._waiting.append(_Task(self._numbers, job))

    def _fill(self, seat: _Seat, source: Iterator[Job]) -> None:
        if any(task.suspected for task in seat.tasks):
            return
        if self._suspects and not seat.answered and not seat.tasks:
            self._give(seat, self._suspects.popleft())
            return
        room = max(1, min(_AHEAD_MOST, int(_AHEAD_SECONDS / max(seat.pace, 1e-4))))
        if len(seat.tasks) > room // 2:
            return
        self._pull(source, room * self._size)
        share = max(1, len(self._waiting) // self._size)  # near the end nobody is to hold what others could do
        for _ in range(min(room - len(seat.tasks), share, len(self._waiting))):
            self._give(seat, self._waiting.popleft())

    def _give(self, seat: _Seat, task: _Task) -> None:
        if not seat.tasks:
            seat.last_answer = time.monotonic()
        seat.tasks.append(task)
        seat.worker.send([task.number, task.job.payload])
        self._attend(seat)

    def _busy(self) -> bool:
        return any(seat.tasks for seat in self._seats)

    # Hearing what comes back

    def _listen(self) -> Iterator[Done]:
        for key, events in self._selector.select(_TICK):
            seat: _Seat = key.data
            if events & selectors.EVENT_WRITE:
                seat.worker.flush()
                self._attend(seat)
            if events & selectors.EVENT_READ:
                yield from self._hear(seat)
                if seat.worker.hung_up and seat in self._seats:
                    yield from self._bury(seat)

    def _hear(self, seat: _Seat) -> Iterator[Done]:
        for message in seat.worker.receive():
            if seat not in self._seats:
                return
            if "number" in message:
                yield from self._answered(seat, message)
            elif "ready" in message:
                seat.ready = True
                seat.resident = memory_of(seat.worker.process.pid).resident
                self._failed_starts = 0
            else:
                raise WorkerError(f"workers cannot start: {message['unable']}")

    def _answered(self, seat: _Seat, message: dict[str, Any]) -> Iterator[Done]:
        task = seat.tasks.popleft()
        assert task.number == message["number"], "workers answer in order"
        now = time.monotonic()
        seat.pace = 0.7 * seat.pace + 0.3 * (now - seat.last_answer)
        seat.last_answer = now
        seat.answered += 1
        done = _done(task.job.key, message)
        if done.outcome is None:
            yield done
            return
        # It said how it ended (no memory, sys.exit), but what is left of this worker is not to be trusted.
        if done.outcome.status is Status.OUT_OF_MEMORY and not task.suspected and seat.answered > 1:
            self._suspect(task)
        else:
            yield done
        self._give_back(seat)
        self._remove(seat)

    # Watching over what runs

    def _watch(self) -> Iterator[Done]:
        now = time.monotonic()
        if now < self._next_watch:
            return
        self._next_watch = now + _TICK
        for seat in list(self._seats):
            if not seat.ready:
                if seat.worker.gone() or now - seat.started > _START_SECONDS:
                    self._start_failed(seat)
                continue
            if seat.worker.gone():
                yield from self._hear(seat)
                if seat in self._seats:
                    yield from self._bury(seat)
                continue
            seat.worker.trim_log()
            number, since = seat.worker.board.read()
            if number == IDLE or not seat.tasks or seat.tasks[0].number != number:
                continue
            if now - since > self.timeout:
                yield from self._stop(seat, Outcome(Status.TIMED_OUT, f"it did not return within {self.timeout:g} s"))
            elif self._memory is not None:
                used = memory_of(seat.worker.process.pid).resident - seat.resident
                if used > self._memory:
                    reason = f"it used more than the {self._memory / 1e9:.1f} GB that it may"
                    yield from self._stop(seat, Outcome(Status.OUT_OF_MEMORY, reason))

    def _stop(self, seat: _Seat, outcome: Outcome) -> Iterator[Done]:
        """Kills a worker for what its running job does."""
        seat.worker.kill()
        yield from self._hear(seat)  # it may have finished at the last moment
        if seat in self._seats:
            yield from self._bury(seat, outcome)

    def _bury(self, seat: _Seat, outcome: Outcome | None = None) -> Iterator[Done]:
        """A worker is dead: finds the job that killed it and gives back the others. ``outcome`` is known where it was
        killed by us."""
        code = seat.worker.wait()
        if not seat.ready:
            self._start_failed(seat)
            return
        number, since = seat.worker.board.read()
        stage = seat.worker.board.stage
        guilty = bool(seat.tasks) and seat.tasks[0].number == number
        if guilty:
            task = seat.tasks.popleft()
            found = outcome or Outcome(*_how_it_died(code, seat.worker.last_words()))
            found = Outcome(found.status, found.reason, time.monotonic() - since)
            alone = task.suspected or not seat.answered
            if alone or found.status is Status.TIMED_OUT:
                yield Done(task.job.key, outcome=found, stage=stage)
            else:
                self._suspect(task)
        elif seat.tasks:
            yield from self._blame_nobody(seat, code)
        self._give_back(seat)
        self._remove(seat)

    def _blame_nobody(self, seat: _Seat, code: int) -> Iterator[Done]:
        """The worker died between two jobs."""
        task = seat.tasks[0]
        task.lost += 1
        if task.lost >= _MOST_LOST:
            seat.tasks.popleft()
            status, reason = _how_it_died(code, seat.worker.last_words())
            reason = f"{_MOST_LOST} workers ended before they began it: {reason}"
            yield Done(task.job.key, outcome=Outcome(status, reason))

    def _suspect(self, task: _Task) -> None:
        task.suspected = True
        self._suspects.append(task)

    def _give_back(self, seat: _Seat) -> None:
        self._waiting.extendleft(reversed([task for task in seat.tasks if not task.suspected]))
        self._suspects.extend(task for task in seat.tasks if task.suspected)
        seat.tasks.clear()

    # Workers

    def _hire(self) -> _Seat:
        head = {"maker": self._maker, "setup": self._setup, "memory": self._memory}
        seat = _Seat(Worker(head, self._environment))
        self._selector.register(seat.worker.link, selectors.EVENT_READ, seat)
        self._attend(seat)
        return seat

    def _attend(self, seat: _Seat) -> None:
        """Listens for room to write only while there is something to write."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if seat.worker.unsent else 0)
        self._selector.modify(seat.worker.link, events, seat)

    def _start_failed(self, seat: _Seat) -> None:
        _, reason = _how_it_died(seat.worker.wait(), seat.worker.last_words())
        self._remove(seat)
        self._failed_starts += 1
        if self._failed_starts >= _START_FAILURES:
            raise WorkerError(f"workers cannot start: {reason}")

    def _remove(self, seat: _Seat) -> None:
        if seat in self._seats:
            self._seats.remove(seat)
            self._dismiss(seat)
            self.restarts += 1

    def _dismiss(self, seat: _Seat) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(seat.worker.link)
        seat.worker.close()


def _done(key: str, message: Mapping[str, Any]) -> Done:
    if "outcome" in message:
        return Done(key, outcome=outcome_from_json(message["outcome"]), stage=message["stage"])
    return Done(key, answer=message.get("answer"), fault=message.get("fault", ""), stage=message["stage"])


def _how_it_died(code: int, words: str) -> tuple[Status, str]:
    """From the code with which a process ended, and the last line that it wrote."""
    if code == -signal.SIGKILL:
        return Status.OUT_OF_MEMORY, "the system killed its process (SIGKILL), most likely for want of memory"
    said = f": {words}" if words and code != -signal.SIGSEGV else ""
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return Status.CRASHED, f"its process died of {name}{said}"
    return Status.CRASHED, f"its process ended with exit code {code}{said}"
