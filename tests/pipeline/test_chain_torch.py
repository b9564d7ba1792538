"""Whole chains on torch: training, reload, export, inference; with a gold in float64, and the faults of each stage."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pipeline.probing_helpers import Chain, failures, pictures
from trueline.pipelines import StageKind
from trueline.records import Verdict

torch = pytest.importorskip("torch")


class Network(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.drop = torch.nn.Dropout(0.3)
        self.last = torch.nn.Linear(8 * 25, 6)

    def forward(self, batch: Any) -> Any:
        hidden = torch.relu(self.norm(self.conv(batch)))
        return torch.softmax(self.last(self.drop(hidden.flatten(1))), -1)


def batch() -> Any:
    return torch.from_numpy(pictures())


def trained(steps: int = 3) -> Any:
    model = Network().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(steps):
        images = torch.from_numpy(pictures(16, seed=step + 1))
        torch.nn.functional.nll_loss(model(images).log(), torch.arange(16) % 6).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()


@pytest.fixture
def chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chain:
    made = Chain(tmp_path, monkeypatch)
    with made.stage("train", StageKind.TRAIN) as probe:
        probe.start(Network())
        probe("eval", trained(), [batch()])
    return made


def after(chain: Chain, kind: StageKind, model: Any, given: Any = None, **settings: str) -> Any:
    name = str(kind)
    with chain.stage(name, kind, **settings) as probe:
        probe(name, model, [batch() if given is None else given])
    return chain.check("train", name)


def test_reload_is_exact(chain: Chain) -> None:
    found = after(chain, StageKind.EVAL, copy.deepcopy(trained()))
    assert not failures(found)
    assert "to the last bit" in found["outputs (eval)"].reason
    assert found["parameters (eval)"].verdict is Verdict.PASS
    assert found["against float64 (eval)"].numbers["error"] < 1e-6


def test_export_is_exact(chain: Chain) -> None:
    model = trained()
    shapes = {"batch": {0: torch.export.Dim("samples", min=1, max=64)}}
    exported = torch.export.export(model, (batch(),), dynamic_shapes=shapes).module()
    found = after(chain, StageKind.EXPORT, exported)
    assert not failures(found), found
    assert "to the last bit" in found["outputs (export)"].reason


def test_another_order_of_sums_passes_against_the_gold(chain: Chain) -> None:
    weights = {name: value.detach().double().numpy() for name, value in trained().state_dict().items()}
    model = trained()

    def runtime(images: Any) -> Any:
        """Every layer by other kernels: torch in float64, rounded after each, as another runtime would."""
        with torch.no_grad():
            wide = torch.nn.functional.conv2d(
                images.double(), torch.from_numpy(weights["conv.weight"]), torch.from_numpy(weights["conv.bias"]),
                padding=1,
            ).float()  # fmt: skip
            hidden = torch.relu(model.norm(wide)).flatten(1)
            last = hidden.double() @ torch.from_numpy(weights["last.weight"]).T + torch.from_numpy(weights["last.bias"])
            return torch.softmax(last.float(), -1).numpy()

    found = after(chain, StageKind.INFER, runtime)
    assert not failures(found), found
    outputs = found["outputs (infer)"]
    assert outputs.numbers["equal"] == 0.0 and 0.0 < outputs.numbers["error"] <= outputs.numbers["limit"] < 1e-5
    assert "float64 gold" in outputs.reason


def test_untrained_weights(chain: Chain) -> None:
    found = after(chain, StageKind.EXPORT, Network().eval())
    assert failures(found)["parameters (export)"] == failures(found)["outputs (export)"] == "export"


def test_one_step_too_few_is_found_in_the_weights(chain: Chain) -> None:
    found = after(chain, StageKind.EXPORT, trained(steps=2))
    assert failures(found)["parameters (export)"] == "export"


def test_missing_eval_in_a_later_stage(chain: Chain) -> None:
    found = after(chain, StageKind.INFER, trained().train())
    assert failures(found)["mode (infer)"] == "infer"
    assert {"repeated (infer)", "outputs (infer)"} <= failures(found).keys()
    assert set(failures(found).values()) == {"infer"}


def test_missing_eval_at_the_end_of_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = Chain(tmp_path, monkeypatch)
    with chain.stage("train", StageKind.TRAIN) as probe:
        probe("eval", trained().train(), [batch()])
    found = after(chain, StageKind.INFER, trained())
    assert failures(found)["mode (train: eval)"] == "train"
    assert "outputs (infer)" not in failures(found), (
        "the gold is that of evaluation mode, which the inference has right"
    )


def test_a_model_without_state_may_stay_in_training_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = Chain(tmp_path, monkeypatch)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(75, 6))
    for name, kind in (("train", StageKind.TRAIN), ("infer", StageKind.INFER)):
        with chain.stage(name, kind) as probe:
            probe(name, model, [batch()])
    found = chain.check("train", "infer")
    assert not failures(found) and found["mode (infer)"].verdict is Verdict.WARN


def test_a_dropped_bias(chain: Chain) -> None:
    model = trained()
    with torch.no_grad():
        model.last.bias.zero_()
    found = after(chain, StageKind.EXPORT, torch.export.export(model, (batch(),)).module())
    assert failures(found)["outputs (export)"] == "export"


def test_wrong_dtype_at_export(chain: Chain) -> None:
    model = trained().half()
    found = after(chain, StageKind.EXPORT, lambda images: model(images.half()).float())
    assert failures(found)["outputs (export)"] == "export"
    assert "those of float16 arithmetic" in found["outputs (export)"].reason
    found = after(chain, StageKind.INFER, model, batch().half())
    assert "parameter dtypes (infer)" in failures(found)


@pytest.mark.parametrize(("precision", "dtype"), [("fp16", "float16"), ("bf16", "bfloat16")])
def test_a_narrow_variant_passes_where_it_was_asked_for(chain: Chain, precision: str, dtype: str) -> None:
    kind = getattr(torch, dtype)
    model = trained().to(kind)
    found = after(chain, StageKind.INFER, model, batch().to(kind), precision=precision)
    assert not failures(found), found
    assert "scaled from float32" in found["outputs (infer)"].reason
    with torch.no_grad():
        model.last.bias += 0.5 * torch.arange(6).to(kind)
    wrong = after(chain, StageKind.INFER, model, batch().to(kind), precision=precision)
    assert failures(wrong)


def test_autocast_at_the_end_of_training_is_the_yardstick_of_its_own_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain, model = Chain(tmp_path, monkeypatch), trained()
    with chain.stage("train", StageKind.TRAIN, level="O1") as probe, torch.autocast("cpu", dtype=torch.bfloat16):
        probe("eval", model, [batch()])
    assert not failures(after(chain, StageKind.INFER, trained())), "float32 is nearer to the gold"


def test_outputs_of_a_predictor_may_lie_in_a_list(chain: Chain) -> None:
    model = trained()

    def predictor(images: np.ndarray[Any, Any]) -> Any:
        with torch.no_grad():
            return [model(torch.from_numpy(images)).numpy()]

    found = after(chain, StageKind.INFER, predictor, pictures())
    assert not failures(found)
    assert "to the last bit" in found["outputs (infer)"].reason
