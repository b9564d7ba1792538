"""``pipeline``: a config and a mode -> a report. Reads, plans, runs, compares with the last run, writes the reports."""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path

from trueline._version import __version__
from trueline.errors import UsageError
from trueline.pipeline.arranging import arranged, check_interpreters
from trueline.pipeline.config import read_config
from trueline.pipeline.curves import histories_of, past_runs
from trueline.pipeline.plan import plan_pipeline
from trueline.pipeline.resume import Memory, environment_facts
from trueline.pipeline.run import Runner
from trueline.pipeline.status import StatusFile
from trueline.pipeline.trend import begin, changes, end, kept_name, last_report, remember
from trueline.pipelines import PipelineInfo, PipelineReport, Plan, StageResult
from trueline.report.pipeline_html import write_pipeline_html
from trueline.report.pipeline_json import read_pipeline_json, write_pipeline_json
from trueline.report.pipeline_junit import write_pipeline_junit

REPORT_FILE = "pipeline.json"
Announce = Callable[[StageResult, str], None]
"""Hears of a stage that ended, and the classic line about its command; empty for a check."""
_LIBRARIES = ("torch", "paddlepaddle", "paddlepaddle-gpu", "numpy", "onnxruntime")


def pipeline(
    config: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    mode: str,
    *,
    out: str | os.PathLike[str] | None = None,
    plan: bool = False,
    jobs: int | None = None,
    timeout: float | None = None,
    memory: int | None = None,
    retries: int | None = None,
    gpu: str = "",
    benchmark: str = "",
    prepare: str = "",
    resume: str = "auto",
    warm: Sequence[str] | None = None,
    which_op: bool = False,
    keep_fp32: float | None = None,
    layout: str = "",
    python: str = "",
    announce: Announce | None = None,
) -> PipelineReport:
    """Tests training, export and inference of a project as its configs say, in the current folder.

    Args:
        config: a config of TIPC (32-line or 51-line form), one in YAML, or several of the same model, which are then
            run as one pipeline: the norm and the amp config of a model, to have the trainings compared in pairs.
        mode: ``lite_train_lite_infer``, ``lite_train_whole_infer``, ``whole_train_whole_infer``, ``whole_infer`` or
            ``benchmark_train``.
        out: where everything goes; by default where TIPC's scripts put it.
        plan: only plan; the commands are in ``report.plan.commands``.
        jobs: how many commands may run at the same time; by default one for every four cores. A GPU is never shared.
        timeout: seconds that a stage may take, whatever the config says; by default an hour, but for whole trainings.
        memory: bytes that a stage may hold with all of its processes.
        retries: how often a command that failed is run again, whatever the config says; by default it is not. What
            succeeds only then is a warning.
        gpu: the card for ``whole_infer``.
        benchmark: what ``benchmark_train`` is to run, like ``dynamic_bs8_fp32_DP_N1C1``.
        prepare: a command to run before everything else.
        resume: ``auto`` keeps what an unfinished or failed run has done, as far as nothing changed; ``always`` keeps
            that of a clean run as well; ``never`` runs everything.
        warm: names of modules; commands that are plain lines of Python are then run as copies of a process that has
            imported them. Empty: what the scripts import is found out.
        which_op: where the outputs of two stages disagree, run both once more with their calls captured and name the
            first operator that went wrong.
        keep_fp32: a relative error against float64; every trained model is run once more under autocast, and the fewest
            operators are named that must stay in float32 for its outputs to be so exact.
        layout: by whose custom results lie: ``tipc``, or ``log`` for ``./log/MODEL/MODE/norm_train_gpus_0`` where the
            config is one of the short form.
        python: the interpreter of the project's scripts, whatever the config says.
        announce: is called with every result as a stage ends, and with the classic line about its command.

    Raises:
        UsageError: a config cannot be understood; the message names the line.
    """
    paths = [config] if isinstance(config, (str, os.PathLike)) else list(config)
    if not paths:
        raise UsageError("no config is given")
    _check_limits(jobs=jobs, timeout=timeout, memory=memory, keep_fp32=keep_fp32)
    if retries is not None and retries < 0:
        raise UsageError(f"retries is {retries}; a command is run again 0 times or more")
    recipes = [arranged(read_config(Path(path)), layout, python) for path in paths]
    planned = plan_pipeline(
        recipes,
        mode,
        out="" if out is None else str(out),
        gpu=gpu,
        benchmark=benchmark,
        prepare=prepare,
        timeout=timeout,
        memory=memory,
        retries=retries,
    )
    if plan:
        return PipelineReport(planned)
    check_interpreters(recipes)
    chosen = warm if warm is not None else next((recipe.warm for recipe in recipes if recipe.warm), None)
    return _run(planned, _Way(jobs or _default_jobs(), resume, chosen, which_op, keep_fp32, announce,
                               not recipes[0].plain_names))  # fmt: skip


def load_pipeline(path: str | os.PathLike[str]) -> PipelineReport:
    """The report of a pipeline that was run before: its file, or its folder."""
    place = Path(path)
    return read_pipeline_json(place / REPORT_FILE if place.is_dir() else place)


def _check_limits(**limits: float | None) -> None:
    for name, value in limits.items():
        if value is not None and not value > 0:
            raise UsageError(f"{name} is {value}; it must be more than 0")


@dataclass(frozen=True, slots=True)
class _Way:
    """How a plan is worked off; see ``pipeline``."""

    jobs: int
    resume: str
    warm: Sequence[str] | None
    which_op: bool
    keep_fp32: float | None
    announce: Announce | None
    with_model: bool
    """Whether the classic lines name the model."""


def _run(plan: Plan, way: _Way) -> PipelineReport:
    folder = Path(plan.folder)
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        before = last_report(folder, plan)
        policy = "never" if begin(folder, plan) and way.resume == "auto" else way.resume
        report = _executed(plan, folder, replace(way, resume=policy))
        report = replace(
            report,
            changes=changes(before, report),
            histories=histories_of(report.results),
            past=past_runs(folder, plan),
        )
        _write(report, folder)
        remember(folder, report)
        end(folder, report)
    return report


def _executed(plan: Plan, folder: Path, way: _Way) -> PipelineReport:
    created = datetime.now(timezone.utc).isoformat(timespec="seconds")
    (folder / REPORT_FILE).unlink(missing_ok=True)  # a run that is killed leaves none
    started = time.monotonic()
    status = StatusFile(folder, plan, with_model=way.with_model)

    def ended(result: StageResult) -> None:
        line = status.add(result) if result.stage.command is not None else ""
        if way.announce is not None:
            way.announce(result, line)

    memory = Memory(folder, Path.cwd(), way.resume)
    runner = Runner(plan, folder, jobs=way.jobs, memory=memory, warm=way.warm, announce=ended)
    results = runner.run(which_op=way.which_op, keep_fp32=way.keep_fp32)
    info = PipelineInfo(
        created=created,
        tool_version=__version__,
        seconds=time.monotonic() - started,
        jobs=way.jobs,
        host=socket.gethostname(),
        python=platform.python_version(),
        versions=_versions(),
        environment=environment_facts(os.environ),
        folder=str(folder),
    )
    return PipelineReport(plan, results, info)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keeps others out of a folder: two testers would take away each other's logs."""
    with open(folder / ".lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"another pipeline is running in {folder}; wait for it, or give another --out") from None
        except OSError:  # a file system without locks
            pass
        yield


def _write(report: PipelineReport, folder: Path) -> None:
    for name, write in (
        (REPORT_FILE, write_pipeline_json),
        ("pipeline.html", write_pipeline_html),
        ("junit.xml", write_pipeline_junit),
    ):
        draft = folder / f".{name}.part"
        with open(draft, "w", encoding="utf-8", newline="") as file:
            write(report, file)
        draft.replace(folder / name)
    shutil.copyfile(folder / REPORT_FILE, folder / kept_name(report.plan))


def _default_jobs() -> int:
    return max(1, len(os.sched_getaffinity(0)) // 4 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 4) // 4)


def _versions() -> dict[str, str]:
    """Of the libraries that commands of the same interpreter would find; nothing is imported."""
    found = {"python": sys.version.split()[0]}
    for name in _LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
