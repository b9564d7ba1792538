"""The watch on real torch programs: what it names, what it leaves alone, what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from trueline.diagnose.overflow import overflow
from trueline.diagnose.watching import OverflowWatch, watch
from trueline.overflows import EventKind, Nature, OverflowKind
from trueline.records import Phase
from trueline.store import open_run

SOURCE = Path(__file__).parents[2]
INFINITY = float("inf")


class Net(torch.nn.Module):
    """Two layers with something of the test between them."""

    def __init__(self, between: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)
        self._between = between

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.second(self._between(self.first(batch))).pow(2).mean()


def batch_of(step: int) -> torch.Tensor:
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(step))


def train(model: torch.nn.Module, steps: int, watching: OverflowWatch | None = None, **options: Any) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), **{"lr": 1e-2, **options})
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = model(batch_of(step))
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
        if watching is not None:
            watching.step()
    return losses


def breaking_at(step: int, how: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    count = iter(range(10**6))
    return lambda value: how(value) if next(count) == step else value


FORWARD = [
    (lambda value: (value - 10).log(), "torch.Tensor.log.0.forward", OverflowKind.OUTSIDE_DOMAIN),
    (lambda value: (value * 0) / (value * 0), "torch.Tensor.div.0.forward", OverflowKind.ZERO_BY_ZERO),
    (lambda value: (value + 100).exp(), "torch.Tensor.exp.0.forward", OverflowKind.EXPONENTIAL),
    (lambda value: (value * 1e6).half().float(), "torch.Tensor.half.0.forward", OverflowKind.CAST),
    (lambda value: value * torch.tensor(INFINITY), "torch.Tensor.mul.0.forward", OverflowKind.INPUT),
]


@pytest.mark.parametrize(("how", "name", "kind"), FORWARD[:4], ids=["log", "div", "exp", "half"])
def test_the_call_is_named_at_its_step(tmp_path: Path, how: Any, name: str, kind: OverflowKind) -> None:
    with watch(tmp_path / "run") as watching:
        train(Net(breaking_at(5, how)), 7, watching)
    event = next(one for one in watching.events if one.kind is EventKind.OVERFLOW)
    assert (event.step, event.call) == (5, name), event
    report = watching.report
    assert report.origin is not None
    assert (report.origin.call.name, report.origin.kind, report.origin.nature) == (name, kind, Nature.EXPECTED)
    assert report.origin.call.step == 5
    assert all(record.stored for record in report.origin.call.inputs), "the inputs are there"
    assert "test_watch.py" in report.origin.call.source


def test_a_gradient_that_breaks_is_named_in_the_backward(tmp_path: Path) -> None:
    with watch(tmp_path / "run") as watching:
        train(Net(breaking_at(2, lambda value: (value * 0).sqrt() + value)), 3, watching)
    origin = watching.report.origin
    assert origin is not None
    assert (origin.call.api, origin.call.phase, origin.call.step) == ("torch.Tensor.sqrt", Phase.BACKWARD, 2)
    assert origin.kind in (OverflowKind.DIVISION_BY_ZERO, OverflowKind.ZERO_BY_ZERO)


def test_an_optimizer_that_breaks_a_parameter_is_told(tmp_path: Path) -> None:
    """Its calls are not looked at while it runs, but what it made is: no report may call that clean."""
    with watch(tmp_path / "run") as watching:
        train(Net(lambda value: value), 2, watching, lr=INFINITY)
    said = next(one.message for one in watching.events if one.kind is EventKind.OVERFLOW)
    assert "after the step of the optimizer, which made it of clean gradients" in said
    text = (tmp_path / "run" / "overflow-rank0.txt").read_text(encoding="utf-8")
    told = f"OVERFLOW  a watch found NaN or infinity, but did not hold the call that made it; {said}"
    assert "CLEAN" not in text and told in text
    assert "--steps 0 -- python train.py" in text
    report = watching.report
    assert report.wrong and report.watched[0].first == said and report.watched[0].overflows[0] == 0


def test_the_weights_of_the_origin_are_those_before_the_optimizer(tmp_path: Path) -> None:
    model = Net(lambda value: value)
    with torch.no_grad():
        model.second.weight[:] = 1e30
    before = model.second.weight.detach().clone()
    with watch(tmp_path / "run") as watching:
        train(model, 1, watching)
    assert watching.path is not None
    origin = watching.report.origin
    assert origin is not None, watching.events
    with open_run(watching.path) as run:
        reader = run.rank(0)
        linear = [call for call in reader.trace() if call.api.endswith("linear")][1]
        weight = next(record for record in linear.inputs if record.path == "args.1")
        assert torch.equal(torch.from_numpy(reader.tensor(weight).copy()), before)


def masked(value: torch.Tensor) -> torch.Tensor:
    hidden = torch.ones(value.shape, dtype=torch.bool).triu(1)
    return value.masked_fill(hidden, -INFINITY).softmax(-1)


@pytest.mark.parametrize(
    "between",
    [
        masked,
        lambda value: torch.nan_to_num(F.relu(value).detach().log(), neginf=0.0) + value,
        lambda value: torch.minimum(torch.full_like(value, INFINITY), value),
    ],
    ids=["mask", "nan_to_num", "minimum"],
)
def test_what_is_meant_raises_no_alarm(tmp_path: Path, between: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with watch(tmp_path / "run", rotation=1) as watching:
        train(Net(between), 8, watching)
    assert watching.counts["overflows"] == 0, watching.events
    assert not overflow(tmp_path / "run").wrong
    assert capsys.readouterr().err == ""


def test_a_loss_scaler_may_probe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = Net(F.gelu)
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)
    with watch(tmp_path / "run") as watching:
        for step in range(30):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                loss = model(batch_of(step))
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            watching.step()
    assert watching.counts["overflows"] == 0, [event.message for event in watching.events]
    assert watching.counts["meant"] > 0
    assert capsys.readouterr().err == ""


def test_training_is_the_same_to_the_last_bit(tmp_path: Path) -> None:
    ends = []
    for watched in (False, True):
        model = Net(lambda value: F.dropout(F.gelu(value), 0.5))
        torch.manual_seed(3)
        if watched:
            with watch(tmp_path / "run") as watching:
                losses = train(model, 12, watching, momentum=0.9)
        else:
            losses = train(model, 12, momentum=0.9)
        ends.append((losses, [parameter.detach().clone() for parameter in model.parameters()], torch.randn(3)))
    assert ends[0][0] == ends[1][0]
    assert all(torch.equal(left, right) for left, right in zip(ends[0][1], ends[1][1], strict=True))
    assert torch.equal(ends[0][2], ends[1][2]), "and so are the random numbers that come next"


def test_a_forward_without_backward_is_watched_too(tmp_path: Path) -> None:
    model = Net(breaking_at(2, lambda value: (value - 10).sqrt()))
    with watch(tmp_path / "run") as watching, torch.no_grad():
        for step in range(4):
            model(batch_of(step))
            watching.step()
    event = next(one for one in watching.events if one.kind is EventKind.OVERFLOW)
    assert (event.step, event.call) == (2, "torch.Tensor.sqrt.0.forward")


def test_an_overflow_that_a_division_turns_into_zeros_is_found(tmp_path: Path) -> None:
    def squashed(value: torch.Tensor) -> torch.Tensor:
        total = (value.detach().half() * 0 + 30000).sum(-1, keepdim=True)
        return value / (1 + total.float()) + value

    with watch(tmp_path / "run", rotation=1) as watching:
        train(Net(squashed), 4, watching)
    assert watching.counts["overflows"] == 1, watching.events
    assert watching.events[0].call == "torch.Tensor.sum.0.forward"


SCRIPT = """
import os, signal, sys
import torch
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(30):
    optimizer.zero_grad()
    value = model(torch.ones(2, 4) * (1 + step))
    if step == 20:
        value = (value - 1000).log()
    value.mean().backward()
    optimizer.step()
    if step == 20 and "kill" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
print("went on to the end")
"""


def launched(folder: Path, *words: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    script = folder / "train.py"
    script.write_text(SCRIPT)
    return subprocess.run(
        [sys.executable, "-m", "trueline", "capture", "--watch", "--out", str(folder / "run"), *options, "--",
         sys.executable, str(script), *words],
        capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "PYTHONPATH": str(SOURCE / "src"), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def test_an_unchanged_script_is_watched(tmp_path: Path) -> None:
    done = launched(tmp_path, options=("--json", str(tmp_path / "report.json")))
    assert done.returncode == 1, done.stderr
    assert "went on to the end" in done.stdout
    assert [
        line for line in done.stderr.splitlines() if line.startswith("trueline: step 20: torch.Tensor.log.0.forward")
    ]
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["births"][0]["call"] == "torch.Tensor.log.0.forward"
    assert report["births"][0]["nature"] == "expected"
    assert "train.py:12" in report["births"][0]["source"]


def test_kill_minus_nine_right_after_leaves_the_report(tmp_path: Path) -> None:
    done = launched(tmp_path, "kill")
    assert done.returncode == 128 + signal.SIGKILL, done.stderr
    assert "torch.Tensor.log.0.forward" in (tmp_path / "run" / "overflow-rank0.txt").read_text()
    origin = overflow(tmp_path / "run").origin
    assert origin is not None and origin.call.step == 20 and origin.nature is Nature.EXPECTED


def test_a_script_is_ended_on_request(tmp_path: Path) -> None:
    done = launched(tmp_path, options=("--exit-after",))
    assert done.returncode == 1, done.stderr
    assert "went on" not in done.stdout
    assert overflow(tmp_path / "run").wrong


def test_nothing_of_ours_stays(tmp_path: Path) -> None:
    model = Net(F.gelu)
    with watch(tmp_path / "run") as watching:
        train(model, 2, watching)
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("trueline")] == []
    assert all(not parameter._backward_hooks for parameter in model.parameters())
    steps = watching.counts["steps"]
    train(model, 2)
    assert watching.counts["steps"] == steps
