"""Runs PaddleAPITest's engineV2 beside ours, where somebody has one that runs on this machine, and reads what it wrote.

    run = Engine(folder, python).run(lines, workers=1)

As it is published it needs a GPU; a folder that is given here must hold one that does without. Nothing of it is part
of this project, and nothing in the folder is changed: its logs go to a folder of ours.
"""

from __future__ import annotations

import re
import resource
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

NEEDED = ("pebble", "pandas", "yaml", "func_timeout", "paddle", "torch")
_BEGIN = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+) GPU \d+ (\d+) test begin: ", re.MULTILINE)
_HANGS = 10.0
"""A case that takes longer, in seconds, is not counted into the steady rate: it is kinder to the engine so."""


class EngineUnavailable(RuntimeError):
    """It cannot be run here; the message says why."""


@dataclass(frozen=True)
class EngineRun:
    """What a run gave: seconds in all and of processors, the seconds of its single cases as far as known, and the files
    that it filed cases in."""

    cases: int
    workers: int
    wall: float
    processor: float
    paces: list[float]
    statuses: dict[str, int] = field(default_factory=dict)

    def summary(self) -> dict[str, Any]:
        steady = [pace for pace in self.paces if pace <= _HANGS]
        return {
            "lines": self.cases,
            "workers": self.workers,
            "seconds": self.wall,
            "per second and worker": len(steady) / sum(steady),
            "processor seconds": self.processor,
            "longer than 10 s": len(self.paces) - len(steady),
            "statuses": self.statuses,
        }


class Engine:
    """A folder with engineV2.py, and the Python to run it with."""

    def __init__(self, source: Path, python: str) -> None:
        if not (source / "engineV2.py").is_file():
            raise EngineUnavailable(f"there is no engineV2.py in {source}")
        probe = subprocess.run(
            [python, "-c", f"import {', '.join(NEEDED)}"], capture_output=True, text=True, check=False
        )
        if probe.returncode != 0:
            raise EngineUnavailable((probe.stderr.strip().splitlines() or ["it cannot be imported"])[-1])
        self._source = source
        self._python = python

    def run(self, lines: Sequence[str], *, workers: int, most_seconds: float = 900.0) -> EngineRun:
        """Runs lines; a run that takes longer than ``most_seconds`` is an error."""
        with tempfile.TemporaryDirectory(prefix="engine-") as name:
            corpus, logs = Path(name) / "lines.txt", Path(name) / "logs"
            corpus.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            words = [self._python, "engineV2.py", "--accuracy=True", "--test_cpu=True", f"--api_config_file={corpus}"]
            words += [f"--num_workers_per_gpu={workers}", "--required_memory=1", f"--log_dir={logs}"]
            began, used = time.perf_counter(), _processor_seconds()
            try:
                done = subprocess.run(
                    words, cwd=self._source, capture_output=True, text=True, timeout=most_seconds, check=False
                )
            except subprocess.TimeoutExpired:
                raise EngineUnavailable(f"it did not end within {most_seconds:g} s") from None
            wall = time.perf_counter() - began
            used = _processor_seconds() - used
            return EngineRun(len(lines), workers, wall, used, _paces(logs, done), _statuses(logs))


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _paces(logs: Path, done: subprocess.CompletedProcess[str]) -> list[float]:
    """Seconds from the beginning of each case to that of the next one of the same worker."""
    log = logs / "log_inorder.log"
    found = _BEGIN.findall(log.read_text(encoding="utf-8", errors="replace")) if log.exists() else []
    begun: dict[str, list[datetime]] = {}
    for text, worker in found:
        begun.setdefault(worker, []).append(datetime.fromisoformat(text))
    paces = [(b - a).total_seconds() for times in begun.values() for a, b in pairwise(sorted(times))]
    if not paces:
        last = ([*done.stdout.strip().splitlines(), *done.stderr.strip().splitlines()] or ["nothing"])[-1]
        raise EngineUnavailable(f"it ran {len(found)} cases; its last words: {last[:200]}")
    return paces


def _statuses(logs: Path) -> dict[str, int]:
    """How many lines each of its files has; they are not exclusive."""
    found = {path.stem.removeprefix("api_config_"): path for path in sorted(logs.glob("api_config_*.txt"))}
    return {name: len(path.read_text(encoding="utf-8").split("\n")) - 1 for name, path in found.items()}
