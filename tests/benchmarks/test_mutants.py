"""The faults that are planted in the example projects: each fits the project as it is today, and is one of its code."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from benchmarks.mutants.catalogue import MUTANTS, PADDLE, TORCH, Change, Mutant
from benchmarks.mutants.projects import CONFIGS, heard

from trueline.pipelines import (
    CheckKind,
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

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_every_kind_is_planted_in_both_projects() -> None:
    kinds = Counter((mutant.kind, mutant.project) for mutant in MUTANTS)
    names = {kind for kind, _ in kinds}
    assert len(names) == 15
    assert kinds == Counter({(kind, project): 1 for kind in names for project in (PADDLE, TORCH)})


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: f"{one.project}-{one.kind}")
def test_a_fault_applies_to_the_project_as_it_is(mutant: Mutant, tmp_path: Path) -> None:
    project = tmp_path / mutant.project
    shutil.copytree(EXAMPLES / mutant.project, project)
    before = {path.name: path.read_text(encoding="utf-8") for path in project.glob("*.py")}
    for change in mutant.changes:
        change.apply(project)
    after = {path.name: path.read_text(encoding="utf-8") for path in project.glob("*.py")}
    assert {name for name in before if before[name] != after[name]} == {change.file for change in mutant.changes}
    for name, text in after.items():
        compile(text, name, "exec")
    assert (project / "test_tipc" / "configs" / CONFIGS[mutant.project] / mutant.config).is_file()


def test_a_fault_that_no_longer_fits_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("a = 1\na = 1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="2 times"):
        Change("train.py", "a = 1", "a = 2").apply(tmp_path)
    with pytest.raises(ValueError, match="0 times"):
        Change("train.py", "b = 1", "b = 2").apply(tmp_path)


def report(*findings: NumberFinding, code: int = 0) -> PipelineReport:
    command = Command("python train.py")
    train = Stage("train", StageKind.TRAIN, command)
    infer = Stage("infer", StageKind.INFER, command)
    check = Stage("check", StageKind.CHECK, check=CheckKind.NEIGHBOURS, reference="train", candidate="infer")
    stages = (train, infer, check)
    verdict = max((one.verdict for one in findings), default=Verdict.PASS)
    failed = StageStatus.FAILED if code else StageStatus.DONE
    results = (
        StageResult(train, StageStatus.DONE, Verdict.PASS, exit_code=0),
        StageResult(infer, failed, Verdict.FAIL if code else Verdict.PASS, exit_code=code),
        StageResult(check, StageStatus.DONE, verdict, findings=findings),
    )
    return PipelineReport(Plan("c", "tipc-32", "m", "mode", "out", stages), results)


def test_the_earliest_wrong_stage_is_the_blamed_one() -> None:
    said = heard(report(), 1.0)
    assert (said.verdict, said.blamed, said.tipc) == (Verdict.PASS, "", "2/2 success")
    fail = NumberFinding("outputs", Verdict.FAIL, "differ", blamed="infer")
    said = heard(report(fail, NumberFinding("parameters", Verdict.FAIL, "differ", blamed="train")), 1.0)
    assert (said.blamed, said.blamed_all, said.tipc) == ("train", ("train", "infer"), "2/2 success")
    assert heard(report(fail), 1.0).blamed == "infer"
    said = heard(report(code=1), 1.0)
    assert (said.verdict, said.blamed, said.tipc) == (Verdict.FAIL, "infer", "1 of 2 failed")
