"""The page of a pipeline in a real browser: the matrix with its errors, curves, changes, logs that are its own."""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.report.browser import CHROMIUM, Browser
from tests.report.looking import WIDTHS, asks_only, choose, fits, opened, plain, rows, shown, text
from tests.report.test_pipeline_reports import CHECK, EXPORT, FINDING, INFER, TRAIN
from trueline.pipelines import (
    Change,
    Command,
    PastRun,
    PipelineInfo,
    PipelineReport,
    Plan,
    StageResult,
    StageStatus,
    TrainingHistory,
)
from trueline.records import Verdict
from trueline.report.pipeline_html import pipeline_page_data, write_pipeline_html, write_pipeline_page
from trueline.report.pipeline_json import read_pipeline_json, write_pipeline_json
from trueline.report.pipeline_log import log_link, log_tail

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
HOSTILE = "<img src=x onerror=document.title='taken'>"
LOW = replace(TRAIN, name="amp/train", chain="amp", precision="O1", command=Command("python low.py"))


def made(folder: Path) -> PipelineReport:
    """Two trainings, one exported; the export failed, and wrote something hostile into its log."""
    log = folder / "stages" / "export" / "log.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("line\n" * 3000 + f"RuntimeError: {HOSTILE}\n", encoding="utf-8")
    results = (
        StageResult(TRAIN, StageStatus.DONE, Verdict.PASS, "", 0, 12.5, 3 << 30),
        StageResult(LOW, StageStatus.DONE, Verdict.WARN, "odd", 0, 9.0, 2 << 30),
        StageResult(EXPORT, StageStatus.FAILED, Verdict.FAIL, HOSTILE, 1, 2.0, 1 << 30, str(log.parent), str(log)),
        StageResult(INFER, StageStatus.SKIPPED, Verdict.NOT_COMPARED, "norm/export ended: failed"),
        StageResult(CHECK, StageStatus.DONE, Verdict.FAIL, FINDING.reason,
                    findings=(replace(FINDING, numbers={"error": 0.39, "limit": 0.001}),)),
    )  # fmt: skip
    plan = Plan("a.txt", "tipc-32", "tiny", "lite_train_lite_infer", str(folder), (TRAIN, LOW, EXPORT, INFER, CHECK))
    info = PipelineInfo("2026-01-02T03:04:05+00:00", "1.0", 15.0, 2, "host", "3.12", {}, {}, str(folder))
    histories = {
        TRAIN.name: TrainingHistory((0, 1, 2), (3.0, 2.0, 1.0), (None,) * 3, (1.0, 0.9, 0.8), (0.1,) * 3),
        LOW.name: TrainingHistory(
            (0, 1, 2), (3.0, 2.1, float("nan")), (1024.0, 512.0, 512.0), (1.0, None, 0.8), (0.1,) * 3
        ),
    }  # fmt: skip
    changes = (Change(EXPORT.name, "new failure", "PASS", "FAIL"), Change(TRAIN.name, "slower", "5 s", "12.5 s"))
    past = (PastRun("2026-01-01T00:00:00", "PASS", 10.0, 3), PastRun("2026-01-01T09:00:00", "FAIL", 12.0, 3))
    return PipelineReport(plan, results, info, changes, histories, past)


@pytest.fixture(scope="module")
def file(folder: Path) -> Path:
    path = folder / "pipeline.html"
    with path.open("w", encoding="utf-8") as stream:
        write_pipeline_html(made(folder / "out"), stream, folder=folder / "out")
    return path


def test_histories_and_past_runs_are_kept_in_the_file(tmp_path: Path) -> None:
    report = made(tmp_path)
    with (tmp_path / "pipeline.json").open("w", encoding="utf-8") as stream:
        write_pipeline_json(report, stream)
    read = read_pipeline_json(tmp_path / "pipeline.json")
    assert read.past == report.past and read.histories[TRAIN.name] == report.histories[TRAIN.name]
    losses = read.histories[LOW.name].loss
    assert losses[:2] == (3.0, 2.1) and losses[2] is not None and losses[2] != losses[2], "NaN stays NaN"


def test_a_report_from_before_there_were_histories_is_read(tmp_path: Path) -> None:
    stream = io.StringIO()
    write_pipeline_json(made(tmp_path), stream)
    content = json.loads(stream.getvalue())
    del content["histories"], content["past"]
    (tmp_path / "pipeline.json").write_text(json.dumps(content))
    read = read_pipeline_json(tmp_path / "pipeline.json")
    assert read.histories == {} and read.past == () and pipeline_page_data(read)["head"]["histories"] == []


def test_only_logs_below_the_folder_are_read(tmp_path: Path) -> None:
    report = made(tmp_path / "out")
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    os.symlink(secret, tmp_path / "out" / "link.txt")
    os.mkfifo(tmp_path / "out" / "pipe")
    (tmp_path / "out" / "folder").mkdir()

    def tail(log: str, **info: str) -> object:
        assert report.info is not None
        told = replace(report, info=replace(report.info, **info))
        return log_tail(told, replace(report.results[2], log=log), tmp_path / "out", 100)

    good = tail(str(tmp_path / "out" / "stages" / "export" / "log.txt"))
    assert isinstance(good, dict) and good["text"].endswith(f"{HOSTILE}\n") and good["before"] == good["size"] - 100
    for log in (str(secret), "../secret.txt", str(tmp_path / "out" / "link.txt"), str(tmp_path / "out" / "pipe"),
                str(tmp_path / "out" / "folder"), str(tmp_path / "out" / "none.txt"), "", "stages\0"):  # fmt: skip
        assert tail(log) is None, log
    assert tail("/etc/passwd", folder="/") is None, "what the report claims to be its folder is not believed"
    assert log_link(report, replace(report.results[2], log="/etc/passwd")) == ""


def test_a_report_that_was_moved_finds_its_logs(tmp_path: Path) -> None:
    report = made(tmp_path / "out")
    (tmp_path / "out").rename(tmp_path / "elsewhere")
    found = log_tail(report, report.results[2], tmp_path / "elsewhere", 50)
    assert found is not None and HOSTILE in found["text"]


@needs_browser
def test_the_matrix_shows_errors_between_stages_and_leads_to_them(file: Path, shared: Browser) -> None:
    opened(shared, file)
    assert "FAIL" in text(shared, "#verdict") and "the first norm/export" in text(shared, "#verdict")
    head = shared.run("[...document.querySelectorAll('#matrix-table thead th')].map((one) => one.innerText)")
    assert head == ["trainer", "precision", "devices", "train", "export", "infer cpu mkldnn"]
    cells = shared.run("[...document.querySelectorAll('#matrix-table .cell')].map((one) => one.innerText)")
    assert "✓ done" in cells[0] and "12.5 s · 3.22 GB" in cells[0]
    assert "✕ failed" in cells[1] and "error 0.39 of 1.0e-3" in cells[1]
    assert "- skipped" in plain(cells[2]) and "! done" in cells[3]
    shared.run("document.querySelectorAll('#matrix-table .cell')[1].click()")
    details = text(shared, "#drawer")
    assert "python export.py > out/export.log 2>&1" in details and "exit code 1" in details.lower()
    assert f"RuntimeError: {HOSTILE}" in details and "39 % of the outputs differ" in details
    assert "new failure: PASS → FAIL" in details
    link = shared.run("document.querySelector('#drawer a').getAttribute('href')")
    assert link == "./stages/export/log.txt"
    assert shared.run("document.querySelectorAll('img').length") == 0
    asks_only(shared, "file://")


@needs_browser
def test_curves_of_the_pairs_and_the_loss_scale_are_drawn(file: Path, shared: Browser) -> None:
    opened(shared, file)
    legend = text(shared, "#curves-chart .legend")
    assert "norm_train fp32" in legend and "norm_train O1 ✕ 1 step not finite" in legend
    shared.run("document.querySelector('#curves-values [data-value=scale]').click()")
    legend = text(shared, "#curves-chart .legend")
    assert "O1" in legend and "fp32" not in legend, "only one has a loss scale"
    assert "curve=scale" in shared.run("location.hash") and "skipped" in text(shared, "#curves-reading")
    shared.run("navigator.clipboard.writeText = async (text) => { globalThis.copied = text; }")
    shared.run("document.querySelector('#curves-chart .legend button').click()")
    assert shared.run("globalThis.copied") == "step,norm_train O1\n0,1024\n1,512\n2,512\n"
    asks_only(shared, "file://")


@needs_browser
def test_what_changed_and_the_runs_before_are_shown(file: Path, shared: Browser) -> None:
    opened(shared, file)
    changes = text(shared, "#changes")
    assert "✕ new failure" in changes and "! slower 5 s 12.5 s" in changes
    shared.run("document.querySelector('#changes tr.pick').click()")
    assert text(shared, "#drawer h2") == EXPORT.name
    bars = shared.run("[...document.querySelectorAll('.past-run')].map((one) => one.innerText.replace(/\\s+/g, ' '))")
    assert bars == ["✓ 10 s", "✕ 12 s", "✕ 15 s"]


@needs_browser
def test_stages_are_filtered_by_verdict_kind_and_precision(file: Path, shared: Browser) -> None:
    opened(shared, file)
    assert len(rows(shared)) == 5
    choose(shared, "ending", "odd")
    assert TRAIN.name not in rows(shared) and len(rows(shared)) == 4
    choose(shared, "kind", "check")
    assert rows(shared) == [CHECK.name] and "kind=check" in shared.run("location.hash")
    shared.run("document.getElementById('clear').click()")
    choose(shared, "search", "low.py")
    assert rows(shared) == ["amp/train"], "search by command"
    shared.press("Escape")
    shared.press("w")
    assert text(shared, "#drawer h2") == EXPORT.name


@needs_browser
def test_a_plan_that_was_not_run_shows_its_commands(folder: Path, shared: Browser) -> None:
    path = folder / "plan.html"
    with path.open("w", encoding="utf-8") as stream:
        write_pipeline_page(pipeline_page_data(PipelineReport(made(folder / "out").plan)), stream)
    opened(shared, path)
    assert "NOT COMPARED" in text(shared, "#verdict") and "python train.py <b>" in text(shared, "#about")
    assert not any(shown(shared, f"#{name}") for name in ("matrix", "curves", "changes", "past"))
    asks_only(shared, "file://")


@needs_browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_fits_a_phone_and_a_wall(file: Path, shared: Browser, theme: str) -> None:
    for width in WIDTHS:
        shared.resize(width, 900)
        opened(shared, file, "stage=2")
        shared.run(f"document.documentElement.dataset.theme !== '{theme}' && document.getElementById('theme').click()")
        assert fits(shared), width
        asks_only(shared, "file://")
    shared.resize(1300, 900)
