"""The campaign that is killed at random moments, small: nothing lost, nothing twice; and the proof can fail."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from benchmarks.million import corpus
from benchmarks.million.proof import prove

ROOT = Path(__file__).resolve().parents[2]
COUNT = 120


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign whose coordinator and workers were killed with SIGKILL, resumed each time, to its end."""
    folder = tmp_path_factory.mktemp("million")
    words = [sys.executable, "-m", "benchmarks.million", "--count", str(COUNT), "--kills", "3", "--workers", "2"]
    words += ["--folder", str(folder / "work"), "--results", str(folder), "--seed", "5"]
    words += ["--planning-seconds", "0.6"]  # before a framework can be imported, so that one kill is certain
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder


def test_nothing_is_lost_and_nothing_is_done_twice(campaign: Path) -> None:
    found = json.loads((campaign / "million.json").read_text())
    proof = found["proof"]
    assert found["holds"] and 1 <= found["kills_of_coordinator"] + found["kills_of_workers"] <= 3  # it may end before
    assert proof["faults"] == [] and proof["rows"] == COUNT and sum(proof["endings"].values()) == COUNT
    assert proof["endings"]["pass"] == COUNT - proof["otherwise"]
    assert COUNT <= proof["executed"] <= COUNT + proof["interrupted"] + found["may_repeat"]
    assert "every line in exactly one row | yes" in (campaign / "million.md").read_text()


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        ("DELETE FROM cases WHERE number = 50", "line 50 should have a row"),
        ("UPDATE cases SET ending = NULL WHERE number = 50", "line 50 has not ended"),
        ("UPDATE cases SET count = 2 WHERE number = 50", "line 50 should have a row for 1"),
        ("UPDATE cases SET ending = 'sulked' WHERE number = 50", "endings that are none"),
        ("INSERT INTO cases (key, line, count, ending) VALUES ('x', 'y:1', 1, 'pass')", "belong to no line"),
        ("UPDATE cases SET ending = 'mismatch' WHERE number IN (5, 6, 7, 8)", "otherwise than they must"),
        ("INSERT INTO flights VALUES (3)", "in flight"),
    ],
)
def test_the_proof_can_fail(damage: str, fault: str, campaign: Path, tmp_path: Path) -> None:
    work = campaign / "work"
    shutil.copy(work / "check" / "ledger.db", tmp_path / "ledger.db")
    connection = sqlite3.connect(tmp_path / "ledger.db")
    connection.execute(damage)
    connection.commit()
    connection.close()
    proof = prove(tmp_path / "ledger.db", work / "executions", work / "corpus.txt", COUNT, may_repeat=3)
    assert any(fault in text for text in proof.faults), proof.faults


def test_executions_that_nobody_ordered_are_seen(campaign: Path, tmp_path: Path) -> None:
    work = campaign / "work"
    shutil.copytree(work / "executions", tmp_path / "executions")
    (tmp_path / "executions" / "0").write_bytes((7).to_bytes(4, "little") * 9)
    proof = prove(work / "check" / "ledger.db", tmp_path / "executions", work / "corpus.txt", COUNT)
    assert any("more often than they were in flight" in text for text in proof.faults)


def test_every_line_of_the_corpus_is_expected_once() -> None:
    """Past the first lines of every kind."""
    count = 10_300
    lines = list(corpus.expected(count))
    assert sum(line.count for line in lines) == count
    assert sum(not line.readable for line in lines) == 1 and sum(line.count == 2 for line in lines) == 10
    for framework in corpus.LINES:
        texts = {corpus.line(number, framework) for number in range(1, count + 1)}
        assert len(texts) == len(lines)
