"""Chains on Paddle: training, reload, export; and mixed precision that does not take place on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.probing_helpers import Chain, failures, pictures
from trueline.pipeline.history import read_history
from trueline.pipelines import CheckKind, StageKind
from trueline.records import Verdict

paddle = pytest.importorskip("paddle")

pytestmark = pytest.mark.filterwarnings("ignore")


def network(seed: int = 0) -> Any:
    paddle.seed(seed)
    nn = paddle.nn
    return nn.Sequential(
        nn.Conv2D(3, 8, 3, padding=1), nn.BatchNorm2D(8), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(200, 6)
    )


def train(probe: Any, *, amp: bool = False, steps: int = 3) -> Any:
    model = network()
    optimizer = paddle.optimizer.Momentum(0.05, parameters=model.parameters())
    probe.start(model, optimizer)
    for step in range(steps):
        images = paddle.to_tensor(pictures(12, seed=step + 1))
        with paddle.amp.auto_cast(enable=amp, level="O1"):
            loss = paddle.nn.functional.cross_entropy(model(images), paddle.arange(12) % 6)
        loss.backward()
        optimizer.step()
        probe.step(loss=loss, model=model, optimizer=optimizer)
        optimizer.clear_grad()
    model.eval()
    return model


@pytest.fixture
def chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chain:
    return Chain(tmp_path, monkeypatch)


def test_a_chain_from_training_to_the_exported_model(chain: Chain, tmp_path: Path) -> None:
    batch = paddle.to_tensor(pictures())
    with chain.stage("train", StageKind.TRAIN) as probe:
        model = train(probe)
        before = paddle.get_rng_state()[0].current_seed()
        probe("eval", model, [batch])
        assert paddle.get_rng_state()[0].current_seed() == before
        paddle.save(model.state_dict(), str(tmp_path / "latest.pdparams"))
        probe.checkpoint(tmp_path / "latest.pdparams")
    with chain.stage("export", StageKind.EXPORT) as probe:
        again = network(5)
        probe.checkpoint(tmp_path / "latest.pdparams")
        again.set_state_dict(paddle.load(str(tmp_path / "latest.pdparams")))
        again.eval()
        probe("reload", again, [batch])
        spec = [paddle.static.InputSpec([None, 3, 5, 5], "float32")]
        paddle.jit.save(again, str(tmp_path / "inference"), input_spec=spec)
        probe("export", paddle.jit.load(str(tmp_path / "inference")), [batch])
    found = chain.check("train", "export")
    assert not failures(found), found
    assert found["checkpoint"].verdict is Verdict.PASS
    assert "to the last bit" in found["outputs (export: reload)"].reason
    assert found["outputs (export)"].verdict <= Verdict.WARN
    assert found["against float64 (train: eval)"].numbers["error"] < 1e-6

    with chain.stage("wrong", StageKind.EXPORT) as probe:
        other = network(5)
        other.eval()
        probe("reload", other, [batch])
    wrong = failures(chain.check("train", "wrong"))
    assert wrong["parameters (export: reload)"] == wrong["outputs (export: reload)"] == "wrong"

    with chain.stage("mode", StageKind.EXPORT) as probe:
        again.train()
        probe("reload", again, [batch])
    assert failures(chain.check("train", "mode"))["mode (export: reload)"] == "mode"


def test_the_history_says_how_far_weights_went(chain: Chain) -> None:
    with chain.stage("train", StageKind.TRAIN) as probe:
        train(probe, steps=4)
    steps = read_history(chain.run("train").probe)
    assert len(steps) == 4 and all(step.gradient_norm and step.update_norm and step.loss for step in steps)
    assert steps[0].update_norm == pytest.approx(0.05 * (steps[0].gradient_norm or 0.0), rel=1e-3)


def test_mixed_precision_on_the_cpu_is_reported_as_not_having_taken_place(chain: Chain) -> None:
    for name, amp in (("norm", False), ("amp", True), ("off", False)):
        with chain.stage(name, StageKind.TRAIN, level="fp32" if name == "norm" else "O1") as probe:
            model = train(probe, amp=amp)
            probe("eval", model, [paddle.to_tensor(pictures())])
    found = chain.check("norm", "amp", CheckKind.PRECISION)
    operators = found["low-precision ops"]
    assert operators.verdict is Verdict.NOT_COMPARED
    assert "O1 did not take place" in operators.reason and "CPU" in operators.reason.upper()
    assert operators.numbers["other"] > 10 and operators.numbers["low"] == 0
    assert found["checkpoint"].verdict is Verdict.NOT_COMPARED, "identical to float32, as nothing took place"
    assert failures(chain.check("norm", "off", CheckKind.PRECISION)) == {
        "low-precision ops": "off",
        "checkpoint": "off",
    }
    assert not failures(chain.check(None, "norm", CheckKind.PRECISION))
    assert not failures(chain.check("norm", "amp", CheckKind.PAIR))
