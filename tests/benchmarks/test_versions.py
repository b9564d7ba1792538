"""The matrix of versions: what it says holds together, and what it says of failures is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import versions
from trueline.frameworks.torch.verified import LACKING, VERIFIED

GOOD: dict[str, Any] = {
    "tests": {"passed": 3, "failed": 0, "skipped": 1, "seconds": 1, "failures": {}},
    "identity": {"passed": 2, "failed": 0, "skipped": 0, "seconds": 1, "failures": {}},
    "demo": {"works": True},
    "way": "fast (tried out)",
}


def test_the_extensions_run_unasked_only_with_versions_that_passed() -> None:
    """Each entry of the table stands for a row of the matrix in which nothing failed on the fast way."""
    rows = json.loads(versions.JSON.read_text())
    for release, pythons in VERIFIED.items():
        for python in pythons:
            cells = rows[f"torch-{release}-py{python}"]
            assert cells["way"].startswith("fast"), (release, python)
            assert versions.reasons_against("", cells, rows) == [], (release, python)
    assert not {release.rpartition(".")[0] for release in VERIFIED} & set(LACKING)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tests": {"broken": "no report"}}, "tests: no report"),
        ({"identity": {"failed": 1}}, "identity: 1 failed"),
        ({"demo": {"works": False}}, "demo: the planted call was not named"),
        ({"not run": "no interpreter of Python 3.99"}, "not run: no interpreter of Python 3.99"),
        ({"faults": {"one": [False, ""]}}, "faults: 1 answers differ from those with torch 2.13"),
    ],
)
def test_why_a_row_is_not_supported(change: dict[str, Any], reason: str) -> None:
    rows = {versions.REFERENCE: {**GOOD, "faults": {"one": [True, "gelu.2.forward"]}}}
    assert versions.reasons_against("torch-9", GOOD | {"faults": rows[versions.REFERENCE]["faults"]}, rows) == []
    assert versions.reasons_against("torch-9", GOOD | change, rows) == [reason]


def test_a_stage_that_was_not_run_is_no_success() -> None:
    for stage in ("tests", "identity", "demo"):
        assert versions.reasons_against("torch-9", {**GOOD, stage: None}, {}) == [f"{stage}: not run"]


def test_the_page_says_how_many_answers_of_the_reference_are_right() -> None:
    faults = {"one": [True, "gelu.2.forward"], "other": [False, ""]}
    assert versions.right_faults({versions.REFERENCE: {"faults": faults}}) == ", where 1 of 2 are right"
    assert versions.right_faults({}) == ""


def test_rows_are_chosen_by_parts_of_their_names() -> None:
    assert [row.name for row in versions.chosen("torch-2.15-py3.12")] == ["torch-2.15.0-py3.12"]
    assert {row.framework for row in versions.chosen("paddle-3")} == {"paddle"}
    assert len({row.python for row in versions.chosen("torch-2.15")}) == 4
    assert versions.chosen("") == list(versions.ROWS)


def test_the_table_is_written_from_rows_without_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "verified.py"
    file.write_text(versions.TABLE.read_text())
    monkeypatch.setattr(versions, "TABLE", file)
    slow, failing = GOOD | {"way": "portable (its trial failed)"}, GOOD | {"identity": {"failed": 2}}
    rows = {"torch-2.13.0-py3.11": GOOD, "torch-2.8.0-py3.13": slow, "torch-2.15.0-py3.12": failing}
    versions.write_table(rows)
    space: dict[str, Any] = {}
    exec(file.read_text(), space)
    assert space["VERIFIED"] == {"2.13.0": ("3.11",)} and space["LACKING"] == LACKING


def test_a_missing_interpreter_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "interpreter_for", lambda python: None)
    row = versions.ROWS[0]
    assert versions.measure(row, None, (), {}) == {"not run": f"no interpreter of Python {row.python}"}


def test_a_slow_download_is_no_failure_of_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail(*_: Any) -> None:
        raise versions.Failed("not done within 300 s")

    monkeypatch.setattr(versions, "interpreter_for", lambda python: "python3")
    monkeypatch.setattr(versions.Environment, "make", fail)
    assert versions.smoke(tmp_path) == 0
    assert "not tried with torch" in capsys.readouterr().out


@pytest.mark.parametrize(("code", "answer"), [(0, 0), (1, 1), (2, 1)])
def test_a_capture_that_is_broken_is(
    code: int, answer: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(versions, "interpreter_for", lambda python: "python3")
    monkeypatch.setattr(versions.Environment, "make", lambda *_: None)
    monkeypatch.setattr(versions.Environment, "run", lambda *_: (code, "2 failed"))
    assert versions.smoke(tmp_path) == answer
