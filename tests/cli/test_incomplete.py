"""Commands that read a Run say so where it holds less than its program did."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.helpers.synthetic import Spec, array, write_run
from trueline.cli.main import main
from trueline.store.seal import seal_database

COMMANDS = {
    "show": ("show", "run"),
    "show CALL": ("show", "run", "torch.sin"),
    "overflow": ("overflow", "run", "--no-replay"),
    "report": ("report", "run", "--html", "page.html"),
    "export": ("export", "run", "--configs", "lines.txt"),
    "compare": ("compare", "run", "run"),
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_run(Path("run"), [Spec("torch.sin", [array(8, 4)], [array(8, 4)])], data="stats")


def stop(run: Path) -> None:
    """Makes it a Run whose capture ended before its program."""
    database = run / "rank0" / "calls.db"
    certificate = json.dumps({"complete": False, "stopped_because": "the disk was full"})
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'certificate'", (certificate,))
    seal_database(database)


@pytest.mark.parametrize("name", COMMANDS)
def test_it_is_said(name: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stop(run)
    main(COMMANDS[name])
    said = capsys.readouterr()
    assert "incomplete" in said.out + said.err
    assert "the disk was full" in said.out + said.err


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_is_said_of_a_whole_run(name: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(COMMANDS[name])
    said = capsys.readouterr()
    assert "incomplete" not in said.out + said.err


@pytest.mark.parametrize(
    ("name", "words"),
    [("exec", "--workers 0 --out made"), ("check", "--workers 0"), ("profile", "--budget 0.01 --limit 1")],
)
def test_what_is_executed_of_a_part_is_called_partial(
    name: str, words: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stop(run)
    assert main([name, "run", "--target", "torch:cpu", *words.split()]) in (0, 1)
    assert capsys.readouterr().out.splitlines()[0].startswith("PARTIAL RECORD")


def test_where_nothing_is_executed_that_is_said(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(Path("empty"), [])
    assert main(["exec", "empty", "--target", "torch:cpu", "--workers", "0", "--out", "made"]) == 2
    assert "nothing was executed: there is no call in empty" in capsys.readouterr().err
