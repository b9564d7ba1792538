"""Who may run at once, by the memory that jobs are guessed to need; and how long each may take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.replay.test_pool import MAKER
from trueline.cases import Status
from trueline.errors import UsageError
from trueline.replay.pool import Done, Job, Pool
from trueline.replay.tasks import Queue, Task

GIGABYTE = 1_000_000_000


def sleeping(key: str, size: int, seconds: float = 0.25) -> Job:
    return Job(key, {"do": "sleep", "seconds": seconds, "value": key}, bytes=size)


def spans(jobs: list[Job], **options: Any) -> dict[str, tuple[float, float]]:
    """When each job ran, by its worker's clock."""
    with Pool("tests.replay.test_tasks:timed", {}, workers=3, warm=True, **options) as pool:
        return {done.key: tuple(done.answer) for done in pool.run(jobs)}


def timed(setup: dict[str, Any], announce: Any) -> Any:
    def work(payload: Any) -> Any:
        begin = time.monotonic()
        time.sleep(payload["seconds"])
        return begin, time.monotonic()

    return work


def overlap(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def test_jobs_that_do_not_fit_together_wait_for_each_other() -> None:
    ran = spans([sleeping(str(n), 6 * GIGABYTE) for n in range(3)], budget=10 * GIGABYTE)
    assert not any(overlap(ran[one], ran[other]) for one, other in ("01", "02", "12"))


def test_jobs_that_fit_run_at_once_and_small_ones_pass_a_big_one() -> None:
    jobs = [sleeping("a", 6 * GIGABYTE, 0.6), sleeping("b", 6 * GIGABYTE), sleeping("c", GIGABYTE)]
    ran = spans(jobs, budget=10 * GIGABYTE)
    assert not overlap(ran["a"], ran["b"])
    assert overlap(ran["a"], ran["c"])


def test_a_job_bigger_than_the_budget_runs_alone() -> None:
    jobs = [sleeping("a", GIGABYTE), sleeping("big", 15 * GIGABYTE), sleeping("b", GIGABYTE)]
    ran = spans(jobs, budget=10 * GIGABYTE)
    assert not any(overlap(ran["big"], ran[other]) for other in "ab")


@pytest.mark.parametrize("workers", [0, 1])
def test_a_job_that_cannot_fit_is_not_tried_and_says_so(workers: int) -> None:
    jobs = [Job("good", {"do": "good", "value": 1}), Job("huge", {"do": "good"}, bytes=500 * GIGABYTE)]
    with Pool(MAKER, {}, workers=workers, budget=10 * GIGABYTE) as pool:
        done = {one.key: one for one in pool.run(jobs)}
    assert done["good"].answer == 1
    assert done["huge"].outcome is not None
    assert done["huge"].outcome.status is Status.UNSUPPORTED
    assert done["huge"].outcome.reason == "it would need about 500 GB of memory, and 10.0 are there"


def test_one_that_floods_the_budget_beside_others_is_tried_without_them_and_then_ended() -> None:
    """Its guess was wrong; the others keep running."""

    def jobs() -> Iterator[Job]:
        for number in range(4):
            yield sleeping(f"small {number}", 1000, 0.4)
        yield Job("flood", {"do": "eat slowly"}, bytes=1000)
        for number in range(4, 8):
            yield sleeping(f"small {number}", 1000, 0.05)

    with Pool("tests.replay.test_pool:unlimited", {}, workers=2, budget=300_000_000, timeout=60) as pool:
        done: dict[str, Done] = {one.key: one for one in pool.run(jobs())}
    assert len(done) == 9
    flood = done.pop("flood").outcome
    assert flood is not None and flood.status is Status.OUT_OF_MEMORY
    assert "0.3 GB" in flood.reason
    assert all(one.outcome is None and one.answer == key for key, one in done.items())


def test_the_time_of_a_job_follows_its_guess() -> None:
    short, long, unknown = (Task(1, Job("x", None, seconds=seconds)) for seconds in (0.004, 1.0, 0.0))
    assert short.limit(120.0) == 10.0
    assert long.limit(120.0) == 50.0
    assert unknown.limit(120.0) == 120.0
    assert long.limit(7.0) == 7.0
    assert short.took_too_long(10.0, 120.0).reason == (
        "it did not return within 10 s, 2,500 times the 4 ms that a call of this size takes"
    )
    assert unknown.took_too_long(120.0, 120.0).reason == "it did not return within 120 s"


def test_a_job_that_takes_far_longer_than_guessed_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trueline.replay.tasks._SHORTEST_LIMIT", 0.5)
    jobs = [Job("hang", {"do": "hang"}, seconds=0.004), Job("good", {"do": "good", "value": 1}, seconds=0.004)]
    with Pool(MAKER, {}, workers=1, timeout=60) as pool:
        done = {one.key: one for one in pool.run(jobs)}
    assert done["good"].answer == 1
    hung = done["hang"]
    assert hung.outcome is not None and hung.outcome.status is Status.TIMED_OUT
    assert "125 times the 4 ms" in hung.outcome.reason
    assert hung.stage == "candidate"


def test_a_big_job_is_passed_only_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue(100)
    big, *small = (Task(number, Job(str(number), None, bytes=size)) for number, size in enumerate((90, 20, 20, 20)))
    for task in (big, *small):
        queue.add(task)
    assert queue.take(50, True) is small[0]
    assert queue.take(50, True) is small[1]
    monkeypatch.setattr("trueline.replay.tasks._PATIENCE", -1.0)
    assert queue.take(50, True) is None
    assert queue.take(0, False) is big
    assert queue.take(90, True) is None  # held now, and waits its turn
    assert len(queue) == 1


def test_a_budget_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="budget"):
        Pool(MAKER, {}, budget=0)
