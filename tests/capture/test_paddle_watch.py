"""The watch on Paddle programs: what it names, what it leaves alone, what it leaves behind."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("GLOG_minloglevel", "2")
paddle = pytest.importorskip("paddle")
import paddle.nn.functional as F  # noqa: E402 - only where Paddle is

from trueline.diagnose.overflow import overflow  # noqa: E402
from trueline.diagnose.watching import OverflowWatch, watch  # noqa: E402
from trueline.frameworks.paddle.light_calls import LightWatch  # noqa: E402
from trueline.overflows import EventKind, Nature, OverflowKind  # noqa: E402
from trueline.records import Phase  # noqa: E402

INFINITY = float("inf")


class Net(paddle.nn.Layer):  # type: ignore[misc]
    def __init__(self, between: Callable[[Any], Any]) -> None:
        super().__init__()
        paddle.seed(0)
        self.first, self.second = paddle.nn.Linear(8, 16), paddle.nn.Linear(16, 4)
        self._between = between

    def forward(self, batch: Any) -> Any:
        return (self.second(self._between(self.first(batch))) ** 2).mean()


def batch_of(step: int) -> Any:
    return paddle.to_tensor(np.random.default_rng(step).standard_normal((4, 8)).astype("float32"))


def train(model: Any, steps: int, watching: OverflowWatch | None = None) -> list[float]:
    optimizer = paddle.optimizer.Adam(1e-2, parameters=model.parameters())
    losses = []
    for step in range(steps):
        loss = model(batch_of(step))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
        if watching is not None:
            watching.step()
    return losses


def breaking_at(step: int, how: Callable[[Any], Any]) -> Callable[[Any], Any]:
    count = iter(range(10**6))
    return lambda value: how(value) if next(count) == step else value


def watched(folder: Path, between: Callable[[Any], Any], steps: int = 5, **options: Any) -> OverflowWatch:
    with watch(folder / "run", framework="paddle", **options) as watching:
        train(Net(between), steps, watching)
    return watching


@pytest.mark.parametrize(
    ("how", "name", "kind"),
    [
        (lambda value: (value - 10).log(), "paddle.Tensor.log.0.forward", OverflowKind.OUTSIDE_DOMAIN),
        (lambda value: paddle.exp(value + 100), "paddle.exp.0.forward", OverflowKind.EXPONENTIAL),
        (lambda value: (value * 0) / (value * 0), "paddle.Tensor.__truediv__.0.forward", OverflowKind.ZERO_BY_ZERO),
    ],
    ids=["log", "exp", "div"],
)
def test_the_call_is_named_at_its_step(tmp_path: Path, how: Any, name: str, kind: OverflowKind) -> None:
    watching = watched(tmp_path, breaking_at(3, how))
    event = next(one for one in watching.events if one.kind is EventKind.OVERFLOW)
    assert (event.step, event.call) == (3, name)
    origin = watching.report.origin
    assert origin is not None
    assert (origin.call.name, origin.kind, origin.nature) == (name, kind, Nature.EXPECTED)
    assert all(record.stored for record in origin.call.inputs)
    assert "test_paddle_watch.py" in origin.call.source
    assert [event.step for event in watching.events if event.kind is EventKind.OVERFLOW] == [3, 4]


def test_a_gradient_that_breaks_is_named_in_the_backward(tmp_path: Path) -> None:
    watching = watched(tmp_path, breaking_at(1, lambda value: (value * 0).sqrt() + value), 2)
    origin = watching.report.origin
    assert origin is not None
    assert (origin.call.api, origin.call.phase, origin.call.step) == ("paddle.Tensor.sqrt", Phase.BACKWARD, 1)


def test_a_weight_that_was_bad_before(tmp_path: Path) -> None:
    model = Net(lambda value: value)
    weight = model.second.weight.numpy()
    weight[0, 0] = np.nan
    model.second.weight.set_value(weight)
    with watch(tmp_path / "run", framework="paddle") as watching:
        train(model, 1, watching)
    origin = watching.report.origin
    assert origin is not None
    assert (origin.kind, origin.nature, origin.call.module) == (OverflowKind.PARAMETER, Nature.INHERITED, "second")


@pytest.mark.parametrize(
    "between",
    [
        lambda value: F.softmax(value + paddle.triu(paddle.full(value.shape, -INFINITY), 1), axis=-1),
        lambda value: value + paddle.nan_to_num(F.relu(value).log(), 0.0, 0.0, 0.0).detach(),
    ],
    ids=["mask", "nan_to_num"],
)
def test_what_is_meant_raises_no_alarm(tmp_path: Path, between: Any, capsys: pytest.CaptureFixture[str]) -> None:
    watching = watched(tmp_path, between, rotation=1)
    assert watching.counts["overflows"] == 0, watching.events
    assert not overflow(tmp_path / "run").wrong
    assert capsys.readouterr().err == ""


def enabled_scaler(scale: float, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Paddle's own, which switches itself off on a CPU unless it is made to believe that it is elsewhere."""

    class Elsewhere:
        class _expected_place:
            is_gpu_place = staticmethod(lambda: True)

    with monkeypatch.context() as patched:
        patched.setattr("paddle.amp.grad_scaler._dygraph_tracer", Elsewhere)
        return paddle.amp.GradScaler(init_loss_scaling=scale, decr_every_n_nan_or_inf=1)


def test_a_loss_scaler_may_probe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Net(lambda value: value + (value * 1e4 - (value * 1e4).detach()))  # a steep gradient of a small loss
    optimizer = paddle.optimizer.SGD(1e-9, parameters=model.parameters())
    scaler = enabled_scaler(2.0**120, monkeypatch)
    monkeypatch.setattr(sys.modules["paddle.amp.grad_scaler"].amp_global_state(), "amp_dtype", "float16")
    with watch(tmp_path / "run", framework="paddle") as watching:
        for step in range(6):
            scaler.scale(model(batch_of(step))).backward()
            scaler.step(optimizer)
            scaler._optimizer_states.clear()  # what update() does, which fails in Paddle 3.3 with numpy 2.4
            scaler._scale = scaler._scale * 0.5
            optimizer.clear_grad()
            watching.step()
    assert watching.counts["overflows"] == 0, [event.message for event in watching.events]
    assert watching.counts["meant"] > 0
    assert capsys.readouterr().err == ""


def test_what_a_scaler_found_is_seen_where_dtypes_are_equal_but_not_the_same() -> None:
    """Until Paddle 3.2 a tensor makes its dtype anew whenever it is asked."""

    class Flag:
        dtype = type("Alike", (), {"__eq__": lambda self, other: other == paddle.bool})()
        numpy = staticmethod(lambda: np.array([True]))

    watching = SimpleNamespace(found_inf=False)
    LightWatch._unscaled(watching, [paddle.ones([2]), Flag()])
    assert watching.found_inf is True


def test_training_is_the_same_to_the_last_bit(tmp_path: Path) -> None:
    ends = []
    for on in (False, True):
        model = Net(lambda value: F.dropout(F.gelu(value), 0.5))
        paddle.seed(7)
        if on:
            with watch(tmp_path / "run", framework="paddle") as watching:
                losses = train(model, 6, watching)
        else:
            losses = train(model, 6)
        ends.append((losses, [parameter.numpy() for parameter in model.parameters()]))
    assert ends[0][0] == ends[1][0]
    assert all(np.array_equal(left, right) for left, right in zip(ends[0][1], ends[1][1], strict=True))


def test_nothing_of_ours_stays(tmp_path: Path) -> None:
    before = (paddle.exp, paddle.exp.__code__, paddle.Tensor.__add__, paddle.nn.Layer.__call__.__code__)
    watched(tmp_path, F.gelu, 2)
    assert (paddle.exp, paddle.exp.__code__, paddle.Tensor.__add__, paddle.nn.Layer.__call__.__code__) == before


def test_a_little_memory_is_enough_to_see_that_something_is_wrong(tmp_path: Path) -> None:
    watching = watched(tmp_path, breaking_at(1, lambda value: (value - 10).log()), 2, hold=64.0)
    assert watching.counts["overflows"] == 1
