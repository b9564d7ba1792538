"""The lines by which TIPC says how each command ended, and its file of them.

    Run successfully with command - <model> - <command>!
    Run failed with command - <model> - <command>!

TIPC only ever appends to that file, so that nobody can tell which lines are of today. Here the lines of the commands
that are about to be run again are taken out first.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from trueline.pipelines import Plan, StageResult, StageStatus

FILE = "results_python.log"
_YELLOW, _PLAIN = "\033[33m", "\033[0m"
_WORDS = {StageStatus.DONE: "successfully", StageStatus.SKIPPED: "skipped", StageStatus.UNSUPPORTED: "skipped"}


def status_line(model: str, result: StageResult) -> str:
    """The line of one command; one that was not run, or could not be, says so and why. ``model`` may be empty, as in
    the first scripts."""
    assert result.stage.command is not None, "only commands have such a line"
    word = _WORDS.get(result.status, "failed")
    line = f" Run {word} with command - {_named(model, result.stage.command.text)}!  "
    return line if word != "skipped" else f"{line}({result.status}: {result.reason}) "


def _named(model: str, command: str) -> str:
    return f"{model} - {command}" if model else command


class StatusFile:
    """The file of these lines, in the folder of the plan."""

    def __init__(self, folder: Path, plan: Plan, *, with_model: bool = True) -> None:
        self._path = folder / FILE
        self._model = plan.model if with_model else ""
        self._forget(command.text for command in plan.commands)

    def add(self, result: StageResult) -> str:
        """Appends the line of a command; gives it without colours."""
        line = status_line(self._model, result)
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(f"{_YELLOW}{line}{_PLAIN}\n")
        return line

    def _forget(self, commands: Iterable[str]) -> None:
        if not self._path.exists():
            return
        mine = [f" - {_named(self._model, command)}!" for command in commands]
        lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        kept = [line for line in lines if not any(text in line for text in mine)]
        self._path.write_text("".join(kept), encoding="utf-8")
