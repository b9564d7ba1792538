"""Runs a plan: starts what may start, within a bound, watches it, writes down how it ended.

Every stage has a folder of its own below ``stages`` with its whole output (``log.txt``), what it left on the probe
batch (``probe``) and its result. Nothing is taken for done because a command said so: a training must have written its
checkpoint, an export its model, after it was started.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from trueline.errors import TruelineError
from trueline.pipeline.checking import answers_in, request_of
from trueline.pipeline.graph import Graph
from trueline.pipeline.keeping import keep_operators
from trueline.pipeline.naming import name_operators
from trueline.pipeline.plan_checks import MOST_SIBLINGS
from trueline.pipeline.processes import Ended, Running, status_of
from trueline.pipeline.reasons import last_words, reason_in
from trueline.pipeline.resume import Memory, files_named, stage_before
from trueline.pipeline.starting import LOG_FILE, PROBE_FOLDER, Starter
from trueline.pipelines import (
    UNSUPPORTED_CODE,
    NumberFinding,
    Plan,
    Stage,
    StageKind,
    StageResult,
    StageRun,
    StageStatus,
)
from trueline.records import Verdict

STAGES_FOLDER = "stages"
OPERATORS_FOLDER = "operators"
KEPT_FOLDER = "kept"
_POLL_SECONDS = 0.02
_ATTEMPT_LOG = "log-{}.txt"
_VERDICTS = {
    StageStatus.DONE: Verdict.PASS,
    StageStatus.FAILED: Verdict.FAIL,
    StageStatus.SKIPPED: Verdict.NOT_COMPARED,
    StageStatus.UNSUPPORTED: Verdict.NOT_COMPARED,
}

Announce = Callable[[StageResult], None]
"""Hears of a stage that ended."""


@dataclass(slots=True)
class _Job:
    """Something that runs: one command, or a few checks in one process."""

    stages: tuple[Stage, ...]
    running: Running
    started: str
    marker: float
    """The time of a file that was written just before: what a command writes must not be older."""
    key: str = ""
    answers: Path | None = None
    failed: tuple[str, ...] = ()
    """How the attempts before this one ended."""


class Runner:
    """Works a plan off. ``announce`` hears of every stage that ended, as it ends."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        *,
        jobs: int,
        memory: Memory,
        warm: Sequence[str] | None = None,
        announce: Announce | None = None,
    ) -> None:
        self.plan = plan
        self.folder = folder
        self.graph = Graph(plan.stages)
        self._jobs = jobs
        self._memory = memory
        self._announce = announce or (lambda result: None)
        self._running: list[_Job] = []
        self._project = Path.cwd()
        self._starter = Starter(self._project, warm)
        self._read = {name for stage in plan.stages for name in stage.reads}

    def run(self, *, which_op: bool = False, keep_fp32: float | None = None) -> tuple[StageResult, ...]:
        """Gives the results in the order of the plan; looks closer at those that are wrong, or at all trained models,
        where that is asked for."""
        try:
            while not self.graph.finished:
                self._start_ready()
                if not self._poll():
                    time.sleep(_POLL_SECONDS)
            results = self.graph.in_order()
            if which_op:
                results = name_operators(results, self._seen_by_name, self._starter, self.folder / OPERATORS_FOLDER)
            if keep_fp32 is not None:
                place = self.folder / KEPT_FOLDER
                results = keep_operators(results, self._seen_by_name, self._starter, place, keep_fp32)
            return results
        finally:
            self._stop()

    def stage_folder(self, name: str) -> Path:
        return self.folder / STAGES_FOLDER / name

    # Starting.

    def _start_ready(self) -> None:
        """Starts commands while there is room, then checks: many of these in one process, since that must import a lot
        to do little."""
        ready = list(self.graph.ready([stage for job in self._running for stage in job.stages]))
        commands = [stage for stage in ready if stage.kind is not StageKind.CHECK]
        checks = tuple(stage for stage in ready if stage.kind is StageKind.CHECK)
        for stage in commands:
            if len(self._running) < self._jobs:
                self.graph.start(stage)
                self._start(stage)
        if checks and not commands and len(self._running) < self._jobs:
            self._start_checks(checks)

    def _start(self, stage: Stage) -> None:
        folder = self.stage_folder(stage.name)
        before = [self.graph.results[name] for name in stage.after]
        key = self._memory.key(stage, before)
        known = self._memory.done_before(stage, key, folder)
        if known is not None:
            self._end(known)
            return
        marker = self._starter.empty(folder)
        if stage.command is not None and stage.command.log:
            with contextlib.suppress(FileNotFoundError):  # that of an earlier run must not be taken for this one's
                (self._project / stage.command.log).unlink()
        self._running.append(_Job((stage,), self._starter.command(stage, folder), _now(), marker, key))

    def _start_checks(self, checks: tuple[Stage, ...]) -> None:
        folder = self.stage_folder(checks[0].name)
        for stage in checks:
            self.graph.start(stage)
        marker = self._starter.empty(folder)
        running, answers = self._starter.checks([self._request(stage) for stage in checks], folder, checks[0])
        self._running.append(_Job(checks, running, _now(), marker, answers=answers))

    def _request(self, stage: Stage) -> dict[str, object]:
        candidate = self._seen(self.plan.stage(stage.candidate))
        assert candidate is not None, "a check starts when its candidate is done"
        earlier = self._earlier(candidate.stage)
        reference = self._reference(stage, earlier)
        followers = sorted({str(one.kind) for one in self.plan.stages if candidate.stage.name in one.after
                            and one.kind is not StageKind.CHECK})  # fmt: skip
        options = {**self.plan.options, "followers": followers}
        return request_of(stage, reference, candidate, earlier, self._siblings(candidate.stage), options)

    def _siblings(self, candidate: Stage) -> list[StageRun]:
        """The first other stages of the same kind that were run; of inferences those of the chain."""
        others = (
            stage
            for stage in self.plan.stages
            if stage.kind is candidate.kind
            and stage.name != candidate.name
            and (stage.kind is not StageKind.INFER or stage.chain == candidate.chain)
        )
        seen = (self._seen(stage) for stage in others)
        done = (run for run in seen if run is not None and run.result.status is StageStatus.DONE)
        return list(itertools.islice(done, MOST_SIBLINGS))

    def _earlier(self, candidate: Stage) -> list[StageRun]:
        """The stages of the same chain before one, that were run."""
        found = []
        for stage in self.plan.stages:
            if stage.name == candidate.name:
                break
            same = stage.chain == candidate.chain and stage.command is not None and stage.kind is not StageKind.INFER
            if same and (run := self._seen(stage)) is not None and run.result.status is StageStatus.DONE:
                found.append(run)
        return found

    def _reference(self, check: Stage, earlier: Sequence[StageRun]) -> StageRun | None:
        """The stage to compare with; where it left no probe, the nearest before it that did."""
        names = [stage.name for stage in self.plan.stages]
        if check.reference not in names:
            return self._from_disk(check)
        planned = self._seen(self.plan.stage(check.reference))
        if planned is None or planned.stage.chain != check.chain or _has_files(planned.probe):
            return planned
        before = [run for run in earlier if names.index(run.stage.name) <= names.index(check.reference)]
        return next((run for run in reversed(before) if _has_files(run.probe)), planned)

    def _from_disk(self, check: Stage) -> StageRun | None:
        """A training in full precision that another config left in this folder."""
        folder = self.stage_folder(check.reference)
        stage = replace(check, name=check.reference, kind=StageKind.TRAIN, precision="fp32", check=None)
        result = stage_before(folder, stage) if check.reference else None
        return None if result is None else StageRun(stage, result, folder / PROBE_FOLDER)

    def _seen_by_name(self, name: str) -> StageRun | None:
        stage = next((stage for stage in self.plan.stages if stage.name == name), None)
        return None if stage is None else self._seen(stage)

    def _seen(self, stage: Stage) -> StageRun | None:
        result = self.graph.results.get(stage.name)
        return None if result is None else StageRun(stage, result, self.stage_folder(stage.name) / PROBE_FOLDER)

    # Ending.

    def _poll(self) -> bool:
        """Looks after everything that runs; says whether anything ended."""
        ended = [(job, end) for job in self._running if (end := job.running.poll()) is not None]
        for job, end in ended:
            self._running.remove(job)
            try:
                if job.answers is None:
                    self._end_command(job, end)
                else:
                    self._end_checks(job, end)
            except OSError as error:
                raise TruelineError(self._unwritten(job, end, error)) from error
        return bool(ended)

    def _unwritten(self, job: _Job, ended: Ended, error: OSError) -> str:
        """What is said where we cannot write down how a stage ended; most often it has filled the disk itself."""
        status, why = status_of(ended, UNSUPPORTED_CODE)
        how = ": ".join(part for part in (why, last_words(self.stage_folder(job.stages[0].name) / LOG_FILE)) if part)
        return (
            f"{job.stages[0].name} has ended ({how or status.value}), but that cannot be written down in "
            f"{self.folder}: {error.strerror or error}; make room and begin again: what is done stays done"
        )

    def _end_command(self, job: _Job, ended: Ended) -> None:
        stage = job.stages[0]
        folder = self.stage_folder(stage.name)
        log = folder / LOG_FILE
        status, reason = self._status(job, ended)
        if status not in (StageStatus.DONE, StageStatus.UNSUPPORTED) and len(job.failed) < stage.retries:
            self._again(job, reason)
            return
        verdict = _VERDICTS.get(status, Verdict.ERROR)
        if status is StageStatus.DONE and (warnings := _warnings(job, ended)):
            verdict, reason = Verdict.WARN, warnings
        elif job.failed:
            reason += f" (attempt {len(job.failed) + 1} of {stage.retries + 1})"
        result = StageResult(
            stage,
            status,
            verdict,
            reason,
            exit_code=ended.code,
            seconds=ended.seconds,
            peak_bytes=ended.peak_bytes,
            folder=str(folder),
            log=str(log),
            started=job.started,
            attempts=len(job.failed) + 1,
            not_warm=self._starter.refused(stage),
        )
        folder.mkdir(parents=True, exist_ok=True)  # another command may have deleted it
        self._copy_log(stage, log)
        self._memory.keep(result, job.key, folder)
        self._end(result)

    def _status(self, job: _Job, ended: Ended) -> tuple[StageStatus, str]:
        """How a command ended, and why where it did not end well."""
        stage = job.stages[0]
        status, reason = status_of(ended, UNSUPPORTED_CODE)
        if status in (StageStatus.FAILED, StageStatus.CRASHED, StageStatus.UNSUPPORTED):
            last = reason_in(self.stage_folder(stage.name) / LOG_FILE, ended.code)
            reason = ": ".join(part for part in (reason, last) if part)
        if status is StageStatus.CRASHED and ended.left:
            reason += f"; it left {ended.left} processes behind, which were ended"
        if status is StageStatus.DONE and (missing := self._missing(stage, job.marker)):
            return StageStatus.FAILED, missing
        return status, f"{reason} ({stage.timeout:g} s)" if status is StageStatus.TIMED_OUT else reason

    def _again(self, job: _Job, reason: str) -> None:
        """Runs a command that failed once more; the outputs of its attempts are kept."""
        stage = job.stages[0]
        folder = self.stage_folder(stage.name)
        logs = {path.name: path.read_bytes() for path in folder.glob(_ATTEMPT_LOG.format("*"))}
        logs[_ATTEMPT_LOG.format(len(job.failed) + 1)] = (folder / LOG_FILE).read_bytes()
        marker = self._starter.empty(folder)
        for name, content in logs.items():
            (folder / name).write_bytes(content)
        running = self._starter.command(stage, folder)
        self._running.append(_Job((stage,), running, _now(), marker, job.key, failed=(*job.failed, reason)))

    def _missing(self, stage: Stage, marker: float) -> str:
        """What a command that ended well should have written and did not; files from before do not count."""
        for name in stage.writes:
            if name not in self._read and stage.kind is StageKind.TRAIN:
                continue
            found = files_named(self._project / name)
            if not found:
                return f"ended well but wrote no {name}"
            if all(path.stat().st_mtime < marker for path in found):
                return f"ended well but did not write {name}; what is there is from before"
        return ""

    def _copy_log(self, stage: Stage, log: Path) -> None:
        """Puts the output where the classic tester has it; there a later command may write over it."""
        if stage.command is not None and stage.command.log:
            place = self._project / stage.command.log
            with contextlib.suppress(OSError):
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(log, place)

    def _end_checks(self, job: _Job, ended: Ended) -> None:
        assert job.answers is not None, "checks answer into a file"
        answers = answers_in(job.answers)
        folder = job.answers.parent
        for stage in job.stages:
            findings = answers.get(stage.name)
            if findings is None:
                _, reason = status_of(ended, UNSUPPORTED_CODE)
                text = f"the check did not answer ({reason or 'it ended'}): {last_words(folder / LOG_FILE)}"
                findings = (NumberFinding("check", Verdict.ERROR, text),)
            self._end(self._checked(stage, findings, folder, ended.seconds / len(job.stages), job.started))

    def _checked(
        self, stage: Stage, findings: tuple[NumberFinding, ...], folder: Path, seconds: float, started: str
    ) -> StageResult:
        worst = max(findings, key=lambda finding: finding.verdict, default=None)
        verdict = Verdict.NOT_COMPARED if worst is None else worst.verdict
        reason = "nothing was compared" if worst is None else worst.reason if worst.verdict else ""
        return StageResult(
            stage,
            StageStatus.DONE,
            verdict,
            reason,
            seconds=seconds,
            folder=str(folder),
            log=str(folder / LOG_FILE),
            started=started,
            findings=findings,
        )

    def _end(self, result: StageResult) -> None:
        skipped = self.graph.end(result)
        for one in (result, *skipped):
            self._announce(one)

    def _stop(self) -> None:
        """Ends whatever still runs: after an interruption, or a fault of ours."""
        for job in self._running:
            job.running.kill()
        for job in self._running:
            while job.running.poll() is None:
                time.sleep(_POLL_SECONDS)
        self._running.clear()
        self._starter.close()


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")


def _warnings(job: _Job, ended: Ended) -> str:
    """What is to be said of a command that ended well."""
    said = []
    if job.failed:
        attempts = len(job.failed) + 1
        said.append(f"succeeded at attempt {attempts} only; the one before: {job.failed[-1]}")
    if ended.left:
        said.append(f"left {ended.left} processes behind, which were ended")
    if ended.left_out:
        said.append(f"printed {ended.printed:,} bytes, of which the log leaves out {ended.left_out:,}")
    if ended.lost:
        said.append(f"its output could not be kept: {ended.lost}")
    return "; ".join(said)


def _has_files(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())
