"""The named state of a program, as a capture writes it down among the calls."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import trueline
from trueline.records import Level, Snapshot, StateMoment
from trueline.store import RankReader, open_run

M = StateMoment
Recorded = Callable[..., RankReader]


class Tied(nn.Module):
    """An embedding that is also the head, a norm with buffers, and results by name."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.norm = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor, *, scale: Any = 1.0) -> dict[str, Any]:
        return {"logits": self.head(self.norm(self.embed(tokens))) * scale, "count": 3}


def states(reader: RankReader, moment: StateMoment | None = None, step: int | None = None) -> list[Snapshot]:
    found = reader.trace().states
    return [one for one in found if moment in (None, one.moment) and step in (None, one.step)]


def moments(reader: RankReader) -> list[tuple[int, str, str]]:
    return [(one.step, one.moment.value, one.model) for one in states(reader)]


def value(reader: RankReader, snapshot: Snapshot, name: str) -> np.ndarray[Any, Any]:
    """The elements of a value that was kept."""
    trace = reader.trace()
    tensor = int(trace.state_visits[snapshot.values[name], 3])
    rows = np.flatnonzero(trace.visits[:, 3] == tensor)
    record = next(
        one
        for one in trace.call(int(np.searchsorted(trace.column("id"), trace.visits[rows[0], 0]))).tensors
        if one.tensor_id == tensor
    )
    return reader.tensor(record)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 2, *, clip: bool = False) -> None:
    criterion = nn.CrossEntropyLoss()
    generator = torch.Generator().manual_seed(3)
    for _ in range(steps):
        tokens, labels = (torch.randint(0, 7, (5,), generator=generator) for _ in range(2))
        found = model(tokens, scale=torch.ones(()))
        logits = found["logits"] if isinstance(found, dict) else found
        criterion(logits, labels).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
        optimizer.step()
        optimizer.zero_grad()


def test_a_step_of_training_is_written_in_the_order_of_time(captured: Recorded) -> None:
    model = Tied()
    reader = captured(lambda: train(model, torch.optim.AdamW(model.parameters())), data="tensors")
    step = [
        ("entered", "Tied"), ("left", "Tied"), ("entered", "CrossEntropyLoss"), ("left", "CrossEntropyLoss"),
        ("backward", ""), ("gradients", "Tied"), ("updated", "Tied"), ("ended", "Tied"),
    ]  # fmt: skip
    assert moments(reader) == [(number, *one) for number in range(2) for one in step]
    numbers = [one.call for one in states(reader)]
    assert numbers == sorted(numbers)
    calls = reader.trace()
    assert not {int(number) for number in calls.column("id")} & set(numbers)
    backward = next(call for call in calls if call.phase.value == "backward")
    begun = states(reader, M.BACKWARD)[0]
    assert begun.call < backward.id < states(reader, M.GRADIENTS)[0].call


def test_names_are_those_of_the_model_and_tied_parameters_have_both(captured: Recorded) -> None:
    model = Tied()
    reader = captured(lambda: train(model, torch.optim.AdamW(model.parameters())))
    names = {"embed.weight", "head.weight", "norm.weight", "norm.bias"}
    buffers = {f"buffers.norm.{name}" for name in ("running_mean", "running_var", "num_batches_tracked")}
    entered, left = states(reader, M.ENTERED, 1)[0], states(reader, M.LEFT, 1)[0]
    parameters = {f"parameters.{name}" for name in names}
    assert set(entered.values) == {"inputs.tokens", "inputs.scale"} | parameters | buffers
    assert set(left.values) == {"outputs.logits"}
    assert set(states(reader, M.LEFT, 1)[1].values) == {"outputs"}
    assert set(states(reader, M.BACKWARD, 1)[0].values) == {"loss"}
    assert set(states(reader, M.GRADIENTS, 1)[0].values) == {f"gradients.{name}" for name in names}
    kept = {f"optimizer.{name}.{key}" for name in names for key in ("step", "exp_avg", "exp_avg_sq")}
    assert set(states(reader, M.UPDATED, 1)[0].values) == parameters | kept
    assert set(states(reader, M.ENDED, 1)[0].values) == buffers
    visits = reader.trace().state_visits
    tied = [int(visits[entered.values[f"parameters.{name}.weight"], 3]) for name in ("embed", "head")]
    assert tied[0] == tied[1]


def test_what_is_named_is_what_the_program_held(captured: Recorded) -> None:
    model = Tied()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    seen: list[dict[str, Any]] = []
    optimizer.register_step_pre_hook(
        lambda *_: seen.append({"gradients.norm.weight": model.norm.weight.grad.detach().clone()})
    )
    optimizer.register_step_post_hook(
        lambda *_: seen[-1].update(
            {
                "parameters.norm.weight": model.norm.weight.detach().clone(),
                "optimizer.norm.weight.momentum_buffer": optimizer.state[model.norm.weight]["momentum_buffer"].clone(),
            }
        )
    )
    reader = captured(lambda: train(model, optimizer, clip=True), data="tensors")
    for step, expected in enumerate(seen):
        for moment in (M.GRADIENTS, M.UPDATED):
            (snapshot,) = states(reader, moment, step)
            for name in expected.keys() & snapshot.values.keys():
                assert np.array_equal(value(reader, snapshot, name), expected[name].numpy()), (step, name)
    assert len(seen) == 2 and float(seen[0]["gradients.norm.weight"].norm()) < 1e-3  # clipped


def test_calls_are_counted_and_found_as_without_states(captured: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    def program() -> None:
        torch.manual_seed(0)
        model = Tied()
        train(model, torch.optim.SGD(model.parameters(), lr=0.1))

    reader = captured(program)
    trace, certificate = reader.trace(), reader.certificate
    assert {call.level for call in trace} == {Level.API}
    assert set(certificate.calls) == {"api forward", "api backward"}
    assert sum(certificate.calls.values()) == len(trace) == reader.call_count
    assert certificate.visits == len(trace.visits)
    assert len(trace.states) == 16 and len(trace.state_visits) == sum(len(one.values) for one in trace.states)
    assert trace.find(f"#{trace.states[0].call}") == []
    one = reader.trace(1)
    assert {snapshot.step for snapshot in one.states} == {1} and len(one.states) == 8
    assert set(one.columns[:, 0]) == set(trace.columns[trace.column("step") == 1, 0])
    rows = one.state_visits[list(one.states[0].values.values())]
    assert set(rows[:, 0]) == {one.states[0].call}


def test_equal_names_have_one_tree(captured: Recorded) -> None:
    model = Tied()
    reader = captured(lambda: train(model, torch.optim.SGD(model.parameters(), lr=0.1), steps=4))
    trees = [tree for tree in reader.trace().trees.values() if "gradients" in tree]
    assert len(trees) == 1


def test_two_models_and_two_optimizers(captured: Recorded) -> None:
    first, second, alone = nn.Linear(3, 3), nn.Linear(3, 3), nn.Parameter(torch.ones(3))

    def program() -> None:
        one = torch.optim.SGD(first.parameters(), lr=0.1)
        two = torch.optim.SGD([{"params": second.parameters()}, {"params": [alone]}], lr=0.1)
        with torch.no_grad():
            second(first(torch.ones(2, 3)))
        loss = (second(first(torch.ones(2, 3))) * alone).sum()
        loss.backward()
        one.step()
        two.step()

    reader = captured(program)
    assert [(one.step, one.model) for one in states(reader, M.UPDATED)] == [(0, "Linear"), (0, "Linear#2"), (0, "")]
    assert list(states(reader, M.GRADIENTS)[-1].values) == ["gradients.group1.0"]
    entered = states(reader, M.ENTERED)
    assert [one.model for one in entered] == ["Linear", "Linear#2"] * 2
    assert ["parameters.weight" in one.values for one in entered] == [True, True, False, False]  # once a step


def test_gradients_that_add_up_and_steps_that_the_program_tells(tmp_path: Path) -> None:
    model = nn.Linear(3, 1)
    with trueline.capture(tmp_path / "run", data="tensors") as capture:
        for step in range(2):
            for _ in range(3):
                model(torch.ones(1, 3)).sum().backward()
            if step:
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                optimizer.step()
            capture.step()
    reader = open_run(tmp_path / "run").rank(0)
    assert reader.certificate.not_recorded == {}
    assert [one.step for one in states(reader, M.BACKWARD)] == [0, 0, 0, 1, 1, 1]
    (first,) = states(reader, M.ENDED)  # without an optimizer gradients and parameters are those at the end
    assert list(first.values) == ["parameters.weight", "parameters.bias", "gradients.weight", "gradients.bias"]
    assert [one.step for one in states(reader, M.GRADIENTS)] == [1]


def test_gradients_are_read_before_the_next_backward_adds_to_them(tmp_path: Path) -> None:
    model = nn.Linear(512, 512, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with trueline.capture(tmp_path / "run", data="stats") as capture:
        for _ in range(2):
            model(torch.ones(1, 512)).sum().backward()
            optimizer.step()  # zero_grad is forgotten: autograd adds to what we were shown
        model(torch.ones(1, 512)).sum().backward()
        capture.step()
    reader = open_run(tmp_path / "run").rank(0)
    assert reader.certificate.not_recorded == {}
    trace = reader.trace()
    found = [one.values["gradients.weight"] for one in trace.states if "gradients.weight" in one.values]
    tensors = [int(trace.state_visits[row, 3]) for row in found]
    numbers = trace.statistics(tensors)
    assert [numbers[tensor][0].maximum for tensor in tensors] == [1, 2, 3]


def test_inference_has_inputs_and_outputs_and_buffers(captured: Recorded) -> None:
    model = Tied().eval()

    def program() -> None:
        with torch.inference_mode():
            for _ in range(2):
                model(torch.tensor([1, 2]))

    reader = captured(program)
    assert [one[1] for one in moments(reader)] == ["entered", "left", "entered", "left", "ended"]
    assert not any("gradients" in name for name in states(reader, M.ENDED)[0].values)


def test_losses_of_several_kinds(captured: Recorded) -> None:
    weight = torch.ones(3, requires_grad=True)

    def program() -> None:
        torch.autograd.backward([weight.sum(), (weight * 2).sum()])
        torch.autograd.grad((weight * 3).sum(), weight)
        (weight * 4).sum().backward()

    reader = captured(program)
    assert [list(one.values) for one in states(reader)] == [["loss.0", "loss.1"], ["loss"], ["loss"]]


@dataclasses.dataclass
class Answer:
    hidden: Any
    scores: Any


def test_outputs_of_all_shapes(captured: Recorded) -> None:
    class Many(nn.Module):
        def forward(self, x: Any, more: Any) -> Any:
            return Answer(hidden=(x + 1, [more["a"] * 2]), scores={"best": x * 3, "name": "text"}), None, 3.5

    reader = captured(lambda: Many()(torch.ones(2), more={"a": torch.ones(2), "b": [1, 2]}))
    entered, left = states(reader)
    assert list(entered.values) == ["inputs.x", "inputs.more.a"]
    names = ["outputs.0.hidden.0", "outputs.0.hidden.1.0", "outputs.0.scores.best"]
    assert list(left.values) == names


def test_inputs_have_the_names_of_forward_however_they_are_given(captured: Recorded) -> None:
    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        return functools.wraps(function)(lambda *args, **kwargs: function(*args, **kwargs))

    class Plain(nn.Module):
        def forward(self, x: Any, *more: Any, scale: Any = None) -> Any:
            return x

    class Wrapped(nn.Module):
        @decorated
        def forward(self, x: Any, y: Any) -> Any:
            return x

    class Hidden(nn.Module):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return args

    one = torch.ones(2)

    def program() -> None:
        Plain()(one, one, [one], scale=one)
        Plain()(x=one)
        Wrapped()(one, y=one)
        nn.DataParallel(Wrapped())(one, one)
        Hidden()(one, name=one)

    assert [list(state.values) for state in states(captured(program), M.ENTERED)] == [
        ["inputs.x", "inputs.args.1", "inputs.args.2.0", "inputs.scale"], ["inputs.x"],
        *[["inputs.x", "inputs.y"]] * 2, ["inputs.args.0", "inputs.name"],
    ]  # fmt: skip


def test_what_is_computed_again_in_a_backward_is_nobodys_entry(captured: Recorded) -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.inner, x, use_reentrant=False) + checkpoint(self.inner, x, use_reentrant=True)

    model = Checkpointed()
    reader = captured(lambda: model(torch.ones(2, 3, requires_grad=True)).sum().backward())
    assert [one[1:] for one in moments(reader)] == [
        ("entered", "Checkpointed"), ("left", "Checkpointed"), ("backward", ""), ("ended", "Checkpointed"),
    ]  # fmt: skip


def test_a_closure_and_a_module_inside_of_an_optimizer(captured: Recorded) -> None:
    model = nn.Linear(2, 1)

    def program() -> None:
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = (model(torch.tensor([[1.0, 2.0], [3.0, 1.0]])) - 1).square().sum()
            loss.backward()
            return loss

        optimizer.step(closure)

    reader = captured(program)
    found = [one[1] for one in moments(reader)]
    assert found[:3] == ["entered", "left", "backward"] and found[-1] == "updated"
    assert any(name.startswith("optimizer.weight.old_dirs.") for name in states(reader, M.UPDATED)[0].values)


@pytest.mark.parametrize("wrap", ["compile", "compile in place", "parallel"])
def test_wrappers_leave_names_as_they_are(captured: Recorded, wrap: str) -> None:
    torch.manual_seed(0)
    model: Any = Tied()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if wrap == "compile":
        wrapped = torch.compile(model, backend="eager")
    elif wrap == "parallel":
        wrapped = nn.DataParallel(model)
    else:
        model.compile(backend="eager")
        wrapped = model
    bare = captured(lambda: train(model if wrap == "parallel" else Tied(), torch.optim.SGD(model.parameters(), lr=0.1)))
    reader = captured(lambda: train(wrapped, optimizer))
    torch.compiler.reset()
    for moment in (M.ENTERED, M.LEFT, M.ENDED):
        found = [(one.model, set(one.values)) for one in states(reader, moment)]
        assert found == [(one.model, set(one.values)) for one in states(bare, moment)], moment
    assert {one.model for one in states(reader, M.UPDATED)} == {"Tied"}


def test_numbers_of_modules_that_come_and_go(captured: Recorded) -> None:
    def program() -> None:
        for _ in range(3):
            nn.ReLU()(torch.ones(2))
        first, second = nn.ReLU(), nn.ReLU()
        second(first(torch.ones(2)))

    reader = captured(program)
    assert [one.model for one in states(reader, M.ENTERED)] == ["ReLU"] * 4 + ["ReLU#2"]


@pytest.mark.parametrize(
    "options", [{"apis": "relu"}, {"modules": "norm"}, {"calls": "torch.relu.0"}, {"between": ("torch.relu.0", "x.1")}]
)
def test_filters_leave_states_out(captured: Recorded, options: dict[str, Any]) -> None:
    model = Tied()
    reader = captured(lambda: train(model, torch.optim.SGD(model.parameters(), lr=0.1)), **options)
    assert reader.trace().states == ()


@pytest.mark.parametrize("level", ["module", "kernel", "api+module"])
@pytest.mark.parametrize("data", ["structure", "digest"])
def test_other_levels_have_the_same_states(captured: Recorded, level: str, data: str) -> None:
    model = Tied()
    wanted, found = (
        captured(lambda: train(model, torch.optim.AdamW(model.parameters())), level=one, data=data)
        for one in ("api", level)
    )
    assert moments(found) == moments(wanted)
    assert [set(one.values) for one in states(found)] == [set(one.values) for one in states(wanted)]


def test_meta_transforms_and_tracers_are_left_alone(captured: Recorded) -> None:
    model = nn.Linear(3, 3)

    def program() -> None:
        nn.Linear(3, 3, device="meta")(torch.ones(2, 3, device="meta"))
        torch.func.vmap(model)(torch.ones(4, 3))
        torch.func.grad(lambda x: model(x).sum())(torch.ones(2, 3))
        torch.jit.trace(model, torch.ones(2, 3))
        torch.fx.symbolic_trace(model)
        with torch._subclasses.fake_tensor.FakeTensorMode(allow_non_fake_inputs=True):
            nn.Linear(3, 3)(torch.ones(2, 3))

    reader = captured(program)
    assert moments(reader) == []


def test_modules_of_other_kinds(captured: Recorded) -> None:
    scripted = torch.jit.script(nn.Linear(3, 3))

    def program() -> None:
        scripted(torch.ones(2, 3))
        nn.Sequential(nn.LazyLinear(3))(torch.ones(2, 3))

    reader = captured(program)
    assert [one.model for one in states(reader, M.ENTERED)] == ["Linear", "Sequential"]
    assert list(states(reader, M.ENTERED)[0].values) == ["inputs.args.0", "parameters.weight", "parameters.bias"]


def test_optimizers_that_step_inside_of_a_backward(captured: Recorded) -> None:
    model = nn.Linear(3, 3)
    optimizers = {parameter: torch.optim.SGD([parameter], lr=0.1) for parameter in model.parameters()}

    def step(parameter: nn.Parameter) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    reader = captured(lambda: model(torch.ones(2, 3)).sum().backward())
    found = {name for one in states(reader, M.GRADIENTS) for name in one.values}
    assert found == {"gradients.weight", "gradients.bias"}


def test_a_module_that_raises_is_entered_and_not_left(captured: Recorded) -> None:
    class Broken(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("no")

    def program() -> None:
        with pytest.raises(ValueError, match="no"):
            Broken()(torch.ones(2))
        nn.Identity()(torch.ones(2))

    assert [one[1:] for one in moments(captured(program))] == [
        ("entered", "Broken"), ("entered", "Identity"), ("left", "Identity"),
    ]  # fmt: skip


def test_a_step_that_ends_inside_of_a_module_makes_no_roots_of_what_is_in_it(tmp_path: Path) -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.inner(x)
            capture.step()
            return self.inner(x)

    with trueline.capture(tmp_path / "run") as capture:
        capture.step()
        Outer()(torch.ones(1, 2))
    assert {one[2] for one in moments(open_run(tmp_path / "run").rank(0))} == {"Outer"}


def test_both_ways_write_the_same(captured: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    def program() -> None:
        torch.manual_seed(0)
        model = Tied()
        train(model, torch.optim.AdamW(model.parameters()), clip=True)

    found = []
    for way in ("0", "1"):
        monkeypatch.setenv("TRUELINE_NO_KERNELS", way)
        reader = captured(program)
        trace = reader.trace()
        found.append((trace.states, trace.state_visits.tolist(), trace.columns[:, [0, 1, 2, 4, 5, 10]].tolist()))
    assert found[0] == found[1]


def test_an_evaluation_belongs_to_the_step_that_the_optimizer_ended(captured: Recorded) -> None:
    """A step begins where a model runs of which gradients are wanted."""
    model = nn.Linear(3, 3)

    def program() -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
            with torch.no_grad():
                torch.tanh(model(torch.ones(1, 3)))

    trace = captured(program).trace()
    assert [call.step for call in trace if call.api == "torch.tanh"] == [0, 1]
    assert [one.step for one in trace.states if one.moment is M.ENTERED] == [0, 0, 1, 1]


def test_buffers_are_written_down_though_the_program_let_go_of_its_model(captured: Recorded) -> None:
    def program() -> None:
        model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.randn(4, 3)).sum().backward()
        optimizer.step()

    ended = [one for one in captured(program).trace().states if one.moment is M.ENDED]
    assert len(ended) == 1 and "buffers.1.running_mean" in ended[0].values
