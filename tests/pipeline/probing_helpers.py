"""Stages without commands, for the tests of numbers: what a probe leaves behind is made by the probe itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trueline.pipeline.contract import check_stage
from trueline.pipeline.probe import Probe
from trueline.pipeline.recording import now
from trueline.pipelines import CheckKind, Command, NumberFinding, Stage, StageKind, StageResult, StageRun, StageStatus
from trueline.records import Verdict

Model = Callable[..., Any]


class Chain:
    """Stages of one chain, made one after another."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._patch = monkeypatch
        self.runs: list[StageRun] = []

    @contextmanager
    def stage(self, name: str, kind: StageKind, *, level: str = "fp32", **settings: str) -> Iterator[Probe]:
        """A stage whose script is the body of the ``with``; gives it the hook."""
        folder = self._folder / name / "probe"
        stage = Stage(name, kind, Command(f"python {name}.py"), precision=level, settings=settings)
        result = StageResult(
            stage, StageStatus.DONE, Verdict.PASS, started=now(), log=str(self._folder / f"{name}.log")
        )
        with self._patch.context() as patch:
            patch.setenv("TRUELINE_PROBE_DIR", str(folder))
            patch.setenv("TRUELINE_STAGE", name)
            yield Probe()
        self.runs.append(StageRun(stage, result, folder))

    def run(self, name: str) -> StageRun:
        return next(run for run in self.runs if run.stage.name == name)

    def check(
        self, reference: str | None, candidate: str, check: CheckKind = CheckKind.NEIGHBOURS, **options: object
    ) -> Mapping[str, NumberFinding]:
        """What a check of the plan finds, by name (of findings with the same name the worst)."""
        names = [run.stage.name for run in self.runs]
        earlier = tuple(self.runs[: names.index(candidate)])
        node = Stage("check", StageKind.CHECK, check=check, reference=reference or "", candidate=candidate)
        before = None if reference is None else self.run(reference)
        findings = check_stage(node, before, self.run(candidate), {"earlier": earlier, **options})
        found: dict[str, NumberFinding] = {}
        for finding in findings:
            if finding.what not in found or finding.verdict > found[finding.what].verdict:
                found[finding.what] = finding
        return found


def failures(found: Mapping[str, NumberFinding]) -> dict[str, str]:
    """What failed, and who is blamed."""
    return {name: finding.blamed for name, finding in found.items() if finding.verdict >= Verdict.FAIL}


def pictures(count: int = 8, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(seed).normal(size=(count, 3, 5, 5)).astype(np.float32)


def linear_model(seed: int = 1, classes: int = 6) -> Model:
    """A model without a framework: two layers of numpy's."""
    random = np.random.default_rng(seed)
    first = random.normal(size=(75, 16)).astype(np.float32)
    second = random.normal(size=(16, classes)).astype(np.float32)

    def run(batch: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        hidden = np.maximum(batch.reshape(len(batch), -1).astype(np.float32) @ first, 0.0)
        return np.asarray(hidden @ second / 16.0, np.float32)

    return run


def worst(findings: Sequence[NumberFinding]) -> Verdict:
    return max(finding.verdict for finding in findings)
