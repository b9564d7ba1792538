"""Finding commands, help, and errors in one line."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.runs import WAYS, break_run
from trueline.cli.main import COMMANDS, main, module_of
from trueline.cli.options import numbers

ROOT = Path(__file__).parents[2]


def trueline(*words: object) -> subprocess.CompletedProcess[str]:
    """Runs the command in a process of its own, as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "trueline", *map(str, words)],
        capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip


def test_help_names_every_command_and_every_file_is_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    folder = ROOT / "src" / "trueline" / "cli"
    files = {file.stem for file in folder.glob("*.py") if "def parser() -> Parser" in file.read_text()}
    assert files == {module_of(name) for name in COMMANDS}
    assert all(re.search(rf"^  {name} +\w", text, re.MULTILINE) for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_each_command_shows_one_real_example(name: str) -> None:
    parser = importlib.import_module(f"trueline.cli.{module_of(name)}").parser()
    text = parser.format_help()
    (example,) = re.findall(r"^  trueline (.+)$", text, re.MULTILINE)
    words = example.split()
    assert words[0] == name
    parser.parse(words[1:])
    assert "--json" in text


def test_no_command_is_a_failure_and_shows_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage: trueline COMMAND" in capsys.readouterr().out


def test_unknown_command_suggests_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["comapre", "a", "b"]) == 2
    assert capsys.readouterr().err == "trueline: no command 'comapre'; did you mean 'compare'?\n"
    assert main(["xyzzy"]) == 2
    assert f"there are {', '.join(COMMANDS)}" in capsys.readouterr().err


def test_unknown_option_suggests_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "a", "b", "--standart", "x"]) == 2
    assert "unknown option '--standart', did you mean --standard?" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["show", "compare"])
@pytest.mark.parametrize("how", WAYS)
def test_bad_input_gives_one_line_and_exit_code_2(
    command: str, how: str, tmp_path: Path, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = break_run(tmp_path / "run", how)
    words = [command, str(runs / "good"), str(broken)] if command == "compare" else [command, str(broken)]
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(rf"trueline {command}: \S.+\n", captured.err)
    assert str(broken) in captured.err


def test_errors_reach_the_shell_without_a_traceback(tmp_path: Path) -> None:
    result = trueline("show", tmp_path / "no\x1b[31mwhere")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"trueline show: {tmp_path}/no\\x1b[31mwhere does not exist\n"


def test_closed_pipe_is_no_error(runs: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "trueline", "show", str(runs / "good"), "torch", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 0


def test_closed_pipe_keeps_the_verdict_of_a_comparison(runs: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "trueline", "compare", str(runs / "good"), str(runs / "bad"), "--no-replay"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 1


def test_comparing_imports_nothing_heavy(runs: Path) -> None:
    program = (
        "import sys; from trueline.cli import main;"
        f"main(['compare', {str(runs / 'good')!r}, {str(runs / 'bad')!r}, '--no-replay']);"
        "heavy = {'torch', 'paddle', 'numba', 'scipy', 'pandas', 'rich', 'typer', 'triton'} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_numbers_are_lists_and_ranges() -> None:
    assert numbers("2,4-6,4") == [2, 4, 5, 6]


@pytest.mark.parametrize("text", ["", "a", "3-1", "1,,2", "-1"])
def test_bad_numbers_are_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "a", "b", f"--step={text}"]) == 2
    assert "is not a list of numbers like 2,4-6" in capsys.readouterr().err
