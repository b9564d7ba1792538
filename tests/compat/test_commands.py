"""The table of old commands, the folder of old names, and what both promise."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from tests.compat.conftest import NAMES, Shell
from trueline.compat.__main__ import COMMANDS, main
from trueline.compat.command import truth

SCRIPTS = sorted(path for path in NAMES.rglob("*.py") if path.stem in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_helps_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([command, "--help"])
    assert left.value.code == 0
    said = capsys.readouterr().out
    assert "example:" in said and command in said


def test_every_command_has_its_script() -> None:
    assert {path.stem for path in SCRIPTS} == set(COMMANDS)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_runs_its_command(path: Path) -> None:
    module, _, function = COMMANDS[path.stem].partition(":")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == module]
    assert [alias.name for node in found for alias in node.names] == [function]
    assert callable(getattr(importlib.import_module(module), function))


def test_the_folder_of_names(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out.strip() == str(NAMES)
    code = "import paddleapex.apex, ptdbg_ascend, sys; print(ptdbg_ascend.__file__, 'paddle' in sys.modules)"
    done = shell(["python", "-c", code])
    assert str(NAMES) in done.stdout and done.stdout.split()[1] == "False"


def test_unknown_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nonsense"]) == 2
    assert "engineV2" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "value"), [("True", True), ("false", False), ("1", True), (" no ", False)])
def test_truth(text: str, value: bool) -> None:
    assert truth(text) is value


def test_the_example_script_is_a_script(shell: Shell) -> None:
    shell(["bash", "-n", str(NAMES / "PaddleAPITest" / "run-example.sh")])
