"""A pipeline as text, JSON, JUnit and HTML."""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from trueline.errors import UsageError
from trueline.pipelines import (
    Change,
    CheckKind,
    Command,
    NumberFinding,
    PipelineInfo,
    PipelineReport,
    Plan,
    Remark,
    Stage,
    StageKind,
    StageResult,
    StageStatus,
)
from trueline.records import Verdict
from trueline.report.pipeline_html import write_pipeline_html
from trueline.report.pipeline_json import read_pipeline_json, write_pipeline_json
from trueline.report.pipeline_junit import write_pipeline_junit
from trueline.report.pipeline_text import pipeline_blocks, plan_lines, warning_blocks
from trueline.report.pipeline_wording import summary
from trueline.report.terminal import plain

NAMES = {"chain": "norm", "trainer": "norm_train", "devices": "-1"}
TRAIN = Stage("norm/train", StageKind.TRAIN, Command("python train.py <b>"), writes=("out/latest",), **NAMES)  # type: ignore[arg-type]
EXPORT = Stage("norm/export", StageKind.EXPORT, Command("python export.py", "out/export.log"), ("norm/train",), **NAMES)  # type: ignore[arg-type]
INFER = Stage(
    "norm/infer_cpu_batch_size_3",
    StageKind.INFER,
    Command("python infer.py"),
    ("norm/export",),
    settings={"device": "cpu", "mkldnn": "True", "batch_size": "3", "model_dir": "out"},
    **NAMES,  # type: ignore[arg-type]
)
CHECK = Stage(
    "norm/export.neighbours",
    StageKind.CHECK,
    after=("norm/export",),
    check=CheckKind.NEIGHBOURS,
    reference="norm/train",
    candidate="norm/export",
    **NAMES,  # type: ignore[arg-type]
)
FINDING = NumberFinding(
    "outputs", Verdict.FAIL, "39 % of the outputs differ\x1b[31m", "norm/export", {"error": 0.39, "limit": float("inf")}
)


@pytest.fixture
def report() -> PipelineReport:
    plan = Plan(
        "a.txt", "tipc-32", "tiny", "lite_train_lite_infer", "out", (TRAIN, EXPORT, INFER, CHECK), (Remark(3, "odd"),)
    )
    results = (
        StageResult(
            TRAIN,
            StageStatus.DONE,
            Verdict.PASS,
            "",
            0,
            12.5,
            3 << 30,
            "out/stages/norm/train",
            "out/stages/norm/train/log.txt",
        ),
        StageResult(EXPORT, StageStatus.DONE, Verdict.PASS, "", 0, 2.0, 1 << 30, reused=True),
        StageResult(INFER, StageStatus.SKIPPED, Verdict.NOT_COMPARED, "norm/export ended: failed"),
        StageResult(CHECK, StageStatus.DONE, Verdict.FAIL, FINDING.reason, findings=(FINDING,)),
    )
    info = PipelineInfo(
        "2026-01-02T03:04:05+00:00", "1.0", 15.0, 2, "host", "3.12", {"torch": "2.13"}, {"OMP_NUM_THREADS": "1"}, "out"
    )
    return PipelineReport(plan, results, info, (Change("norm/export.neighbours", "new failure", "PASS", "FAIL"),))


def test_the_sentence(report: PipelineReport) -> None:
    assert summary(report) == ("1 command run, 1 as before; the numbers are wrong in 1 check, the first at norm/export")
    nothing = PipelineReport(report.plan, tuple(result for result in report.results if result.stage is INFER))
    assert nothing.verdict is Verdict.ERROR
    assert "no command was run" in summary(nothing)
    assert "planned: 3 commands" in summary(PipelineReport(report.plan))


def test_commands_without_numbers_are_no_clean_bill(report: PipelineReport) -> None:
    import dataclasses

    unchecked = dataclasses.replace(report.results[3], verdict=Verdict.NOT_COMPARED, findings=())
    quiet = PipelineReport(report.plan, (*report.results[:2], unchecked))
    assert "NO NUMBERS WERE COMPARED" in summary(quiet)
    assert quiet.verdict is Verdict.NOT_COMPARED


def test_text(report: PipelineReport) -> None:
    text = plain(pipeline_blocks(report))
    assert text.startswith("FAIL: 1 command run")
    for part in ("norm_train", "infer cpu mkldnn", "batch_size 3", "12.5 s", "3.2 GB", "outputs error 0.39",
                 "new failure", "norm/infer_cpu_batch_size_3: norm/export ended: failed", "done before"):  # fmt: skip
        assert part in text, part
    assert "\x1b" not in text
    assert plain(warning_blocks(report.plan)) == "a.txt, line 3: odd\n"
    assert list(plan_lines(report.plan)) == [
        "python train.py <b>", "python export.py > out/export.log 2>&1", "python infer.py",
    ]  # fmt: skip


def test_a_long_matrix_shows_what_is_wrong(report: PipelineReport) -> None:
    text = plain(pipeline_blocks(report, rows=1))
    assert "and 2 more" in text
    assert "numbers fail" in text


def test_json_and_back(report: PipelineReport, tmp_path: Path) -> None:
    path = tmp_path / "pipeline.json"
    with open(path, "w", encoding="utf-8") as stream:
        write_pipeline_json(report, stream)
    data = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert data["verdict"] == "FAIL" and data["executed"] == 2 and data["counts"]["NOT_COMPARED"] == 1
    assert read_pipeline_json(path) == report


@pytest.mark.parametrize("text", ["", "[]", '{"format": "other"}', '{"format": "trueline-pipeline", "version": 1}'])
def test_what_is_no_report(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(UsageError, match="no report of a pipeline"):
        read_pipeline_json(tmp_path / "x.json")


def test_a_report_of_the_future(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"format": "trueline-pipeline", "version": 99}')
    with pytest.raises(UsageError, match="newer trueline"):
        read_pipeline_json(tmp_path / "x.json")


def test_junit(report: PipelineReport) -> None:
    stream = io.StringIO()
    assert write_pipeline_junit(report, stream) == 4
    root = ElementTree.fromstring(stream.getvalue())
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("4", "1", "1")
    (failure,) = root.iter("failure")
    assert failure.get("type") == "wrong numbers" and "error 0.39" in str(failure.text)
    assert [case.get("name") for case in root.iter("testcase")] == [
        "train", "export", "infer_cpu_batch_size_3", "export.neighbours",
    ]  # fmt: skip


def test_html_holds_texts_as_data(report: PipelineReport) -> None:
    stream = io.StringIO()
    write_pipeline_html(report, stream)
    page = stream.getvalue()
    assert "python train.py <b>" not in page and "python train.py \\u003cb\\u003e" in page
    for part in ("39 % of the outputs differ", "norm_train", "cpu mkldnn", "new failure", "OMP_NUM_THREADS", "2.13"):
        assert part in page, part
    assert "./stages/norm/train/log.txt" in page
