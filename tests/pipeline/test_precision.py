"""Proof of precision: operators, parameter dtypes, checkpoints, and the health of a single training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.probing_helpers import Chain, failures
from trueline.pipeline.recording import append_line, write_json
from trueline.pipelines import CheckKind, StageKind
from trueline.records import Verdict

FULL = {"low": {}, "other": {"addmm": 12, "relu": 3}, "parameters": {"float32": 6}, "autocast": {"asked": False}}
LOWERED = {
    "low": {"addmm": 12},
    "other": {"softmax": 3},
    "parameters": {"float32": 6},
    "autocast": {"asked": True, "enabled": True, "dtype": "bfloat16"},
}
CAST = {**LOWERED, "parameters": {"bfloat16": 4, "float32": 2}, "masters": True}
NOWHERE = {**FULL, "autocast": {"asked": True}, "unsupported": "autocast does nothing on paddle:cpu"}


@pytest.fixture
def chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chain:
    return Chain(tmp_path, monkeypatch)


def training(chain: Chain, name: str, precision: str, facts: Any, lines: Any = (), digest: str = "") -> None:
    with chain.stage(name, StageKind.TRAIN, level=precision):
        pass
    folder = chain.run(name).probe
    folder.mkdir(parents=True)
    if facts is not None:
        write_json(folder / "training.json", facts)
    for number, line in enumerate(lines):
        append_line(folder / "history.jsonl", {"step": number, **line})
    if digest:
        append_line(folder / "checkpoints.jsonl", {"path": f"{name}/latest.pt", "sha256": digest})


@pytest.mark.parametrize(
    ("precision", "facts", "failed"),
    [
        ("O1", LOWERED, set()),
        ("O2", CAST, set()),
        ("amp", LOWERED, set()),
        ("amp", CAST, set()),
        ("fp32", FULL, set()),
        ("O1", FULL, {"low-precision ops"}),
        ("O2", LOWERED, {"parameter dtypes"}),
        ("O2", FULL, {"low-precision ops", "parameter dtypes"}),
        ("O1", CAST, {"parameter dtypes"}),
        ("fp32", LOWERED, {"low-precision ops"}),
        ("fp32", CAST, {"low-precision ops", "parameter dtypes"}),
    ],
)
def test_what_was_asked_must_have_taken_place(chain: Chain, precision: str, facts: Any, failed: set[str]) -> None:
    training(chain, "amp", precision, facts)
    found = chain.check(None, "amp", CheckKind.PRECISION)
    assert failures(found) == dict.fromkeys(failed, "amp")
    if not failed:
        assert found["low-precision ops"].verdict is Verdict.PASS


def test_a_device_that_lowers_nothing_is_neither_pass_nor_failure(chain: Chain) -> None:
    training(chain, "amp", "O1", NOWHERE)
    found = chain.check(None, "amp", CheckKind.PRECISION)["low-precision ops"]
    assert found.verdict is Verdict.NOT_COMPARED
    assert "did not take place" in found.reason and "paddle:cpu" in found.reason


def test_a_program_that_never_asked_fails_there_too(chain: Chain) -> None:
    training(chain, "amp", "O1", {**NOWHERE, "autocast": {"asked": False}})
    found = chain.check(None, "amp", CheckKind.PRECISION)
    assert "never entered autocast" in found["low-precision ops"].reason
    assert failures(found) == {"low-precision ops": "amp"}


def test_no_proof_is_not_compared(chain: Chain) -> None:
    training(chain, "amp", "O1", None)
    found = chain.check(None, "amp", CheckKind.PRECISION)
    assert found["precision"].verdict is Verdict.NOT_COMPARED and "probe.step" in found["precision"].reason


@pytest.mark.parametrize(
    ("digest", "facts", "verdict"),
    [("aa", LOWERED, Verdict.FAIL), ("bb", LOWERED, Verdict.PASS), ("aa", NOWHERE, Verdict.NOT_COMPARED)],
)
def test_a_checkpoint_identical_to_float32(chain: Chain, digest: str, facts: Any, verdict: Verdict) -> None:
    training(chain, "norm", "fp32", FULL, digest="aa")
    training(chain, "amp", "O1", facts, digest=digest)
    assert chain.check("norm", "amp", CheckKind.PRECISION)["checkpoint"].verdict is verdict


STEP = {"loss": 1.0, "gradient_norm": 1.0, "update_norm": 0.1, "distance": 1.0, "stuck": 0.0, "scale": 1024.0}


@pytest.mark.parametrize(
    ("change", "name", "verdict"),
    [
        ({}, "loss scale", Verdict.PASS),
        ({"stuck": 0.99}, "lost updates", Verdict.FAIL),
        ({"stuck": 0.7}, "lost updates", Verdict.WARN),
        ({"loss": float("nan")}, "loss", Verdict.FAIL),
        ({"scale": 0.5}, "loss scale", Verdict.FAIL),
        ({"update_norm": 0.0, "bad_gradients": 4}, "loss scale", Verdict.FAIL),
    ],
)
def test_the_health_of_a_training(chain: Chain, change: Any, name: str, verdict: Verdict) -> None:
    training(chain, "amp", "O1", LOWERED, [{**STEP, **change}] * 6)
    found = chain.check(None, "amp", CheckKind.PRECISION)
    assert found[name].verdict is verdict
    assert ("lost updates" in found) == ("stuck" in change)


def test_facts_that_cannot_be_read_are_no_proof(chain: Chain, tmp_path: Path) -> None:
    training(chain, "amp", "O1", LOWERED)
    (chain.run("amp").probe / "training.json").write_text(json.dumps(LOWERED)[:20])
    found = chain.check(None, "amp", CheckKind.PRECISION)
    assert found["precision"].verdict is Verdict.NOT_COMPARED
