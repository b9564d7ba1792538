"""Cases judged where they were measured, and rows written together: the same rows as one by one."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

import trueline
from tests.campaign import records
from tests.campaign.test_ledger import CALIBRATED, CASES, IDENTITY, ask, plan
from trueline.campaign.jobs import JUDGE_JOBS, judging_payload
from trueline.campaign.ledger import COMMIT_SECONDS, LEDGER_FILE, Ledger, judgement
from trueline.campaign.ledger_file import LOCK_FILE, is_being_written
from trueline.events import CaseEnded
from trueline.judge.checks import check_standard_named, judge_case
from trueline.replay.serial import written_measured

LINES = """
torch.tanh(Tensor([4, 16],"float32"), )
torch.nn.functional.gelu(Tensor([4, 16],"float64"), )
torch.add(Tensor([2, 3],"float32"), Tensor([4, 7],"float32"), )
torch.floor(Tensor([5],"float32"), )
"""
_ROWS = (
    "SELECT key, ending, verdict, reason, score, simulated, "
    "json_remove(measured_json, '$.candidate.seconds', '$.reference.seconds') FROM cases"
)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text(LINES)
    return path


def test_workers_judge_as_the_coordinator_does(corpus: Path, tmp_path: Path) -> None:
    """A standard that ships is asked for by its name; one that is an object cannot leave this process."""
    told: list[CaseEnded] = []
    here, there = tmp_path / "here", tmp_path / "there"
    trueline.check(corpus, target="torch:cpu", workers=1, out=there, on_case=told.append)
    trueline.check(corpus, target="torch:cpu", workers=1, out=here, standard=check_standard_named("calibrated"))
    assert ask(here, _ROWS) == ask(there, _ROWS) and len(told) == 4
    assert all(event.worked > event.seconds >= 0.0 for event in told if event.ending == "pass")
    assert {event.line.rpartition(":")[2] for event in told} == {"2", "3", "4", "5"}


def test_a_case_is_sent_as_it_stands_in_the_ledger() -> None:
    assert judging_payload("00ff", '{"api":"x"}') == '{"key":"00ff","case":{"api":"x"}}'
    assert JUDGE_JOBS.startswith("trueline.campaign.jobs:")


def row(number: int) -> tuple[int, Any, str]:
    case = CASES[number]
    measured = records.measured(case.key)
    return number + 1, judgement(judge_case(case, measured, CALIBRATED)), written_measured(measured)


def test_rows_that_are_written_together_are_final_too(tmp_path: Path) -> None:
    with Ledger(tmp_path / "check", IDENTITY) as ledger:
        plan(ledger)
        list(ledger.waiting())
        ledger.write(*row(0))
        ledger.write(*row(2))
        assert ledger.unfinished()[0] == 1, "what is not written out yet counts all the same"
        ledger.write(*row(0))
        with pytest.raises(AssertionError, match="has ended before"):
            ledger.commit()
    assert ask(tmp_path / "check", "SELECT number FROM cases WHERE ending IS NOT NULL") == [(1,), (3,)]
    assert ask(tmp_path / "check", "SELECT number FROM flights") == [(2,)]


def test_a_result_waits_for_no_other(tmp_path: Path) -> None:
    """It is committed soon, and whoever reads sees it while the check goes on."""
    with Ledger(tmp_path / "check", IDENTITY) as ledger:
        plan(ledger)
        ledger.write(*row(1))
        deadline = time.monotonic() + 20 * COMMIT_SECONDS
        reader = sqlite3.connect(f"file:{tmp_path / 'check' / LEDGER_FILE}?mode=ro", uri=True)
        try:
            while not reader.execute("SELECT COUNT(*) FROM cases WHERE ending IS NOT NULL").fetchone()[0]:
                assert time.monotonic() < deadline, "nobody committed it"
                time.sleep(0.02)
        finally:
            reader.close()


def test_a_lock_that_a_killed_check_left_is_nobodys(tmp_path: Path) -> None:
    folder = tmp_path / "check"
    folder.mkdir()
    (folder / LOCK_FILE).touch()
    assert not is_being_written(folder)
    with Ledger(folder, IDENTITY) as ledger:
        plan(ledger)
        assert is_being_written(folder)
    assert not is_being_written(folder)


def test_waiting_cases_are_found_by_an_index_that_has_their_order(tmp_path: Path) -> None:
    """Of a million of them none is sorted."""
    with Ledger(tmp_path / "check", IDENTITY) as ledger:
        plan(ledger)
        asked: list[str] = []
        ledger.connection.set_trace_callback(asked.append)
        list(ledger.waiting())
        ledger.unfinished()
        ledger.connection.set_trace_callback(None)
        questions = [text for text in asked if text.startswith("SELECT")]
        plans = [str(ledger.connection.execute(f"EXPLAIN QUERY PLAN {text}").fetchall()) for text in questions]
    assert len(plans) >= 3 and all("case_waiting" in text and "B-TREE" not in text for text in plans), plans
