"""The jobs of a campaign on the machines of a Ray cluster.

One actor for each worker; each gets jobs in batches, the next one while it does the last, and supervises a process of
its own that does them (``ray_seat``). What an actor had in hand when its machine was lost is given out again, one job
at a time, so that a job that takes machines down is found and costs only itself. Machines that join are used. Jobs that
are estimated to need much memory run at the same time only as far as the memory of their machine allows.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from trueline.campaign.executors import Cluster
from trueline.campaign.ray_cluster import Connection
from trueline.campaign.ray_seat import Batch, Place, Seat
from trueline.cases import Outcome, Status
from trueline.errors import UsageError
from trueline.replay.pool import Done, Job, WorkerError

_BATCH_SECONDS = 0.3
"""Short enough that nobody waits long for another's last batch, long enough that sending it costs next to nothing."""
_BATCH_MOST = 64
_BATCHES_AHEAD = 2
"""An actor does one batch while the next waits at its door."""
_FIRST_PACE = 0.05
_MOST_BELIEVED = 4.0
"""A guess of more than so many times what jobs take here is not believed: batches would become too small."""
_TICK = 1.0
_STAFF_SECONDS = 5.0
"""So often it is looked whether machines have joined."""
_START_SECONDS = 300.0
_START_FAILURES = 3
_MOST_LOST = 3
_MOST_PASSED = 256
"""So many smaller jobs may overtake one that finds no memory; then its machine is emptied for it."""
_WINDOW = 64


@dataclass(slots=True, eq=False)
class _Task:
    job: Job
    lost: int = 0
    passed: int = 0

    @property
    def bytes(self) -> int:
        return self.job.bytes


@dataclass(slots=True, eq=False)
class _Hired:
    """An actor, with the batches that it has not answered. ``place`` is None until it has been given a machine."""

    actor: Any
    looking: Any
    place: Place | None = None
    batches: dict[Any, list[_Task]] = field(default_factory=dict)
    begun: float = 0.0
    answered: int = 0
    pace: float = _FIRST_PACE
    """Seconds a job takes here, smoothed."""

    @property
    def tasks(self) -> list[_Task]:
        return list(itertools.chain.from_iterable(self.batches.values()))

    @property
    def bytes(self) -> int:
        """What it needs at most at any time: it does one job after the other."""
        return max((task.bytes for task in self.tasks), default=0)


class RayExecutor:
    """Does jobs on a cluster; see ``campaign.executors``. ``restarts`` counts the actors that were lost."""

    def __init__(
        self, cluster: Cluster, maker: str, setup: Mapping[str, Any], *, timeout: float, most: int | None = None
    ) -> None:
        if timeout <= 0:
            raise UsageError(f"the timeout must be more than 0 seconds, not {timeout}")
        self._connection = Connection(cluster, setup)
        self._ray = self._connection.ray
        self._most = min(count for count in (cluster.workers, most, 2**31) if count is not None)
        self._words = (maker, dict(setup), timeout, cluster.memory)
        self._kind = self._ray.remote(Seat)
        self._seats: list[_Hired] = []
        self._waiting: deque[_Task] = deque()
        self._next_staffing = 0.0
        self._last_life = time.monotonic()
        self._failed_starts = 0
        self.restarts = 0

    def __enter__(self) -> RayExecutor:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all actors, with the processes that they supervise."""
        for seat in list(self._seats):
            self._dismiss(seat)
        self._connection.close()

    def run(self, jobs: Iterable[Job]) -> Iterator[Done]:
        """Does all jobs; gives them as they end, each exactly once."""
        source = iter(jobs)
        self._last_life = time.monotonic()
        try:
            while self._feed(source) or any(seat.batches for seat in self._seats):
                yield from self._listen()
        finally:  # the caller stopped early, or it was interrupted: what still runs is of no use
            for seat in [seat for seat in self._seats if seat.batches]:
                self._dismiss(seat)
            self._waiting.clear()

    # Giving out work

    def _feed(self, source: Iterator[Job]) -> bool:
        """Sends jobs to whoever has room; False where nothing is left to send."""
        self._pull(source, 1)
        if self._waiting:
            self._staff()
        for seat in self._seats:
            while seat.place is not None and len(seat.batches) < _BATCHES_AHEAD and self._send(seat, source):
                pass
        return bool(self._waiting)

    def _pull(self, source: Iterator[Job], count: int) -> None:
        for job in itertools.islice(source, max(0, count - len(self._waiting))):
            self._waiting.append(_Task(job))

    def _staff(self) -> None:
        """Hires as many actors as there are places for."""
        now = time.monotonic()
        if now < self._next_staffing:
            return
        self._next_staffing = now + _STAFF_SECONDS
        room = min(self._most, self._connection.slots())
        slots = min(self._most, self._connection.slots_on_largest())
        for _ in range(room - len(self._seats)):
            actor = self._kind.options(**self._connection.demand()).remote(*self._words, slots, os.getcwd())
            self._seats.append(_Hired(actor, actor.look.remote(self._connection.frameworks)))

    def _send(self, seat: _Hired, source: Iterator[Job]) -> bool:
        """Gives a seat its next batch; False where there is nothing for it."""
        room = max(1, min(_BATCH_MOST, int(_BATCH_SECONDS / max(seat.pace, 1e-4))))
        self._pull(source, max(_WINDOW, room * _BATCHES_AHEAD * len(self._seats)))
        share = max(1, len(self._waiting) // (_BATCHES_AHEAD * len(self._seats)))  # near the end nobody hoards
        batch = self._chosen(seat, min(room, share))
        if not batch:
            return False
        if not seat.batches:
            seat.begun = time.monotonic()
        seat.batches[seat.actor.work.remote([task.job for task in batch])] = batch
        return True

    def _chosen(self, seat: _Hired, room: int) -> list[_Task]:
        """The next jobs that fit into what is free of the machine's memory, up to what a batch may take. One
        that was lost with a machine is sent alone."""
        free = self._free(seat)
        batch: list[_Task] = []
        seconds = 0.0
        for task in list(itertools.islice(self._waiting, _WINDOW)):
            cost = min(task.job.seconds or seat.pace, _MOST_BELIEVED * seat.pace)
            if len(batch) == room or (batch and seconds + cost > _BATCH_SECONDS):
                break
            if task.lost and (batch or seat.batches):
                break
            if free is not None and task.bytes > free:
                task.passed += 1
                if task.passed > _MOST_PASSED:
                    break
                continue
            self._waiting.remove(task)
            batch.append(task)
            seconds += cost
            if task.lost:
                break
        return batch

    def _free(self, seat: _Hired) -> int | None:
        """Bytes that a job may take on the machine of this seat; None where all are: nothing is known, or nothing else
        runs there, and then whoever needs too much finds out for itself."""
        assert seat.place is not None, "only who has a place is given work"
        if seat.place.memory is None:
            return None
        beside = [other for other in self._seats if other.place and other.place.node == seat.place.node]
        taken = sum(other.bytes for other in beside if other is not seat)
        busy = any(other.batches for other in beside)
        return seat.place.memory - taken if busy else None

    # Hearing what comes back

    def _listen(self) -> Iterator[Done]:
        owners = {seat.looking: seat for seat in self._seats if seat.place is None}
        owners.update((answer, seat) for seat in self._seats for answer in seat.batches)
        if not owners:
            time.sleep(_TICK)  # every machine is lost; one may come back
        else:
            ready, _ = self._ray.wait(list(owners), num_returns=1, timeout=_TICK)
            for answer in ready:
                yield from self._heard(owners[answer], answer)
        self._give_up_on_silence()

    def _heard(self, seat: _Hired, answer: Any) -> Iterator[Done]:
        errors = self._ray.exceptions
        try:
            said = self._ray.get(answer)
        except (errors.RayActorError, errors.NodeDiedError, errors.ObjectLostError) as error:
            yield from self._bury(seat, error)
            return
        except errors.RayError as error:
            raise WorkerError(f"the cluster cannot be used: {_told(error)}") from None
        self._last_life = time.monotonic()
        if isinstance(said, Place):
            self._connection.check(said)
            seat.place = said
            self._failed_starts = 0
        else:
            yield from self._answered(seat, answer, said)

    def _answered(self, seat: _Hired, answer: Any, batch: Batch) -> Iterator[Done]:
        if batch.unable:
            where = seat.place.host if seat.place else "a machine"
            raise WorkerError(f"on {where}: {batch.unable}")
        tasks = seat.batches.pop(answer)
        assert {task.job.key for task in tasks} == {done.key for done in batch.ended}, "each job is answered once"
        now = time.monotonic()
        if seat.answered:  # the first one waited for the start of a process
            seat.pace = 0.5 * seat.pace + 0.5 * (now - seat.begun) / len(tasks)
        seat.answered += 1
        seat.begun = now
        yield from batch.ended

    def _bury(self, seat: _Hired, error: BaseException) -> Iterator[Done]:
        """An actor is lost, most likely with its machine: what it had in hand is given out again."""
        tasks = seat.tasks
        self._dismiss(seat)
        self.restarts += 1
        self._next_staffing = 0.0
        if seat.place is None:
            self._failed_starts += 1
            if self._failed_starts >= _START_FAILURES:
                raise WorkerError(f"workers cannot start on the cluster: {_told(error)}")
        else:
            again = f"; {len(tasks)} cases that it had are done again" if tasks else ""
            warnings.warn(f"a worker on {seat.place.host} was lost{again}", RuntimeWarning, stacklevel=2)
        for task in tasks:
            task.lost += 1
            if task.lost >= _MOST_LOST:
                reason = f"{_MOST_LOST} workers were lost while they had it, the last: {_told(error)}"
                yield Done(task.job.key, outcome=Outcome(Status.CRASHED, reason))
        self._waiting.extendleft(task for task in reversed(tasks) if task.lost < _MOST_LOST)

    def _give_up_on_silence(self) -> None:
        if any(seat.place is not None for seat in self._seats):
            return
        if time.monotonic() - self._last_life > _START_SECONDS:
            raise WorkerError(f"no machine of the cluster took a worker within {_START_SECONDS:g} s")

    def _dismiss(self, seat: _Hired) -> None:
        self._seats.remove(seat)
        with contextlib.suppress(Exception):  # it is gone already, or the cluster is
            self._ray.kill(seat.actor)


def _told(error: BaseException) -> str:
    """What an error of Ray's says, without the pages that it adds: the first line, or what was raised at the far end
    of a stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return (lines[-1] if any(line.startswith("File ") for line in lines) else lines[0])[:200]
