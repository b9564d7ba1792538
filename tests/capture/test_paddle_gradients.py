"""The gradients of a call are its own: what ``paddle.grad`` gives for that call alone, bit for bit."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

paddle = pytest.importorskip("paddle")

from paddle.nn import functional as F  # noqa: E402 - only where paddle is

import trueline  # noqa: E402
from tests.capture.paddle_capturing import calls, captured  # noqa: E402
from tests.capture.paddle_replaying import replay_all  # noqa: E402
from tests.helpers.paddle_models import train  # noqa: E402
from trueline.records import Call, Phase  # noqa: E402
from trueline.store import RankReader  # noqa: E402


def leaf(*shape: int) -> Any:
    tensor = paddle.randn(shape)
    tensor.stop_gradient = False
    return tensor


def backward_of(found: list[Call], api: str, nth: int = 0) -> Call:
    (call,) = [c for c in found if c.api == api and c.index == nth and c.phase is Phase.BACKWARD]
    return call


def values(reader: RankReader, call: Call) -> dict[str, Any]:
    return {record.path: reader.tensor(record) for record in (*call.inputs, *call.outputs)}


@pytest.mark.parametrize("name", ["net", "resnet", "mixed"])
def test_recorded_gradients_are_those_of_the_call_alone(name: str, tmp_path: Path) -> None:
    steps = 1 if name == "resnet" else 2
    reader = captured(tmp_path, lambda: train(name, steps=steps, keep=False), data="tensors")
    equal, skipped, wrong = replay_all(reader)
    assert wrong == []
    assert equal >= 0.8 * (equal + len(skipped)), skipped
    assert equal >= 20


def test_under_auto_cast(tmp_path: Path) -> None:
    reader = captured(tmp_path, lambda: train("transformer", steps=1, keep=False), data="tensors")
    with paddle.amp.auto_cast(level="O1", dtype="bfloat16"):
        equal, _, wrong = replay_all(reader)
    outside = ("paddle.nn.functional.cross_entropy", "paddle.Tensor.__mul__")  # made outside of it, by the scaler
    assert [text for text in wrong if not text.startswith(outside)] == []
    assert equal >= 30


def test_a_tensor_that_several_calls_use(tmp_path: Path) -> None:
    """Each call has its own share; the sum is nobody's."""

    def program() -> None:
        x = leaf(3)
        y = x * 1.0
        (y.tanh() + y.sin() + y * y).sum().backward()

    reader = captured(tmp_path, program, data="tensors")
    found = list(reader.trace())
    y = reader.tensor(next(c for c in found if c.api == "paddle.Tensor.tanh").inputs[0])
    shares = [values(reader, backward_of(found, f"paddle.Tensor.{name}"))["args.0"] for name in ("tanh", "sin")]
    np.testing.assert_allclose(shares[0], 1 - np.tanh(y) ** 2, rtol=1e-5)
    np.testing.assert_allclose(shares[1], np.cos(y), rtol=1e-5)
    squared = backward_of(found, "paddle.Tensor.__mul__", 1)
    assert [record.path for record in squared.outputs] == ["args.0"], "the same tensor twice has one gradient"
    np.testing.assert_allclose(values(reader, squared)["args.0"], 2 * y, rtol=1e-5)
    whole = backward_of(found, "paddle.Tensor.__mul__", 0)
    np.testing.assert_allclose(values(reader, whole)["out"], shares[0] + shares[1] + 2 * y, rtol=1e-5)


@pytest.mark.parametrize("shared", [False, True])
def test_lists_of_tensors(shared: bool, tmp_path: Path) -> None:
    """Paddle has no usable hook at such nodes. What can be told is told, and the rest is said to be missing."""

    def program() -> None:
        x, y = leaf(2, 3) * 1.0, leaf(2, 3) * 1.0
        joined, stacked = paddle.concat([x, y], axis=1), paddle.stack([x, y] if shared else [x * 1, y * 1])
        weights = paddle.arange(6, dtype="float32").reshape([1, 6])
        total = (joined * weights).sum() + (stacked * 3).sum()
        (total + (x.sum() if shared else 0.0)).backward()

    reader = captured(tmp_path, program, data="tensors")
    found = list(reader.trace())
    joined = values(reader, backward_of(found, "paddle.concat"))
    assert joined["args.0.0"].tolist() == [[0, 1, 2]] * 2 and joined["args.0.1"].tolist() == [[3, 4, 5]] * 2
    stacked = values(reader, backward_of(found, "paddle.stack"))
    assert ("args.0.0" in stacked) is not shared
    missing = sum(count for reason, count in reader.certificate.not_recorded.items() if "several calls" in reason)
    assert missing == (2 if shared else 0)


def test_several_outputs_of_which_some_are_used(tmp_path: Path) -> None:
    def program() -> None:
        first, _, third = paddle.split(leaf(6, 2), 3)
        (first.sum() * 2 + third.sum() * 5).backward()

    reader = captured(tmp_path, program, data="tensors")
    split = values(reader, backward_of(list(reader.trace()), "paddle.split"))
    assert split["out.0"].tolist() == [[2, 2]] * 2 and split["out.2"].tolist() == [[5, 5]] * 2
    assert split["args.0"].tolist() == [[2, 2]] * 2 + [[0, 0]] * 2 + [[5, 5]] * 2


def test_in_place_calls_and_writing_by_index(tmp_path: Path) -> None:
    def program() -> None:
        x = leaf(4) * 1.0
        value = leaf(1)
        x.scale_(2.0)
        x[1] = value
        (x * 3).sum().backward()

    reader = captured(tmp_path, program, data="tensors")
    found = list(reader.trace())
    written = values(reader, backward_of(found, "paddle.Tensor.__setitem__"))
    assert written["args.2"].tolist() == [3.0] and written["args.0"].tolist() == [3, 0, 3, 3]
    changed = next(c for c in found if c.api == "paddle.Tensor.scale_")
    assert (2 * reader.tensor(changed.inputs[0])).tolist() == reader.tensor(changed.outputs[0]).tolist()
    assert backward_of(found, "paddle.Tensor.scale_").outputs


def test_accumulated_gradients_are_seen_as_they_are(tmp_path: Path) -> None:
    """Two backwards before a step: what the optimizer is given is the sum, which lies where the first gradient lay."""
    layer = paddle.nn.Linear(2, 1, bias_attr=False)
    optimizer = paddle.optimizer.SGD(0.5, parameters=layer.parameters())

    def program() -> None:
        for factor in (1.0, 2.0):
            (layer(paddle.ones([1, 2])) * factor).sum().backward()
            layer.weight.grad.sum()
        optimizer.step()

    reader = captured(tmp_path, program, data="tensors")
    found = list(reader.trace())
    sums = [reader.tensor(c.inputs[0]).ravel().tolist() for c in found if c.api == "paddle.Tensor.sum" and c.inputs]
    update = next(c for c in found if c.api.endswith("sgd_"))
    given = {record.path: reader.tensor(record).ravel().tolist() for record in update.inputs}
    assert given["args.2"] == [3.0, 3.0]
    assert [1.0, 1.0] in sums and [3.0, 3.0] in sums


def test_without_backward_there_is_none(tmp_path: Path) -> None:
    def program() -> None:
        (leaf(3) * 2).sum().backward()

    assert {c.phase for c in calls(tmp_path, program, backward=False)} == {Phase.FORWARD}


def test_hooks_keep_nothing_alive(tmp_path: Path) -> None:
    """The graph of a step dies with its tensors, and no leaf keeps a hook of ours."""
    weight = leaf(3, 3)
    with trueline.capture(tmp_path / "run", framework="paddle"):
        hidden = paddle.concat([weight @ weight, weight]).tanh()
        watched = weakref.ref(hidden)
        hidden.sum().backward()
        first = weight.grad.numpy().copy()
        del hidden
        gc.collect()
        assert watched() is None
    weight.clear_gradient()
    paddle.concat([weight @ weight, weight]).tanh().sum().backward()
    assert weight.grad.numpy().tobytes() == first.tobytes()


def test_hooks_of_the_program_work_as_before(tmp_path: Path) -> None:
    def program() -> list[float]:
        x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
        y = x * 2
        y.register_hook(lambda gradient: gradient * 10)
        F.relu(y).sum().backward()
        return x.grad.tolist()

    expected = program()
    with trueline.capture(tmp_path / "run", data="tensors", framework="paddle"):
        assert program() == expected == [20.0, 20.0]
