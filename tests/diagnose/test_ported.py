"""What two frameworks do differently by definition is no fault, and a wrong value is found all the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

import trueline  # noqa: E402
from trueline.diagnose.conventions import Averaging, biased, common, packed  # noqa: E402
from trueline.records import Verdict  # noqa: E402

WIDTH, HEADS, CLASSES = 8, 2, 5
RANDOM = np.random.default_rng(7)
BATCHES = [RANDOM.standard_normal((3, 4, WIDTH)).astype(np.float32) for _ in range(2)]
Change = Callable[[Any], None]


class TorchTagger(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.square = torch.nn.Linear(WIDTH, WIDTH)
        self.norm = torch.nn.BatchNorm1d(4)
        self.head = torch.nn.Linear(WIDTH, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed = self.attention(x, x, x, need_weights=False)[0]
        return self.head(torch.nn.functional.gelu(self.norm(self.square(x + mixed))))


class PaddleTagger(paddle.nn.Layer):
    def __init__(self, approximate: bool) -> None:
        super().__init__()
        self.attention = paddle.nn.MultiHeadAttention(WIDTH, HEADS)
        self.square = paddle.nn.Linear(WIDTH, WIDTH)
        self.norm = paddle.nn.BatchNorm1D(4)
        self.head = paddle.nn.Linear(WIDTH, CLASSES)
        self.approximate = approximate

    def forward(self, x: Any) -> Any:
        hidden = self.norm(self.square(x + self.attention(x, x, x)))
        return self.head(paddle.nn.functional.gelu(hidden, approximate=self.approximate))


def torch_run(path: Path, data: str) -> dict[str, Any]:
    torch.manual_seed(0)
    model = TorchTagger()
    weights = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    descent = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    with trueline.capture(path, data=data, framework="torch") as capture:
        for batch in BATCHES:
            model(torch.from_numpy(batch)).pow(2).mean().backward()
            descent.step()
            descent.zero_grad()
            capture.step()
    return weights


def loaded(weights: dict[str, Any], name: str) -> Any:
    """The value of a parameter of Paddle's, from torch's."""
    for place, letter in enumerate("qkv"):
        if f"{letter}_proj" in name:
            whole = weights[f"attention.in_proj_{name.rpartition('.')[2]}"]
            part = np.split(whole, 3)[place]
            return part.T if part.ndim == 2 else part
    value = weights[common(name)]
    return value.T if value.ndim == 2 else value


def paddle_run(
    path: Path, weights: dict[str, Any], data: str, change: Change | None, *, approximate: bool = False
) -> None:
    model = PaddleTagger(approximate)
    for name, parameter in model.state_dict().items():
        parameter.set_value(np.ascontiguousarray(loaded(weights, name)))
    if change is not None:
        change(model)
    descent = paddle.optimizer.Momentum(0.05, 0.9, parameters=model.parameters())
    with trueline.capture(path, data=data, framework="paddle") as capture:
        for batch in BATCHES:
            model(paddle.to_tensor(batch)).pow(2).mean().backward()
            descent.step()
            descent.clear_grad()
            capture.step()


def turned(model: Any) -> None:
    model.square.weight.set_value(np.ascontiguousarray(model.square.weight.numpy().T))


def slow(model: Any) -> None:
    model.norm._momentum = 0.5


def frozen(model: Any) -> None:
    model.attention.k_proj.weight.stop_gradient = True


def exchanged(model: Any) -> None:
    mean, variance = model.norm._mean.numpy(), model.norm._variance.numpy()
    model.norm._mean.set_value(variance)
    model.norm._variance.set_value(mean + 0.5)


@pytest.mark.parametrize("data", ["tensors", "stats"])
def test_one_projection_beside_three_is_no_fault(tmp_path: Path, data: str) -> None:
    weights = torch_run(tmp_path / "torch", data)
    paddle_run(tmp_path / "paddle", weights, data, None)
    with trueline.compare(tmp_path / "torch", tmp_path / "paddle") as report:
        assert report.verdict is Verdict.PASS, report.origin
        kinds = {one.kind for one in report.observables}
        assert {"output", "loss", "gradient", "update", "buffer"} <= kinds
        names = {one.name for one in report.observables}
        assert "attention.in_proj_weight" in names and "norm.running_var" in names


@pytest.mark.parametrize("data", ["tensors", "stats"])
@pytest.mark.parametrize(
    ("change", "kind", "name"),
    [
        (turned, "state", "square.weight"),
        (slow, "argument", "norm.running_var"),
        (frozen, "update", "attention.in_proj_weight"),
        (exchanged, "state", "norm.running_mean"),
    ],
)
def test_a_wrong_value_is_named(tmp_path: Path, data: str, change: Change, kind: str, name: str) -> None:
    weights = torch_run(tmp_path / "torch", data)
    paddle_run(tmp_path / "paddle", weights, data, change)
    with trueline.compare(tmp_path / "torch", tmp_path / "paddle") as report:
        assert report.verdict is Verdict.FAIL
        assert report.origin is not None
        assert report.origin.kind == kind and name in report.origin.names, report.origin.explanation


@pytest.mark.parametrize("data", ["tensors", "stats"])
def test_a_small_fault_behind_calls_that_are_written_otherwise(tmp_path: Path, data: str) -> None:
    weights = torch_run(tmp_path / "torch", data)
    paddle_run(tmp_path / "paddle", weights, data, None, approximate=True)
    with trueline.compare(tmp_path / "torch", tmp_path / "paddle") as report:
        assert report.origin is not None and report.origin.kind == "argument"
        assert report.origin.comparison.call.api == "paddle.nn.functional.gelu"


def test_names_and_packed_parameters() -> None:
    assert common("layer1.0.bn1._variance") == "layer1.0.bn1.running_var"
    assert packed("encoder.self_attn.in_proj_bias") == tuple(f"encoder.self_attn.{one}_proj.bias" for one in "qkv")
    assert packed("encoder.linear1.weight") == ()


def test_the_biased_variance_follows_from_the_unbiased_one() -> None:
    values = RANDOM.standard_normal(12)
    old, share = 0.7, 0.1
    theirs = (1 - share) * old + share * values.var(ddof=1)
    ours = (1 - share) * old + share * values.var()
    assert biased((old, old), theirs, Averaging(12, share)) == pytest.approx(ours)
