"""``trueline adopt``: what it says, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trueline.cli.main import main
from trueline.compat.adopting import DOORS


def test_it_says_what_it_did_and_how_to_undo_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "engineV2.py").write_text("theirs\n", encoding="utf-8")
    assert main(["adopt", "apitest"]) == 0
    said = capsys.readouterr().out
    assert "the current folder has adopted PaddleAPITest: 5 files" in said
    assert "  kept     engineV2.py is now engineV2.before-trueline.py\n" in said
    assert all(f"  {line}\n" in said for line in DOORS["apitest"].works)
    assert said.endswith("to take it away: trueline adopt apitest --remove\n")
    assert main(["adopt", "apitest", "--remove"]) == 0
    assert "  restored engineV2.py\n" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["engineV2.py"]


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["adopt", "ptdbg", str(tmp_path / "new"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["folder"] == str(tmp_path / "new") and "ptdbg_ascend/__init__.py" in said["written"]


def test_a_python_without_trueline_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    (tmp_path / "bin" / "python").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    assert main(["adopt", "ptdbg", str(tmp_path / "project")]) == 0
    assert f"note: {tmp_path}/bin/python has no trueline: install it there" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["adopt", "msprobe"], "invalid choice"),
        (["adopt", "apex", "{folder}", "--remove"], "has not adopted apex"),
        (["adopt", "apex", "{file}"], "is no folder"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main([word.format(folder=tmp_path, file=tmp_path / "file") for word in words]) == 2
    assert said in capsys.readouterr().err
