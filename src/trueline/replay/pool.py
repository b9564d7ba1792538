"""Worker processes that do jobs and may die of them: a crash, a hang or a flood of memory costs one job, not the rest.

    with Pool("package.module:maker", setup, workers=2, timeout=60) as pool:
        for done in pool.run(Job(key, payload) for ...):
            done.answer        # what the job gave, or
            done.outcome       # how it ended its worker

Each worker keeps its imports and is sent jobs ahead of need. It is a fresh interpreter or, with ``warm``, a copy of a
process that has imported everything once (``zygote``), which is there at once. When one dies, its board says which job
it was doing. That job is tried once more, alone, in a fresh worker (an earlier job may have damaged the memory of the
first one); if it kills that one as well, the death is its outcome. The jobs that waited behind it go to another worker.

Jobs say what they are guessed to take (``Job.seconds``, ``Job.bytes``). One that takes fifty times as long, and ten
seconds at least, is ended, but not while it takes more and more memory: that ends at the limit of memory, however slow
the machine is to give it. ``timeout`` is the most that any may take. Jobs that together are guessed to need more than
``budget`` bytes wait for each other; one that needs more than all of it runs alone, and one that needs several times as
much is not tried.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import signal
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from trueline.cases import Outcome, Status
from trueline.errors import UsageError
from trueline.replay.board import IDLE
from trueline.replay.serial import outcome_from_json
from trueline.replay.serve import attempt, resolve
from trueline.replay.staff import Seat, Staff, WorkerError, how_it_died
from trueline.replay.tasks import Done, Job, Queue, Task, Written

__all__ = ["Done", "Job", "Pool", "WorkerError", "Written"]

_TICK = 0.02
"""So often, in seconds, a running job is looked at: its time and its memory."""
_REST = 0.02
_ENOUGH_RESTS = 3.0
"""Of so many rests' work a worker has enough."""
_AHEAD_SECONDS = 0.2
_AHEAD_MOST = 64
_MOST_LOST = 3
"""A job whose worker died so often before it came to this job is given up: something is wrong with the machine."""


class Pool:
    """Workers for one kind of job. ``workers=0`` does the jobs in this process, for debugging: nothing is survived.
    ``memory`` is what each worker may allocate, ``budget`` what all together may need, both in bytes. ``places`` are
    variables of the environment that one worker each is to have for itself, like the card that it may use."""

    def __init__(
        self,
        maker: str,
        setup: Mapping[str, Any],
        *,
        workers: int = 1,
        timeout: float = 60.0,
        memory: int | None = None,
        budget: int | None = None,
        environment: Mapping[str, str] | None = None,
        warm: bool = False,
        places: Sequence[Mapping[str, str]] = (),
    ) -> None:
        if workers < 0:
            raise UsageError(f"workers must be 0 or more, not {workers}")
        if timeout <= 0:
            raise UsageError(f"the timeout must be more than 0 seconds, not {timeout}")
        if budget is not None and budget <= 0:
            raise UsageError(f"the budget of memory must be more than 0 bytes, not {budget}")
        self._maker = maker
        self._setup = dict(setup)
        self._size = workers
        self.timeout = timeout
        self._memory = memory
        self._budget = budget
        self._selector = selectors.DefaultSelector()
        self._seats: list[Seat] = []
        self._suspects: deque[Task] = deque()
        self._waiting = Queue(budget)
        self._refused: list[Done] = []
        head = {"maker": maker, "setup": self._setup, "memory": memory}
        self._staff = Staff(head, dict(environment or {}), warm=warm, places=places)
        self._numbers = 0
        self._next_watch = 0.0
        self._everything = (budget or 0) + 1  # beside which nothing fits
        self.restarts = 0

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all workers."""
        for seat in self._seats:
            seat.worker.kill()
        self._staff.close()
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
            while self._feed(source) or self._busy() or self._refused:
                yield from self._refused
                self._refused.clear()
                self._rest()
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
            if (refusal := self._waiting.refusal(job)) is not None:
                yield Done(job.key, outcome=refusal)
                continue
            stages.clear()
            payload = json.loads(job.payload) if isinstance(job.payload, Written) else job.payload
            answer = attempt(work, payload)
            yield _done(job.key, {"stage": stages[-1] if stages else "", **answer})

    # Giving out work

    def _feed(self, source: Iterator[Job]) -> bool:
        """Sends jobs to whoever has room; False where nothing is left to send."""
        self._pull(source, 1)
        self._hire_and_dismiss()
        for seat in self._seats:
            if seat.ready:
                self._fill(seat, source)
        return bool(self._waiting or self._suspects)

    def _hire_and_dismiss(self) -> None:
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
            if (refusal := self._waiting.refusal(job)) is not None:
                self._refused.append(Done(job.key, outcome=refusal))
                continue
            self._numbers += 1
            self._waiting.add(Task(self._numbers, job))

    def _fill(self, seat: Seat, source: Iterator[Job]) -> None:
        room = max(1, min(_AHEAD_MOST, int(_AHEAD_SECONDS / max(seat.pace, 1e-4))))
        if len(seat.tasks) > room // 2 or any(task.suspected for task in seat.tasks):
            return
        if self._suspects and not self._waiting.fits(self._suspects[0], *self._beside(seat)):
            return  # it needs more than the others leave: nobody begins anything before it
        if self._suspects and not seat.answered and not seat.tasks:
            self._give(seat, self._suspects.popleft())
            return
        self._pull(source, room * self._size)
        share = max(1, len(self._waiting) // self._size)  # near the end nobody is to hold what others could do
        beside = self._beside(seat)
        ahead = sum(task.job.seconds for task in seat.tasks)
        given: list[Task] = []
        for _ in range(min(room - len(seat.tasks), share)):
            if (given or seat.tasks) and ahead > _AHEAD_SECONDS:  # what waits behind a long one may begin elsewhere
                break
            task = self._waiting.take(*beside)
            if task is None:
                break
            ahead += task.job.seconds
            given.append(task)
            if task.alone:
                break
        self._give(seat, *given)

    def _beside(self, seat: Seat) -> tuple[int, bool]:
        """What the other workers are guessed to need at once, and whether any of them has something to do. Tasks that
        a worker has already are done one after the other."""
        others = [other for other in self._seats if other is not seat and other.tasks]
        alone = any(task.alone for other in others for task in other.tasks)
        return sum(other.bytes for other in others) + (self._everything if alone else 0), bool(others)

    def _give(self, seat: Seat, *tasks: Task) -> None:
        if not tasks:
            return
        if not seat.tasks:
            seat.last_answer = time.monotonic()
        seat.tasks.extend(tasks)
        for task in tasks:
            seat.worker.send(task.number, task.job.payload)
        seat.worker.flush()
        self._attend(seat)

    def _busy(self) -> bool:
        return any(seat.tasks for seat in self._seats)

    # Hearing what comes back

    def _rest(self) -> None:
        """While everybody has enough to do, answers are left to gather: to be woken for each one costs more than to
        read it."""
        if self._seats and all(
            seat.ready and (len(seat.tasks) - 1) * seat.pace > _ENOUGH_RESTS * _REST for seat in self._seats
        ):
            time.sleep(_REST)

    def _listen(self) -> Iterator[Done]:
        for key, events in self._selector.select(_TICK):
            seat: Seat = key.data
            if events & selectors.EVENT_WRITE:
                seat.worker.flush()
                self._attend(seat)
            if events & selectors.EVENT_READ:
                yield from self._hear(seat)
                if seat.worker.hung_up and seat in self._seats:
                    yield from self._bury(seat)

    def _hear(self, seat: Seat) -> Iterator[Done]:
        for message in seat.worker.receive():
            if seat not in self._seats:
                return
            if "number" in message:
                yield from self._answered(seat, message)
            elif "ready" in message:
                self._staff.came(seat, message["ready"])
            else:
                raise WorkerError(f"workers cannot start: {message['unable']}")

    def _answered(self, seat: Seat, message: dict[str, Any]) -> Iterator[Done]:
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
        looked = False  # whether anybody has been at its job for longer than from one look to the next
        for seat in list(self._seats):
            if not seat.ready:
                if seat.is_late(now):
                    self._start_failed(seat)
                continue
            if seat.worker.gone():
                yield from self._hear(seat)
                if seat in self._seats:
                    yield from self._bury(seat)
                continue
            seat.worker.trim_log()
            number, since = seat.worker.board.read()
            if number == IDLE or not seat.tasks or seat.tasks[0].number != number or now - since < _TICK:
                continue
            looked = True
            used, limit = seat.look(number, now), seat.tasks[0].limit(self.timeout)
            if self._memory is not None and used > self._memory:
                yield from self._stop(seat, _used_too_much(self._memory))
            elif now - since > self.timeout:
                yield from self._stop(seat, seat.tasks[0].took_too_long(self.timeout, self.timeout))
            elif now - max(since, seat.grew) > limit:
                yield from self._stop(seat, seat.tasks[0].took_too_long(limit, self.timeout))
        if looked:
            yield from self._watch_budget()

    def _watch_budget(self) -> Iterator[Done]:
        """Guesses may be wrong: where all together use more than the budget, the one goes that is farthest above what
        it was guessed to need. Beside others it is tried again without them."""
        running = [seat for seat in self._seats if seat.ready and seat.tasks]
        if self._budget is None or not running:
            return
        used = [seat.used() for seat in running]
        if sum(used) <= self._budget:
            return
        _, worst = max(zip(used, running, strict=True), key=lambda pair: pair[0] - pair[1].tasks[0].job.bytes)
        yield from self._stop(worst, _used_too_much(self._budget), beside_others=len(running) > 1)

    def _stop(self, seat: Seat, outcome: Outcome, *, beside_others: bool = False) -> Iterator[Done]:
        """Kills a worker for what its running job does, or does ``beside_others``."""
        seat.tasks[0].alone |= beside_others
        again = beside_others and not seat.tasks[0].suspected
        seat.worker.kill()
        yield from self._hear(seat)  # it may have finished at the last moment
        if seat in self._seats:
            yield from self._bury(seat, outcome, again=again)

    def _bury(self, seat: Seat, outcome: Outcome | None = None, *, again: bool = False) -> Iterator[Done]:
        """A worker is dead: finds the job that killed it and gives back the others. ``outcome`` is known where it was
        killed by us; ``again`` says that its job is to be tried once more, whatever it did."""
        code = seat.worker.wait()
        if not seat.ready:
            self._start_failed(seat)
            return
        number, since = seat.worker.board.read()
        stage = seat.worker.board.stage
        guilty = bool(seat.tasks) and seat.tasks[0].number == number
        if guilty:
            task = seat.tasks.popleft()
            found = outcome or Outcome(*how_it_died(code, seat.worker.last_words()))
            found = Outcome(found.status, found.reason, time.monotonic() - since)
            # Whoever else killed it may have meant no job in particular.
            again |= outcome is None and code == -signal.SIGKILL and not task.suspected
            alone = (task.suspected or not seat.answered) and not again
            if alone or found.status is Status.TIMED_OUT:
                yield Done(task.job.key, outcome=found, stage=stage)
            else:
                self._suspect(task)
        elif seat.tasks:
            yield from self._blame_nobody(seat, code)
        self._give_back(seat)
        self._remove(seat)

    def _blame_nobody(self, seat: Seat, code: int) -> Iterator[Done]:
        """The worker died between two jobs."""
        task = seat.tasks[0]
        task.lost += 1
        if task.lost >= _MOST_LOST:
            seat.tasks.popleft()
            status, reason = how_it_died(code, seat.worker.last_words())
            reason = f"{_MOST_LOST} workers ended before they began it: {reason}"
            yield Done(task.job.key, outcome=Outcome(status, reason))

    def _suspect(self, task: Task) -> None:
        task.suspected = True
        self._suspects.append(task)

    def _give_back(self, seat: Seat) -> None:
        self._waiting.put_back(task for task in seat.tasks if not task.suspected)
        self._suspects.extend(task for task in seat.tasks if task.suspected)
        seat.tasks.clear()

    # Workers

    def _hire(self) -> Seat:
        seat = self._staff.hire(self._seats)
        self._selector.register(seat.worker.link, selectors.EVENT_READ, seat)
        self._attend(seat)
        return seat

    def _attend(self, seat: Seat) -> None:
        """Listens for room to write only while there is something to write."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if seat.worker.unsent else 0)
        self._selector.modify(seat.worker.link, events, seat)

    def _start_failed(self, seat: Seat) -> None:
        try:
            self._staff.failed(seat)
        finally:
            self._remove(seat)

    def _remove(self, seat: Seat) -> None:
        if seat in self._seats:
            self._seats.remove(seat)
            self._dismiss(seat)
            self.restarts += 1

    def _dismiss(self, seat: Seat) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(seat.worker.link)
        seat.worker.close()


def _done(key: str, message: Mapping[str, Any]) -> Done:
    if "outcome" in message:
        return Done(key, outcome=outcome_from_json(message["outcome"]), stage=message["stage"])
    return Done(key, message.get("content"), None, message.get("fault", ""), message["stage"],
                message.get("attachment", ""), message.get("seconds", 0.0))  # fmt: skip


def _used_too_much(allowed: int) -> Outcome:
    return Outcome(Status.OUT_OF_MEMORY, f"it used more than the {allowed / 1e9:.1f} GB that it may")
