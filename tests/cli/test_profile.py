"""``trueline profile`` as it is typed."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.profiles import info, result, side, timed
from trueline.campaign import profile as campaign
from trueline.campaign.profile import ProfileReport
from trueline.cli.main import main
from trueline.profiles import Ratio
from trueline.records import Verdict

PASSED = result(timed(side(1e-3), side(1e-3), Ratio(1.0, 0.9, 1.1)))
SLOW = result(timed(side(2e-3), side(1e-3), Ratio(2.0, 1.9, 2.1)), Verdict.FAIL, reason="twice")
WRONG = result(timed(side(1e-3), side(1e-3), Ratio(1.0, 0.9, 1.1)), accuracy=Verdict.FAIL)
UNTIMED = result(timed(side(None), side(1e-3)), Verdict.NOT_COMPARED, reason="raised")
ALONE = result(timed(side(1e-3), None), Verdict.NOT_COMPARED, reason="nothing to hold it against")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the library was asked for; it answers with ``results``."""
    seen: dict[str, Any] = {"results": [PASSED]}

    def profile(source: Any, **options: Any) -> ProfileReport:
        seen.update(source=source, **options)
        return ProfileReport(info(against=options.get("against") or "", check="x" if seen.get("joined") else ""),
                             seen["results"])  # fmt: skip

    monkeypatch.setattr(campaign, "profile", profile)
    return seen


def test_options_reach_the_library(asked: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["profile", "runs/a", "--target", "torch:cuda", "--against", "torch:cpu", "--limit-time", "1.5"]
    words += ["--limit-memory", "2", "--override", "torch.relu=mine:relu", "--threads", "3", "--step-seconds", "0.5"]
    assert main([*words, "--check", "checks/a"]) == 0
    assert asked["source"] == ["runs/a"] and asked["against"] == "torch:cpu" and asked["limit_time"] == 1.5
    assert asked["limit_memory"] == 2 and asked["overrides"] == {"torch.relu": "mine:relu"}
    assert asked["check_folder"] == "checks/a" and asked["step_seconds"] == 0.5 and asked["threads"] == 3
    assert "budget" not in asked  # defaults live in the library
    assert "none beyond the limits" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("results", "against", "code"),
    [
        ([PASSED], "torch:cpu", 0),
        ([PASSED, UNTIMED], "torch:cpu", 0),
        ([PASSED, SLOW], "torch:cpu", 1),
        ([WRONG], "torch:cpu", 1),
        ([UNTIMED], "torch:cpu", 2),
        ([], "torch:cpu", 2),
        ([ALONE], "", 0),
        ([UNTIMED], "", 2),
    ],
)
def test_exit_codes(asked: dict[str, Any], results: list[Any], against: str, code: int) -> None:
    asked["results"] = results
    words = ["profile", "runs/a", "--target", "torch:cuda"]
    assert main([*words, *(["--against", against] if against else [])]) == code


def test_files_are_written(asked: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked["results"], asked["joined"] = [SLOW], True
    words = ["profile", "runs/a", "--target", "torch:cuda", "--against", "torch:cpu"]
    words += ["--csv", str(tmp_path / "all.csv"), "--apex-csv", str(tmp_path / "apex")]
    words += ["--json", str(tmp_path / "a.json")]
    assert main(words) == 1
    assert json.loads((tmp_path / "a.json").read_text())["format"] == "trueline-profile"
    assert sorted(path.name for path in (tmp_path / "apex").iterdir()) == [
        "memory_checking_result.csv", "prof_checking_result.csv", "prof_summary.csv",
    ]  # fmt: skip
    with open(tmp_path / "all.csv", newline="", encoding="utf-8") as stream:
        assert len(list(csv.reader(stream))) == 2
    assert "written:" in capsys.readouterr().out


def test_the_page_is_written_and_that_of_a_check_by_performance_as_well(asked: dict[str, Any], tmp_path: Path) -> None:
    for number, words in enumerate((["profile"], ["check", "--mode", "performance"])):
        file = tmp_path / f"{number}.html"
        assert main([*words, "runs/a", "--target", "torch:cpu", "--html", str(file)]) in (0, 1, 2)
        page = file.read_text(encoding="utf-8")
        assert page.startswith("<!doctype html>") and 'class="profile"' in page


def test_json_on_standard_output_is_alone(asked: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "runs/a", "--target", "torch:cuda", "--against", "torch:cpu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "PASS"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--target", "torch:cpu"], "no source"),
        (["nowhere", "--target", "torch:cpu"], "nowhere"),
        (["nowhere", "--target", "cuda"], "not a target"),
        (["nowhere", "--target", "torch:cpu", "--against", "gpu"], ""),
        (["nowhere", "--target", "torch:cpu", "--limit-time", "0.5"], "at least 1"),
        (["nowhere", "--target", "torch:cpu", "--budget", "0"], "more than 0"),
        (["nowhere", "--target", "torch:cpu", "--threads", "0"], "at least 1 thread"),
        (["nowhere", "--target", "torch:cpu", "--limit-tme", "2"], "did you mean --limit-time"),
    ],
)
def test_what_cannot_be_done_is_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    assert main(["profile", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("trueline profile: ") and said in error and error.count("\n") == 1


def test_the_mode_of_a_check_is_a_profile(asked: dict[str, Any], tmp_path: Path) -> None:
    words = ["--target", "paddle:cpu", "--reference", "torch:cpu", "--mode", "performance"]
    assert main(["check", "lines.txt", *words, "--out", str(tmp_path / "p")]) == 0
    assert (asked["target"], asked["against"], asked["out"]) == ("paddle:cpu", "torch:cpu", str(tmp_path / "p"))


def test_what_a_profile_cannot_do_is_told(asked: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--target", "paddle:cpu", "--mode", "performance", "--draws", "3"]
    assert main(["check", "lines.txt", *words]) == 2
    assert "has no --draws" in capsys.readouterr().err
