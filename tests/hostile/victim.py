"""A victim's machine: bait on it, a folder for files, and trueline's commands under the guard."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.hostile.bait import Bait, Harm
from tests.hostile.names import Hostile

ROOT = Path(__file__).resolve().parents[2]
GUARD = Path(__file__).parent / "guard"
PASSED, REFUSED, REACHED = "passed", "refused", "reached"
"""What a row says of a hostile call: that it is fine; that it was not executed, and why; that it was and failed."""


@dataclass
class Row:
    """What a report says of one call."""

    state: str
    reason: str


@dataclass
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass
class Result:
    """What one way did with the calls that it was given. ``rows`` are those that the report tells of one by one,
    ``good`` whether the harmless calls among them were done."""

    calls: Sequence[Hostile]
    commands: list[Done] = field(default_factory=list)
    rows: dict[int, Row] = field(default_factory=dict)
    harm: Harm = field(default_factory=Harm)
    good: bool = True
    pages: list[Path] = field(default_factory=list)

    @property
    def tracebacks(self) -> list[str]:
        found = [one.err for one in self.commands if "Traceback (most recent call last)" in one.err]
        return [text.strip().splitlines()[-1][:200] for text in found]

    def passed(self) -> set[int]:
        return {number for number, row in self.rows.items() if row.state == PASSED}

    def reached(self) -> set[int]:
        return {number for number, row in self.rows.items() if row.state == REACHED}


class Victim:
    """A machine with bait on it, a folder for files, and the commands."""

    def __init__(self, folder: Path, bait: Bait, calls: Sequence[Hostile], seconds: float = 120.0) -> None:
        self.folder, self.bait, self.every = folder, bait, calls
        self.calls = [call for call in calls if not call.alone]
        self.seconds = seconds
        self._count = 0
        (folder / "home").mkdir(parents=True, exist_ok=True)  # frameworks keep folders of their own there

    def halves(self) -> list[tuple[str, list[Hostile]]]:
        """Each framework and the calls that are meant for it."""
        return [(one, [call for call in self.calls if call.framework == one]) for one in ("torch", "paddle")]

    def place(self, name: str) -> Path:
        """A path that is not taken."""
        self._count += 1
        return self.folder / f"{self._count:03d}_{name}"

    def trueline(self, *words: str | Path) -> Done:
        return self.python("-m", "trueline", *words)

    def python(self, *words: str | Path) -> Done:
        """Runs Python under the guard, in an empty folder; all its processes are ended with it."""
        work = self.place("work")
        work.mkdir()
        process = subprocess.Popen(
            [sys.executable, *map(str, words)], cwd=work, env=self.environment(), start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            out, err = process.communicate(timeout=self.seconds)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
        return Done(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))

    def environment(self) -> dict[str, str]:
        kept = {key: os.environ[key] for key in ("PATH", "LANG", "TMPDIR", "VIRTUAL_ENV") if key in os.environ}
        return kept | {
            "PYTHONPATH": os.pathsep.join(map(str, (GUARD, ROOT / "src"))),
            "HOME": str(self.folder / "home"),
            "TRUELINE_BAIT": str(self.bait.folder),
            "TRUELINE_BAIT_PORT": str(self.bait.port),
            "OMP_NUM_THREADS": "1",
            "GLOG_minloglevel": "2",
        }


def finished(victim: Victim, result: Result) -> Result:
    texts = [text for one in result.commands for text in (one.out, one.err)]
    texts += [page.read_text(encoding="utf-8", errors="replace") for page in result.pages if page.exists()]
    result.harm = victim.bait.harm(texts)
    return result


def many(victim: Victim, commands: Sequence[Sequence[str | Path]]) -> list[Done]:
    """Commands one after another, each forked from a process that has imported torch, which saves seconds each."""
    asked, answers = victim.place("commands.json"), victim.place("answers.json")
    asked.write_text(json.dumps([[str(word) for word in words] for words in commands]))
    done = victim.python(GUARD / "many.py", asked, answers, "60")
    if not answers.exists():
        return [done]
    return [Done(one["code"], one["out"], one["err"]) for one in json.loads(answers.read_text())]


def scripts_run(victim: Victim, scripts: Iterable[Path]) -> list[Done]:
    """Runs scripts that were made of hostile Runs. What they print on their own account (a call that fails) is not
    trueline's: a traceback of theirs does not count."""
    listed = victim.place("scripts.json")
    listed.write_text(json.dumps([str(script) for script in scripts]))
    code = (
        "import json, runpy, sys\n"
        "for script in json.load(open(sys.argv[1])):\n"
        "    try: runpy.run_path(script, run_name='__main__')\n"
        "    except BaseException: pass\n"
    )
    done = victim.python("-c", code, listed)
    return [Done(0, done.out, "")]
