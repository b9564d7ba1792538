"""What to keep in float32, asked of a whole pipeline; the scripts here tell what a hook would have told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.test_run import CHAIN, OUTPUT, run
from tests.pipeline.tipc_project import calls, make_project
from trueline.cli.pipeline import parser
from trueline.cli.pipeline import run as run_command
from trueline.errors import UsageError
from trueline.pipelines import TO_KEEP, NumberFinding, PipelineReport
from trueline.records import Verdict
from trueline.report.pipeline_text import pipeline_blocks
from trueline.report.terminal import plain

HOOK = """
import json, os
limit = os.environ.get("TRUELINE_PROBE_KEEP")
if limit:
    keep = dict(names=["torch.matmul"], enough=float(limit) > 1e-7, error_before=0.1, error_after=1e-6,
                limit=float(limit), trials=3, reason="")
    with open(os.path.join(os.environ["TRUELINE_PROBE_DIR"], "eval.json"), "w") as file:
        json.dump({"keep": keep} if float(limit) < 1 else {"not kept": "no autocast here"}, file)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_project(tmp_path)
    script = tmp_path / "train.py"
    script.write_text(script.read_text(encoding="utf-8") + HOOK, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def finding(report: PipelineReport) -> NumberFinding:
    (found,) = [one for result in report.results for one in result.findings if one.what == TO_KEEP]
    return found


def test_the_evaluation_is_asked_once_more(project: Path) -> None:
    report = run(keep_fp32=1e-3)
    assert calls(project).count("train") == 3, "training, evaluation, evaluation"
    found = finding(report)
    assert found.verdict is Verdict.PASS and found.reason.startswith("torch.matmul; the error is 0.1")
    assert (OUTPUT / "kept" / CHAIN / "eval" / "log.txt").exists()
    assert f"{TO_KEEP}\n  {CHAIN}: {found.reason}\n" in plain(pipeline_blocks(report))


def test_what_no_operator_can_help_is_a_failure(project: Path) -> None:
    report = run(keep_fp32=1e-8)
    assert finding(report).verdict is Verdict.FAIL and report.verdict is Verdict.FAIL
    assert finding(report).blamed == f"{CHAIN}/eval"


def test_nothing_is_found_where_nothing_is_lowered(project: Path) -> None:
    found = finding(run(keep_fp32=2.0))
    assert found.verdict is Verdict.NOT_COMPARED and found.reason.endswith("no autocast here")


def test_an_evaluation_that_fails_the_second_time(project: Path) -> None:
    script = project / "train.py"
    text = "import os, sys\nif os.environ.get('TRUELINE_PROBE_KEEP'): sys.exit(9)\n"
    script.write_text(text + script.read_text(encoding="utf-8"), encoding="utf-8")
    found = finding(run(keep_fp32=1e-3))
    assert found.verdict is Verdict.NOT_COMPARED and "did not end well when it was run again (9)" in found.reason


def test_the_limit_is_above_zero(project: Path) -> None:
    words = ["train_infer_python.txt", "lite_train_lite_infer", "--keep-fp32", "0"]
    with pytest.raises(UsageError, match=r"keep_fp32 is 0\.0"):
        run_command(parser().parse(words))
