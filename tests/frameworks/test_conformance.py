"""What every adapter must do, asked of each framework in the same words."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trueline
from tests.helpers.paddle_cases import T, case_of, drawn, numbers
from trueline.cases import Status, Target
from trueline.errors import UsageError
from trueline.frameworks import machine
from trueline.frameworks.base import CannotExecute, Executed
from trueline.records import Call, Phase, Role
from trueline.store import open_run


class Torch:
    """A few lines of a program, as one writes them with torch."""

    name = "torch"
    relu, matmul, add_, reshape = "torch.relu", "torch.matmul", "torch.Tensor.add_", "torch.reshape"

    def __init__(self) -> None:
        self.torch = importlib.import_module("torch")

    def tensor(self, values: Any, dtype: str = "float32", grad: bool = False) -> Any:
        return self.torch.tensor(np.asarray(values)).to(getattr(self.torch, dtype)).requires_grad_(grad)

    def model(self) -> Any:
        return self.torch.nn.Sequential(self.torch.nn.Linear(4, 3), self.torch.nn.ReLU())

    def optimizer(self, model: Any) -> Any:
        return self.torch.optim.SGD(model.parameters(), lr=0.1)

    def apply(self, function: str, *args: Any) -> Any:
        return getattr(self.torch, function)(*args)


class Paddle(Torch):
    """The same with Paddle."""

    name = "paddle"
    relu, matmul, add_, reshape = "paddle.nn.functional.relu", "paddle.matmul", "paddle.Tensor.add_", "paddle.reshape"

    def __init__(self) -> None:
        self.torch = importlib.import_module("paddle")

    def tensor(self, values: Any, dtype: str = "float32", grad: bool = False) -> Any:
        made = self.torch.to_tensor(np.asarray(values)).astype(dtype)
        made.stop_gradient = not grad
        return made

    def optimizer(self, model: Any) -> Any:
        return self.torch.optimizer.SGD(0.1, parameters=model.parameters())


@pytest.fixture(params=[Torch, Paddle], ids=lambda kind: kind.name)
def framework(request: pytest.FixtureRequest) -> Torch:
    pytest.importorskip(request.param.name)
    made: Torch = request.param()
    return made


def execute(framework: Torch, api: str, *args: Any, target: str = "cpu", mode: Any = "candidate") -> Executed:
    case, inputs = case_of(api, *args)
    return machine.executor(Target.parse(f"{framework.name}:{target}")).run(case, inputs, mode=mode)


def test_it_says_what_it_is(framework: Torch) -> None:
    adapter = machine.adapter(framework.name)
    assert adapter.name == framework.name
    assert adapter.version()[0].isdigit()
    assert list(adapter.devices())
    assert adapter.rank() == (0, 1)
    adapter.seed_all(11, deterministic=False)
    assert adapter.seed() == 11


def test_a_call_is_executed_forward_and_backward(framework: Torch) -> None:
    left, right = drawn(3, 4), drawn(4, 2, seed=1)
    done = execute(framework, framework.matmul, T(left, grad=True), T(right, grad=True))
    assert done.returned and done.backward is not None and done.backward.status is Status.RETURNED
    assert done.working == "float32"
    np.testing.assert_allclose(numbers(done.outputs["out"]), left @ right, rtol=1e-5, atol=1e-6)
    ones = np.ones((3, 2))
    np.testing.assert_allclose(numbers(done.gradients["args.0"]), ones @ right.T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(numbers(done.gradients["args.1"]), left.T @ ones, rtol=1e-5, atol=1e-6)


def test_a_gold_is_float64_of_the_rounded_inputs(framework: Torch) -> None:
    shape = [3, 1]
    done = execute(framework, framework.reshape, T(np.full(3, 1 + 2**-12)), shape, target="cpu/bfloat16", mode="gold")
    assert done.outputs["out"].dtype == "float64"
    assert numbers(done.outputs["out"]).tolist() == [[1.0]] * 3


def test_what_an_in_place_call_returns_is_its_argument(framework: Torch) -> None:
    done = execute(framework, framework.add_, T([1.0, 2.0]), T([10.0, 20.0]))
    assert done.outputs["out"].alias == "args.0"
    assert numbers(done.outputs["out"]).tolist() == [11.0, 22.0]


def test_what_a_call_raises_is_its_outcome(framework: Torch) -> None:
    done = execute(framework, framework.matmul, T(drawn(3, 4)), T(drawn(3, 4)))
    assert done.outcome.status is Status.RAISED
    assert done.outcome.reason and "\n" not in done.outcome.reason


def test_a_call_that_it_does_not_have_cannot_be_executed(framework: Torch) -> None:
    with pytest.raises(CannotExecute, match="no_such_function"):
        execute(framework, f"{framework.name}.no_such_function", T([1.0]))


def test_a_device_that_is_not_there_is_a_clear_error(framework: Torch) -> None:
    with pytest.raises(UsageError, match="cannot use"):
        execute(framework, framework.relu, T([1.0]), target="xpu:7")


def calls_of(path: Path) -> list[Call]:
    with open_run(path) as run:
        trace = run.rank(0).trace()
        return [trace.call(position) for position in range(len(trace))]


def trained(framework: Torch, path: Path, **options: Any) -> list[Call]:
    """All calls of two captured steps of a small model."""
    model = framework.model()
    optimizer = framework.optimizer(model)
    x = framework.tensor(drawn(5, 4))
    with trueline.capture(path, framework=framework.name, **options):
        for _ in range(2):
            model(x).sum().backward()
            optimizer.step()
    return calls_of(path)


@pytest.mark.parametrize("data", ["structure", "stats", "digest", "tensors"])
def test_a_capture_has_steps_modules_lines_and_both_directions(framework: Torch, tmp_path: Path, data: str) -> None:
    calls = trained(framework, tmp_path / "run", data=data)
    for step in (0, 1):
        linear = [call for call in calls if call.step == step and call.api.endswith("functional.linear")]
        assert [call.phase for call in linear] == [Phase.FORWARD, Phase.BACKWARD]
        assert linear[1].forward_id == linear[0].id
        assert linear[0].module == "0"
        assert __file__ in linear[0].source
        assert [record.shape for record in linear[0].outputs] == [(5, 3)]
        assert sorted(record.shape for record in linear[1].outputs) in ([(3,), (3, 4)], [(3,), (4, 3)])
    records = [record for call in calls for record in call.tensors]
    assert all((record.statistics is None) == (data == "structure" or bool(record.missing)) for record in records)


def test_a_program_is_left_as_it_was(framework: Torch, tmp_path: Path) -> None:
    x = framework.tensor(drawn(3))
    before = framework.apply("exp", x)
    with trueline.capture(tmp_path / "run", framework=framework.name, data="stats") as capture:
        inside = framework.apply("exp", x)
    after = framework.apply("exp", x)
    assert before.numpy().tobytes() == inside.numpy().tobytes() == after.numpy().tobytes()
    assert capture.certificate is not None and capture.certificate.complete
    assert [call.api for call in calls_of(tmp_path / "run")] == [f"{framework.name}.exp"]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1.0, float("nan"), float("inf"), -float("inf")], "float32"),
        ([1.5, -2.0], "bfloat16"),
        ([1.5, -2.0], "float64"),
        (3.0, "float32"),
        (np.zeros((0, 2)), "float32"),
        ([True, False], "bool"),
        ([1, -5], "int64"),
        ([1 + 2j], "complex64"),
    ],
    ids=["not finite", "bfloat16", "float64", "0-d", "empty", "bool", "int64", "complex64"],
)
def test_every_kind_of_tensor_keeps_its_bits(framework: Torch, tmp_path: Path, values: Any, dtype: str) -> None:
    x = framework.tensor(values, dtype)
    with trueline.capture(tmp_path / "run", framework=framework.name, data="tensors"):
        framework.apply("reshape", x, [-1])
    (call,) = calls_of(tmp_path / "run")
    given, made = (next(one for one in call.tensors if one.role is role) for role in (Role.INPUT, Role.OUTPUT))
    assert (given.dtype, given.shape) == (dtype, np.shape(values))
    with open_run(tmp_path / "run") as run:
        bits = [run.rank(0).tensor_bits(one.tensor_id, one.dtype, one.shape) for one in (given, made)]
    assert bits[0].tobytes() == bits[1].tobytes() == T(values, dtype).array.bits.tobytes()
    parts = 2 if dtype.startswith("complex") else 1
    assert given.statistics is not None and given.statistics.count == np.size(values) * parts
