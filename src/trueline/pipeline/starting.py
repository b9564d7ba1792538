"""Starts the commands of stages, plainly or as copies of a warm process, and the processes that check numbers.

A command finds in its environment which stage it is and where to leave its probe (see ``pipelines``).
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from trueline.pipeline.processes import Ended, Limits, Running, Supervised, Warm, end_marked
from trueline.pipeline.variants import Started, WarmRefused, WarmWorker, warm_words
from trueline.pipelines import Command, Stage, StageKind

LOG_FILE = "log.txt"
PROBE_FOLDER = "probe"
_TOKEN = "TRUELINE_STAGE_TOKEN"
_WAYS = ({"learn": True, "share": True}, {"learn": True, "share": False}, {"learn": False, "share": False})
"""How much warm processes do for their copies. What they import or read may start threads, or wake a device: then they
cannot be copied any more, and others are started that do less."""


class Starter:
    """``warm`` names what warm processes import; None for plain processes only."""

    def __init__(self, project: Path, warm: Sequence[str] | None) -> None:
        self.project = project
        self._warm = warm
        self._workers: dict[str, WarmWorker] = {}
        self._retired: list[WarmWorker] = []
        self._way = 0
        self._refused: dict[str, str] = {}

    def empty(self, folder: Path) -> float:
        """Takes away what an earlier run of a stage left; gives the time at which that was done, by the clock of the
        file system."""
        shutil.rmtree(folder, ignore_errors=True)
        (folder / PROBE_FOLDER).mkdir(parents=True)
        log = folder / LOG_FILE
        log.touch()
        return log.stat().st_mtime

    def command(self, stage: Stage, folder: Path, more: Mapping[str, str] | None = None) -> Running:
        """Runs the command of a stage; its output and its probe go into a folder."""
        ours = {**_variables(stage, folder), **(more or {})}
        return _Swept(self._command(stage, folder, ours), ours[_TOKEN])

    def _command(self, stage: Stage, folder: Path, ours: Mapping[str, str]) -> Running:
        command = stage.command
        assert command is not None, "checks have none"
        log = (folder / LOG_FILE).resolve()

        def plain() -> Running:
            return Supervised(
                [shutil.which("bash") or "/bin/sh", "-c", command.line],
                log=log,
                environment={**os.environ, **command.environment, **ours},
                folder=self.project,
                limits=stage,
            )

        def again() -> Running:
            log.write_bytes(b"")
            shutil.rmtree(folder / PROBE_FOLDER, ignore_errors=True)
            (folder / PROBE_FOLDER).mkdir()
            return plain()

        self._refused.pop(stage.name, None)
        if self._warm is not None and stage.kind is not StageKind.PREPARE:
            try:
                return _Doubted(self._copy(command, ours, log), stage, again, self._share_no_more)
            except WarmRefused as refused:
                self._refused[stage.name] = str(refused)
        return plain()

    def refused(self, stage: Stage) -> str:
        """Why the command of a stage was not run as a copy of a warm process; empty where it was, or was not to be."""
        return self._refused.get(stage.name, "")

    def checks(self, requests: Sequence[Mapping[str, object]], folder: Path, limits: Limits) -> tuple[Running, Path]:
        """Checks numbers in a process of its own; gives it and the file of its answers."""
        request, answers = (folder / "request.json").resolve(), (folder / "answers.jsonl").resolve()
        request.write_text(json.dumps(requests), encoding="utf-8")
        answers.unlink(missing_ok=True)
        running = Supervised(
            [sys.executable, "-m", "trueline.pipeline.checking", str(request), str(answers)],
            log=(folder / LOG_FILE).resolve(),
            environment={**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
            folder=self.project,
            limits=limits,
        )
        return running, answers

    def close(self) -> None:
        for worker in (*self._workers.values(), *self._retired):
            worker.close()
        self._workers.clear()
        self._retired.clear()

    def _share_no_more(self) -> None:
        """Reading models for others has done harm here: workers that are started from now on do not."""
        self._do_less(max(1, self._way))

    def _do_less(self, way: int) -> None:
        self._way = way
        self._retired += self._workers.values()  # of which copies may still run
        self._workers.clear()

    def _copy(self, command: Command, ours: Mapping[str, str], log: Path) -> Started:
        """The command as a copy of a process that has imported its libraries; one such process for each interpreter
        and set of variables."""
        python = command.line.split(" ", 1)[0]
        words = warm_words(command.line, python)
        if words is None:
            raise WarmRefused("no plain line of Python")
        place = json.dumps([python, dict(command.environment)], sort_keys=True)
        worker = self._workers.get(place)
        if worker is None or not worker.usable:
            self._retired += [] if worker is None else [worker]  # it has died, and is to be buried
            preload = tuple(self._warm or ())
            worker = WarmWorker(
                python, preload=preload, cwd=self.project, environment=command.environment, **_WAYS[self._way]
            )
            self._workers[place] = worker
        try:
            return worker.start(words, log=log, environment=ours)
        except WarmRefused:
            if not worker.spoilt or self._way == len(_WAYS) - 1:
                raise
        self._do_less(self._way + 1)
        return self._copy(command, ours, log)


class _Swept:
    """A command that may have ended the process that looks after it, and left others behind of which nobody knows: by
    what their environment says they are found."""

    def __init__(self, running: Running, token: str) -> None:
        self._running = running
        self._token = token
        self._ended: Ended | None = None

    def poll(self) -> Ended | None:
        if self._ended is None and (ended := self._running.poll()) is not None:
            strange = ended.code < 0 or ended.why
            self._ended = replace(ended, left=ended.left + end_marked(self._token)) if strange else ended
        return self._ended

    def kill(self) -> None:
        self._running.kill()


class _Doubted:
    """A copy that may have been given a model which the warm process had read. Where it then fails, its word does not
    count: the command is run again as a plain process. If that ends well, ``harmed`` is called."""

    def __init__(
        self, started: Started, limits: Limits, again: Callable[[], Running], harmed: Callable[[], None]
    ) -> None:
        self._started = started
        self._running: Running = Warm(started, limits)
        self._again: Callable[[], Running] | None = again
        self._harmed = harmed

    def poll(self) -> Ended | None:
        ended = self._running.poll()
        if ended is None:
            return None
        well = not ended.code and not ended.why
        if self._again is None:
            if well and self._started.took:
                self._harmed()
            return ended
        if well or not self._started.took:
            return ended
        self._running, self._again = self._again(), None
        return None

    def kill(self) -> None:
        self._again = None
        self._running.kill()


def _variables(stage: Stage, folder: Path) -> dict[str, str]:
    return {
        "TRUELINE_STAGE": stage.name,
        "TRUELINE_STAGE_KIND": stage.kind.value,
        _TOKEN: secrets.token_hex(8),
        "TRUELINE_LEVEL": "" if stage.precision == "fp32" else stage.precision,
        "TRUELINE_PROBE_DIR": str((folder / PROBE_FOLDER).resolve()),
    }
