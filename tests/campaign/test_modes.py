"""Modes by name, and what they make of a check."""

from __future__ import annotations

from pathlib import Path

import pytest

from trueline.campaign.check import check
from trueline.campaign.modes import MODES, REPEAT_JOBS, RUN_JOBS, apply_mode, mode_named
from trueline.cases import Target
from trueline.errors import UsageError
from trueline.records import Verdict


@pytest.mark.parametrize(
    "text",
    ["paddle:cpu+static", "paddle:gpu:1/float32+cinn", "torch:cuda+compile", "torch:cpu+amp-bfloat16",
     "paddle:cpu/bfloat16+simulated", "paddle:cpu/bfloat16+simulated+static"],
)  # fmt: skip
def test_a_target_says_how(text: str) -> None:
    assert str(Target.parse(text)) == text


def test_how_is_known_apart_from_the_dtype() -> None:
    target = Target.parse("paddle:cpu/bfloat16+simulated+static")
    assert (target.dtype, target.simulated, target.how) == ("bfloat16", True, "static")
    assert Target.parse("torch:cpu+amp-float16").autocast == "float16"
    assert Target.parse("torch:cpu+compile").autocast == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("torch:cpu+static", "+compile"),
        ("paddle:cpu+compile", "+static"),
        ("paddle:cpu+static+cinn", "may be one of"),
        ("paddle:cpu+amp", "+amp-bfloat16"),
        ("torch:cpu+", "may be one of"),
        ("torch:cpu+simulated", "float32 simulates narrower types"),
        ("torch+compile", "is not a target"),
    ],
)
def test_a_wrong_target_is_told(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        Target.parse(text)
    assert said in str(caught.value)


def test_every_mode_has_a_name_and_can_be_asked_for() -> None:
    assert all(mode_named(name).name == name for name in MODES)


@pytest.mark.parametrize("text", ["accurate", "static:3", "stability:1", "stability:x", "amp:float64", ""])
def test_a_wrong_mode_is_told(text: str) -> None:
    with pytest.raises(UsageError):
        mode_named(text)


def test_accuracy_changes_nothing() -> None:
    asked = apply_mode("accuracy", "paddle:cpu", "torch:cpu", "allclose")
    assert (asked.target, asked.reference, asked.standard) == ("paddle:cpu", "torch:cpu", "allclose")
    assert dict(asked.setup) == {}


def test_graphs_are_the_target_alone() -> None:
    asked = apply_mode("static", "paddle:cpu")
    assert (asked.target, asked.reference) == ("paddle:cpu+static", None)
    assert apply_mode("compile", "torch:cpu+compile").target == "torch:cpu+compile"


def test_autocast_is_on_both_sides() -> None:
    asked = apply_mode("amp:float16", "paddle:gpu", "torch:cuda")
    assert (asked.target, asked.reference) == ("paddle:gpu+amp-float16", "torch:cuda+amp-float16")
    assert apply_mode("amp", "torch:cpu").reference == "torch:cpu/float64+amp-bfloat16"


def test_modes_with_jobs_of_their_own() -> None:
    assert apply_mode("target-only", "paddle:cpu").jobs == RUN_JOBS
    asked = apply_mode("stability:7", "paddle:cpu")
    assert (asked.jobs, dict(asked.setup), str(asked.mode)) == (REPEAT_JOBS, {"repeats": 7}, "stability:7")


@pytest.mark.parametrize(
    ("mode", "target", "reference", "standard"),
    [
        ("static", "torch:cpu", None, "calibrated"),
        ("compile", "paddle:cpu", None, "calibrated"),
        ("static", "paddle:cpu+cinn", None, "calibrated"),
        ("accuracy", "paddle:cpu", "paddle:cpu+static", "calibrated"),
        ("stability", "paddle:cpu", None, "allclose"),
    ],
)
def test_what_does_not_fit_together_is_told(mode: str, target: str, reference: str | None, standard: str) -> None:
    with pytest.raises(UsageError):
        apply_mode(mode, target, reference, standard)


def test_what_passes_where_nothing_was_compared_says_so() -> None:
    assert "NOT COMPARED" in mode_named("target-only").word(Verdict.PASS)
    assert "NOT JUDGED" in mode_named("tolerance").word(Verdict.PASS)
    assert mode_named("target-only").word(Verdict.FAIL) == "FAIL"
    assert mode_named("static").word(Verdict.PASS) == "PASS"


def test_tolerances_need_a_folder(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text('torch.exp(Tensor([2],"float32"), )\n', encoding="utf-8")
    pytest.importorskip("torch")
    with pytest.raises(UsageError, match="--out FOLDER"):
        check(tmp_path / "lines.txt", target="torch:cpu", mode="tolerance")
