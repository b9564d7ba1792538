"""The ledger of a check: final rows, one owner, the memory of what was asked for, and what is read back from it."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.campaign import records
from trueline.campaign.check import load_check
from trueline.campaign.ledger import CHECK_FILE, INTERRUPTED, LEDGER_FILE, PAGE, Ledger, read_info
from trueline.campaign.ledger_file import is_being_written
from trueline.campaign.planning import Asked, Planned, plan_into
from trueline.campaign.shelf import stream
from trueline.campaign.sources import ListedPart, Skip
from trueline.campaign.variants import Wish
from trueline.cases import Case, CheckInfo, Ending, Target
from trueline.errors import TruelineError, UsageError
from trueline.judge.checks import check_standard_named, judge_case
from trueline.replay.serial import case_to_json
from trueline.store.seal import seal_database

IDENTITY = {"target": "torch:cpu", "seed": 0, "overrides": {"torch.relu": "k:relu abc"}}
INFO = CheckInfo(("runs/a",), "torch:cpu", "torch:cpu/float64", "calibrated", {}, 0, "now", "1", "2", 9)
CASES = [records.case(number) for number in range(3)]
CALIBRATED = check_standard_named("calibrated")


def plan(ledger: Ledger, cases: list[Case] | None = None, limit: int | None = None) -> None:
    target = Target.parse("torch:cpu")
    part = ListedPart("runs/a", "runs/a of now", tuple(CASES if cases is None else cases))
    plan_into(ledger, Asked([part], target, target, Wish(), limit))


def finish(ledger: Ledger, *numbers: int) -> None:
    for number in numbers:
        case = CASES[number]
        ledger.record(number + 1, judge_case(case, records.measured(case.key), CALIBRATED))


def write(folder: Path, finished: int) -> None:
    with Ledger(folder, IDENTITY) as ledger:
        plan(ledger)
        ledger.write_info(INFO)
        finish(ledger, *range(finished))


def waiting(ledger: Ledger) -> set[str]:
    return {one.key for one in ledger.waiting()}


def ask(folder: Path, query: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(folder / LEDGER_FILE)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


@pytest.mark.parametrize("kept", [True, False])
def test_rows_are_final(kept: bool, tmp_path: Path) -> None:
    with Ledger(tmp_path / "check" if kept else None, IDENTITY) as ledger:
        plan(ledger)
        assert waiting(ledger) == {case.key for case in CASES}
        finish(ledger, 1)
        assert waiting(ledger) == {CASES[0].key, CASES[2].key}
        assert ledger.unfinished()[0] == 2
        with pytest.raises(AssertionError, match="has ended before"):
            finish(ledger, 1)


def test_what_was_measured_comes_back_to_the_last_bit(tmp_path: Path) -> None:
    write(tmp_path / "check", 1)
    rows = list(stream(tmp_path / "check"))
    assert [case for case, _ in rows] == CASES or repr([case for case, _ in rows]) == repr(CASES)
    assert [measured is not None for _, measured in rows] == [True, False, False]
    assert repr(rows[0][1]) == repr(records.measured(CASES[0].key))


def test_a_check_goes_on_in_its_folder(tmp_path: Path) -> None:
    write(tmp_path / "check", 2)
    with Ledger(tmp_path / "check", IDENTITY) as ledger:
        plan(ledger)
        assert waiting(ledger) == {CASES[2].key}


def test_a_plan_that_is_done_is_not_made_again(tmp_path: Path) -> None:
    class Unreadable(ListedPart):
        def items(self, start: object = None) -> object:  # type: ignore[override]
            raise AssertionError("the source was read again")

    write(tmp_path / "check", 0)
    target = Target.parse("torch:cpu")
    with Ledger(tmp_path / "check", IDENTITY) as ledger:
        planned = plan_into(ledger, Asked([Unreadable("runs/a", "runs/a of now", ())], target, target, Wish()))
        assert planned.cases == 3


def test_a_plan_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    """The same item never counts twice, wherever planning stopped."""
    cases = [records.case(number % 700) for number in range(1500)]

    class Dying(ListedPart):
        def items(self, start: tuple[int, int] = (0, 0)) -> object:  # type: ignore[override]
            for item in super().items(start):
                if item.mark[0] == 1200 and start == (0, 0):
                    raise KeyboardInterrupt
                yield item

    target = Target.parse("torch:cpu")
    asked = Asked([Dying("runs/a", "same", (*cases, Skip("no", 2)))], target, target, Wish())
    with Ledger(tmp_path / "check", IDENTITY) as ledger:
        with pytest.raises(KeyboardInterrupt):
            plan_into(ledger, asked)
        assert ledger.get("plan")["mark"] == [1024, 0]
    with Ledger(tmp_path / "check", IDENTITY) as ledger:
        planned = plan_into(ledger, asked)
    assert (planned.cases, planned.calls, planned.skipped) == (700, 3 * 1500 + 2, {"no": 2})
    assert ask(tmp_path / "check", "SELECT COUNT(*), SUM(count) FROM cases") == [(700, 4500)]


@pytest.mark.parametrize("lose", [Path.unlink, lambda path: path.write_bytes(b"")], ids=["removed", "emptied"])
def test_a_check_that_has_lost_its_ledger_does_not_begin_anew(lose: Callable[[Path], object], tmp_path: Path) -> None:
    write(tmp_path / "check", 2)
    lose(tmp_path / "check" / LEDGER_FILE)
    with pytest.raises(TruelineError, match=r"ledger\.db: it is missing or empty"):
        Ledger(tmp_path / "check", IDENTITY)


@pytest.mark.parametrize("known", [0, 2], ids=["new", "another plan"])
def test_half_a_portion_is_not_kept(known: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted between the cases of a portion and the note of how far planning came, nothing is counted twice."""
    if known:
        with Ledger(tmp_path / "check", IDENTITY) as ledger:
            plan(ledger, CASES, limit=known)
    put = Ledger.put

    def interrupted(ledger: Ledger, name: str, value: object) -> None:
        if name == "plan":
            raise KeyboardInterrupt
        put(ledger, name, value)

    with monkeypatch.context() as patched, Ledger(tmp_path / "check", IDENTITY) as ledger:
        patched.setattr(Ledger, "put", interrupted)
        with pytest.raises(KeyboardInterrupt):
            plan(ledger, CASES)
    query = "SELECT COUNT(*), TOTAL(count) FROM cases WHERE position IS NOT NULL"
    assert ask(tmp_path / "check", query) == [(known, 3.0 * known)]
    with Ledger(tmp_path / "check", IDENTITY) as ledger:
        plan(ledger, CASES)
    assert ask(tmp_path / "check", query) == [(3, 9.0)]


def test_an_interrupt_waits_until_rows_are_written(tmp_path: Path) -> None:
    def interrupting(statement: str) -> None:
        if statement.startswith("DELETE FROM flights"):
            signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with Ledger(tmp_path / "check", IDENTITY) as ledger:
            plan(ledger)
            ledger.connection.set_trace_callback(interrupting)
            with pytest.raises(KeyboardInterrupt):
                finish(ledger, 0)
            ledger.connection.set_trace_callback(None)
    finally:
        signal.signal(signal.SIGINT, before)
    assert ask(tmp_path / "check", "SELECT number FROM cases WHERE ending IS NOT NULL") == [(1,)]


def test_a_shorter_plan_shows_its_cases_only(tmp_path: Path) -> None:
    write(tmp_path / "check", 3)
    with Ledger(tmp_path / "check", IDENTITY) as ledger:
        plan(ledger, limit=1)
        assert ledger.planned() == 1
    assert len(load_check(tmp_path / "check").results) == 1
    with Ledger(tmp_path / "check", IDENTITY) as ledger:
        plan(ledger)
        assert ledger.planned() == 3 and ledger.unfinished()[0] == 0


def test_the_longest_come_first_and_none_twice(tmp_path: Path) -> None:
    """More than a page, with equal costs across its edge."""
    with Ledger(tmp_path / "check", IDENTITY) as ledger:
        plan(ledger, [records.case(number) for number in range(3 * PAGE)])
        ledger.connection.execute("UPDATE cases SET cost = number / 200")
        found = list(ledger.waiting())
    costs = [one.cost for one in found]
    assert costs == sorted(costs, reverse=True)
    assert len({one.key for one in found}) == len(found) == 3 * PAGE


def test_what_was_in_flight_is_in_the_history(tmp_path: Path) -> None:
    folder = tmp_path / "check"
    write(folder, 0)
    with Ledger(folder, IDENTITY) as ledger:
        assert len(waiting(ledger)) == 3
        finish(ledger, 0)
    with Ledger(folder, IDENTITY):
        pass
    assert ask(folder, "SELECT number, ending FROM attempts ORDER BY number") == [(2, INTERRUPTED), (3, INTERRUPTED)]
    assert ask(folder, "SELECT COUNT(*) FROM flights") == [(0,)]


def test_cases_are_taken_back_and_their_ending_is_remembered(tmp_path: Path) -> None:
    folder = tmp_path / "check"
    write(folder, 2)
    with Ledger(folder, IDENTITY) as ledger:
        assert ledger.take_back([Ending.CRASHED]) == 0
        assert ledger.take_back([Ending.CRASHED, Ending.MISMATCH]) == 2
        assert len(waiting(ledger)) == 3
        finish(ledger, 1)
    assert ask(folder, "SELECT number, ending, verdict FROM attempts WHERE ending != 'interrupted'") == [
        (1, "mismatch", 3), (2, "mismatch", 3),
    ]  # fmt: skip
    assert ask(folder, "SELECT number FROM cases WHERE ending IS NOT NULL") == [(2,)]


@pytest.mark.parametrize(
    ("name", "value"), [("target", "torch:cuda"), ("seed", 1), ("overrides", {"torch.relu": "k:relu def"})]
)
def test_another_check_in_the_same_folder_is_refused(name: str, value: object, tmp_path: Path) -> None:
    write(tmp_path / "check", 0)
    with pytest.raises(UsageError, match=f"another {name}.*choose another folder"):
        Ledger(tmp_path / "check", {**IDENTITY, name: value})
    write(tmp_path / "check", 1)


@pytest.mark.parametrize("value", ["2", "null", "[]", '{"target": 1e999', b"\xff\xfe", 5])
@pytest.mark.parametrize("name", ["identity", "plan"])
def test_what_is_remembered_may_be_damaged(name: str, value: object, tmp_path: Path) -> None:
    folder = tmp_path / "check"
    write(folder, 1)
    with sqlite3.connect(folder / LEDGER_FILE) as connection:
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))
    connection.close()
    seal_database(folder / LEDGER_FILE)
    with pytest.raises(TruelineError, match=rf"cannot read .*{LEDGER_FILE}: what it remembers"), Ledger(
        folder, IDENTITY
    ) as ledger:
        ledger.get("plan", Planned)


def test_two_checks_at_once_in_one_folder_are_refused(tmp_path: Path) -> None:
    with (
        Ledger(tmp_path / "check", IDENTITY),
        pytest.raises(UsageError, match="another check is writing"),
    ):
        Ledger(tmp_path / "check", IDENTITY)


def test_a_report_keeps_no_check_from_going_on(tmp_path: Path) -> None:
    write(tmp_path / "check", 1)
    report = load_check(tmp_path / "check")
    assert len(report.results) == 3 and report.summary.left == 2
    with Ledger(tmp_path / "check", IDENTITY) as ledger:
        plan(ledger)
        finish(ledger, 1)
        assert is_being_written(tmp_path / "check")
        ledger.commit()
        assert load_check(tmp_path / "check").summary.left == 1, "what is committed can be read while the check goes on"
    assert not is_being_written(tmp_path / "check")


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
    assert read_info(folder) == INFO
    rows = repr(list(stream(folder)))
    folder.chmod(0o500)
    try:
        assert repr(list(stream(folder))) == rows
        assert load_check(folder).endings[Ending.MISMATCH] == 2
        assert load_check(folder, "bitwise").info.standard == "bitwise"
    finally:
        folder.chmod(0o700)


def test_results_are_a_sequence_that_counts_itself(tmp_path: Path) -> None:
    write(tmp_path / "check", 2)
    report = load_check(tmp_path / "check")
    results = report.results
    assert [result.case.key for result in results] == [case.key for case in CASES]
    assert results[2].case.key == results[-1].case.key == CASES[2].key
    assert [result.case.key for result in results[1:]] == [case.key for case in CASES[1:]]
    with pytest.raises(IndexError):
        results[3]
    assert report.counts == {"PASS": 0, "WARN": 0, "NOT_COMPARED": 1, "FAIL": 2, "ERROR": 0}
    assert sum(report.endings.values()) == len(results) == 3
    assert report.summary.not_compared == {"not executed: the check was stopped": 1}
    assert [result.case.key for result in report.failures] == [case.key for case in CASES[:2]]


def test_a_check_of_the_first_version_is_read_and_not_written_into(tmp_path: Path) -> None:
    folder = tmp_path / "check"
    folder.mkdir()
    content = {"format": "trueline-check", "version": 1, "sources": ["a"], "target": "torch:cpu", "reference": "x",
               "standard": "calibrated", "overrides": {}, "seed": 0, "created": "now", "tool_version": "1",
               "framework_version": "2", "calls": 3}  # fmt: skip
    (folder / CHECK_FILE).write_text(json.dumps(content))
    connection = sqlite3.connect(folder / LEDGER_FILE)
    connection.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")
    connection.execute("CREATE TABLE cases (key TEXT PRIMARY KEY, position INTEGER, api TEXT, count INTEGER, "
                       "case_json TEXT, status TEXT, reason TEXT, seconds REAL, measured_json TEXT)")  # fmt: skip
    evidence = {"part": "output", "path": "out", "dtype": "float32", "shape": [2], "structure": "shape is [3]"}
    measured = {"key": "k", "candidate": {"status": "returned"}, "evidence": [evidence]}
    connection.execute(
        "INSERT INTO cases VALUES (?, 0, 'x', 1, ?, 'returned', '', 0.1, ?)",
        (CASES[0].key, json.dumps(case_to_json(CASES[0])), json.dumps(measured)),
    )
    connection.commit()
    connection.close()
    report = load_check(folder)
    assert report.endings[Ending.MISMATCH] == 1 and report.results[0].reason == "out: shape is [3]"
    assert len(list(stream(folder))) == 1
    with pytest.raises(UsageError, match=r"older trueline.*choose another folder"):
        Ledger(folder, IDENTITY)


def test_the_ledger_opens_with_plain_sqlite(tmp_path: Path) -> None:
    write(tmp_path / "check", 1)
    found = ask(tmp_path / "check", "SELECT api, ending, dtype, line FROM cases WHERE ending IS NOT NULL")
    assert found == [("torch.nn.functional.gelu", "mismatch", "bfloat16", "torch.nn.functional.gelu.0")]


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
    with pytest.raises(TruelineError, match="check"):
        load_check(tmp_path / "check")
