"""Copies of the example projects to be spoilt, and the pipeline that is run on them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.mutants.catalogue import CUDA, PADDLE, TORCH
from trueline.pipelines import PipelineReport, StageKind, StageStatus
from trueline.records import Verdict

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = {PADDLE: "mobilenet_v3_small", TORCH: "sensor_transformer"}
MODE = "lite_train_lite_infer"
ORDER = (StageKind.PREPARE, StageKind.TRAIN, StageKind.EVAL, StageKind.EXPORT, StageKind.INFER)


@dataclass(frozen=True, slots=True)
class Said:
    """What was said of one run. ``blamed`` is the kind of the earliest stage that is wrong, ``reasons`` are those of
    whatever is worse than a warning, ``tipc`` is what TIPC says, which looks at exit codes alone."""

    verdict: Verdict
    blamed: str
    reasons: tuple[str, ...]
    tipc: str
    seconds: float
    commands: int
    executed: int
    blamed_all: tuple[str, ...] = field(default=())


def copied(name: str, folder: Path) -> Path:
    """A fresh copy of an example, without what an earlier run of it left, with its data."""
    project = folder / name
    unwanted = shutil.ignore_patterns("__pycache__", "lite_data", "output", "results")
    shutil.copytree(ROOT / "examples" / name, project, ignore=unwanted)
    subprocess.run([sys.executable, "data.py", "--out", "lite_data"], cwd=project, check=True, capture_output=True)
    return project


def environment() -> dict[str, str]:
    """Where commands find this interpreter and this source tree."""
    folder = str(Path(sys.executable).parent)
    path = os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": path}


def judged(project: Path, config: str, *, seed: int = 0, jobs: int = 2, warm: bool = True) -> Said:
    """Runs a pipeline in a project as its user would: in its folder, from its config."""
    from trueline.pipeline import pipeline

    file = project / config if config == CUDA else project / "test_tipc" / "configs" / CONFIGS[project.name] / config
    before, variables = os.getcwd(), {**environment(), "TRUELINE_PROBE_SEED": str(seed)}
    kept = {name: os.environ.get(name) for name in variables}
    begin = time.monotonic()
    try:
        os.chdir(project)
        os.environ.update(variables)
        report = pipeline(file, MODE, jobs=jobs, warm=("numpy",) if warm else ())
    finally:
        os.chdir(before)
        _restore(kept)
    return heard(report, time.monotonic() - begin)


def _restore(kept: Mapping[str, str | None]) -> None:
    for name, value in kept.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def heard(report: PipelineReport, seconds: float) -> Said:
    """What a report says, in a few words."""
    kinds = {result.stage.name: result.stage.kind for result in report.results}
    blamed: list[StageKind] = []
    reasons: list[str] = []
    for result in report.results:
        findings = [one for one in result.findings if one.verdict > Verdict.WARN]
        for one in findings:
            if one.verdict >= Verdict.FAIL:
                blamed.append(kinds.get(one.blamed, result.stage.kind))
            reasons.append(f"{one.verdict}: {one.blamed or result.stage.candidate}: {one.what}: {one.reason}")
        if not findings and result.verdict > Verdict.WARN:
            if result.verdict >= Verdict.FAIL and result.status is not StageStatus.SKIPPED:
                blamed.append(kinds.get(result.stage.candidate, result.stage.kind))
            reasons.append(f"{result.verdict}: {result.stage.name}: {result.status}: {result.reason}")
    ordered = [kind for kind in ORDER if kind in blamed]
    run = [result for result in report.results if result.executed]
    bad = sum(result.exit_code not in (0, None) for result in run)
    tipc = f"{bad} of {len(run)} failed" if bad else f"{len(run)}/{len(run)} success"
    first = str(ordered[0]) if ordered else ""
    names = tuple(str(kind) for kind in ordered)
    fresh = sum(not result.reused for result in run)
    return Said(report.verdict, first, tuple(reasons), tipc, seconds, len(run), fresh, names)
