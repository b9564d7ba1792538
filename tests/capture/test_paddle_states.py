"""The named state of a Paddle program, as a capture writes it down among the calls."""

from __future__ import annotations

import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

paddle = pytest.importorskip("paddle")

import trueline  # noqa: E402 - only where paddle is
from tests.capture import paddle_capturing  # noqa: E402
from trueline.frameworks.paddle.states import accumulators  # noqa: E402
from trueline.records import Level, Snapshot, StateMoment  # noqa: E402
from trueline.store import RankReader, open_run  # noqa: E402

nn = paddle.nn
M = StateMoment
Recorded = Callable[..., RankReader]


@pytest.fixture
def captured(tmp_path: Path) -> Recorded:
    return lambda function, **options: paddle_capturing.captured(tmp_path, function, **options)


class Tied(nn.Layer):
    """An embedding that is also the head, a norm with running statistics, a buffer, and results by name."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.norm = nn.BatchNorm1D(4)
        self.head = nn.Linear(4, 7, bias_attr=False)
        self.tied = nn.Layer()
        self.tied.weight = self.embed.weight
        self.register_buffer("shift", paddle.zeros([4]))

    def forward(self, tokens: Any, *, scale: Any = 1.0) -> dict[str, Any]:
        return {"logits": self.head(self.norm(self.embed(tokens)) + self.shift) * scale, "count": 3}


NAMES = {"embed.weight", "tied.weight", "norm.weight", "norm.bias", "head.weight"}
BUFFERS = {f"buffers.{name}" for name in ("norm._mean", "norm._variance", "shift")}


def states(reader: RankReader, moment: StateMoment | None = None, step: int | None = None) -> list[Snapshot]:
    found = reader.trace().states
    return [one for one in found if moment in (None, one.moment) and step in (None, one.step)]


def moments(reader: RankReader) -> list[tuple[int, str, str]]:
    return [(one.step, one.moment.value, one.model) for one in states(reader)]


def value(reader: RankReader, snapshot: Snapshot, name: str) -> np.ndarray[Any, Any]:
    """The elements of a value that was kept."""
    return reader.tensor(reader.trace().state_record(snapshot.values[name]))


def train(model: Any, optimizer: Any, steps: int = 2, scaler: Any = None) -> None:
    criterion = nn.CrossEntropyLoss()
    generator = np.random.default_rng(3)
    for _ in range(steps):
        tokens, labels = (paddle.to_tensor(generator.integers(0, 7, (5,))) for _ in range(2))
        found = model(tokens, scale=paddle.ones([]))
        loss = criterion(found["logits"] if isinstance(found, dict) else found, labels)
        if scaler is None:
            loss.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        optimizer.clear_grad()


def adam(model: Any, **options: Any) -> Any:
    return paddle.optimizer.AdamW(0.1, parameters=model.parameters(), **options)


def sgd(model: Any) -> Any:
    return paddle.optimizer.SGD(0.1, parameters=model.parameters())


def test_a_step_of_training_is_written_in_the_order_of_time(captured: Recorded) -> None:
    model = Tied()
    reader = captured(lambda: train(model, adam(model)))
    step = [
        ("entered", "Tied"), ("left", "Tied"), ("entered", "CrossEntropyLoss"), ("left", "CrossEntropyLoss"),
        ("backward", ""), ("gradients", "Tied"), ("updated", "Tied"), ("ended", "Tied"),
    ]  # fmt: skip
    assert moments(reader) == [(number, *one) for number in range(2) for one in step]
    numbers = [one.call for one in states(reader)]
    calls = reader.trace()
    assert numbers == sorted(numbers) and not {int(number) for number in calls.column("id")} & set(numbers)
    assert {call.level for call in calls} == {Level.API}
    backward = next(call for call in calls if call.phase.value == "backward")
    begun = states(reader, M.BACKWARD)[0]
    assert begun.call < backward.id < states(reader, M.GRADIENTS)[0].call


def test_names_are_those_of_the_model_and_tied_parameters_have_both(captured: Recorded) -> None:
    model = Tied()
    reader = captured(lambda: train(model, adam(model)))
    entered, left = states(reader, M.ENTERED, 1), states(reader, M.LEFT, 1)
    parameters = {f"parameters.{name}" for name in NAMES}
    assert set(entered[0].values) == {"inputs.tokens", "inputs.scale"} | parameters | BUFFERS
    assert list(entered[1].values) == ["inputs.input", "inputs.label"]
    assert [set(one.values) for one in left] == [{"outputs.logits"}, {"outputs"}]
    assert set(states(reader, M.BACKWARD, 1)[0].values) == {"loss"}
    assert set(states(reader, M.GRADIENTS, 1)[0].values) == {f"gradients.{name}" for name in NAMES}
    keys = ("moment1", "moment2", "beta1_pow_acc", "beta2_pow_acc")
    kept = {f"optimizer.{name}.{key}" for name in NAMES for key in keys}
    assert set(states(reader, M.UPDATED, 1)[0].values) == parameters | kept
    assert set(states(reader, M.ENDED, 1)[0].values) == BUFFERS
    visits = reader.trace().state_visits
    tied = [int(visits[entered[0].values[f"parameters.{name}.weight"], 3]) for name in ("embed", "tied")]
    assert tied[0] == tied[1]


@pytest.mark.parametrize("kind", ["plain", "clipped", "scaled", "named"])
def test_what_is_named_is_what_the_program_held(captured: Recorded, kind: str) -> None:
    model = Tied()
    weight, statistic = model.norm.weight, model.norm._mean
    clip = nn.ClipGradByGlobalNorm(1e-3) if kind == "clipped" else None
    scaler = paddle.amp.GradScaler(init_loss_scaling=8.0) if kind == "scaled" else None
    seen: list[dict[str, Any]] = []

    class Own(paddle.optimizer.Momentum):
        def step(self) -> None:
            seen.append({"gradients.norm.weight": weight.grad.numpy().copy()})
            super().step()
            seen[-1] |= {
                "parameters.norm.weight": weight.numpy().copy(),
                "optimizer.norm.weight.velocity": self._get_accumulator("velocity", weight).numpy().copy(),
                "buffers.norm._mean": statistic.numpy().copy(),
            }

    optimizer = Own(0.1, parameters=model.parameters(), grad_clip=clip, name="mine" if kind == "named" else None)
    reader = captured(lambda: train(model, optimizer, scaler=scaler), data="tensors")
    for step, expected in enumerate(seen):
        found = {
            name: value(reader, one, name)
            for moment in (M.GRADIENTS, M.UPDATED, M.ENDED)
            for one in states(reader, moment, step)
            for name in expected.keys() & one.values.keys()
        }
        assert found.keys() == expected.keys()
        assert [name for name in expected if not np.array_equal(found[name], expected[name])] == [], step
    assert len(seen) == 2


def test_accumulators_of_half_precision_are_those_of_its_master_weights() -> None:
    (parameter,) = nn.LayerNorm(3, bias_attr=False).to(dtype="bfloat16").parameters()
    optimizer = paddle.optimizer.AdamW(0.1, parameters=[parameter], multi_precision=True)
    # as the first step does, where the device has a kernel for it
    optimizer._create_accumulators(paddle.static.default_main_program().global_block(), [parameter])
    found = dict(accumulators(optimizer, parameter))
    assert found.keys() == {"moment1", "moment2", "beta1_pow_acc", "beta2_pow_acc", "master_weight"}
    assert found["master_weight"].dtype == found["moment1"].dtype == paddle.float32


def test_minimize_and_two_models_and_parameters_of_nobody(captured: Recorded) -> None:
    first, second, alone = nn.Linear(3, 3), nn.Linear(3, 3), paddle.create_parameter([3], "float32")

    def program() -> None:
        one = sgd(first)
        groups = [{"params": second.parameters()}, {"params": [alone]}]
        two = paddle.optimizer.SGD(0.1, parameters=groups)
        with paddle.no_grad():
            second(first(paddle.ones([2, 3])))
        loss = (second(first(paddle.ones([2, 3]))) * alone).sum()
        loss.backward()
        one.minimize(loss)
        two.step()

    reader = captured(program)
    assert [(one.step, one.model) for one in states(reader, M.UPDATED)] == [(0, "Linear"), (0, "Linear#2"), (0, "")]
    assert list(states(reader, M.GRADIENTS)[-1].values) == ["gradients.group1.0"]
    entered = states(reader, M.ENTERED)
    assert [one.model for one in entered] == ["Linear", "Linear#2"] * 2
    assert ["parameters.weight" in one.values for one in entered] == [True, True, False, False]  # once a step


@pytest.mark.parametrize("backward", [True, False])
def test_gradients_that_add_up_and_steps_that_the_program_tells(tmp_path: Path, backward: bool) -> None:
    model = nn.Linear(3, 1)
    with trueline.capture(tmp_path / "run", framework="paddle", data="tensors", backward=backward) as capture:
        for step in range(2):
            for _ in range(3):
                model(paddle.ones([1, 3])).sum().backward()
            if step:
                for _ in range(2):
                    optimizer = sgd(model)
                    optimizer.step()
                    optimizer.clear_grad()
            capture.step()
    reader = open_run(tmp_path / "run").rank(0)
    assert reader.certificate.not_recorded == {}
    assert [one.step for one in states(reader, M.BACKWARD)] == [0, 0, 0, 1, 1, 1]
    (first,) = states(reader, M.ENDED)  # without an optimizer gradients and parameters are those at the end
    assert list(first.values) == ["parameters.weight", "parameters.bias", "gradients.weight", "gradients.bias"]
    second, third = states(reader, M.GRADIENTS)
    found = [value(reader, one, "gradients.weight").ravel()[0] for one in (first, second, third)]
    assert found == [3, 6, 0]  # clear_grad writes zeros where they lay


def test_inference_has_inputs_and_outputs_and_buffers(captured: Recorded) -> None:
    model = Tied()
    model.eval()

    def program() -> None:
        with paddle.no_grad():
            for _ in range(2):
                model(paddle.to_tensor([1, 2]))

    reader = captured(program)
    assert [one[1] for one in moments(reader)] == ["entered", "left", "entered", "left", "ended"]
    assert set(states(reader, M.ENDED)[0].values) == BUFFERS


def test_losses_of_several_kinds(captured: Recorded) -> None:
    weight = paddle.ones([3])
    weight.stop_gradient = False

    def program() -> None:
        paddle.autograd.backward([weight.sum(), (weight * 2).sum()])
        paddle.grad((weight * 3).sum(), weight)
        (weight * 4).sum().backward()

    assert [list(one.values) for one in states(captured(program))] == [["loss.0", "loss.1"], ["loss"], ["loss"]]


def test_what_is_computed_again_in_a_backward_is_nobodys_entry(captured: Recorded) -> None:
    from paddle.distributed.fleet.utils import recompute

    class Checkpointed(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            return recompute(self.inner, x, use_reentrant=False) + recompute(self.inner, x, use_reentrant=True)

    model = Checkpointed()
    x = paddle.ones([2, 3])
    x.stop_gradient = False
    reader = captured(lambda: model(x).sum().backward())
    assert [one[1:] for one in moments(reader)] == [
        ("entered", "Checkpointed"), ("left", "Checkpointed"), ("backward", ""), ("ended", "Checkpointed"),
    ]  # fmt: skip


def test_wrappers_leave_names_as_they_are(captured: Recorded) -> None:
    model = Tied()
    bare = captured(lambda: train(model, sgd(model)))
    reader = captured(lambda: train(paddle.DataParallel(model), sgd(model)))
    assert [(one.model, set(one.values)) for one in states(reader)] == [
        (one.model, set(one.values)) for one in states(bare)
    ]


@pytest.mark.filterwarnings("ignore:To copy construct")  # of Paddle's own
def test_a_closure_inside_of_an_optimizer(captured: Recorded) -> None:
    model = nn.Linear(2, 1)

    def program() -> None:
        optimizer = paddle.optimizer.LBFGS(max_iter=4, parameters=model.parameters())

        def closure() -> Any:
            optimizer.clear_grad()
            loss = (model(paddle.to_tensor([[1.0, 2.0], [3.0, 1.0]])) - 1).square().sum()
            loss.backward()
            return loss

        optimizer.step(closure)

    reader = captured(program)
    found = [one[1] for one in moments(reader)]
    assert found[:3] == ["entered", "left", "backward"] and "updated" in found
    assert any("old_" in name for name in states(reader, M.UPDATED)[0].values)


@pytest.mark.parametrize("full_graph", [True, False])
def test_graphs_have_an_outside_and_no_inside(captured: Recorded, full_graph: bool) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    graph = paddle.jit.to_static(nn.Sequential(model), full_graph=full_graph)
    spec = [paddle.static.InputSpec([None, 3], "float32")]

    def outside(x: Any) -> Any:
        return model(x)

    def program() -> None:
        for _ in range(2):
            graph(paddle.ones([2, 3])).sum().backward()
        paddle.enable_static()
        try:
            with paddle.static.program_guard(paddle.static.Program()):
                nn.Linear(3, 3)(paddle.static.data("x", [2, 3]))
        finally:
            paddle.disable_static()
        paddle.jit.to_static(outside, input_spec=spec, full_graph=True).concrete_program  # noqa: B018

    reader = captured(program)
    assert [one[1:] for one in moments(reader)] == [
        *[("entered", "Sequential"), ("left", "Sequential"), ("backward", "")] * 2, ("ended", "Sequential"),
    ]  # fmt: skip
    assert list(states(reader, M.ENTERED)[1].values) == ["inputs.input"]
    assert set(states(reader, M.ENDED)[0].values) == {
        f"{group}.0.0.{name}" for group in ("parameters", "gradients") for name in ("weight", "bias")
    }


def test_a_layer_that_raises_is_entered_and_not_left(captured: Recorded) -> None:
    class Broken(nn.Layer):
        def forward(self, x: Any) -> Any:
            raise ValueError("no")

    def program() -> None:
        with pytest.raises(ValueError, match="no"):
            Broken()(paddle.ones([2]))
        nn.Identity()(paddle.ones([2]))

    assert [one[1:] for one in moments(captured(program))] == [
        ("entered", "Broken"), ("entered", "Identity"), ("left", "Identity"),
    ]  # fmt: skip


def test_layers_without_memory_and_sparse_gradients(captured: Recorded) -> None:
    with paddle.LazyGuard():
        lazy = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    sparse = nn.Embedding(4, 2, sparse=True)

    def program() -> None:
        nn.Sequential(nn.Identity(), lazy)[0](paddle.ones([2, 3]))
        for parameter in lazy.parameters():
            parameter.initialize()
        lazy(paddle.ones([2, 3]))
        sparse(paddle.to_tensor([1])).sum().backward()

    reader = captured(program)
    assert "parameters.1.bias" in states(reader, M.ENTERED)[1].values
    record = reader.trace().state_record(states(reader, M.ENDED)[-1].values["gradients.weight"])
    assert record.missing == "selected rows are not read"


@pytest.mark.parametrize(
    "options",
    [{"apis": "relu"}, {"modules": "norm"}, {"calls": "paddle.relu.0"}, {"between": ("paddle.relu.0", "x.1")}],
)
def test_filters_leave_states_out(captured: Recorded, options: dict[str, Any]) -> None:
    model = Tied()
    assert captured(lambda: train(model, sgd(model)), **options).trace().states == ()


@pytest.mark.parametrize("level", ["module", "kernel"])
@pytest.mark.parametrize("data", ["structure", "digest"])
def test_other_levels_have_the_same_states(captured: Recorded, level: str, data: str) -> None:
    model = Tied()
    wanted, found = (captured(lambda: train(model, adam(model)), level=one, data=data) for one in ("api", level))
    assert moments(found) == moments(wanted)
    assert [set(one.values) for one in states(found)] == [set(one.values) for one in states(wanted)]


def test_the_program_computes_the_same_bits(captured: Recorded) -> None:
    def program() -> list[Any]:
        paddle.seed(0)
        model = Tied()
        train(model, adam(model, grad_clip=nn.ClipGradByNorm(0.1)), steps=3)
        return [item.numpy() for item in model.state_dict().values()]

    alone, found = program(), types.SimpleNamespace()
    captured(lambda: setattr(found, "values", program()))
    assert all(np.array_equal(one, other) for one, other in zip(alone, found.values, strict=True))


def test_two_frameworks_leave_the_optimizers_of_each_other_alone(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    theirs, ours = torch.nn.Linear(2, 2), nn.Linear(2, 2)
    with trueline.capture(tmp_path / "run"):
        theirs(torch.ones(1, 2)).sum().backward()
        torch.optim.SGD(theirs.parameters(), lr=0.1).step()
        ours(paddle.ones([1, 2])).sum().backward()
        sgd(ours).step()
    reader = open_run(tmp_path / "run").rank(0)
    assert [one for one in reader.certificate.not_recorded if "fault" in one] == []
    kinds = ("entered", "left", "backward", "gradients", "updated")
    found = [(one[0], one[1]) for one in moments(reader) if one[1] != "ended"]
    assert found == [(step, kind) for step in range(2) for kind in kinds]
