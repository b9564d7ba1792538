"""Whole pipelines over scripts without a framework: what is run, what is said, what is kept."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.pipeline.test_processes import ROOT
from tests.pipeline.tipc_project import calls, make_project, set_faults, short_config
from trueline.errors import UsageError
from trueline.pipeline import load_pipeline, pipeline
from trueline.pipelines import PipelineReport, StageKind, StageStatus
from trueline.records import Verdict
from trueline.report.pipeline_text import pipeline_blocks
from trueline.report.terminal import plain

MODE = "lite_train_lite_infer"
OUTPUT = Path("test_tipc/output/tiny") / MODE
CHAIN = "norm_train_gpus_-1_autocast_False"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(**options: object) -> PipelineReport:
    return pipeline("train_infer_python.txt", MODE, **{"jobs": 2, **options})  # type: ignore[arg-type]


def statuses(report: PipelineReport) -> dict[str, StageStatus]:
    return {
        result.stage.name.removeprefix(f"{CHAIN}/"): result.status
        for result in report.results
        if result.stage.kind is not StageKind.CHECK
    }


def test_a_clean_run(project: Path) -> None:
    heard: list[str] = []
    report = run(announce=lambda result, line: heard.append(line))
    assert report.executed == 5
    assert set(statuses(report).values()) == {StageStatus.DONE}
    assert report.verdict is Verdict.NOT_COMPARED, "no script left a probe, so no number was compared"
    checks = [result for result in report.results if result.stage.kind is StageKind.CHECK]
    assert len(checks) == 4 and all("probe" in result.reason for result in checks)
    log = (project / OUTPUT / "results_python.log").read_text()
    assert log.count("Run successfully with command - tiny - ") == 5
    assert f"\033[33m Run successfully with command - tiny - {sys.executable} train.py" in log
    assert sum("Run successfully" in line for line in heard) == 5
    for result in report.results:
        if result.stage.command is not None:
            assert f"at {result.stage.name}" in Path(result.log).read_text()
            assert result.seconds > 0 and result.peak_bytes > 0
    assert (OUTPUT / "python_infer_cpu_batchsize_3.log").read_text().startswith("this is infer")
    again = load_pipeline(OUTPUT)
    assert again == report
    assert (OUTPUT / "pipeline.html").exists() and (OUTPUT / "junit.xml").exists()


def test_every_failure_is_told_and_its_descendants_are_skipped(project: Path) -> None:
    set_faults(project, export="fail")
    report = run()
    assert statuses(report) == {
        "train": StageStatus.DONE,
        "eval": StageStatus.DONE,
        "export": StageStatus.FAILED,
        "infer_cpu_batch_size_1": StageStatus.SKIPPED,
        "infer_cpu_batch_size_3": StageStatus.SKIPPED,
    }
    assert report.verdict is Verdict.FAIL
    (failure,) = report.failures
    assert failure.reason == "exit code 1: something is wrong in export"
    log = (OUTPUT / "results_python.log").read_text()
    assert log.count("Run failed with command") == 1
    assert log.count("Run skipped with command") == 2


def test_a_command_that_says_it_is_done_and_wrote_nothing(project: Path) -> None:
    set_faults(project, train="nothing")
    report = run()
    assert "wrote no" in report.failures[0].reason
    assert calls(project) == ["train"]


def test_what_is_there_from_before_does_not_count(project: Path) -> None:
    run()
    set_faults(project, export="nothing")
    report = run(resume="never")
    (failure,) = report.failures
    assert failure.stage.kind is StageKind.EXPORT and "from before" in failure.reason


def test_what_the_machine_cannot_do_is_no_pass(project: Path) -> None:
    set_faults(project, infer="unsupported")
    report = run()
    result = report.result(f"{CHAIN}/infer_cpu_batch_size_1")
    assert (result.status, result.verdict) == (StageStatus.UNSUPPORTED, Verdict.NOT_COMPARED)
    assert result.reason == "no kernel for this"
    assert not report.failures


def test_a_hang_is_ended_in_time(project: Path) -> None:
    set_faults(project, infer="hang")
    report = run(timeout=1.5)
    hung = [result for result in report.results if result.status is StageStatus.TIMED_OUT]
    assert len(hung) == 2
    assert all(result.seconds < 1.5 + 2 and "(1.5 s)" in result.reason for result in hung)
    assert report.verdict is Verdict.ERROR


def test_what_a_command_leaves_behind_is_said(project: Path) -> None:
    set_faults(project, export="daemon")
    result = run().result(f"{CHAIN}/export")
    assert (result.status, result.verdict) == (StageStatus.DONE, Verdict.WARN)
    assert result.reason == "left 1 processes behind, which were ended"
    assert _of_project(project) == []


def test_memory_is_bounded(project: Path) -> None:
    set_faults(project, export="grow")
    report = run(memory=300 << 20)
    assert report.result(f"{CHAIN}/export").status is StageStatus.OUT_OF_MEMORY


def test_independent_stages_run_at_the_same_time_within_the_bound(project: Path) -> None:
    set_faults(project, infer="sleep 0.8")
    (project / "train_infer_python.txt").write_text(short_config().replace("--batch-size:1|3", "--batch-size:1|2|3|4"))
    spans = {}
    for jobs in (1, 4):
        report = run(jobs=jobs, resume="never")
        infers = [result for result in report.results if result.stage.kind is StageKind.INFER]
        starts = sorted(result.started for result in infers)
        spans[jobs] = (_seconds(starts[-1]) - _seconds(starts[0]), report)
    assert spans[1][0] > 3 * 0.8 > spans[4][0]


def _seconds(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text).timestamp()


def test_resuming_what_failed(project: Path) -> None:
    set_faults(project, infer="fail")
    run()
    assert sorted(calls(project)) == ["export", "infer", "infer", "train", "train"]
    (project / "calls.txt").unlink()
    set_faults(project)
    report = run()
    assert calls(project) == ["infer", "infer"], "training, evaluation and export were done and nothing changed"
    assert [result.reused for result in report.results if result.stage.command is not None] == [True] * 3 + [False] * 2
    assert {change.what for change in report.changes} == {"fixed"}
    (project / "calls.txt").unlink()
    run()
    assert len(calls(project)) == 5, "a clean run is done afresh when asked again"
    (project / "calls.txt").unlink()
    run(resume="always")
    assert calls(project) == []


def test_what_changed_is_done_again(project: Path) -> None:
    run()
    (project / "calls.txt").unlink()
    (project / "helper.py").write_text("VALUE = 1\n")
    run(resume="always")
    assert len(calls(project)) == 5, "any source of the project may be imported"
    (project / "calls.txt").unlink()
    (OUTPUT / f"{CHAIN}_nodes_1.log" / "latest.pt").write_text("touched")
    run(resume="always")
    assert calls(project)[0] == "train", "what it wrote is no longer what it wrote"
    (project / "calls.txt").unlink()
    config = project / "train_infer_python.txt"
    config.write_text(config.read_text().replace("--batch-size:1|3", "--batch-size:1|5"))
    run(resume="always")
    assert calls(project) == ["infer"], "one command is new"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_was_killed_is_resumed(project: Path, how: signal.Signals) -> None:
    set_faults(project, infer="hang")
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); from trueline.pipeline import pipeline; "
    code += f"pipeline('train_infer_python.txt', {MODE!r}, jobs=1)"
    tester = subprocess.Popen(
        [sys.executable, "-c", code], cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # whoever runs the tests may ignore it
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while "infer" not in calls(project) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    tester.send_signal(how)
    tester.wait(30)
    deadline = time.monotonic() + 5
    while _of_project(project) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _of_project(project) == [], "killing the tester leaves nothing"
    assert not (OUTPUT / "pipeline.json").exists()
    (project / "calls.txt").unlink()
    set_faults(project)
    report = run()
    assert calls(project) == ["infer", "infer"]
    assert not report.failures


def _of_project(project: Path) -> list[str]:
    """Processes that work in the folder of the project, but for this one."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/cwd") == str(project) and int(pid) != os.getpid():
                found.append(pid)
        except OSError:
            continue
    return found


def test_the_norm_training_of_another_config_is_found(project: Path) -> None:
    run()
    amp = (
        short_config()
        .replace("norm_train", "amp_train")
        .replace("amp_train:train.py", "amp_train:train.py --amp_level=O1")
    )
    (project / "amp.txt").write_text(amp)
    report = pipeline("amp.txt", MODE, jobs=1)
    check = report.result("amp_train_gpus_-1_autocast_True/train.precision")
    request = json.loads((Path(check.folder) / "request.json").read_text())
    reference = next(one for one in request if one["stage"]["name"] == check.stage.name)["reference"]
    assert reference["stage"]["name"] == f"{CHAIN}/train"
    assert reference["result"]["status"] == "done"
    log = (OUTPUT / "results_python.log").read_text()
    assert log.count("Run successfully") == 10, "the lines of the other config stay"


def test_two_testers_keep_out_of_each_others_way(project: Path) -> None:
    OUTPUT.mkdir(parents=True)
    with open(OUTPUT / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="another pipeline is running"):
            run()
    assert calls(project) == []


def test_prepare_comes_first(project: Path) -> None:
    report = run(prepare="echo prepared > data.txt")
    assert report.results[0].stage.kind is StageKind.PREPARE
    assert (project / "data.txt").read_text() == "prepared\n"
    failing = run(prepare="exit 4", resume="never")
    assert [result.status for result in failing.results if result.stage.command is not None] == (
        [StageStatus.FAILED] + [StageStatus.SKIPPED] * 5
    )


def test_settings_reach_the_commands(project: Path) -> None:
    (project / "infer.py").write_text(
        "import json, os\nfound = {name: value for name, value in os.environ.items() if name.startswith('TRUELINE_')}\n"
        "print(json.dumps(found))"
    )
    report = run()
    result = report.result(f"{CHAIN}/infer_cpu_batch_size_1")
    seen = json.loads(Path(result.log).read_text())
    assert seen["TRUELINE_STAGE"] == result.stage.name
    assert seen["TRUELINE_STAGE_KIND"] == "infer"
    assert Path(seen["TRUELINE_PROBE_DIR"]) == (Path(result.folder) / "probe").resolve()
    assert seen["TRUELINE_LEVEL"] == "" and seen["TRUELINE_STAGE_TOKEN"]
    assert result.stage.settings["batch_size"] == "1"


def test_warm_commands_do_the_same(project: Path) -> None:
    report = run(warm=())
    assert set(statuses(report).values()) == {StageStatus.DONE}
    assert sorted(calls(project)) == ["export", "infer", "infer", "train", "train"]
    set_faults(project, infer="hang")
    hung = run(warm=(), timeout=1.5, resume="never")
    assert hung.result(f"{CHAIN}/infer_cpu_batch_size_3").status is StageStatus.TIMED_OUT
    assert _of_project(project) == []


def test_what_was_not_warm_says_why(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that a library starts when it is imported are in no copy."""
    library = tmp_path / "library"
    library.mkdir()
    text = "import threading, time\nthreading.Thread(None, time.sleep, 'pump', (600,), daemon=True).start()\n"
    (library / "threaded.py").write_text(text, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(library))
    script = project / "infer.py"
    script.write_text("import threaded\n" + script.read_text(encoding="utf-8"), encoding="utf-8")
    report = run(warm=(), jobs=1)
    assert set(statuses(report).values()) == {StageStatus.DONE}
    cold = {result.stage.kind: result.not_warm for result in report.results if result.not_warm}
    assert list(cold) == [StageKind.INFER] and "pump" in cold[StageKind.INFER]
    text = plain(pipeline_blocks(report))
    assert "run as plain processes" in text and "pump" in text
    assert load_pipeline(OUTPUT) == report
