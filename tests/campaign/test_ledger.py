"""The ledger of a check: final rows, one owner, and the memory of what was asked for."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.campaign import records
from trueline.campaign.ledger import CHECK_FILE, LEDGER_FILE, Ledger, read_check
from trueline.cases import CheckInfo
from trueline.errors import UsageError

IDENTITY = {"target": "torch:cpu", "seed": 0, "overrides": {"torch.relu": "k:relu abc"}}
INFO = CheckInfo(("runs/a",), "torch:cpu", "torch:cpu/float64", "calibrated", {}, 0, "now", "1", "2", 3)
CASES = [records.case(number) for number in range(3)]


def write(folder: Path, finished: int) -> None:
    with Ledger(folder, IDENTITY) as ledger:
        ledger.plan(CASES)
        ledger.write_info(INFO)
        for case in CASES[:finished]:
            ledger.record(records.measured(case.key))


@pytest.mark.parametrize("kept", [True, False])
def test_rows_are_in_order_and_final(kept: bool, tmp_path: Path) -> None:
    with Ledger(tmp_path / "check" if kept else None, IDENTITY) as ledger:
        ledger.plan(CASES)
        assert ledger.finished() == frozenset()
        ledger.record(records.measured(CASES[1].key))
        assert ledger.finished() == {CASES[1].key}
        rows = list(ledger.rows())
    assert [case.key for case, _ in rows] == [case.key for case in CASES]
    assert [measured is not None for _, measured in rows] == [False, True, False]
    assert repr(rows[1][1]) == repr(records.measured(CASES[1].key))


def test_a_check_goes_on_in_its_folder(tmp_path: Path) -> None:
    write(tmp_path / "check", 2)
    with Ledger(tmp_path / "check", IDENTITY) as ledger:
        ledger.plan(CASES)
        assert ledger.finished() == {case.key for case in CASES[:2]}


def test_a_shorter_plan_shows_its_cases_only(tmp_path: Path) -> None:
    write(tmp_path / "check", 3)
    with Ledger(tmp_path / "check", IDENTITY) as ledger:
        ledger.plan(CASES[:1])
        assert len(list(ledger.rows())) == 1
        ledger.plan(CASES)
        assert all(measured for _, measured in ledger.rows())


@pytest.mark.parametrize(
    ("name", "value"), [("target", "torch:cuda"), ("seed", 1), ("overrides", {"torch.relu": "k:relu def"})]
)
def test_another_check_in_the_same_folder_is_refused(name: str, value: object, tmp_path: Path) -> None:
    write(tmp_path / "check", 1)
    with pytest.raises(UsageError, match=f"another {name}.*choose another folder"):
        Ledger(tmp_path / "check", {**IDENTITY, name: value})
    write(tmp_path / "check", 1)


def test_two_checks_at_once_in_one_folder_are_refused(tmp_path: Path) -> None:
    with (
        Ledger(tmp_path / "check", IDENTITY),
        pytest.raises(UsageError, match="another check is writing"),
    ):
        Ledger(tmp_path / "check", IDENTITY)


def test_folders_that_hold_something_else_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("dear")
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="something other than a check"):
        Ledger(tmp_path / "letters", IDENTITY)
    with pytest.raises(UsageError, match="is a file"):
        Ledger(tmp_path / "file", IDENTITY)


def test_a_check_is_read_from_its_folder_also_where_nothing_can_be_written(tmp_path: Path) -> None:
    folder = tmp_path / "check"
    write(folder, 2)
    info, rows = read_check(folder)
    assert info == INFO
    assert [measured is not None for _, measured in rows] == [True, True, False]
    folder.chmod(0o500)
    try:
        assert repr(read_check(folder)[1]) == repr(rows)
    finally:
        folder.chmod(0o700)


def test_the_ledger_opens_with_plain_sqlite(tmp_path: Path) -> None:
    write(tmp_path / "check", 1)
    connection = sqlite3.connect(tmp_path / "check" / LEDGER_FILE)
    found = connection.execute("SELECT api, status FROM cases WHERE status IS NOT NULL").fetchall()
    connection.close()
    assert found == [("torch.nn.functional.gelu", "returned")]


def break_missing(folder: Path) -> None:
    (folder / CHECK_FILE).unlink()


def break_json(folder: Path) -> None:
    (folder / CHECK_FILE).write_text("{")


def break_database(folder: Path) -> None:
    (folder / LEDGER_FILE).write_bytes(b"SQLite format 3\0" + b"garbage" * 1000)


def break_format(folder: Path) -> None:
    (folder / CHECK_FILE).write_text('{"format": "trueline-check", "version": 99}')


@pytest.mark.parametrize("how", [break_missing, break_json, break_database, break_format])
def test_damage_is_one_clear_error(how: object, tmp_path: Path) -> None:
    write(tmp_path / "check", 1)
    how(tmp_path / "check")  # type: ignore[operator]
    with pytest.raises(UsageError, match="check"):
        read_check(tmp_path / "check")
