"""Workers that are copies of a warm process: they are there at once, die alone, and leave nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.replay.test_pool import MAKER, ROOT, alive, gone_within, good, run, status
from trueline.cases import Status
from trueline.replay.pool import Job, Pool, WorkerError
from trueline.replay.zygote import can_fork

pytestmark = pytest.mark.skipif(not can_fork(), reason="only Linux copies processes so")
SLOW = "tests.replay.test_zygote:slow_to_import"
THREADED = "tests.replay.test_zygote:threaded"


def slow_to_import(setup: dict[str, Any], announce: Any) -> Any:
    from tests.replay import fakes

    time.sleep(1.0)
    return fakes.maker(setup, announce)


def threaded(setup: dict[str, Any], announce: Any) -> Any:
    """A thread runs in the original, none in a copy; a job says how many there are."""
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    return lambda payload: threading.active_count()


def computing(setup: dict[str, Any], announce: Any) -> Any:
    """Computes forward and backward, before it is copied and in the copies."""
    import torch

    torch.set_num_threads(1)

    def work(payload: Any) -> Any:
        matrix = torch.full((64, 64), 0.5, requires_grad=True)
        (matrix @ matrix).tanh().sum().backward()
        assert matrix.grad is not None
        return float(matrix.grad.sum()), os.getpid()

    work.warm_up = lambda: work(None)  # type: ignore[attr-defined]
    return work


def test_all_kinds_of_death_cost_one_job() -> None:
    whats = ["good", "segfault", "good", "hang", "eat", "noise", "exit", "abort", "vanish", "lose the device", "good"]
    done = run([*whats, *["good"] * 30], timeout=5.0, memory=500_000_000, warm=True)
    assert good(done)
    deaths = [status(done, what)[0] for what in ("segfault", "abort", "vanish", "exit", "lose the device")]
    assert deaths == [Status.CRASHED] * 5
    assert status(done, "hang") == [Status.TIMED_OUT]
    assert status(done, "eat") == [Status.OUT_OF_MEMORY]
    (aborted,) = [one for key, one in done.items() if key.endswith("abort")]
    assert aborted.outcome is not None
    assert "SIGABRT: assertion `x > 0` failed" in aborted.outcome.reason
    assert aborted.stage == "candidate"


def test_a_job_that_dies_of_what_another_did_is_not_blamed() -> None:
    done = run(["good"] * 5 + ["segfault once"] + ["good"] * 5, workers=1, warm=True)
    assert good(done)
    assert done["5:segfault once"].answer == 5


def test_a_new_worker_is_there_at_once() -> None:
    """What takes long to import is imported once, however many workers die."""
    with Pool(SLOW, {}, workers=1, warm=True) as pool:
        list(pool.run([Job("first", {"do": "good"})]))
        begin = time.monotonic()
        jobs = [Job(str(n), {"do": what, "value": n}) for n, what in enumerate(["vanish", "good"] * 3)]
        done = {one.key: one for one in pool.run(jobs)}
        # Each death needs two new workers: one to try it again alone, one to go on.
        assert time.monotonic() - begin < 3.0
        assert pool.restarts >= 3
    assert [done[str(n)].answer for n in (1, 3, 5)] == [1, 3, 5]


def test_copies_compute_as_their_original() -> None:
    pytest.importorskip("torch")
    from tests.replay.test_zygote import computing as original

    expected, _ = original({}, None)(None)
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with Pool("tests.replay.test_zygote:computing", {}, workers=2, warm=True, environment=threads) as pool:
        answers = [one.answer for one in pool.run(Job(str(n), None) for n in range(8))]
    assert [answer[0] for answer in answers] == [pytest.approx(expected)] * 8
    assert os.getpid() not in {answer[1] for answer in answers}


def test_what_has_threads_is_not_copied() -> None:
    """Its threads would be missing in the copies; fresh interpreters have them."""
    with Pool(THREADED, {}, workers=2, warm=True) as pool:
        assert [one.answer for one in pool.run(Job(str(n), None) for n in range(4))] == [2] * 4


def test_what_cannot_start_is_one_clear_error() -> None:
    with pytest.raises(WorkerError, match="ValueError: no such kernel"):
        run(["good"], setup={"refuse": "no such kernel"}, warm=True)
    with pytest.raises(WorkerError, match="exit code 9"):
        run(["good"], setup={"die": True}, warm=True)


def test_what_a_job_started_ends_with_the_pool_that_can_be_left_early() -> None:
    done = run(["child"], workers=1, warm=True)
    assert gone_within(5, done["0:child"].answer)
    with Pool(SLOW, {}, workers=2, warm=True) as pool:
        first = pool.run(Job(str(n), {"do": "good", "value": n}) for n in range(100))
        assert next(first).outcome is None
        first.close()  # type: ignore[attr-defined]
        assert [one.answer for one in pool.run([Job("x", {"do": "good", "value": 7})])] == [7]
    begin = time.monotonic()
    with Pool(SLOW, {}, workers=2, warm=True) as pool:  # closed before anybody was there
        pool._seats.append(pool._hire())
    assert time.monotonic() - begin < 0.9


COORDINATOR = f"""
from trueline.replay.pool import Job, Pool
pool = Pool("{MAKER}", {{}}, workers=2, timeout=60, warm=True)
for done in pool.run([Job("a", {{"do": "pid"}}), Job("b", {{"do": "pid"}})]):
    print(done.answer, flush=True)
for done in pool.run([Job(str(n), {{"do": "hang"}}) for n in range(2)]):
    pass
"""


def test_nothing_outlives_a_coordinator_that_is_killed() -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-c", COORDINATOR]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
    assert process.stdout is not None
    processes = {int(process.stdout.readline()) for _ in range(2)}
    time.sleep(0.3)
    for parent in (process.pid, *_children(process.pid)):
        processes |= set(_children(parent))
    assert len(processes) >= 3  # the original and its copies
    assert all(alive(one) for one in processes)
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    process.stdout.close()
    assert all(gone_within(5, one) for one in processes)


def _children(process: int) -> list[int]:
    with contextlib.suppress(FileNotFoundError):
        return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    return []
