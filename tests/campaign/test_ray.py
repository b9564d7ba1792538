"""Campaigns on a Ray cluster: real nodes on this machine, one of which is killed in the middle."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import trueline
from trueline.campaign.executors import Cluster, executor_for, pool_settings
from trueline.cases import Status, Target
from trueline.cli.main import main
from trueline.errors import UsageError
from trueline.replay.pool import Done, Job, Pool, WorkerError

MAKER = "tests.replay.fakes:maker"
ROOT = Path(__file__).parents[2]
CPU = Target.parse("torch:cpu")
LINES = """
torch.nn.functional.gelu(Tensor([4, 16],"float32"), )
torch.tanh(Tensor([4, 16],"float32"), )
torch.cat(list[Tensor([4, 16],"float32"),Tensor([4, 16],"float32"),], dim=0, )
"""
SMALL = {"num_cpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False}


def jobs_of(whats: list[str], **more: Any) -> list[Job]:
    return [Job(f"{n}:{what}", {"do": what, "value": n, "key": f"{n}:{what}", **more}) for n, what in enumerate(whats)]


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A cluster of one node; a test may add more."""
    pytest.importorskip("ray", reason="Ray is not installed")
    from ray.cluster_utils import Cluster as Nodes

    made = Nodes(initialize_head=True, head_node_args=SMALL)
    yield made
    made.shutdown()


def executor(nodes: Any, setup: dict[str, Any] | None = None, timeout: float = 20.0, **options: Any) -> Any:
    from trueline.campaign.ray_executor import RayExecutor

    return RayExecutor(Cluster(nodes.address, **options), MAKER, setup or {}, timeout=timeout)


def by_key(done: list[Done], jobs: list[Job]) -> dict[str, Done]:
    assert Counter(one.key for one in done) == Counter(job.key for job in jobs)
    return {one.key: one for one in done}


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_case_costs_itself_alone_and_a_lost_node_costs_nothing(nodes: Any, tmp_path: Path, capsys: Any) -> None:
    second = nodes.add_node(**{key: value for key, value in SMALL.items() if key != "include_dashboard"})
    ledger = tmp_path / "ledger"
    whats = ["good"] * 20 + ["segfault", "hang", "raise", "eat", "exit"] + ["sleep"] * 40
    jobs = jobs_of(whats, seconds=0.05)
    done: list[Done] = []

    def lose_one_in_the_middle() -> None:
        with executor(nodes, {"ledger": str(ledger)}, timeout=2.0, memory=300_000_000) as ray:
            for one in ray.run(jobs):
                done.append(one)
                if len(done) == 15:
                    assert len({seat.place.node for seat in ray._seats if seat.place}) == 2
                    nodes.remove_node(second, allow_graceful=False)
            assert ray.restarts >= 1

    with pytest.warns(RuntimeWarning, match="was lost"):
        lose_one_in_the_middle()
    found = by_key(done, jobs)
    ends = {key.split(":")[1]: one.outcome.status for key, one in found.items() if one.outcome}
    assert ends == {
        "segfault": Status.CRASHED,
        "hang": Status.TIMED_OUT,
        "eat": Status.OUT_OF_MEMORY,
        "exit": Status.CRASHED,
    }
    assert "RuntimeError: no such thing" in found["22:raise"].fault
    assert all(found[job.key].answer == job.payload["value"] for job in jobs if job.payload["do"] in ("good", "sleep"))
    assert set(ledger.read_text().split()) >= {job.key for job in jobs if " " not in job.key}
    assert "Raylet" not in capsys.readouterr().out, "output may be read by a program"


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_stopping_early_and_a_worker_that_cannot_start(nodes: Any, tmp_path: Path) -> None:
    """In a program that is connected to the cluster already, and stays so."""
    import ray

    ray.init(nodes.address, log_to_driver=False, logging_level="ERROR")
    with executor(nodes, {"refuse": "no such device"}) as one, pytest.raises(WorkerError, match="no such device"):
        list(one.run(jobs_of(["good"])))
    with executor(nodes) as two:
        first = next(iter(two.run(jobs_of(["good"] * 5 + ["hang"]))))
        assert first.answer == 0
        again = jobs_of(["good"] * 7)
        assert len(by_key(list(two.run(again)), again)) == 7
    with executor(nodes, memory="much") as three, pytest.raises(WorkerError, match="workers cannot start on the clus"):
        list(three.run(jobs_of(["good"])))
    try:
        assert ray.is_initialized()
        lines_are_judged_alike(nodes.address, tmp_path)
    finally:
        ray.shutdown()


def lines_are_judged_alike(address: str, folder: Path) -> None:
    """The same check, here and there; and the ledger of one is whole."""
    lines = folder / "lines.txt"
    lines.write_text(LINES, encoding="utf-8")
    wrong = {"torch.tanh": "tests.campaign.kernels:tanh_wrong_gradient"}
    there = trueline.check(
        lines, target="torch:cpu", overrides=wrong, executor="ray", address=address, out=folder / "there"
    )
    here = trueline.check(lines, target="torch:cpu", overrides=wrong, workers=0)
    assert [(one.case.key, one.verdict, one.reason) for one in there.results] == [
        (one.case.key, one.verdict, one.reason) for one in here.results
    ]
    assert [one.case.api for one in there.failures] == ["torch.tanh"]
    assert trueline.load_check(folder / "there").counts == there.counts


def test_jobs_wait_for_memory_and_nobody_starves() -> None:
    """The choice of the next batch, on seats that run nowhere."""
    pytest.importorskip("ray", reason="Ray is not installed")
    from trueline.campaign import ray_executor
    from trueline.campaign.ray_seat import Place

    place = Place("a", "host", 1000, {}, "")
    coordinator = object.__new__(ray_executor.RayExecutor)
    one, two = (ray_executor._Hired(None, None, place) for _ in range(2))
    coordinator._seats = [one, two]
    tasks = [ray_executor._Task(Job(str(size), None, bytes=size)) for size in (900, 2000, 50, 300, 50)]
    coordinator._waiting = ray_executor.deque(tasks)
    one.batches["x"] = coordinator._chosen(one, 1)
    assert [task.bytes for task in one.tasks] == [900]
    chosen = coordinator._chosen(two, 5)
    assert [task.bytes for task in chosen] == [50, 50], "what fits beside 900 bytes"
    tasks[1].passed = ray_executor._MOST_PASSED
    assert coordinator._chosen(two, 5) == [], "the largest has waited long enough: its machine is emptied for it"
    one.batches.clear()
    assert [task.bytes for task in coordinator._chosen(two, 1)] == [2000], "alone on its machine it may try"


def test_a_machine_with_other_versions_is_refused() -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    from trueline.campaign.ray_cluster import Connection
    from trueline.campaign.ray_seat import Place

    connection = object.__new__(Connection)
    connection.frameworks = ("torch",)
    with pytest.raises(UsageError, match=r"node7 has torch 1\.0, here it is"):
        connection.check(Place("a", "node7", None, {"torch": "1.0"}, ""))
    with pytest.raises(UsageError, match="node7 has no torch"):
        connection.check(Place("a", "node7", None, {"torch": ""}, ""))


def test_the_modules_of_overrides_are_sent_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trueline.campaign.ray_cluster import _shipped

    (tmp_path / "mine").mkdir()
    for name in ("mine/__init__.py", "mine/deep.py", "single.py", "elsewhere.py"):
        (tmp_path / name).write_text("def f(x): return x\n")
    monkeypatch.chdir(tmp_path)
    overrides = {"torch.a": "mine.deep:f", "torch.b": "single:f", "torch.c": "elsewhere.py:f"}
    sent = _shipped({"target": {"target": "torch:cpu", "overrides": overrides}, "thorough": True})
    assert sent == sorted([str(ROOT / "src" / "trueline"), str(tmp_path / "mine"), str(tmp_path / "single.py")])


def test_an_address_that_does_not_answer() -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        settings = pool_settings(CPU, 1, 10.0, None, "ray", address)
        with pytest.raises(UsageError, match="no Ray cluster answers at 127"):
            executor_for(settings, MAKER, {})
    with pytest.raises(UsageError, match="host:port"):
        executor_for(pool_settings(CPU, 1, 10.0, None, "ray", "here:there"), MAKER, {})


def test_the_command_ends_with_2_where_no_cluster_answers(tmp_path: Path, capsys: Any) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    lines = tmp_path / "lines.txt"
    lines.write_text(LINES, encoding="utf-8")
    assert main(["check", str(lines), "--target", "torch:cpu", "--executor", "ray", "--address", "127.0.0.1:1"]) == 2
    assert "no Ray cluster answers at 127.0.0.1:1" in capsys.readouterr().err
    assert main(["check", str(lines), "--target", "torch:cpu", "--address", "127.0.0.1:1"]) == 2
    assert "--executor ray" in capsys.readouterr().err


def test_without_ray_the_error_says_what_to_install() -> None:
    code = "import sys; sys.modules['ray'] = None\n"
    code += "from trueline.campaign.executors import *\nfrom trueline.cases import Target\n"
    code += "executor_for(pool_settings(Target.parse('torch:cpu'), 1, 9.0, None, 'ray'), 'a:b', {})"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert "pip install 'trueline[ray]'" in answer.stderr.splitlines()[-1]


def test_settings_say_who_does_the_jobs() -> None:
    local = pool_settings(CPU, 2, 10.0, 1.5)
    assert local.cluster is None and local.memory == local.most == 1_500_000_000 and local.budget == 3_000_000_000
    with executor_for(local, MAKER, {}, most=1) as pool:
        assert isinstance(pool, Pool) and pool._size == 1
    far = pool_settings(CPU, 40, 10.0, None, "ray", "10.0.0.1:6379")
    assert far.cluster == Cluster("10.0.0.1:6379", 40, None, "cpu")
    assert far.workers <= 40, "what is done here uses this machine"
    for words, message in (
        ({"executor": "slurm"}, "there are processes, ray"),
        ({"address": "auto"}, "--executor ray"),
        ({"executor": "ray", "workers": 0}, "at least 1 worker"),
        ({"memory": 0}, "more than 0 GB"),
    ):
        with pytest.raises(UsageError, match=message):
            pool_settings(CPU, **{"workers": 1, "timeout": 1.0, "memory": None, **words})
