"""Whether a Run that was interrupted opens, and holds what it should."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from trueline.errors import TruelineError
from trueline.store.reader import RankReader, open_run

_DANGLING = (
    "SELECT count(*) FROM calls WHERE api NOT IN (SELECT id FROM names)",
    "SELECT count(*) FROM calls WHERE arguments <> -1 AND arguments NOT IN (SELECT id FROM trees)",
    "SELECT count(*) FROM calls WHERE result <> -1 AND result NOT IN (SELECT id FROM trees)",
    "SELECT count(*) FROM calls WHERE stack <> -1 AND stack NOT IN (SELECT id FROM stacks)",
    "SELECT count(*) FROM calls WHERE module <> -1 AND module NOT IN (SELECT id FROM modules)",
    "SELECT count(*) FROM visits WHERE layout NOT IN (SELECT id FROM layouts)",
)
_UNREAD = (
    "SELECT count(DISTINCT visits.tensor) FROM visits JOIN layouts ON layouts.id = visits.layout"
    " WHERE visits.tensor NOT IN (SELECT tensor FROM statistics) AND visits.tensor NOT IN (SELECT tensor FROM missing)"
)
"""Tensors of which the Run says neither what is in them nor why not."""
BEFORE_IT_BEGAN = "interrupted as it began"


def look_at(path: Path, trial: Any, lines: list[str]) -> tuple[str, str]:
    """(outcome, note) of the Run of a program that has said these lines."""
    if trial.command:
        return _shown(path, lines)
    began = "started" in lines or "build" in lines or any(line.startswith("step") for line in lines)
    try:
        with open_run(path) as run:
            return _inside(run.rank(0), trial, lines)
    except TruelineError as error:
        if not began or "caught" in lines[: lines.index("build") if "build" in lines else 0]:
            return "ok", f"interrupted before it began: {error}"
        return "run does not open", str(error)


def _inside(reader: RankReader, trial: Any, lines: list[str]) -> tuple[str, str]:
    connection = reader._connection
    for question in _DANGLING:
        if connection.execute(question).fetchone()[0]:
            return "run is damaged", question
    certificate = reader.certificate
    if trial.mode == "watch":
        return "ok", ""
    done = {int(line.split()[1]) for line in lines if line.startswith("step") and line.endswith("done")}
    killed = not certificate.complete
    if not killed and not done <= {*reader.steps, *range(-1)} and not _told_of_more(reader, done):
        return "steps are missing", f"done {sorted(done)}, in the Run {reader.steps}"
    if killed and certificate.stopped_because == BEFORE_IT_BEGAN and _met_as_it_began(lines):
        return "ok", certificate.stopped_because
    if killed and certificate.stopped_because != "the program ended without a word":
        return "capture gave up", certificate.stopped_because
    unread = connection.execute(_UNREAD).fetchone()[0] if trial.data != "structure" else 0
    if not killed and unread:
        return "tensors are missing", f"{unread} of {certificate.tensors} tensors have neither numbers nor a reason"
    faults = {text: count for text, count in certificate.not_recorded.items() if "fault" in text}
    if faults:
        return "capture had faults", str(faults)
    return "ok", "interrupted" if killed else ""


def _met_as_it_began(lines: list[str]) -> bool:
    """Whether what ended the capture came while it started: the program heard of it then and there, or died of it."""
    return "start" in lines and lines[lines.index("start") + 1 :][:1] in ([], ["caught"], ["handler"])


def _told_of_more(reader: RankReader, done: set[int]) -> bool:
    """Steps are numbered by optimizers that stepped: a step that was interrupted behind its optimizer counts as one."""
    return len(reader.steps) >= len(done)


def _shown(path: Path, lines: list[str]) -> tuple[str, str]:
    """The same question, asked as a user asks it: does ``trueline show`` show it?"""
    answer = subprocess.run(
        [sys.executable, "-m", "trueline", "show", str(path)], capture_output=True, text=True, check=False
    )
    if answer.returncode == 0 or (not path.exists() and "forward" not in lines):
        return "ok", ""
    return "run does not open", answer.stderr.strip()[-300:]
