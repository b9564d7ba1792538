"""Looking inside compiled regions after the fact."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import trueline
from trueline.cli.main import main
from trueline.diagnose.inside import InsideReport, inside
from trueline.records import Verdict


class Net(nn.Module):
    """Has a node of the kind that the wrong backends below get wrong, between others; and a buffer that changes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(6, 6), nn.LayerNorm(6), nn.Linear(6, 3)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        x = torch.tanh(self.norm(self.first(x)))
        x = torch.sigmoid(x) * x.sum(-1, keepdim=True)
        return self.second(x) + self.seen


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def wrong_sigmoid(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    """A compiler whose sigmoid is off by a thousandth."""
    for node in list(graph.graph.nodes):
        if node.op == "call_function" and node.target is torch.sigmoid:
            with graph.graph.inserting_after(node):
                scaled = graph.graph.call_function(torch.mul, (node, 1.001))
            node.replace_all_uses_with(scaled)
            scaled.args = (node, 1.001)
    graph.recompile()
    return graph.forward


class _WrongGradient(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(x)
        context.save_for_backward(y)
        return y

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        (y,) = context.saved_tensors
        return gradient * (1 - y)


def _tanh(x: torch.Tensor) -> Any:
    return _WrongGradient.apply(x)


def wrong_gradient_of_tanh(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    for node in graph.graph.nodes:
        if node.op == "call_function" and node.target is torch.tanh:
            node.target = _tanh
    graph.recompile()
    return graph.forward


def write_back_lost(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    """A compiler that works on copies of what it is given."""

    def call(*args: Any) -> Any:
        copies = [one.clone() if one.ndim == 0 else one for one in args]
        made = graph.forward(*copies)
        return tuple(next((a for a, b in zip(args, copies, strict=True) if b is one), one) for one in made)

    return call


def keeps_its_first_input(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    """What reads the first input that has no gradient of its own goes on reading that of the first call."""
    kept: dict[int, torch.Tensor] = {}

    def call(*args: Any) -> Any:
        given = [kept.setdefault(at, one.clone()) if one.dtype is torch.int64 else one for at, one in enumerate(args)]
        return graph.forward(*given)

    return call


def recorded(path: Path, backend: Any, net: nn.Module | None = None, steps: int = 1) -> Path:
    net = net or Net()
    compiled = torch.compile(net, backend=backend)
    with trueline.capture(path, data="tensors"):
        for _ in range(steps):
            compiled(torch.randn(4, 6, requires_grad=True)).pow(2).sum().backward()
    return path


def piece(report: InsideReport) -> list[str]:
    return [node.operator for node in report.failures[0].inside.piece]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "aot_eager_decomp_partition"])
def test_what_is_right_passes(backend: str, tmp_path: Path) -> None:
    report = inside(recorded(tmp_path / "run", backend, steps=2))
    assert report.verdict is Verdict.PASS and report.measured == 2


def test_autocast_is_part_of_how_a_graph_ran(tmp_path: Path) -> None:
    compiled = torch.compile(Net(), backend="aot_eager")
    with trueline.capture(tmp_path / "run", data="tensors"), torch.autocast("cpu", torch.bfloat16):
        compiled(torch.randn(4, 6)).float().sum().backward()
    assert inside(tmp_path / "run").verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("backend", "operator"),
    [(wrong_sigmoid, "torch.sigmoid"), (wrong_gradient_of_tanh, "torch.tanh"), (write_back_lost, "operator.iadd")],
)
def test_the_smallest_wrong_piece_is_named(backend: Callable[..., Any], operator: str, tmp_path: Path) -> None:
    report = inside(recorded(tmp_path / "run", backend), backend=backend)
    assert report.verdict is Verdict.FAIL and piece(report) == [operator]
    found = report.failures[0].inside
    assert found.again and "test_inside.py" in found.piece[0].source


def test_what_is_kept_from_an_earlier_entry_is_found(tmp_path: Path) -> None:
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.out = nn.Embedding(9, 4), nn.Linear(4, 2)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.out(self.words(tokens)))

    compiled = torch.compile(Tokens(), backend=keeps_its_first_input)
    with trueline.capture(tmp_path / "run", data="tensors"):
        for _ in range(2):
            compiled(torch.randint(9, (5,)))
    report = inside(tmp_path / "run", backend=keeps_its_first_input)
    assert [one.verdict for one in report.regions] == [Verdict.PASS, Verdict.FAIL]
    assert piece(report) == ["torch.nn.functional.embedding"]
    assert "another entry" in report.failures[0].inside.note


def test_a_backend_of_the_users_own_must_be_named(tmp_path: Path) -> None:
    """Nothing is imported because a Run names it; the region is named all the same."""
    report = inside(recorded(tmp_path / "run", wrong_sigmoid))
    assert report.verdict is Verdict.FAIL and not report.failures[0].inside.piece
    assert "--backend" in report.failures[0].inside.note


def test_what_is_random_is_not_compared(tmp_path: Path) -> None:
    report = inside(recorded(tmp_path / "run", "aot_eager", nn.Dropout(0.5)))
    assert report.verdict is Verdict.NOT_COMPARED


def test_without_tensors_nothing_is_judged(tmp_path: Path) -> None:
    compiled = torch.compile(Net(), backend="eager")
    with trueline.capture(tmp_path / "run"):
        compiled(torch.randn(4, 6))
    report = inside(tmp_path / "run")
    assert report.verdict is Verdict.NOT_COMPARED and "--data tensors" in report.regions[0].reason


def test_the_command_says_it_and_writes_a_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(tmp_path / "run", wrong_sigmoid)
    name = f"{__name__}:wrong_sigmoid"
    code = main(["check", str(tmp_path / "run"), "--inside", "--backend", name, "--out", str(tmp_path / "out")])
    text = capsys.readouterr().out
    assert code == 1 and "torch.sigmoid" in text and "graph 1 of 1 of Net.forward" in text
    (script,) = (tmp_path / "out").glob("*.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=240, check=False)
    assert script.stat().st_size and ("eager and compiled are" in done.stdout or "NameError" not in done.stderr)


def test_the_command_needs_a_run_with_regions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with trueline.capture(tmp_path / "run", data="tensors"):
        torch.relu(torch.ones(2))
    assert main(["check", str(tmp_path / "run"), "--inside"]) == 2
    assert main(["check", "--inside"]) == 2
    assert main(["check", str(tmp_path / "run")]) == 2
    assert "no compiled region" in capsys.readouterr().out


def test_show_prints_the_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(tmp_path / "run", "aot_eager")
    assert main(["show", str(tmp_path / "run")]) == 0
    assert "Compiled graphs" in capsys.readouterr().out
    assert main(["show", str(tmp_path / "run"), "torch.compile.Net.forward.graph0.0.forward"]) == 0
    text = capsys.readouterr().out
    assert "traced graph" in text and "backward graph" in text and "torch.sigmoid" in text
