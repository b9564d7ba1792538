"""``trueline show`` on a Run on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.runs import FAULTY
from trueline.cli.main import main


def test_run_tells_what_is_in_it(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(runs / "bad")]) == 0
    text = capsys.readouterr().out
    assert "python train.py" in text
    assert "26 calls" in text
    assert "0-1" in text
    assert "Certificate" in text
    (row,) = [row.split() for row in text.splitlines() if row.endswith(" torch.tanh")]
    assert row[:2] == ["12", "2"]


def test_call_tells_arguments_statistics_and_source(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(runs / "bad"), FAULTY, "--step", "1"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(FAULTY)
    assert "torch.tanh(<float32[16, 32]>)" in text
    assert "model.py:42 in forward" in text
    assert "16x32" in text


def test_backward_call_names_its_forward(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(runs / "good"), "torch.tanh.0.backward", "--step", "0"]) == 0
    text = capsys.readouterr().out
    assert "forward  #11 torch.tanh(<float32[16, 32]>)" in text
    assert "model.py:45 in forward" in text


def test_many_matches_are_listed(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(runs / "good"), "matmul"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("12 calls match 'matmul'")
    assert text.count("torch.matmul.") == 12


def test_json_of_run_and_call(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(runs / "good"), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["calls"], content["ranks"], content["steps"]) == (26, [0], {"0": [0, 1]})
    assert main(["show", str(runs / "good"), FAULTY, "--json"]) == 0
    calls = json.loads(capsys.readouterr().out)
    assert [call["step"] for call in calls] == [0, 1]
    assert calls[0]["tensors"][0]["statistics"]["count"] == 512


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["torch.nothing"], "has no call 'torch.nothing'"),
        (["--step", "9"], "has no step 9; it has 0, 1"),
        (["--rank", "3"], "has no rank 3; it has 0"),
    ],
)
def test_what_is_not_there_is_said(
    words: list[str], message: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(runs / "good"), *words]) == 2
    assert message in capsys.readouterr().err
