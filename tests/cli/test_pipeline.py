"""``trueline pipeline`` from the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.pipeline.tipc_project import LONG, calls, make_project, set_faults, short_config
from trueline.cli import pipeline as command
from trueline.errors import UsageError
from trueline.records import Verdict

MODE = "lite_train_lite_infer"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*words: str) -> int:
    return command.run(command.parser().parse(list(words)))


def test_the_plan_is_printed_and_nothing_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("train_infer_python.txt", MODE, "--plan") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert lines[0].startswith(f"{sys.executable} train.py --output-dir=./test_tipc/output/tiny/")
    assert calls(project) == [] and not (project / "test_tipc").exists()


def test_a_clean_run_is_0_and_a_failure_1(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("train_infer_python.txt", MODE, "--junit", "j.xml", "--html", "h.html", "--json", "r.json") == 0
    out = capsys.readouterr().out
    assert out.count("Run successfully with command - tiny - ") == 5
    assert "NO NUMBERS WERE COMPARED" in out
    assert json.loads(Path("r.json").read_text())["executed"] == 5
    assert Path("j.xml").exists() and Path("h.html").exists()
    set_faults(project, train="fail")
    assert call("train_infer_python.txt", MODE) == 1
    out = capsys.readouterr().out
    assert "Run failed with command - tiny - " in out
    assert "something is wrong in train" in out


def test_warnings_go_to_stderr(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("odd.txt").write_text("# mine\n" + short_config())
    assert call("odd.txt", MODE, "--plan") == 0
    found = capsys.readouterr()
    assert "line 1: a comment" in found.err
    assert len(found.out.splitlines()) == 5


def test_json_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("train_infer_python.txt", MODE, "--plan", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert len(data["plan"]["stages"]) == 9 and data["verdict"] is None


BAD = {
    "no mode": (("train_infer_python.txt",), "after the config comes the mode"),
    "no such mode": (("train_infer_python.txt", "lite_train"), "no mode 'lite_train'"),
    "no such file": (("nothing.txt", MODE), "no config nothing.txt"),
    "a folder": ((".", MODE), "is a folder"),
    "no time": (("train_infer_python.txt", MODE, "--timeout", "0"), "timeout is 0"),
    "no jobs": (("train_infer_python.txt", MODE, "--jobs", "0"), "jobs is 0"),
    "benchmark elsewhere": (("train_infer_python.txt", MODE, "--benchmark", "x"), "for the mode benchmark_train"),
}


@pytest.mark.parametrize("name", BAD)
def test_wrong_questions(name: str) -> None:
    words, message = BAD[name]
    with pytest.raises(UsageError, match=message):
        call(*words)


def test_several_configs_of_one_model(capsys: pytest.CaptureFixture[str]) -> None:
    Path("amp.txt").write_text(short_config().replace("norm_train", "amp_train"))
    assert call("train_infer_python.txt", "amp.txt", MODE, "--plan") == 0
    assert len(capsys.readouterr().out.splitlines()) == 10
    Path("long.txt").write_text(LONG)
    assert call("long.txt", "benchmark_train", "--benchmark", "dynamic_bs8_fp32_DP_N1C1", "--plan") == 0
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_limits_are_handed_on(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    set_faults(project, train="hang")
    assert (
        call("train_infer_python.txt", MODE, "--timeout", "1", "--memory", "2", "--jobs", "1", "--resume", "never") == 1
    )
    assert "timed out" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("found", "words", "code"),
    [
        ((Verdict.PASS,), (), 0),
        ((Verdict.PASS, Verdict.NOT_COMPARED), (), 1),
        ((Verdict.PASS, Verdict.NOT_COMPARED), ("--allow-partial",), 0),
        ((Verdict.NOT_COMPARED,), (), 0),  # a project that leaves no numbers: that it runs is what was asked
        ((Verdict.PASS, Verdict.FAIL), ("--allow-partial",), 1),
    ],
)
def test_what_could_not_be_compared_is_no_clean_bill(
    found: tuple[Verdict, ...], words: tuple[str, ...], code: int
) -> None:
    from trueline.cli.pipeline import conclude_pipeline, parser
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

    train = StageResult(Stage("train", StageKind.TRAIN, Command("python train.py")), StageStatus.DONE, Verdict.PASS)
    check = Stage("train.check", StageKind.CHECK)
    findings = tuple(NumberFinding("outputs", verdict, "so it is") for verdict in found)
    checked = StageResult(check, StageStatus.DONE, max(found), findings=findings)
    plan = Plan("c.yaml", "yaml", "m", MODE, "out", (train.stage, check))
    options = parser().parse_args(["c.yaml", MODE, *words])
    assert conclude_pipeline(PipelineReport(plan, (train, checked)), options) == code
