"""Worker processes: what a job does to its worker is known, the others are not harmed, nothing is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from trueline.cases import Status
from trueline.errors import UsageError
from trueline.replay import tasks
from trueline.replay.board import IDLE, Board
from trueline.replay.pool import Done, Job, Pool, WorkerError, Written

MAKER = "tests.replay.fakes:maker"
ROOT = Path(__file__).parents[2]


def run(whats: list[str], *, workers: int = 2, timeout: float = 20.0, **options: Any) -> dict[str, Done]:
    """Does jobs and gives them by key; each must end exactly once."""
    jobs = [Job(f"{n}:{what}", {"do": what, "value": n, "key": f"{n}:{what}"}) for n, what in enumerate(whats)]
    setup = options.pop("setup", {})
    with Pool(MAKER, setup, workers=workers, timeout=timeout, **options) as pool:
        done = list(pool.run(jobs))
    assert Counter(one.key for one in done) == Counter(job.key for job in jobs)
    return {one.key: one for one in done}


def good(done: dict[str, Done]) -> bool:
    """Whether all jobs that only return a value did so."""
    return all(one.answer == int(key.split(":")[0]) for key, one in done.items() if key.endswith(":good"))


def status(done: dict[str, Done], what: str) -> list[Status | None]:
    return [one.outcome.status if one.outcome else None for key, one in done.items() if key.endswith(f":{what}")]


def alive(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone_within(seconds: float, process: int) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not alive(process):
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_jobs_are_done_and_noise_breaks_nothing(workers: int) -> None:
    done = run(["good", "noise", "good", "raise"] * 10, workers=workers)
    assert good(done)
    assert {one.fault for key, one in done.items() if key.endswith("raise")} == {"RuntimeError: no such thing"}


@pytest.mark.parametrize(
    ("what", "expected", "words"),
    [
        ("segfault", Status.CRASHED, "SIGSEGV"),
        ("abort", Status.CRASHED, "SIGABRT: assertion `x > 0` failed"),
        ("exit", Status.CRASHED, "sys.exit(3)"),
        ("vanish", Status.CRASHED, "exit code 0"),
        ("lose the device", Status.CRASHED, "device-side assert"),
        ("eat", Status.OUT_OF_MEMORY, "MemoryError"),
    ],
)
def test_a_death_is_the_outcome_of_its_job_alone(what: str, expected: Status, words: str) -> None:
    done = run(["good"] * 20 + [what] + ["good"] * 20, memory=500_000_000)
    assert good(done)
    (bad,) = [one for key, one in done.items() if key.endswith(what)]
    assert bad.outcome is not None and bad.outcome.status is expected
    assert words in bad.outcome.reason
    assert bad.stage == "candidate"


def test_a_hanging_job_is_ended_after_its_time() -> None:
    begin = time.monotonic()
    done = run(["good"] * 5 + ["hang"] + ["good"] * 5, timeout=1.0)
    assert good(done)
    assert status(done, "hang") == [Status.TIMED_OUT]
    (hung,) = [one for key, one in done.items() if key.endswith("hang")]
    assert hung.stage == "candidate"
    assert hung.outcome is not None and 1.0 <= hung.outcome.seconds < 10.0
    assert time.monotonic() - begin < 30


def test_memory_is_watched_where_limits_on_allocation_do_not_hold() -> None:
    """The second line of defence alone: what a worker really uses."""
    with Pool("tests.replay.test_pool:unlimited", {}, workers=1, timeout=20, memory=300_000_000) as pool:
        jobs = [Job(str(n), {"do": what}) for n, what in enumerate(["good", "eat slowly", "good"])]
        done = {one.key: one for one in pool.run(jobs)}
    assert done["1"].outcome is not None
    assert done["1"].outcome.status is Status.OUT_OF_MEMORY
    assert "0.3 GB" in done["1"].outcome.reason
    assert done["2"].outcome is None


def test_what_takes_memory_slowly_ends_at_the_limit_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever limit a busy machine comes to first; what takes no more is still ended after its time."""
    monkeypatch.setattr(tasks, "_SHORTEST_LIMIT", 0.5)
    whats = ["good", "grow", "grow and hang"]
    jobs = [Job(what, {"do": what, "rest": 0.2}, seconds=0.001) for what in whats]
    with Pool(MAKER, {}, workers=1, timeout=60, memory=400_000_000) as pool:
        done = {one.key: one.outcome for one in pool.run(jobs)}
    grown, hung = done["grow"], done["grow and hang"]
    assert grown is not None and (grown.status, grown.seconds > 1.0) == (Status.OUT_OF_MEMORY, True)
    assert hung is not None and (hung.status, "within 0.5 s" in hung.reason) == (Status.TIMED_OUT, True)


def unlimited(setup: dict[str, Any], announce: Any) -> Any:
    import resource

    from tests.replay import fakes

    work = fakes.maker(setup, announce)

    def lifted(payload: Any) -> Any:
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
        return work(payload)

    return lifted


def test_all_kinds_of_death_together() -> None:
    whats = ["good", "segfault", "good", "hang", "eat", "noise", "exit", "abort", "vanish", "good"] * 2
    done = run(whats, timeout=4.0, memory=500_000_000)
    assert good(done)
    assert status(done, "segfault") == status(done, "abort") == status(done, "vanish") == [Status.CRASHED] * 2
    assert status(done, "hang") == [Status.TIMED_OUT] * 2
    assert status(done, "eat") == [Status.OUT_OF_MEMORY] * 2


def test_a_job_that_dies_of_what_another_did_is_not_blamed() -> None:
    """It dies only in a worker that has done something before; alone in a fresh one it returns."""
    done = run(["good"] * 5 + ["segfault once"] + ["good"] * 5, workers=1)
    assert good(done)
    assert done["5:segfault once"].outcome is None
    assert done["5:segfault once"].answer == 5


def test_innocent_jobs_are_done_once(tmp_path: Path) -> None:
    """Those that waited behind a crash go to another worker; those that were done are not done again."""
    ledger = tmp_path / "done.txt"
    done = run(["good"] * 30 + ["segfault"] + ["good"] * 30, workers=1, setup={"ledger": str(ledger)})
    counts = Counter(ledger.read_text().split("\n")[:-1])
    assert good(done)
    assert all(counts[key] == 1 for key in done if key.endswith("good"))
    assert counts["30:segfault"] == 2  # once more, alone


def test_a_job_whose_worker_is_killed_by_others_is_done_again(tmp_path: Path) -> None:
    """Even the first of its worker: nobody knows whom the killer meant."""
    mark = tmp_path / "once"
    with Pool("tests.replay.test_pool:killed_once", {"mark": str(mark)}, workers=1) as pool:
        assert [one.answer for one in pool.run([Job("x", None)])] == ["done"]


def killed_once(setup: dict[str, Any], announce: Any) -> Any:
    def work(payload: Any) -> Any:
        mark = Path(setup["mark"])
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return "done"

    return work


def test_a_board_never_shows_a_job_without_its_beginning() -> None:
    board = Board.make()
    before = time.monotonic()
    for number in range(1, 4):
        board.begin(number)
        assert board.read()[0] == number and before <= board.read()[1] <= time.monotonic()
        board.end()
        assert board.read()[0] == IDLE
        assert board.read()[1] >= before  # a reader between two writes must not see a job that began at zero
    board.close()


def test_workers_stay_alive_and_are_few() -> None:
    done = run(["pid"] * 50, workers=2)
    assert len({one.answer for one in done.values()}) <= 2


def test_large_messages_pass_both_ways() -> None:
    with Pool(MAKER, {}, workers=1) as pool:
        jobs = [Job(str(n), {"do": "big", "size": 3_000_000, "ballast": "y" * 3_000_000}) for n in range(4)]
        assert [len(one.answer) for one in pool.run(jobs)] == [3_000_000] * 4


def test_what_a_job_started_ends_with_the_pool() -> None:
    done = run(["child"], workers=1)
    assert gone_within(5, done["0:child"].answer)


def test_a_pool_can_be_used_again_and_left_early() -> None:
    with Pool(MAKER, {}, workers=2) as pool:
        first = pool.run(Job(str(n), {"do": "good", "value": n}) for n in range(100))
        assert next(first).outcome is None
        first.close()  # type: ignore[attr-defined]
        assert [one.answer for one in pool.run([Job("x", {"do": "good", "value": 7})])] == [7]


def test_workers_that_cannot_start_are_one_clear_error() -> None:
    with pytest.raises(WorkerError, match="ValueError: no such kernel"):
        run(["good"], setup={"refuse": "no such kernel"})
    with pytest.raises(WorkerError, match="exit code 9"):
        run(["good"], setup={"die": True})


@pytest.mark.parametrize("options", [{"workers": -1}, {"timeout": 0.0}])
def test_impossible_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        run(["good"], **options)


COORDINATOR = """
import sys, os
from trueline.replay.pool import Job, Pool
pool = Pool("tests.replay.fakes:maker", {}, workers=2, timeout=60)
jobs = [Job("a", {"do": "pid"}), Job("b", {"do": "pid"}), Job("c", {"do": "sleep", "seconds": 0.3})]
for done in pool.run(jobs):
    print(done.answer, flush=True)
for done in pool.run([Job(str(n), {"do": "hang"}) for n in range(2)]):
    pass
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_die_with_their_coordinator(how: signal.Signals) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    process = subprocess.Popen(
        [sys.executable, "-c", COORDINATOR], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # whoever runs the tests may ignore it
    )  # fmt: skip
    assert process.stdout is not None
    workers = [int(word) for line in [process.stdout.readline() for _ in range(3)] if (word := line.strip()).isdigit()]
    with contextlib.suppress(FileNotFoundError):
        workers += [int(word) for word in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    time.sleep(0.3)
    assert workers and all(alive(worker) for worker in workers)
    process.send_signal(how)
    process.wait(10)
    process.stdout.close()
    assert all(gone_within(5, worker) for worker in workers)


def test_the_cost_of_a_job_is_below_a_millisecond() -> None:
    """To the coordinator, in time of its own: others may be busy on this machine."""
    payload = {"do": "good", "value": {"numbers": {f"n{n}": n / 7 for n in range(60)}}}
    with Pool(MAKER, {}, workers=1) as pool:
        list(pool.run([Job("warm", payload)]))
        begin = time.process_time()
        count = sum(1 for _ in pool.run(Job(str(n), payload) for n in range(2000)))
        assert (time.process_time() - begin) / count < 1e-3


@pytest.mark.parametrize("workers", [0, 1])
def test_what_comes_with_an_answer_is_not_read(workers: int) -> None:
    done = run(["attach", "good"], workers=workers)
    attached = done["0:attach"]
    assert (attached.answer, attached.attachment) == ([0], '{"long":"text"}')
    assert done["1:good"].attachment == "" and (attached.seconds > 0.0 or not workers)


@pytest.mark.parametrize("workers", [0, 1])
def test_what_is_written_already_is_sent_as_it_stands(workers: int) -> None:
    job = Job("a", Written('{"do": "good", "value": 7, "key": "a"}'))
    with Pool(MAKER, {}, workers=workers) as pool:
        assert [one.answer for one in pool.run([job])] == [7]


def test_each_worker_has_a_place_of_its_own() -> None:
    """Cards of a machine, one to each worker; who comes in the place of one that died gets its card."""
    places = [{"TRUELINE_TEST_CARD": str(card)} for card in range(3)]
    with Pool("tests.replay.test_pool:says_its_card", {}, workers=3, places=places, warm=True) as pool:
        assert cards_of(pool) == {"0", "1", "2"}
        assert [done.outcome is None for done in pool.run([Job("x", {"do": "die"})])] == [False]
        assert cards_of(pool) == {"0", "1", "2"}


def cards_of(pool: Pool) -> set[str]:
    """All that its workers say, until three have spoken: a fresh one takes its time to come."""
    found: set[str] = set()
    until = time.monotonic() + 60
    while len(found) < 3 and time.monotonic() < until:
        found |= {done.answer for done in pool.run(Job(str(number), {"do": "wait"}) for number in range(6))}
    return found


def says_its_card(setup: dict[str, Any], announce: Any) -> Any:
    def work(payload: dict[str, Any]) -> str:
        if payload["do"] == "die":
            os._exit(9)
        time.sleep(0.1)  # so that nobody does the work of all
        return os.environ["TRUELINE_TEST_CARD"]

    return work
