"""What is said about a run in the light of the last one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from trueline.pipeline.trend import begin, changes, end, kept_name, last_report
from trueline.pipelines import (
    Command,
    NumberFinding,
    PipelineReport,
    Plan,
    Stage,
    StageKind,
    StageResult,
    StageStatus,
)
from trueline.records import Verdict

TRAIN = Stage("chain/train", StageKind.TRAIN, Command("python train.py"), chain="chain")
CHECK = Stage("chain/train.precision", StageKind.CHECK, after=("chain/train",), chain="chain", candidate="chain/train")


def report(*results: StageResult, config: str = "a.txt") -> PipelineReport:
    plan = Plan(config, "tipc-32", "tiny", "whole_infer", "out", tuple(result.stage for result in results))
    return PipelineReport(plan, results)


DONE = StageResult(TRAIN, StageStatus.DONE, Verdict.PASS, seconds=10.0, peak_bytes=1 << 30)
FAILED = replace(DONE, status=StageStatus.FAILED, verdict=Verdict.FAIL, reason="exit code 1")


def whats(old: PipelineReport, new: PipelineReport) -> list[str]:
    return [change.what for change in changes(old, new)]


def test_failures_come_and_go() -> None:
    assert whats(report(DONE), report(FAILED)) == ["new failure"]
    assert whats(report(FAILED), report(DONE)) == ["fixed"]
    assert whats(report(DONE), report(DONE)) == []


def test_slower_and_larger() -> None:
    assert whats(report(DONE), report(replace(DONE, seconds=20.0))) == ["slower"]
    assert whats(report(DONE), report(replace(DONE, seconds=13.0))) == []
    assert whats(report(DONE), report(replace(DONE, peak_bytes=2 << 30))) == ["larger"]
    assert whats(report(DONE), report(replace(DONE, seconds=20.0, reused=True))) == []


def test_less_exact_though_within_its_limit() -> None:
    def checked(error: float) -> StageResult:
        finding = NumberFinding("outputs", Verdict.PASS, "", numbers={"error": error})
        return StageResult(CHECK, StageStatus.DONE, Verdict.PASS, findings=(finding,))

    assert whats(report(checked(1e-7)), report(checked(1e-6))) == ["less exact"]
    assert whats(report(checked(1e-7)), report(checked(2e-7))) == []


def test_stages_that_appear_or_are_gone() -> None:
    other = replace(DONE, stage=replace(TRAIN, name="chain/other"))
    assert whats(report(DONE), report(DONE, other)) == ["new"]
    assert whats(report(DONE, other), report(DONE)) == ["gone"]
    assert whats(report(DONE, config="b.txt"), report(DONE, other)) == [], "another config is another story"


def test_what_is_kept_of_a_plan(tmp_path: Path) -> None:
    plan, other = report(DONE).plan, report(DONE, config="b.txt").plan
    assert last_report(tmp_path, plan) is None
    assert not begin(tmp_path, plan), "there was none"
    assert not begin(tmp_path, plan), "it was killed"
    end(tmp_path, report(FAILED))
    (tmp_path / kept_name(plan)).write_text("{")
    assert not begin(tmp_path, plan), "it failed"
    end(tmp_path, report(DONE))
    assert begin(tmp_path, plan), "it was clean"
    assert not begin(tmp_path, other), "and another config is another story"
    assert last_report(tmp_path, plan) is None, "it cannot be read"
