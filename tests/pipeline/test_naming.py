"""Which operator: both stages are run again with their calls captured, and compared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from trueline.pipeline.naming import name_operators
from trueline.pipeline.processes import Ended, Limits, Running, Warm
from trueline.pipelines import (
    CheckKind,
    Command,
    NumberFinding,
    Stage,
    StageKind,
    StageResult,
    StageRun,
    StageStatus,
)
from trueline.records import Verdict

EVAL = Stage("chain/eval", StageKind.EVAL, Command("python eval.py"), chain="chain")
EXPORT = Stage("chain/export", StageKind.EXPORT, Command("python export.py"), chain="chain")
CHECK = Stage(
    "chain/export.neighbours",
    StageKind.CHECK,
    chain="chain",
    check=CheckKind.NEIGHBOURS,
    reference="chain/eval",
    candidate="chain/export",
)
WRONG = NumberFinding("outputs (export)", Verdict.FAIL, "off by 3", "chain/export")


class FakeRunning:
    def __init__(self, code: int) -> None:
        self.code = code

    def poll(self) -> Ended:
        return Ended(self.code)

    def kill(self) -> None: ...


class FakeStarter:
    """Writes down what it is asked to start; the check answers that relu is wrong."""

    def __init__(self, code: int = 0) -> None:
        self.code = code
        self.started: list[tuple[str, str]] = []
        self.asked: list[Mapping[str, object]] = []

    def empty(self, folder: Path) -> float:
        folder.mkdir(parents=True, exist_ok=True)
        return 0.0

    def command(self, stage: Stage, folder: Path, more: Mapping[str, str]) -> Running:
        self.started.append((stage.name, more["TRUELINE_PROBE_CAPTURE"]))
        return FakeRunning(self.code)

    def checks(self, requests: Sequence[Mapping[str, object]], folder: Path, limits: Limits) -> tuple[Running, Path]:
        self.asked += requests
        finding = {
            "what": "first operator",
            "verdict": "FAIL",
            "reason": "relu",
            "blamed": "chain/export",
            "numbers": {},
        }
        answers = folder / "answers.jsonl"
        answers.write_text(json.dumps({"stage": CHECK.name, "findings": [finding]}) + "\n")
        return FakeRunning(0), answers


def results(*findings: NumberFinding) -> list[StageResult]:
    runs = [StageResult(stage, StageStatus.DONE, Verdict.PASS) for stage in (EVAL, EXPORT)]
    return [*runs, *(StageResult(CHECK, StageStatus.DONE, one.verdict, findings=(one,)) for one in findings)]


def named(starter: FakeStarter, folder: Path, *findings: NumberFinding) -> tuple[StageResult, ...]:
    known = {result.stage.name: result for result in results()}

    def seen(name: str) -> StageRun | None:
        return StageRun(known[name].stage, known[name], folder) if name in known else None

    return name_operators(results(*findings), seen, starter, folder)  # type: ignore[arg-type]


def test_both_sides_run_again_and_the_operator_is_named(tmp_path: Path) -> None:
    starter = FakeStarter()
    found = named(starter, tmp_path, WRONG, WRONG)
    assert starter.started == [("chain/eval", "1"), ("chain/export", "1")], "once for a chain"
    assert starter.asked[0]["operator"] is True
    assert [finding.reason for finding in found[2].findings] == ["off by 3", "relu"]
    assert found[3].findings == (WRONG,)


def test_nothing_is_run_where_the_outputs_agree(tmp_path: Path) -> None:
    starter = FakeStarter()
    other = NumberFinding("inputs (export)", Verdict.FAIL, "other inputs")
    assert named(starter, tmp_path, other) == tuple(results(other))
    assert starter.started == []


def test_a_stage_that_fails_when_run_again(tmp_path: Path) -> None:
    found = named(FakeStarter(code=3), tmp_path, WRONG)
    assert found[2].findings[1].verdict is Verdict.NOT_COMPARED
    assert "chain/eval did not end well" in found[2].findings[1].reason


class FakeStarted:
    """A command of a warm worker that never ends by itself."""

    pid = 0
    peak_bytes = 5
    killed = False
    left = printed = left_out = 0
    lost = ""

    def poll(self) -> int | None:
        return -9 if self.killed else None

    def kill(self) -> None:
        self.killed = True


@pytest.mark.parametrize(("timeout", "why"), [(0.0, "timed out"), (None, "ended by the tester")])
def test_limits_of_warm_commands(timeout: float | None, why: str) -> None:
    started = FakeStarted()
    warm = Warm(started, Stage("x", StageKind.INFER, timeout=timeout))
    assert warm.poll() is None
    if timeout is None:
        assert not started.killed
        warm.kill()
    ended = warm.poll()
    assert ended is not None and (ended.code, ended.why, ended.peak_bytes) == (-9, why, 5)
