"""``trueline capture -- …`` with Paddle programs that know nothing of trueline; and what a kill leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.capture.test_launch import environment, launch
from trueline.records import Phase
from trueline.store import open_run

paddle = pytest.importorskip("paddle")

SCRIPT = """
from paddle import add  # by name, before anything else
import paddle

layer = paddle.nn.Linear(4, 3)
optimizer = paddle.optimizer.SGD(0.1, parameters=layer.parameters())
for _ in range(3):
    add(layer(paddle.ones([2, 4])), paddle.ones([3])).sum().backward()
    optimizer.step()
    optimizer.clear_grad()
print("done")
raise SystemExit(3)
"""

RANKS = """
import paddle
import paddle.distributed as dist
from paddle.distributed import all_reduce

dist.init_parallel_env()
total = paddle.full([3], float(dist.get_rank() + 1))
all_reduce(total)
parts = []
dist.all_gather(parts, total)
print("rank", dist.get_rank(), total.tolist(), len(parts))
"""

KILLED = """
import os, sys, time
import paddle
import trueline

capture = trueline.capture(sys.argv[1], data="tensors").start()
for _ in range(3):
    paddle.ones([4]).exp()
    capture.step()
time.sleep(0.5)
print("killable", flush=True)
time.sleep(60)
"""


def test_an_unchanged_script(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    words = ("--out", "run", "--steps", "1-2", "--seed", "5", "--", sys.executable, "train.py")
    answer = launch(*words, cwd=tmp_path)
    assert answer.returncode == 3 and answer.stdout.startswith("done"), answer.stderr
    run = open_run(tmp_path / "run")
    assert run.info.framework == "paddle" and run.info.seed == 5
    reader = run.rank(0)
    assert reader.certificate.complete and reader.steps == (1, 2)
    (call,) = [call for call in reader.trace(1) if call.api == "paddle.add" and call.phase is Phase.FORWARD]
    assert call.stack[0].line == SCRIPT.splitlines().index(
        "    add(layer(paddle.ones([2, 4])), paddle.ones([3])).sum().backward()"
    ) + 1  # fmt: skip


def test_a_list_of_targets_that_cannot_be_read_is_a_clear_error(tmp_path: Path) -> None:
    answer = launch("--out", "run", "--targets", "nowhere.yaml", "--", sys.executable, "-c", "1", cwd=tmp_path)
    assert answer.returncode == 2 and "cannot read nowhere.yaml" in answer.stderr and "Traceback" not in answer.stderr


def test_two_ranks_under_paddles_launcher(tmp_path: Path) -> None:
    (tmp_path / "ranks.py").write_text(RANKS)
    launcher = [sys.executable, "-m", "paddle.distributed.launch", "--nproc_per_node", "2", "--log_dir", "logs"]
    os.environ["PADDLE_DISTRI_BACKEND"] = "gloo"
    try:
        answer = launch("--out", "run", "--data", "tensors", "--", *launcher, "ranks.py", cwd=tmp_path)
    finally:
        del os.environ["PADDLE_DISTRI_BACKEND"]
    logs = "".join(path.read_text() for path in (tmp_path / "logs").glob("workerlog*"))
    assert answer.returncode == 0, answer.stderr + logs
    run = open_run(tmp_path / "run")
    assert run.ranks == (0, 1) and run.info.world_size == 2
    for rank in run.ranks:
        reader = run.rank(rank)
        calls = [call for call in reader.trace() if call.phase is Phase.FORWARD]
        (reduced,) = [call for call in calls if call.api == "paddle.distributed.all_reduce"]
        assert reader.tensor(reduced.inputs[0]).tolist() == [rank + 1.0] * 3
        assert reader.tensor(reduced.outputs[0]).tolist() == [3.0] * 3
        assert "paddle.distributed.all_gather" in [call.api for call in calls]


def test_a_killed_program_leaves_a_run_that_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "killed.py").write_text(KILLED)
    command = [sys.executable, "-W", "ignore", "killed.py", "run"]
    with subprocess.Popen(command, env=environment(), cwd=tmp_path, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "killable\n"
        child.send_signal(signal.SIGKILL)
    reader = open_run(tmp_path / "run").rank(0)
    assert not reader.certificate.complete
    exps = [call for call in reader.trace() if call.api == "paddle.Tensor.exp"]
    assert len(exps) == 3
    assert reader.tensor(exps[2].inputs[0]).tolist() == [1.0] * 4
