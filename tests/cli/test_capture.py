"""``trueline capture``: what reaches the library."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.cli.runs import write_net
from trueline.cli.main import main
from trueline.records import Certificate
from trueline.store import RankReader


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, Any]]]:
    """Stands in for the launcher and remembers what it was asked."""
    asked: list[tuple[list[str], dict[str, Any]]] = []

    def run_command(argv: list[str], options: dict[str, Any]) -> int:
        Path(options.pop("told")).write_text("imported\n", encoding="utf-8")
        asked.append((argv, options))
        return {"fine": 0, "killed": -9}.get(argv[0], 7)

    stand_in = ModuleType("trueline.capture.launch")
    stand_in.run_command = run_command  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "trueline.capture.launch", stand_in)
    return asked


def test_defaults_are_left_to_the_library(launched: list[Any]) -> None:
    assert main(["capture", "--out", "run", "--", "python", "train.py", "--", "--steps", "3"]) == 7
    assert launched == [(["python", "train.py", "--", "--steps", "3"], {"out": "run"})]


def test_all_options_are_passed_on(launched: list[Any]) -> None:
    words = (
        "--out run --level api+module --data tensors --steps 2,4-6 --ranks 0,1 --apis torch.* aten.* --modules enc.*"
        " --calls torch.relu.3 --between torch.a.0 torch.b.1 --no-stacks --no-integers --exit-after-last-step --witness"
        " --seed 5 --deterministic -- torchrun train.py"
    )
    main(["capture", *words.split()])
    assert launched[0][1] == {
        "out": "run", "level": "api+module", "data": "tensors", "steps": [2, 4, 5, 6], "ranks": [0, 1],
        "apis": ["torch.*", "aten.*"], "modules": ["enc.*"], "calls": ["torch.relu.3"],
        "between": ["torch.a.0", "torch.b.1"], "stacks": False, "integers": False, "exit_after_last_step": True,
        "witness": True, "seed": 5, "deterministic": True,
    }  # fmt: skip


def test_what_was_recorded_is_said(
    launched: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_net(tmp_path / "run")
    monkeypatch.setattr(RankReader, "certificate", Certificate(calls={"api forward": 3}))
    assert main(["capture", "--out", str(run), "--json", "--", "fine"]) == 0
    captured = capsys.readouterr()
    assert f"trueline: recorded {run}" in captured.err
    content = json.loads(captured.out)
    assert (content["exit_code"], content["certificates"]["0"]["complete"]) == (0, True)


def test_nothing_recorded_is_a_failure(launched: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["capture", "--out", str(tmp_path / "run"), "--", "fine"]) == 2
    assert "nothing was recorded" in capsys.readouterr().err


def test_killed_program_ends_as_in_a_shell(launched: list[Any]) -> None:
    assert main(["capture", "--out", "run", "--", "killed"]) == 137


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "run"], "put it after --"),
        (["--out", "run", "--"], "put it after --"),
        (["--", "python"], "required: --out"),
        (["--out", "run", "--data", "all", "--", "python"], "invalid choice: 'all'"),
        (["--out", "run", "python", "train.py"], "unknown option 'python'"),
    ],
)
def test_misuse_is_said_in_one_line(
    words: list[str], message: str, launched: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["capture", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert launched == []
