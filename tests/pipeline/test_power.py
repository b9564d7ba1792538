"""Outputs that cannot tell: whatever agrees there never passes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pipeline.probing_helpers import Chain, failures, linear_model, pictures, worst
from trueline.pipeline.power import Power, why_blind
from trueline.pipelines import StageKind
from trueline.records import Verdict

Array = np.ndarray[Any, Any]


def one_hot(batch: Array) -> Array:
    return np.eye(4, dtype=np.float32)[[2] * len(batch)]


def several_hot(batch: Array) -> Array:
    return np.eye(4, dtype=np.float32)[np.arange(len(batch)) % 4]


BLIND: dict[str, Callable[[Array], Array]] = {
    "zeros": lambda batch: np.zeros((len(batch), 4), np.float32),
    "constant": lambda batch: np.full((len(batch), 4), 0.3, np.float32),
    "all samples alike": lambda batch: np.tile(np.float32([0.1, 0.2, 0.7]), (len(batch), 1)),
    "one class": one_hot,
    "saturated": several_hot,
    "tanh at its ends": lambda batch: several_hot(batch) * 2.0 - 1.0,
    "NaN": lambda batch: np.full((len(batch), 4), np.nan, np.float32),
    "some NaN": lambda batch: np.where(np.arange(4) == 1, np.nan, linear_model(classes=4)(batch)).astype(np.float32),
    "infinite": lambda batch: np.full((len(batch), 4), np.inf, np.float32),
    "empty": lambda batch: np.zeros((0, 4), np.float32),
    "no classes": lambda batch: np.zeros((len(batch), 0), np.float32),
}


@pytest.fixture
def chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chain:
    monkeypatch.chdir(tmp_path)
    return Chain(tmp_path, monkeypatch)


def by_hook(chain: Chain, model: Any, batch: Array) -> Any:
    for name, kind in (("train", StageKind.TRAIN), ("infer", StageKind.INFER)):
        with chain.stage(name, kind) as probe:
            probe(name, model, [batch])
    return chain.check("train", "infer")


def by_readers(chain: Chain, model: Any, batch: Array) -> Any:
    for name, kind in (("train", StageKind.TRAIN), ("infer", StageKind.INFER)):
        with chain.stage(name, kind):
            np.save(f"{name}.npy", model(batch))
    readers = {name: {"outputs": {"npy": f"{name}.npy"}} for name in ("train", "infer")}
    return chain.check("train", "infer", readers=readers)


@pytest.mark.parametrize("name", BLIND)
@pytest.mark.parametrize("way", [by_hook, by_readers])
@pytest.mark.parametrize("count", [1, 2, 6])
def test_what_cannot_tell_never_passes(chain: Chain, way: Any, name: str, count: int) -> None:
    found = way(chain, BLIND[name], pictures(count))
    assert worst(list(found.values())) >= Verdict.NOT_COMPARED


@pytest.mark.parametrize("way", [by_hook, by_readers])
def test_one_sample_never_passes(chain: Chain, way: Any) -> None:
    found = way(chain, linear_model(), pictures(1))
    assert found["outputs" if "outputs" in found else "outputs (infer)"].verdict is Verdict.NOT_COMPARED
    assert any("one sample" in finding.reason for finding in found.values())


@pytest.mark.parametrize("way", [by_hook, by_readers])
def test_what_can_tell_passes(chain: Chain, way: Any) -> None:
    assert worst(list(way(chain, linear_model(), pictures(6)).values())) is Verdict.PASS


@pytest.mark.parametrize("way", [by_hook, by_readers])
def test_what_cannot_tell_still_fails_where_it_differs(chain: Chain, way: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = iter((one_hot, *[several_hot] * 20)) if way is by_readers else None
    model = (lambda batch: next(turns)(batch)) if turns is not None else None
    if model is None:
        with chain.stage("train", StageKind.TRAIN) as probe:
            probe("eval", one_hot, [pictures()])
        with chain.stage("infer", StageKind.INFER) as probe:
            probe("infer", several_hot, [pictures()])
        found: Any = chain.check("train", "infer")
    else:
        found = by_readers(chain, model, pictures())
    assert "infer" in failures(found).values()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([0.7], ""), ([1.0], "it is 1"), ([0.25, 0.25], "all 2 are 0.25"), ([0.25, 0.5], ""), ([0.0, 1.0, 0.0], ""),
        ([[0.2, 0.8]], "one sample"), ([[0.2, 0.8], [0.2, 0.8]], "samples give the same"),
        ([[0.0, 1.0], [1.0, 0.0]], "saturated"), ([[0.0, 1.0], [0.9, 0.1]], ""),
        ([[1e6, 2e6], [1e6, 2e6 + 1]], "samples give the same"), ([np.nan, np.nan], "none is finite"),
    ],
)  # fmt: skip
def test_what_is_seen_of_numbers_alone(values: Any, words: str) -> None:
    found = why_blind(np.array(values, np.float64))
    assert words in found and bool(words) == bool(found)


def test_layers_that_do_not_show() -> None:
    seen = Power({"a": 1e-2, "b": 1e-3, "c": 1e-9, "d": 0.0}, 0.1)
    assert seen.unseen(1e-6) == ["c", "d"] and seen.why_blind(1e-6) == ""
    assert "3 of 4 layers" in seen.why_blind(5e-3) and "b for one" in seen.why_blind(5e-3)
    assert "inputs moved" in Power({"a": 1.0}, 0.0).why_blind(1e-6)
    assert Power({"a": 1.0}, None).why_blind(1e-6) == ""


def network(framework: str, sharp: float) -> tuple[Any, Any]:
    """A classifier and its batch; the sharper, the nearer is its softmax to zeros and ones."""
    tools: Any = pytest.importorskip(framework)
    (tools.manual_seed if framework == "torch" else tools.seed)(0)
    layers, batch = tools.nn, pictures(4).reshape(4, -1)

    class Net(layers.Module if framework == "torch" else layers.Layer):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = layers.Linear(75, 16), layers.Linear(16, 5)

        def forward(self, values: Any) -> Any:
            hidden = self.second(layers.functional.relu(self.first(values)))
            return layers.functional.softmax(sharp * hidden, -1)

    model = Net()
    model.eval()
    return model, tools.from_numpy(batch) if framework == "torch" else tools.to_tensor(batch)


@pytest.mark.parametrize("framework", ["torch", "paddle"])
@pytest.mark.parametrize("sharp", [1.0, 3000.0])
def test_the_hook_measures_what_shows(chain: Chain, framework: str, sharp: float) -> None:
    model, batch = network(framework, sharp)
    weights = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    with chain.stage("train", StageKind.TRAIN) as probe:
        probe("eval", model, batch)
    with chain.stage("infer", StageKind.INFER) as probe:
        probe("infer", lambda values: model(values), batch)
    assert all((value.numpy() == weights[name]).all() for name, value in model.state_dict().items())
    found = chain.check("train", "infer")
    power, outputs = found["power (train: eval)"], found["outputs (infer)"]
    if sharp == 1.0:
        assert power.verdict is Verdict.PASS and power.numbers["seen"] == power.numbers["layers"] == 4
        assert outputs.verdict is Verdict.PASS
    else:
        assert power.verdict is outputs.verdict is Verdict.NOT_COMPARED
        assert "cannot tell" in power.reason and "cannot tell" in outputs.reason
