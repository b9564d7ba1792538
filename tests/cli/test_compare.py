"""``trueline compare`` on Runs on disk."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.cli.runs import FAULTY
from trueline.cli.main import main


def test_equal_runs_are_clean(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(runs / "good"), str(runs / "same"), "--no-replay"]) == 0
    assert capsys.readouterr().out.startswith("PASS  ")


def test_fault_is_named_with_module_line_and_next_command(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(runs / "good"), str(runs / "bad"), "--no-replay"]) == 1
    text = capsys.readouterr().out
    assert text.startswith(f"FAIL  {FAULTY} in layers.2 went wrong first")
    assert "model.py:42 in forward" in text
    assert f"trueline show {runs / 'bad'} {FAULTY} --step 1" in text


def test_files_are_written_and_named(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {kind: tmp_path / f"report.{kind}" for kind in ("csv", "json", "html")}
    options = [word for kind, file in files.items() for word in (f"--{kind}", str(file))]
    assert main(["compare", str(runs / "good"), str(runs / "bad"), "--no-replay", *options]) == 1
    assert "written: " in capsys.readouterr().out
    content = json.loads(files["json"].read_text())
    assert content["origin"]["call"]["name"] == FAULTY
    with open(files["csv"], newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["Verdict"] == "FAIL"]
    assert rows[0]["NPU Name"] == "Torch_tanh_2_forward_output"
    assert FAULTY in files["html"].read_text()
    assert {file.name for file in tmp_path.iterdir()} == {file.name for file in files.values()}


@pytest.mark.parametrize("option", [["--json"], ["--json", "-"]])
def test_json_goes_to_standard_output_alone(option: list[str], runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(runs / "good"), str(runs / "bad"), "--no-replay", *option]) == 1
    assert json.loads(capsys.readouterr().out)["verdict"] == "FAIL"


def test_one_step_can_be_chosen(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(runs / "good"), str(runs / "bad"), "--step", "0", "--no-replay"]) == 0
    assert main(["compare", str(runs / "good"), str(runs / "bad"), "--step", "7", "--no-replay"]) == 2
    assert "no step in common" in capsys.readouterr().err


def test_nothing_measured_is_no_clean_bill(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(runs / "good"), str(runs / "bare")]) == 2
    assert capsys.readouterr().out.startswith("NOT COMPARED  Nothing could be compared")


def test_unknown_standard_lists_the_known_ones(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(runs / "good"), str(runs / "bad"), "--standard", "nice"]) == 2
    assert "honest" in capsys.readouterr().err


def test_report_into_a_missing_folder_says_so(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "nowhere" / "r.html"
    assert main(["compare", str(runs / "good"), str(runs / "bad"), "--no-replay", "--html", str(target)]) == 2
    assert "does not exist" in capsys.readouterr().err
