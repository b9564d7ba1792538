"""What the probe hook asks of a framework, asked of both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trueline.frameworks.probing import Probing, array_leaf, changed_leaves, leaves, probing


def torch_tools() -> tuple[Probing, Any]:
    torch = pytest.importorskip("torch")
    from trueline.frameworks.torch.probing import make

    return make(), torch


def paddle_tools() -> tuple[Probing, Any]:
    paddle = pytest.importorskip("paddle")
    from trueline.frameworks.paddle.probing import make

    return make(), paddle


BOTH = pytest.mark.parametrize("make", [torch_tools, paddle_tools], ids=["torch", "paddle"])


def linear(framework: Any) -> Any:
    return framework.nn.Linear(4, 3)


def tensor(framework: Any, dtype: str = "float32") -> Any:
    array = np.arange(8, dtype=np.float32).reshape(2, 4) / 8
    made = framework.from_numpy(array) if hasattr(framework, "from_numpy") else framework.to_tensor(array)
    return made.to(getattr(framework, dtype)) if framework.__name__ == "torch" else made.astype(dtype)


@BOTH
def test_a_value_finds_its_framework(make: Any) -> None:
    tools, framework = make()
    found = probing({"batch": [np.zeros(2), (tensor(framework),)]})
    assert found is not None and found.name == tools.name
    assert probing(linear(framework)) is not None
    assert probing(np.zeros(3), [1, "text"], None) is None


@BOTH
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64", "int32"])
def test_leaves_keep_their_bits(make: Any, dtype: str) -> None:
    tools, framework = make()
    leaf = tools.leaf(tensor(framework, dtype))
    assert leaf.dtype == dtype and leaf.bits.shape == (2, 4) and leaf.device == "cpu"


@BOTH
def test_rows_are_chosen_in_order(make: Any) -> None:
    tools, framework = make()
    rows = tools.leaf(tools.rows(tensor(framework), [1, 0, 1])).bits
    assert rows[:, 0].tolist() == [0.5, 0.0, 0.5]
    assert tools.leaf(tools.rows(tensor(framework), [1])).bits.shape == (1, 4)


@BOTH
def test_operators_are_counted_by_dtype(make: Any) -> None:
    tools, framework = make()
    narrow, wide = tensor(framework, "bfloat16"), tensor(framework)
    counting = tools.counting(None)
    counting.start()
    _ = narrow * 2.0, wide * 2.0, wide * 2.0  # one of the few operators that Paddle has in bfloat16 on the CPU
    found = counting.stop()
    assert sum(found.low.values()) == 1 and sum(found.other.values()) == 2
    _ = wide * 2.0
    assert sum(found.other.values()) == 2, "nothing is counted after the end"


@BOTH
def test_a_gold_is_computed_in_float64_and_leaves_the_model_alone(make: Any) -> None:
    tools, framework = make()
    model = linear(framework)
    model.train()
    made = tools.leaf(tools.in_float64(model)(tensor(framework)))
    assert made.dtype == "float64"
    assert model.training and {tools.leaf(value).dtype for _, value in tools.parameters(model)} == {"float32"}


@BOTH
def test_a_nudge_is_taken_away_again(make: Any) -> None:
    tools, framework = make()
    wide = tools.in_float64(linear(framework))
    weight = dict(tools.parameters(wide.model))["weight"]
    before, rows = tools.leaf(weight).bits.copy(), tools.leaf(wide(tensor(framework))).bits
    with tools.nudged(weight, np.full(before.shape, 0.5)):
        assert np.allclose(tools.leaf(weight).bits, before + 0.5)
        assert not np.allclose(tools.leaf(wide(tensor(framework))).bits, rows)
    assert tools.leaf(weight).bits.tobytes() == before.tobytes()
    given = tensor(framework)
    assert tools.leaf(tools.added(given, np.ones((2, 4)))).bits[0, 0] == 1.0 and tools.leaf(given).bits[0, 0] == 0.0


@BOTH
def test_what_an_optimizer_did_is_measured(make: Any) -> None:
    tools, framework = make()
    model = linear(framework)
    if framework.__name__ == "torch":
        optimizer = framework.optim.SGD(model.parameters(), lr=0.5)
    else:
        optimizer = framework.optimizer.SGD(0.5, parameters=model.parameters())
    before = tools.weights(model, optimizer)
    model(tensor(framework)).sum().backward()
    optimizer.step()
    moved = tools.moved(model, optimizer, before, before)
    assert moved.gradient_norm and moved.update_norm == pytest.approx(0.5 * moved.gradient_norm, rel=1e-5)
    assert moved.distance == moved.update_norm and moved.bad_gradients == 0 and moved.stuck == 0.0
    still = tools.weights(model, optimizer)
    assert tools.moved(model, optimizer, still, before).stuck == 1.0, "gradients, and no step since"


def test_arrays_of_numpy_are_leaves() -> None:
    for array, dtype in (
        (np.zeros(2, ">f4"), "float32"),
        (np.zeros(2, bool), "bool"),
        (np.zeros(2, "c16"), "complex128"),
    ):
        leaf = array_leaf(array)
        assert leaf is not None and leaf.dtype == dtype
    assert array_leaf(np.array(["text"])) is None


def test_nests_are_walked_and_changed() -> None:
    nest = {"a": [1, (2, {"b": 3})], "c": 4}
    assert dict(leaves(nest, "out")) == {"out.a.0": 1, "out.a.1.0": 2, "out.a.1.1.b": 3, "out.c": 4}
    assert changed_leaves(nest, lambda leaf: -leaf) == {"a": [-1, (-2, {"b": -3})], "c": -4}


@pytest.mark.filterwarnings("ignore")
def test_autocast_on_paddles_cpu_is_asked_for_and_not_there() -> None:
    tools, paddle = paddle_tools()
    with paddle.amp.auto_cast(level="O2", dtype="bfloat16"):
        seen = tools.autocast()
    assert (seen.asked, seen.enabled, seen.level, seen.dtype) == (True, False, "O2", "bfloat16")
    assert not tools.autocast().asked and "cpu" in tools.why_not_lowered()
    with paddle.amp.auto_cast(enable=False):
        assert not tools.autocast().asked


def test_calls_can_be_kept_in_float32_under_autocast() -> None:
    tools, torch = torch_tools()
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        with tools.lowered() as found:
            assert model(tensor(torch)).dtype is torch.bfloat16
        assert set(found) == {"torch.nn.functional.linear", "torch.nn.functional.relu"} or "torch.relu" in found
        with tools.keeping(["torch.nn.functional.linear"]):
            assert model(tensor(torch)).dtype is torch.float32
