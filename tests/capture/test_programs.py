"""Programs that do odd things: they run as they would alone, and the recording stays right."""

from __future__ import annotations

import os
import threading
from collections import Counter, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import trueline
from tests.helpers.models import Transformer
from trueline.errors import UsageError
from trueline.frameworks.torch import regions
from trueline.records import Call, Phase
from trueline.store import RankReader, open_run

Captured = Callable[..., RankReader]
Calls = Callable[..., list[Call]]


def forwards(calls: list[Call], api: str) -> list[Call]:
    return [call for call in calls if call.api.endswith(api) and call.phase is Phase.FORWARD]


# Errors


def test_a_call_that_raises_is_recorded_and_raises(calls: Calls) -> None:
    def program() -> None:
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            torch.mm(torch.ones(2, 3), torch.ones(2, 3))
        torch.mm(torch.ones(2, 3), torch.ones(3, 2))

    first, second = forwards(calls(program), "torch.mm")
    assert "shapes cannot be multiplied" in first.raised and not first.outputs
    assert not second.raised and len(second.outputs) == 1


class Failing(nn.Module):
    def forward(self, x: torch.Tensor, fail: bool) -> torch.Tensor:
        if fail:
            raise ValueError("the model's own error")
        return x.sin()


class Catching(nn.Module):
    """Catches what a part of it raises, and goes on with another part."""

    def __init__(self) -> None:
        super().__init__()
        self.risky = Failing()
        self.safe = Failing()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            x = self.risky(x, True)
        except ValueError:
            x = x.cos()
        return self.safe(x, False)


@pytest.mark.parametrize("level", ["api", "module", "api+module"])
def test_module_paths_stay_right_after_an_error(level: str, calls: Calls) -> None:
    model = Catching()
    found = calls(lambda: [model(torch.ones(3)) for _ in range(2)], level=level)
    if level != "module":
        assert [call.module for call in forwards(found, ".cos")] == ["", ""]
        assert [call.module for call in forwards(found, ".sin")] == ["safe", "safe"]
    if level != "api":
        failing = [call for call in found if call.api.endswith("Failing")]
        assert Counter((call.module, bool(call.raised)) for call in failing) == {("risky", True): 2, ("safe", False): 2}


def test_an_error_that_ends_the_program_ends_the_run_properly(tmp_path: Path) -> None:
    def run() -> None:
        with trueline.capture(tmp_path / "run"):
            Failing()(torch.ones(3), True)

    with pytest.raises(ValueError, match="the model's own error"):
        run()
    assert open_run(tmp_path / "run").rank(0).certificate.complete


# What goes in and out

Pair = namedtuple("Pair", "first second")


@dataclass
class Answer:
    logits: torch.Tensor
    hidden: tuple[torch.Tensor, ...]
    extra: dict[str, Any]


class Structured(nn.Module):
    def forward(self, given: dict[str, Any], *, pair: Pair) -> Answer:
        both = given["x"] + pair.second
        return Answer(both, (both * 2, given["more"][0]), {"deep": [{"er": both.neg()}], "n": 3, "none": None})


def test_structured_arguments_and_results(calls: Calls) -> None:
    x = torch.ones(3)
    (call,) = calls(lambda: Structured()({"x": x, "more": [x]}, pair=Pair(1.5, x)), level="module")
    paths = [record.path for record in call.outputs]
    assert paths == ["out.logits", "out.hidden.0", "out.hidden.1", "out.extra.deep.0.er"]
    assert {"args.0.x", "args.0.more.0"} <= {record.path for record in call.inputs}
    assert "kwargs.pair.second" in {record.path for record in call.inputs}
    assert call.result["out"]["fields"]["extra"]["n"] == 3


def test_no_grad_and_inference_mode(captured: Captured) -> None:
    layer = nn.Linear(4, 4)
    x = torch.randn(2, 4)

    def program() -> None:
        with torch.no_grad():
            layer(x)
        with torch.inference_mode():
            y = layer(x)
            y.add_(1).mul_(2)

    reader = captured(program, data="tensors")
    assert reader.certificate.not_recorded == {}
    changed = forwards(list(reader.trace()), "add_")[0]
    assert (reader.tensor(changed.outputs[0]) == reader.tensor(changed.inputs[0]) + 1).all()
    assert {call.phase for call in reader.trace()} == {Phase.FORWARD}


# Modules


def test_a_module_called_twice(calls: Calls) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    model.append(model[0])  # the same layer again
    found = calls(lambda: model(torch.ones(2, 3)).sum().backward(), level="api+module")
    linear = forwards(found, "torch.nn.functional.linear")
    assert [(call.module, call.index) for call in linear] == [("0", 0), ("0", 1)]
    backwards = [call for call in found if call.api.endswith("functional.linear") and call.phase is Phase.BACKWARD]
    assert {call.forward_id for call in backwards} == {call.id for call in linear}


def test_tied_weights_are_one_tensor(captured: Captured) -> None:
    model = Transformer()
    reader = captured(lambda: model(torch.zeros(1, 4, dtype=torch.long)), data="tensors")
    calls = list(reader.trace())
    (embedding,) = forwards(calls, "functional.embedding")
    head = forwards(calls, "functional.linear")[-1]
    assert head.module == "head"
    assert embedding.inputs[1].tensor_id == head.inputs[1].tensor_id


def test_modules_that_are_no_part_of_another(calls: Calls) -> None:
    first, second = nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3))
    found = calls(lambda: second(first(torch.ones(2, 3))))
    assert [call.module for call in forwards(found, "linear")] == ["", "0"]


# Threads, processes, captures


def test_threads_are_told_apart(calls: Calls) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def work() -> None:
        for _ in range(20):
            model(torch.ones(2, 4)).sum().backward()

    def program() -> None:
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        work()
        for thread in threads:
            thread.join()

    found = calls(program, data="tensors")
    linear = forwards(found, "functional.linear")
    assert list(Counter(call.thread for call in linear).values()) == [20] * 4
    assert {call.module for call in linear} == {"0"}
    assert sorted(call.index for call in linear) == list(range(80))


def test_a_thread_that_outlives_the_capture_runs_free(tmp_path: Path) -> None:
    """Nobody can take a mode off another thread; what it reports after the end must go nowhere, and wait for nobody."""
    stopped, done = threading.Event(), threading.Event()

    def work() -> None:
        torch.ones(3).sin()
        stopped.wait(30)
        for _ in range(40_000):
            torch.ones(1)
        done.set()

    thread = threading.Thread(target=work, daemon=True)
    with trueline.capture(tmp_path / "run") as capture:
        thread.start()
        torch.ones(3).cos()
    before = capture.certificate
    stopped.set()
    assert done.wait(30), "the thread hangs"
    thread.join()
    assert open_run(tmp_path / "run").rank(0).certificate == before


class Squares(torch.utils.data.Dataset):
    """Uses torch in the worker, for long enough that a worker which recorded would block on a full queue."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, number: int) -> torch.Tensor:
        value = torch.full((64, 64), float(number))
        for _ in range(200):
            value = value * 1.0 + 0.0
        return value**2


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_data_loader_workers_are_left_alone(captured: Captured) -> None:
    """Workers are forked with the capture on; they must neither record nor wait for a thread that they do not have."""
    seen = []

    def program() -> None:
        loader = torch.utils.data.DataLoader(Squares(), batch_size=3, num_workers=2, multiprocessing_context="fork")
        seen.extend(float(batch.sum()) for batch in loader)

    reader = captured(program)
    assert seen == [4096.0 * 5, 4096.0 * 50]
    assert not forwards(list(reader.trace()), "pow")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_ends_by_itself(captured: Captured) -> None:
    """A child that leaves through the interpreter's own exit would otherwise wait for the writer's thread."""

    def program() -> None:
        child = os.fork()
        if child == 0:
            try:
                for _ in range(40_000):
                    torch.ones(1)
            finally:
                os._exit(0)
        for _ in range(600):
            if os.waitpid(child, os.WNOHANG)[0] == child:
                return
            threading.Event().wait(0.05)
        os.kill(child, 9)
        os.waitpid(child, 0)
        raise AssertionError("the child hangs")

    assert captured(program).certificate.complete


def test_captures_one_after_another_do_not_mix(tmp_path: Path) -> None:
    model = nn.Linear(3, 3)
    for number in range(3):
        with trueline.capture(tmp_path / str(number)):
            for _ in range(number + 1):
                model(torch.ones(2, 3))
    for number in range(3):
        found = list(open_run(tmp_path / str(number)).rank(0).trace())
        assert [call.index for call in forwards(found, "linear")] == list(range(number + 1))


def test_a_graph_made_under_one_capture_may_be_used_under_another_or_none(tmp_path: Path) -> None:
    x = torch.ones(3, requires_grad=True)
    with trueline.capture(tmp_path / "first"):
        losses = [x.sin().sum() for _ in range(2)]
    losses[0].backward()
    with trueline.capture(tmp_path / "second"):
        losses[1].backward()
    assert all(not call.forward_id for call in open_run(tmp_path / "second").rank(0).trace())
    assert open_run(tmp_path / "first").rank(0).certificate.calls["api forward"] == 4


def test_a_path_that_is_taken_is_refused(tmp_path: Path) -> None:
    with trueline.capture(tmp_path / "run"):
        pass
    with pytest.raises(UsageError, match="exists already"):
        trueline.capture(tmp_path / "run").start()


def test_a_capture_starts_once(tmp_path: Path) -> None:
    capture = trueline.capture(tmp_path / "run").start()
    with pytest.raises(UsageError, match="started before"):
        capture.start()
    capture.stop()
    capture.stop()


# Compiled regions


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("made", ["before", "inside"])
def test_compiled_regions_show_their_border(backend: str, made: str, tmp_path: Path) -> None:
    torch._dynamo.reset()

    def inner(x: torch.Tensor, scale: float) -> torch.Tensor:
        return (x.sin() * scale).cos()

    x = torch.randn(5, requires_grad=True)
    expected = inner(x, 2.0)
    compiled = torch.compile(inner, backend=backend)
    if made == "before":
        compiled(x, 2.0)
    with trueline.capture(tmp_path / "run", data="tensors") as capture:
        if made == "inside":
            compiled = torch.compile(inner, backend=backend)
        y = compiled(x * 1.0, 2.0)
        y.sum().backward()
    assert torch.equal(y, expected)
    reader = open_run(tmp_path / "run").rank(0)
    calls = list(reader.trace())
    borders = [call for call in calls if call.api.startswith("torch.compile.") and call.phase is Phase.FORWARD]
    assert len(borders) == 1, [call.api for call in calls]
    assert len(borders[0].inputs) == 1 and len(borders[0].outputs) == 1
    assert torch.equal(torch.from_numpy(reader.tensor(borders[0].outputs[0]).copy()), expected)
    assert not forwards(calls, "Tensor.sin")
    assert capture.certificate is not None
    assert any("torch.compile" in reason for reason in capture.certificate.not_recorded)
    assert forwards(calls, "Tensor.mul") and forwards(calls, "Tensor.sum")


def test_the_way_into_every_module_is_not_that_into_compiled_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled modules of torch 2.4 are called as all are: a splice there would make each module a region."""
    from torch._dynamo.eval_frame import OptimizedModule

    if "__call__" in vars(OptimizedModule):
        assert regions.compiled_modules() == [vars(OptimizedModule)["__call__"]]
        monkeypatch.delattr(OptimizedModule, "__call__")
    assert regions.compiled_modules() == []


def test_compiled_functions_are_found_however_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the code that torch makes them from, or, should it hide that, among all objects."""
    compiled = [torch.compile(lambda x: x + 1, backend="eager"), torch.compile(backend="eager")(lambda x: x * 2)]
    quick = regions.compiled_functions()
    monkeypatch.setattr(regions, "compiler", lambda: lambda: None)
    slow = regions.compiled_functions()
    assert {id(function) for function in compiled} <= {id(function) for function in quick}
    assert {id(function) for function in quick} == {id(function) for function in slow}


def test_a_compiled_module_shows_its_border(captured: Captured) -> None:
    torch._dynamo.reset()
    model = torch.compile(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), backend="eager")
    x = torch.randn(2, 3)
    expected = model(x).detach()
    reader = captured(lambda: model(x).sum().backward(), data="tensors")
    (region,) = [c for c in reader.trace() if c.api.startswith("torch.compile.") and c.phase is Phase.FORWARD]
    assert torch.equal(torch.from_numpy(reader.tensor(region.outputs[0]).copy()), expected)
