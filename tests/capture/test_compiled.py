"""The borders of compiled graphs in a Run, and what the compiler was given."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import trueline
from trueline.graphs import TRACED
from trueline.records import Phase
from trueline.store import RankReader, open_run

LEVELS = ("api", "module", "kernel", "api+module")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 2)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        return self.second(torch.relu(self.first(x)))


class Breaking(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        torch._dynamo.graph_break()
        return self.second(x)


class Counting:
    """A backend that runs graphs as they are."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: Any) -> Any:
        self.graphs += 1
        return graph.forward


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def borders(reader: RankReader, phase: Phase = Phase.FORWARD) -> list[Any]:
    return [call for call in reader.trace() if call.api.startswith("torch.compile.") and call.phase is phase]


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_has_the_border(level: str, tmp_path: Path) -> None:
    net, backend = Net(), Counting()
    compiled = torch.compile(net, backend=backend)
    with trueline.capture(tmp_path / "run", level=level, data="tensors"):
        for _ in range(2):
            compiled(torch.randn(3, 4)).sum().backward()
    assert backend.graphs == 1
    reader = open_run(tmp_path / "run").rank(0)
    entries = borders(reader)
    assert [call.api for call in entries] == ["torch.compile.Net.forward.graph0"] * 2
    assert all(len(call.inputs) == 6 for call in entries)  # what it takes, four parameters and the buffer
    gradients = borders(reader, Phase.BACKWARD)
    assert [call.forward_id for call in gradients] == [call.id for call in entries]
    assert all(len(call.outputs) == 4 for call in gradients)


def test_the_buffer_that_a_graph_changes_is_among_its_outputs(tmp_path: Path) -> None:
    compiled = torch.compile(Net(), backend="aot_eager")
    with trueline.capture(tmp_path / "run", data="tensors"):
        compiled(torch.randn(3, 4))
    (call,) = borders(open_run(tmp_path / "run").rank(0))
    assert any(record.shape == () for record in call.outputs)


def test_each_graph_of_a_broken_function_is_a_call(tmp_path: Path) -> None:
    compiled = torch.compile(Breaking(), backend="eager")
    with trueline.capture(tmp_path / "run"):
        compiled(torch.randn(3, 4))
    reader = open_run(tmp_path / "run").rank(0)
    names = [call.api for call in borders(reader)]
    graphs = ["torch.compile.Breaking.forward.graph0", "torch.compile.Breaking.forward.graph1"]
    assert names == ["torch.compile.Breaking", *graphs]
    assert [graph.name for graph in reader.graphs()] == graphs


def test_a_compiled_part_has_its_place_in_the_model(tmp_path: Path) -> None:
    net = nn.Sequential(Net(), nn.ReLU())
    net[0] = torch.compile(net[0], backend="eager")
    with trueline.capture(tmp_path / "run"):
        net(torch.randn(3, 4))
    (call,) = borders(open_run(tmp_path / "run").rank(0))
    assert call.module == "0" and call.module_class == "Net"


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_graph_is_in_the_run(backend: str, tmp_path: Path) -> None:
    compiled = torch.compile(Net(), backend=backend)
    with trueline.capture(tmp_path / "run"):
        compiled(torch.randn(3, 4)).sum().backward()
    graphs = open_run(tmp_path / "run").rank(0).graphs()
    traced = graphs[0]
    assert traced.stage == TRACED and traced.how["backend"] == backend
    assert traced.file == __file__ and traced.function == "Net.forward"
    assert [node.operator for node in traced.calls()] == [
        "operator.iadd", "torch.nn.functional.linear", "torch.relu", "torch.nn.functional.linear",
    ]  # fmt: skip
    linear = traced.calls()[1]
    assert linear.module == "first" and linear.module_class == "Linear" and "test_compiled.py" in linear.source
    assert linear.gives[0].shape == (3, 6) and linear.gives[0].dtype == "float32"
    assert "first.weight" in [node.operator for node in traced.inputs()]
    stages = {graph.stage for graph in graphs}
    assert stages == ({TRACED} if backend == "eager" else {TRACED, "joint", "forward", "backward"})


def test_a_graph_compiled_before_is_recorded_at_its_border(tmp_path: Path) -> None:
    compiled = torch.compile(Net(), backend="eager")
    compiled(torch.randn(3, 4))
    with trueline.capture(tmp_path / "run") as capture:
        compiled(torch.randn(3, 4))
    reader = open_run(tmp_path / "run").rank(0)
    assert len(borders(reader)) == 1 and not reader.graphs()
    assert capture.certificate is not None
    assert any("compiled before the recording" in reason for reason in capture.certificate.not_recorded)


def test_a_graph_compiled_in_a_step_that_was_not_wanted_is_there(tmp_path: Path) -> None:
    compiled = torch.compile(Net(), backend="eager")
    with trueline.capture(tmp_path / "run", steps=[1]) as capture:
        for _ in range(2):
            compiled(torch.randn(3, 4))
            capture.step()
    reader = open_run(tmp_path / "run").rank(0)
    assert [call.step for call in borders(reader)] == [1] and len(reader.graphs()) == 1


def test_the_compiler_never_compiles_what_is_ours(tmp_path: Path) -> None:
    """Every function that is called while a compiled one runs is looked at by the compiler, ours too."""
    from torch._dynamo.utils import get_compilation_metrics

    compiled = torch.compile(Net(), backend="eager")
    before = len(get_compilation_metrics())
    with trueline.capture(tmp_path / "run"):
        compiled(torch.randn(3, 4))
    names = [one.co_name for one in get_compilation_metrics()[before:]]
    assert names == ["forward"], names


def test_no_hook_lies_in_a_backward_that_is_compiled_as_a_whole(tmp_path: Path) -> None:
    from torch._dynamo import compiled_autograd

    def graphs(observer: Any) -> tuple[int, Any]:
        torch._dynamo.reset()
        torch.manual_seed(0)
        net, backend = Net(), Counting()
        with observer, compiled_autograd._enable(torch.compile(backend=backend)):
            torch.compile(net, backend=backend)(torch.randn(3, 4)).pow(2).mean().backward()
        return backend.graphs, net.first.weight.grad

    bare, gradient = graphs(contextlib.nullcontext())
    seen, observed = graphs(trueline.capture(tmp_path / "run"))
    assert bare == seen and gradient is not None and torch.equal(gradient, observed)
