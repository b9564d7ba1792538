"""The hook in a script: what it leaves, and that it leaves the program alone."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pipeline.probing_helpers import linear_model, pictures
from trueline.errors import UsageError
from trueline.pipeline.history import read_history
from trueline.pipeline.probe import Probe
from trueline.pipeline.recording import Point, points_in, read_lines

torch = pytest.importorskip("torch")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRUELINE_PROBE_DIR", str(tmp_path / "probe"))
    monkeypatch.setenv("TRUELINE_STAGE", "train")
    return tmp_path / "probe"


def network(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(75, 32), torch.nn.BatchNorm1d(32), torch.nn.ReLU(),
        torch.nn.Dropout(0.2), torch.nn.Linear(32, 6),
    )  # fmt: skip


def train(probe: Probe, model: Any, steps: int = 4, *, rate: float = 0.1, autocast: bool = False) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    random = torch.Generator().manual_seed(7)
    losses = []
    probe.start(model)
    for _ in range(steps):
        images, labels = torch.randn(16, 3, 5, 5, generator=random), torch.randint(6, (16,), generator=random)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        probe.step(loss=loss, model=model, optimizer=optimizer)
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return losses


def test_without_the_variable_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRUELINE_PROBE_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    probe = Probe()
    calls = []
    probe("eval", lambda batch: calls.append(batch), [pictures()])
    probe.start(network())
    probe.step(loss=1.0)
    probe.checkpoint(tmp_path / "nothing")
    assert not calls and not list(tmp_path.iterdir())


def test_other_ranks_leave_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    Probe()("eval", linear_model(), [pictures()])
    assert not folder.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("../eval", linear_model(), [1]), "no name"),
        (("eval", None, [1]), "a model to run, or the outputs"),
        (("eval", 3, [1]), "callable"),
        (("eval", linear_model(), []), "at least one batch"),
    ],
)
def test_wrong_arguments_are_said_at_once(folder: Path, arguments: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Probe()(*arguments)


def test_the_program_is_left_as_it_was(folder: Path) -> None:
    model = network().train()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    seen = torch.get_rng_state()
    Probe()("eval", model, [torch.randn(8, 3, 5, 5, generator=torch.Generator().manual_seed(1))])
    assert torch.equal(torch.get_rng_state(), seen)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert model.training and all(one.grad is None for one in model.parameters())


def test_training_is_the_same_with_and_without(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_probe, model = network(), network()
    torch.manual_seed(3)
    losses = train(Probe(), with_probe)
    monkeypatch.delenv("TRUELINE_PROBE_DIR")
    torch.manual_seed(3)
    assert train(Probe(), model) == losses
    assert all(torch.equal(one, other) for one, other in zip(with_probe.parameters(), model.parameters(), strict=True))


def test_the_history_of_a_training(folder: Path) -> None:
    losses = train(Probe(), network(), steps=5)
    steps = read_history(folder)
    assert [step.loss for step in steps] == pytest.approx(losses)
    assert all(step.update_norm and step.gradient_norm for step in steps)
    assert all(step.update_norm == pytest.approx(0.1 * (step.gradient_norm or 0), rel=1e-4) for step in steps)
    assert steps[-1].distance is not None and steps[-1].update_norm is not None
    assert steps[-1].distance > steps[-1].update_norm
    assert all((step.stuck or 0.0) < 0.05 and not step.skipped for step in steps)


def test_the_operators_of_one_step_are_counted(folder: Path) -> None:
    train(Probe(), network(), steps=3, autocast=True)
    facts = json.loads((folder / "training.json").read_text())
    assert facts["low"]["addmm"] >= 2, "both linear layers"
    assert any("backward" in name for name in (*facts["low"], *facts["other"]))
    assert facts["autocast"] == {"asked": True, "enabled": True, "level": "", "dtype": "bfloat16"}
    assert facts["parameters"]["float32"] > 0


def test_nothing_is_low_in_float32(folder: Path) -> None:
    train(Probe(), network(), steps=3)
    facts = json.loads((folder / "training.json").read_text())
    assert not facts["low"] and facts["other"] and not facts["autocast"]["asked"]


def test_a_point_has_its_gold_and_its_facts(folder: Path) -> None:
    model = network().eval()
    labels = torch.tensor([0, 1, 2, 3, 4, 5, 0, 1])
    Probe()("eval", model, [torch.from_numpy(pictures())], labels=labels, metrics={"top1": 0.5}, level="O1")
    (point,) = points_in(folder)
    assert point.facts["gold"] == "" and point.facts["training"] is False
    assert point.facts["labels"] == labels.tolist() and point.facts["level"] == "O1"
    gold = point.sections["gold"][0].outputs["out"]
    made = point.sections["batch"][0].outputs["out"]
    assert gold.dtype == "float64" and made.dtype == "float32"
    apart = np.abs(gold.bits - made.bits).max()
    assert 0.0 < apart < 1e-5
    assert point.parameters["1.weight"].digest is not None
    assert not point.parameters["1.weight"].stored


def test_a_model_in_training_mode_has_a_gold_in_evaluation_mode(folder: Path) -> None:
    Probe()("eval", network().train(), [torch.from_numpy(pictures())])
    (point,) = points_in(folder)
    assert point.facts["training"] is True
    gold, made = point.sections["gold"][0].outputs["out"], point.sections["batch"][0].outputs["out"]
    assert np.abs(gold.bits - made.bits).max() > 0.1


def test_what_the_model_raises_is_kept_and_goes_no_further(folder: Path) -> None:
    def broken(batch: Any) -> Any:
        raise RuntimeError("no kernel for this\nand more")

    Probe()("infer", broken, [pictures()])
    (point,) = points_in(folder)
    assert point.sections["batch"][0].raised == "RuntimeError: no kernel for this"


def test_a_fault_of_ours_is_a_warning_and_a_note(folder: Path) -> None:
    folder.mkdir()
    (folder / "eval").write_text("in the way")
    (folder / "eval").chmod(0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        Probe()("eval", lambda batch: object(), [object()])
    points = points_in(folder)
    assert points and (points[0].trouble or not points[0].sections["batch"][0].outputs)
    assert len(said) <= 1


def test_outputs_that_are_there_already(folder: Path) -> None:
    model = linear_model()
    Probe()("infer", None, [pictures()], outputs=[{"scores": model(pictures()), "name": "ignored"}])
    (point,) = points_in(folder)
    assert list(point.sections) == ["batch"]
    assert list(point.sections["batch"][0].outputs) == ["out.scores"]


def test_what_the_script_got_is_taken_as_it_is(folder: Path) -> None:
    """The model is not asked for it a second time, only for what the script did not ask."""
    asked: list[int] = []

    def model(batch: Any) -> Any:
        asked.append(len(batch))
        return batch * 2.0

    batch = np.arange(16, dtype=np.float32).reshape(8, 2)
    Probe()("infer", model, [batch], outputs=[batch * 3.0])
    (point,) = points_in(folder)
    assert list(point.sections) == ["batch", "again", "size 1", "size 3", "order"]
    assert np.array_equal(point.sections["batch"][0].outputs["out"].bits, batch * 3.0)
    assert np.array_equal(point.sections["again"][0].outputs["out"].bits, batch * 2.0)
    assert asked == [8, 8, 1, 3, 3]  # in reverse, once more, the sizes; the last one is looked at, not kept


def test_what_its_reverse_has_shown_is_not_asked_again(folder: Path) -> None:
    batch = np.arange(16, dtype=np.float32).reshape(8, 2)
    counts = iter(range(100))
    models: dict[str, Any] = {
        "same": lambda batch: batch * 2.0,
        "drifting": lambda batch: batch + np.float32(next(counts)),
        "summing": lambda batch: (batch, batch.sum()),
        "nan": lambda batch: batch * np.float32("nan"),
    }
    for name, model in models.items():
        Probe()(name, model, [batch])
    once = {point.name for point in points_in(folder) if "again" not in point.sections}
    assert once == {"same", "nan"}


def test_operators_are_counted_where_a_training_must_prove_its_precision(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = network().eval()
    for kind in ("train", "infer"):
        monkeypatch.setenv("TRUELINE_STAGE_KIND", kind)
        Probe()(kind, model, torch.ones(4, 75))
    counted = {point.name: point.facts.get("other") for point in points_in(folder)}
    assert counted["train"] and counted["infer"] is None


def test_operators_are_counted_on_what_the_model_takes(folder: Path) -> None:
    class Fixed(torch.nn.Linear):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            return super().forward(batch.reshape(4, 2))

    Probe()("eval", Fixed(2, 2).eval(), torch.ones(4, 2))
    (point,) = points_in(folder)
    assert point.sections["size 3"][0].raised and point.facts["other"]


def test_dicts_and_tuples_are_arguments(folder: Path) -> None:
    def model(first: Any, second: Any = None) -> Any:
        return (first + second, [first * 2.0])

    probe = Probe()
    one, other = np.ones((4, 2), np.float32), np.full((4, 2), 2.0, np.float32)
    probe("tuple", model, (one, other))
    probe("dict", model, {"first": one, "second": other})
    by_name = {point.name: point for point in points_in(folder)}
    assert list(by_name["tuple"].sections["batch"][0].inputs) == ["args.0", "args.1"]
    assert list(by_name["dict"].sections["batch"][0].inputs) == ["kwargs.first", "kwargs.second"]
    for point in by_name.values():
        assert list(point.sections["batch"][0].outputs) == ["out.0", "out.1.0"]
        assert point.sections["size 3"][0].outputs["out.0"].bits.shape == (3, 2)


def test_checkpoints_are_digested(folder: Path, tmp_path: Path) -> None:
    probe = Probe()
    (tmp_path / "a.bin").write_bytes(b"weights")
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "b.bin").write_bytes(b"weights")
    for path in (tmp_path / "a.bin", tmp_path / "saved", tmp_path / "missing.bin"):
        probe.checkpoint(path)
    first, second, third = read_lines(folder / "checkpoints.jsonl")
    assert first["sha256"] != second["sha256"] and first["bytes"] == second["bytes"] == 7
    assert third["missing"]


def test_losses_that_are_not_finite_survive(folder: Path) -> None:
    probe = Probe()
    model = network()
    for loss in (1.0, math.nan, math.inf):
        probe.step(loss=loss, model=model)
    losses = [step.loss for step in read_history(folder)]
    assert losses[0] == 1.0 and math.isnan(losses[1] or 0.0) and losses[2] == math.inf
    assert read_history(folder)[0].gradient_norm is None


def test_bfloat16_and_float16_keep_their_bits(folder: Path) -> None:
    model = torch.nn.Linear(75, 4).to(torch.bfloat16).eval()
    batch = torch.from_numpy(pictures()).flatten(1).to(torch.bfloat16)
    Probe()("eval", model, [batch])
    point = Point(folder / "eval")
    made = point.sections["batch"][0].outputs["out"]
    assert made.dtype == "bfloat16"
    with torch.no_grad():
        assert made.bits.tobytes() == model(batch).view(torch.uint16).numpy().tobytes()
    assert point.sections["gold"][0].outputs["out"].dtype == "float64"
