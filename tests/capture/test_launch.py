"""``trueline capture -- …``: programs that know nothing of trueline, alone and under torchrun."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from trueline.records import Phase
from trueline.store import open_run

SOURCE = Path(__file__).parents[2]

SCRIPT = """
import sys
from torch import relu  # by name, before anything else
import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    loss = relu(model(torch.ones(2, 4))).sum()
    loss.backward()
    optimizer.step()
print(sys.argv[1:], loss.item())
sys.exit(3)
"""

RANKS = """
import torch
import torch.distributed as dist
from torch.distributed import all_reduce
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    model(torch.full((2, 4), float(dist.get_rank() + 1))).sum().backward()
    total = torch.full((3,), float(dist.get_rank() + 1))
    all_reduce(total)
    parts = [torch.zeros(3) for _ in range(2)]
    work = dist.all_gather(parts, total, async_op=True)
    work.wait()
    optimizer.step()
dist.destroy_process_group()
"""


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE / "src"), "OMP_NUM_THREADS": "1"}


def launch(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trueline", "capture", *map(str, words)]
    return subprocess.run(command, env=environment(), cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def test_an_unchanged_script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    monkeypatch.setattr(sys, "argv", ["train.py", "--lr", "1"])
    with pytest.raises(SystemExit):
        runpy.run_path(str(script))
    expected = capsys.readouterr().out
    answer = launch("--out", "run", "--steps", "1-2", "--", sys.executable, "train.py", "--lr", "1", cwd=tmp_path)
    assert expected and answer.stdout.startswith(expected), answer.stderr
    assert answer.returncode == 3
    reader = open_run(tmp_path / "run").rank(0)
    assert reader.certificate.complete
    assert reader.steps == (1, 2)
    (relu,) = [call for call in reader.trace(1) if call.api == "torch.relu" and call.phase is Phase.FORWARD]
    assert relu.stack[0].file == str(script) or relu.stack[0].file == "train.py"
    assert relu.stack[0].line == SCRIPT.splitlines().index("    loss = relu(model(torch.ones(2, 4))).sum()") + 1


def test_what_a_program_starts_itself_is_left_alone(tmp_path: Path) -> None:
    """The captured program is one process; another Python that it runs would write into the same rank."""
    (tmp_path / "inner.py").write_text("import torch; torch.ones(3).cos(); print('inner')")
    (tmp_path / "outer.py").write_text(
        "import subprocess, sys, torch\ntorch.ones(3).sin()\nsubprocess.run([sys.executable, 'inner.py'], check=True)\n"
    )
    answer = launch("--out", "run", "--", sys.executable, "outer.py", cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert "inner" in answer.stdout
    apis = [call.api for call in open_run(tmp_path / "run").rank(0).trace()]
    assert "torch.Tensor.sin" in apis and "torch.Tensor.cos" not in apis


@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="this torch has no gloo")
def test_two_ranks_write_one_run(tmp_path: Path) -> None:
    (tmp_path / "ranks.py").write_text(RANKS)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    answer = launch("--out", "run", "--data", "tensors", "--", *torchrun, "ranks.py", cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    run = open_run(tmp_path / "run")
    assert run.ranks == (0, 1)
    assert run.info.world_size == 2
    for rank in run.ranks:
        reader = run.rank(rank)
        assert reader.certificate.complete
        assert not [reason for reason in reader.certificate.not_recorded if "fault" in reason]
        assert reader.steps == (0, 1)
        calls = [call for call in reader.trace(0) if call.phase is Phase.FORWARD]
        (reduced,) = [call for call in calls if call.api == "torch.distributed.all_reduce"]
        assert set(reader.tensor(reduced.inputs[0])) == {float(rank + 1)}
        assert set(reader.tensor(reduced.outputs[0])) == {3.0}
        (gathered,) = [call for call in calls if call.api == "torch.distributed.all_gather"]
        assert {record.path for record in gathered.outputs} >= {f"args.0.{n}" for n in range(2)}
        outputs = {record.path: record for record in gathered.outputs}
        assert all(set(reader.tensor(outputs[f"args.0.{n}"])) == {3.0} for n in range(2))
