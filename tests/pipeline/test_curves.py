"""What a report keeps of the steps of its trainings and of the runs before it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tests.report.test_pipeline_reports import EXPORT, TRAIN
from trueline.pipeline.curves import histories_of, past_runs
from trueline.pipelines import Plan, StageResult, StageStatus
from trueline.records import Verdict

PLAN = Plan("a.txt", "tipc-32", "tiny", "lite_train_lite_infer", "out", ())


def trained(folder: Path, steps: int) -> StageResult:
    probe = folder / "probe"
    probe.mkdir(parents=True)
    rows = [{"step": step, "loss": 1.0 / (step + 1), "scale": None, "gradient_norm": 2.0} for step in range(steps)]
    (probe / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return StageResult(TRAIN, StageStatus.DONE, Verdict.PASS, folder=str(folder))


def test_the_steps_of_trainings_are_kept_and_long_ones_thinned(tmp_path: Path) -> None:
    short, long = trained(tmp_path / "a", 3), trained(tmp_path / "b", 5000)
    long = replace(long, stage=replace(TRAIN, name="long/train"))
    silent = StageResult(replace(TRAIN, name="silent"), StageStatus.DONE, Verdict.PASS, folder=str(tmp_path / "none"))
    export = StageResult(EXPORT, StageStatus.DONE, Verdict.PASS, folder=short.folder)
    found = histories_of([short, long, silent, export])
    assert list(found) == [TRAIN.name, "long/train"]
    assert found[TRAIN.name].steps == (0, 1, 2) and found[TRAIN.name].loss[1] == 0.5
    assert found[TRAIN.name].scale == (None,) * 3 and found[TRAIN.name].update_norm == (None,) * 3
    steps = found["long/train"].steps
    assert len(steps) == 512 and (steps[0], steps[-1]) == (0, 4999) and list(steps) == sorted(set(steps))


def test_past_runs_are_those_of_the_same_configs(tmp_path: Path) -> None:
    row = {"created": "then", "config": "a.txt", "verdict": "PASS", "seconds": 3.5, "executed": 4, "counts": {}}
    lines = [json.dumps({**row, "created": f"day {day}"}) for day in range(60)]
    lines[3:3] = [json.dumps({**row, "config": "b.txt"}), "not JSON", "[]", '{"config": "a.txt"}']
    (tmp_path / "history.jsonl").write_text("\n".join(lines))
    found = past_runs(tmp_path, PLAN)
    assert len(found) == 50 and found[-1].created == "day 59" and (found[0].verdict, found[0].executed) == ("PASS", 4)
    assert past_runs(tmp_path / "none", PLAN) == ()
