"""The contract between stages, on models of numpy's: no framework, so no gold; bits, shapes, sizes, labels, lineage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pipeline.probing_helpers import Chain, failures, linear_model, pictures
from trueline.errors import UsageError
from trueline.pipeline.contract import check_stage
from trueline.pipeline.recording import points_in
from trueline.pipelines import CheckKind, Stage, StageKind
from trueline.records import Verdict
from trueline.store import open_run

Array = np.ndarray[Any, Any]


def softmax(values: Array) -> Array:
    powers = np.exp(values - values.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True), np.float32)


@pytest.fixture
def chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chain:
    return Chain(tmp_path, monkeypatch)


def two_stages(chain: Chain, model: Any, other: Any, batch: Array | None = None, **settings: str) -> Any:
    with chain.stage("train", StageKind.TRAIN) as probe:
        probe("eval", model, [pictures()], metrics={"top1": 0.75})
    with chain.stage("infer", StageKind.INFER, **settings) as probe:
        probe("infer", other, [pictures() if batch is None else batch], metrics={"top1": 0.75})
    return chain.check("train", "infer")


def test_equal_stages_pass_and_say_what_was_measured(chain: Chain) -> None:
    found = two_stages(chain, linear_model(), linear_model())
    assert not failures(found)
    assert "to the last bit" in found["outputs (infer)"].reason
    assert found["inputs (infer)"].verdict is Verdict.PASS
    assert found["labels (infer)"].numbers["count"] == 8
    assert {
        "batch 1 (infer)",
        "batch 3 (infer)",
        "order (infer)",
        "repeated (infer)",
        "metric top1 (infer)",
    } <= found.keys()


def test_a_probe_is_a_run(chain: Chain, tmp_path: Path) -> None:
    two_stages(chain, linear_model(), linear_model())
    with open_run(tmp_path / "train" / "probe" / "eval") as run:
        calls = list(run.rank(0).trace())
        modules = [call.module for call in calls if call.module != "again"]  # which depends on the matrix product here
        assert modules == ["batch", "size 1", "size 3", "order"]
        assert run.rank(0).certificate.complete
        kept = run.rank(0).tensor(calls[0].inputs[0])
        assert kept.tobytes() == pictures().tobytes()


def test_rounding_passes_and_a_thousandth_does_not(
    chain: Chain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = linear_model()
    found = two_stages(chain, model, lambda batch: model(batch) * np.float32(1.000001))
    assert not failures(found)
    assert found["outputs (infer)"].numbers["equal"] == 0.0
    other = Chain(tmp_path / "other", monkeypatch)
    found = two_stages(other, model, lambda batch: model(batch) * np.float32(1.001))
    assert failures(found) == {"outputs (infer)": "infer"}
    assert "1.001 times the right one" in found["outputs (infer)"].reason


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("normalisation", lambda batch: batch * 2.0 + 0.5, "2 times the right one, plus 0.5"),
        ("channels", lambda batch: batch[:, ::-1], "the channels are in reverse order"),
        ("axes", lambda batch: batch.transpose(0, 2, 3, 1), "in the order (0, 2, 3, 1)"),
    ],
)
def test_wrong_preparation_is_blamed_on_the_stage(chain: Chain, name: str, change: Any, words: str) -> None:
    batch = np.ascontiguousarray(change(pictures()), np.float32)
    found = two_stages(chain, linear_model(), linear_model(), batch)
    assert failures(found) == {"inputs (infer)": "infer"}, name
    assert words in found["inputs (infer)"].reason
    assert found["outputs (infer)"].verdict is Verdict.NOT_COMPARED


def test_a_second_softmax_is_named(chain: Chain) -> None:
    model = linear_model()
    found = two_stages(chain, lambda batch: softmax(model(batch)), lambda batch: softmax(softmax(model(batch))))
    assert "outputs (infer)" in failures(found)
    assert "a softmax was applied once more" in found["outputs (infer)"].reason


def test_a_missing_bias_is_named(chain: Chain) -> None:
    model = linear_model()
    bias = np.arange(6, dtype=np.float32)
    found = two_stages(chain, lambda batch: model(batch) + bias, model)
    assert "a bias is missing" in found["outputs (infer)"].reason


def test_nan_is_blamed_on_the_first_stage_that_has_it(chain: Chain) -> None:
    model = linear_model()

    def broken(batch: Array) -> Array:
        made = model(batch)
        made[0, 0] = np.nan
        return made

    found = two_stages(chain, model, broken)
    assert failures(found)["finite (infer)"] == "infer" and failures(found)["outputs (infer)"] == "infer"
    with chain.stage("infer2", StageKind.INFER) as probe:
        probe("infer", broken, [pictures()])
    later = chain.check("infer", "infer2")
    assert "finite (infer)" not in failures(later), "what came from the stage before is not its fault"
    assert later["finite (infer)"].blamed == "infer"


def test_a_fault_that_was_there_before_is_not_blamed_again(chain: Chain) -> None:
    """Samples that depend on each other: the export is wrong, and the inference does what it is told."""
    model = linear_model()
    with chain.stage("train", StageKind.TRAIN) as probe:
        probe("eval", model, [pictures()])
    with chain.stage("export", StageKind.EXPORT) as probe:
        probe("export", lambda batch: softmax(model(batch).T).T, [pictures()])
    with chain.stage("infer", StageKind.INFER) as probe:
        probe("infer", lambda batch: np.concatenate([softmax(model(one[None]).T).T for one in batch]), [pictures()])
    assert set(failures(chain.check("train", "export")).values()) == {"export"}
    found = chain.check("export", "infer")
    assert not failures(found)
    assert found["outputs (infer)"].verdict is Verdict.WARN and found["outputs (infer)"].blamed == "export"


def test_a_shape_that_is_built_in_is_found(chain: Chain) -> None:
    model = linear_model()

    def fixed(batch: Array) -> Array:
        if len(batch) != 8:
            raise ValueError(f"expected 8 samples, got {len(batch)}")
        return np.asarray(model(batch))

    found = two_stages(chain, model, fixed)
    assert failures(found) == {"batch 1 (infer)": "infer", "batch 3 (infer)": "infer"}
    assert "expected 8 samples" in found["batch 1 (infer)"].reason


def test_a_wrong_batch_axis_is_found(chain: Chain) -> None:
    model = linear_model()
    found = two_stages(chain, model, lambda batch: np.ascontiguousarray(model(batch).T))
    assert failures(found)["shape (infer)"] == "infer"
    assert "in the order (1, 0)" in found["shape (infer)"].reason


def test_a_constant_that_is_built_in_is_found_by_the_order(chain: Chain) -> None:
    model = linear_model()
    answers = model(pictures())
    found = two_stages(chain, model, lambda batch: answers[: len(batch)])
    assert failures(found) == {"order (infer)": "infer"}


def test_outputs_that_are_not_by_sample_are_not_compared_over_sizes(chain: Chain) -> None:
    model = linear_model()
    found = two_stages(chain, lambda batch: model(batch).sum(), lambda batch: model(batch).sum())
    assert not failures(found)
    assert found["batch 1 (infer)"].verdict is found["order (infer)"].verdict is Verdict.NOT_COMPARED
    assert found["outputs (infer)"].verdict is Verdict.PASS


def test_randomness_is_found(chain: Chain) -> None:
    model, random = linear_model(), np.random.default_rng(3)
    found = two_stages(
        chain, model, lambda batch: np.asarray(model(batch) * (random.random((len(batch), 6)) > 0.5), np.float32)
    )
    assert failures(found)["repeated (infer)"] == "infer"
    assert "dropout" in found["repeated (infer)"].reason


def test_a_narrow_output_must_have_been_asked_for(
    chain: Chain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = linear_model()

    def half(batch: Array) -> Array:
        return np.asarray(model(batch), np.float16)

    found = two_stages(chain, model, half)
    assert "dtype (infer)" in failures(found)
    asked = two_stages(Chain(tmp_path / "asked", monkeypatch), model, half, precision="fp16")
    assert not failures(asked)


def test_errors_of_a_narrower_dtype_are_not_rounding_of_float32(chain: Chain) -> None:
    model = linear_model()
    found = two_stages(chain, model, lambda batch: model(batch).astype(np.float16).astype(np.float32))
    assert failures(found) == {"outputs (infer)": "infer"}


def test_batches_of_one_sample_are_put_together(chain: Chain) -> None:
    model = linear_model()
    with chain.stage("train", StageKind.TRAIN) as probe:
        probe("eval", model, [pictures()])
    with chain.stage("infer", StageKind.INFER) as probe:
        probe("infer", model, [pictures()[place : place + 1] for place in range(4)])
    found = chain.check("train", "infer")
    assert not failures(found)
    assert found["labels (infer)"].numbers["count"] == 4


def test_labels_that_change_are_found_even_where_numbers_hardly_do(chain: Chain) -> None:
    model = linear_model()

    def swapped(batch: Array) -> Array:
        made = np.array(model(batch))
        best = made.argmax(-1)
        made[np.arange(len(made)), (best + 1) % 6] = made[np.arange(len(made)), best] + 1.0
        return made

    found = two_stages(chain, model, swapped)
    assert failures(found)["labels (infer)"] == "infer"
    assert found["labels (infer)"].numbers["changed"] == 8


def test_metrics_must_agree(chain: Chain) -> None:
    model = linear_model()
    with chain.stage("train", StageKind.TRAIN) as probe:
        probe("eval", model, [pictures()], labels=model(pictures()).argmax(-1), metrics={"top1": 0.9, "loss": 1.25})
    with chain.stage("infer", StageKind.INFER) as probe:
        probe("infer", model, [pictures()], metrics={"top1": 0.1, "loss": 1.25})
    found = chain.check("train", "infer")
    assert failures(found) == {"metric top1 (infer)": "infer"}
    assert found["labels (infer)"].numbers["accuracy"] == 1.0


def test_a_stale_probe_is_found(chain: Chain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_stages(chain, linear_model(), linear_model())
    old = chain.run("infer").probe
    with chain.stage("infer2", StageKind.INFER):
        pass  # wrote nothing itself
    chain.run("infer2").probe.parent.mkdir(parents=True, exist_ok=True)
    old.rename(chain.run("infer2").probe)
    found = chain.check("train", "infer2")
    assert failures(found) == {"file (infer)": "infer2"}
    facts = chain.run("infer2").probe / "infer.json"
    facts.write_text(facts.read_text().replace('"stage": "infer"', '"stage": "infer2"'))
    found = chain.check("train", "infer2")
    assert "before the stage began" in found["file (infer)"].reason


def test_stale_checkpoints_are_found(chain: Chain, tmp_path: Path) -> None:
    model, file = linear_model(), tmp_path / "latest.bin"
    with chain.stage("train", StageKind.TRAIN) as probe:
        file.write_bytes(b"epoch 1")
        probe.checkpoint(file)
        early = file.read_bytes()
        file.write_bytes(b"epoch 2")
        probe.checkpoint(file)
        probe("eval", model, [pictures()])
    for name, content, verdict, words in (
        ("right", b"epoch 2", Verdict.PASS, "wrote last"),
        ("stale", early, Verdict.FAIL, "stale"),
        ("other", b"of last week", Verdict.FAIL, "another training"),
    ):
        with chain.stage(name, StageKind.EXPORT) as probe:
            file.write_bytes(content)
            probe.checkpoint(file)
            probe("export", model, [pictures()])
        found = chain.check("train", name)
        assert found["checkpoint"].verdict is verdict
        assert words in found["checkpoint"].reason


def test_a_stage_without_a_probe_is_not_compared(chain: Chain) -> None:
    with chain.stage("train", StageKind.TRAIN) as probe:
        probe("eval", linear_model(), [pictures()])
    with chain.stage("infer", StageKind.INFER):
        pass
    found = chain.check("train", "infer")
    assert found["outputs"].verdict is Verdict.NOT_COMPARED
    assert "trueline.probe" in found["outputs"].reason


def test_a_script_that_left_a_probe_elsewhere_must_leave_one_here(chain: Chain) -> None:
    for name, kind in (("train", StageKind.TRAIN), ("infer", StageKind.INFER)):
        with chain.stage(name, kind) as probe:
            probe(name, linear_model(), [pictures()])
    with chain.stage("infer", StageKind.INFER):
        pass  # the same script once more, which shows an old log and ends
    first, second = (run for run in chain.runs if run.stage.name == "infer")
    second = replace(second, stage=replace(second.stage, name="infer3"), probe=second.probe.with_name("nowhere"))
    chain.runs[-1] = second
    found = chain.check("train", "infer3", siblings=(first, second))
    assert failures(found) == {"outputs": "infer3"} and "computed nothing" in found["outputs"].reason


def test_a_damaged_probe_is_not_compared(chain: Chain, tmp_path: Path) -> None:
    two_stages(chain, linear_model(), linear_model())
    for file in (tmp_path / "infer" / "probe" / "infer" / "rank0").iterdir():
        file.unlink()
    found = chain.check("train", "infer")
    assert found["probe (infer)"].verdict is Verdict.NOT_COMPARED
    assert found.keys() == {"probe (infer)"} | {name for name in found if "eval)" in name}


def test_a_check_of_neighbours_needs_two(chain: Chain) -> None:
    two_stages(chain, linear_model(), linear_model())
    node = Stage("check", StageKind.CHECK, check=CheckKind.NEIGHBOURS)
    with pytest.raises(UsageError, match="two stages"):
        check_stage(node, None, chain.run("infer"), {})


def test_points_come_in_the_order_in_which_they_were_written(chain: Chain) -> None:
    with chain.stage("export", StageKind.EXPORT) as probe:
        probe("reload", linear_model(), [pictures()])
        probe("export", linear_model(), [pictures()])
        probe("export", linear_model(), [pictures()])
    assert [point.name for point in points_in(chain.run("export").probe)] == ["reload", "export", "export-2"]
