"""Two kept checks held against each other, and checks against a baseline."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from trueline.campaign.diff import APPEARED, CHANGED, FIXED, GONE, NEW, diff_checks
from trueline.cli.main import main

KERNELS = """
import torch
def wrong(x): return torch.tanh(x) * 1.01
def right(x): return torch.tanh(x)
def raises(x): raise ValueError(f"no kernel at {id(x)}")
def raises_otherwise(x): raise ValueError("out of ideas")
"""
LINES = ['torch.tanh(Tensor([4, 5],"float32"), )', 'torch.exp(Tensor([4, 5],"float32"), )',
         'torch.sin(Tensor([4, 5],"float32"), )']  # fmt: skip


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "lines.txt").write_text("\n".join(LINES) + "\n")
    return tmp_path


def check(out: str, kernel: str, *words: str, lines: str = "lines.txt", api: str = "torch.tanh") -> int:
    module = "moods" if kernel == "moody" else "kernels"
    override = ["--override", f"{api}={module}:{kernel}"] if kernel else []
    return main(["check", lines, "--target", "torch:cpu", "--workers", "0", "--out", out, *override, *words])


def test_what_began_to_fail_is_new_and_what_stopped_is_fixed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check("good", "") == 0
    assert check("bad", "wrong") == 1
    capsys.readouterr()
    assert main(["diff", "good", "bad", "--csv", "d.csv"]) == 1
    text = capsys.readouterr().out
    assert text.startswith("NEW FAILURES  1 case") and "torch.tanh  pass -> mismatch" in text
    rows = list(csv.DictReader((place / "d.csv").read_text(encoding="utf-8").splitlines()))
    assert [(row["kind"], row["api"], row["line"]) for row in rows] == [(NEW, "torch.tanh", "lines.txt:1")]
    assert main(["diff", "bad", "good", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["counts"] == {NEW: 0, FIXED: 1, CHANGED: 0, APPEARED: 0, GONE: 0} and content["same"] == 2
    assert [one["old_ending"] for one in content["cases"]] == ["mismatch"]


def test_another_error_is_told_and_another_address_is_not(place: Path) -> None:
    check("first", "raises")
    check("second", "raises")
    check("third", "raises_otherwise")
    check("wrong", "wrong")
    same = diff_checks("first", "second")
    assert (same.known, same.same, sum(same.counts.values())) == (1, 2, 0)
    for other in ("third", "wrong"):
        diff = diff_checks("first", other)
        assert (diff.counts[CHANGED], diff.new_failures, diff.known) == (1, 0, 1)


def test_cases_that_come_and_go(place: Path) -> None:
    check("first", "wrong")
    (place / "lines.txt").write_text("\n".join([*LINES[1:], 'torch.cos(Tensor([4, 5],"float32"), )']))
    check("second", "")
    diff = diff_checks("first", "second")
    assert {one.kind: one.api for one in diff.differences()} == {GONE: "torch.tanh", APPEARED: "torch.cos"}
    assert diff.new_failures == 0


def test_a_new_case_that_fails_is_a_new_failure(place: Path) -> None:
    (place / "short.txt").write_text(LINES[1])
    check("first", "", lines="short.txt")
    check("second", "wrong")
    assert {one.kind: one.api for one in diff_checks("first", "second").differences((NEW,))} == {NEW: "torch.tanh"}


def test_cases_whose_key_changed_are_known_by_their_line(place: Path) -> None:
    """Another seed draws other numbers for the same lines."""
    check("first", "wrong")
    check("second", "wrong", "--seed", "7")
    diff = diff_checks("first", "second")
    assert (diff.known, diff.same, sum(diff.counts.values())) == (1, 2, 0)


def test_known_failures_are_no_findings_against_a_baseline(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check("release", "wrong") == 1
    capsys.readouterr()
    assert check("today", "wrong", "--baseline", "release") == 0
    assert "0 new failures, 1 known" in capsys.readouterr().out
    assert check("tomorrow", "wrong", "--baseline", "release", api="torch.sin") == 1
    assert "1 new failures, 0 known, 1 fixed" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [["diff", "nowhere", "lines.txt"], ["check", "lines.txt", "--target", "torch:cpu", "--baseline", "nowhere"],
     ["check", "lines.txt", "--target", "torch:cpu", "--retry", "crashed"],
     ["check", "lines.txt", "--target", "torch:cpu", "--out", "x", "--retry", "sulked"],
     ["check", "lines.txt", "--target", "torch:cpu", "--variants", "huge"],
     ["check", "lines.txt", "--target", "torch:cpu", "--mode", "guess"]],
)  # fmt: skip
def test_mistakes_are_one_line(words: list[str], place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert not (place / "x").exists()


def test_endings_that_were_taken_back_run_again(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "state").write_text("raise")
    (place / "moods.py").write_text(
        "import torch\ndef moody(x):\n    if open('state').read() == 'raise': raise ValueError('no')\n"
        "    return torch.tanh(x)\n"
    )
    assert check("kept", "moody") == 1
    (place / "state").write_text("work")
    assert check("kept", "moody") == 1  # what has ended stays
    assert check("kept", "moody", "--retry", "crashed,timed-out") == 1
    assert check("kept", "moody", "--retry", "target_raises") == 0
    assert check("kept", "moody", "--retry", "all") == 0
