"""Stages that do what no stage should: each is told by its name and what was wrong with it, and nothing of it stays."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline.tipc_project import make_project
from trueline.errors import TruelineError
from trueline.pipeline import load_pipeline, pipeline
from trueline.pipeline.supervisor import LOG_BYTES
from trueline.pipelines import PipelineReport, StageKind, StageResult, StageStatus
from trueline.records import Verdict

MODE = "lite_train_lite_infer"
CHAIN = "norm_train_gpus_-1_autocast_False"
WRITES = """
import os, sys
folder = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)["--save-inference-dir"]
def write():
    os.makedirs(folder, exist_ok=True)
    open(os.path.join(folder, "inference.json"), "w").write("{}")
"""
"""What the script of an export begins with: ``write`` does what it is there for."""

DAEMON = """
import subprocess, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 3)
        os.chdir("/")
        time.sleep(300)
    os._exit(0)
subprocess.Popen(["setsid", "sleep", "300"])
write()
"""
ORPHANS = """
import signal, subprocess, time
subprocess.Popen(["sleep", "300"], start_new_session=True)
time.sleep(0.2)
os.kill(os.getppid(), signal.SIGKILL)
time.sleep(300)
"""
"""A stage that ends the process which looks after it, when a child has a session of its own already."""
DEAF = """
import signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
time.sleep(300)
"""
GARBAGE = r"""
os.write(1, bytes(range(256)) + b"\x1b[2J\x1b]0;title\x07\xff\xfe\x00\n")
os.write(2, b"\xc3\x28 the last words \x00\x1b[31m\x80\n")
sys.exit(3)
"""
CLOSES = """
print("before")
sys.stdout.flush()
os.close(1)
os.close(2)
write()
"""
DELETES = """
print("this is written down")
sys.stdout.flush()
for root, _, names in os.walk("test_tipc"):
    if "log.txt" in names and "export" in root:
        os.unlink(os.path.join(root, "log.txt"))
{end}
"""
DELETES_ALL = """
import shutil
for root, folders, _ in os.walk("test_tipc"):
    if "stages" in folders:
        shutil.rmtree(os.path.join(root, "stages"), ignore_errors=True)
sys.exit(4)
"""
GONE = """
import shutil, tempfile
place = tempfile.mkdtemp()
write()
os.chdir(place)
shutil.rmtree(place)
sys.exit(5)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Something in the environment of all that a pipeline starts."""
    mark = f"odd-{uuid.uuid4()}"
    monkeypatch.setenv("TRUELINE_TEST_MARK", mark)
    yield mark
    for pid in marked(mark):  # where the test has failed
        os.kill(pid, signal.SIGKILL)


def marked(mark: str) -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if int(name) != os.getpid() and mark.encode() in Path(f"/proc/{name}/environ").read_bytes():
                found.append(int(name))
        except OSError:
            continue
    return found


def all_gone(mark: str) -> bool:
    deadline = time.monotonic() + 30
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not marked(mark)


def odd(project: Path, script: str, **options: object) -> tuple[PipelineReport, StageResult]:
    """The report of a pipeline whose export is this script, and what is said of it."""
    (project / "export.py").write_text(WRITES + script)
    report = pipeline("train_infer_python.txt", MODE, **{"jobs": 2, **options})  # type: ignore[arg-type]
    assert load_pipeline(f"test_tipc/output/tiny/{MODE}") == report
    return report, report.result(f"{CHAIN}/export")


def said(result: StageResult) -> str:
    return Path(result.log).read_text(encoding="utf-8", errors="replace")


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (GARBAGE, "exit code 3"),
        ("os.kill(os.getpid(), 11)", "killed by SIGSEGV"),
        ("os.kill(os.getpid(), 15)", "killed by SIGTERM"),
        ("os.kill(0, 9)", "killed by SIGKILL"),
        ("", "ended well but"),
        (DELETES_ALL, "exit code 4"),
        (GONE, "exit code 5"),
        (DELETES.format(end="sys.exit(6)"), "exit code 6"),
    ],
    ids=["garbage", "segv", "term", "kill", "nothing", "deletes its folder", "no cwd", "deletes its log"],
)
def test_the_failing_stage_is_named_with_its_reason(project: Path, mark: str, script: str, reason: str) -> None:
    report, result = odd(project, script)
    assert [failure.stage.name for failure in report.failures] == [f"{CHAIN}/export"]
    assert reason in result.reason
    assert report.result(f"{CHAIN}/infer_cpu_batch_size_1").status is StageStatus.SKIPPED
    assert report.verdict in (Verdict.FAIL, Verdict.ERROR)
    assert all_gone(mark)


def test_a_stage_that_hears_no_signal_is_ended(project: Path, mark: str) -> None:
    _, result = odd(project, DEAF, timeout=2.0)
    assert (result.status, "ended after its time was up" in result.reason) == (StageStatus.TIMED_OUT, True)
    assert result.seconds < 60
    assert all_gone(mark)


def test_daemons_are_told_and_ended(project: Path, mark: str) -> None:
    _, result = odd(project, DAEMON)
    assert (result.status, result.verdict) == (StageStatus.DONE, Verdict.WARN)
    assert "left 2 processes behind, which were ended" in result.reason
    assert all_gone(mark)


def test_a_stage_that_kills_its_parent_leaves_nobody(project: Path, mark: str) -> None:
    _, result = odd(project, ORPHANS)
    assert result.status is StageStatus.CRASHED and "processes behind, which were ended" in result.reason
    assert all_gone(mark)


def test_a_pipe_below_the_project_keeps_nobody_waiting(project: Path, mark: str) -> None:
    os.mkfifo(project / "helper.py")
    report, result = odd(project, "write()")
    assert result.status is StageStatus.DONE and report.results
    assert all_gone(mark)


def test_output_without_end_is_bounded_and_told(project: Path, mark: str) -> None:
    size = 8 * LOG_BYTES
    script = f"""
os.write(1, b"the first line\\n")
for _ in range({size} >> 20):
    os.write(1, b"x" * (1 << 20))
os.write(2, b"\\nthe last line\\n")
write()
"""
    _, result = odd(project, script)
    text = said(result)
    assert result.status is StageStatus.DONE
    assert len(text) < 2 * LOG_BYTES + 1000
    assert text.startswith("the first line\n") and text.endswith("\nthe last line\n")
    assert f"{size + 30 - 2 * LOG_BYTES} bytes" in text.replace(",", "")
    assert "printed" in result.reason
    assert all_gone(mark)


def test_what_closes_its_output_and_goes_on_is_no_failure(project: Path, mark: str) -> None:
    _, result = odd(project, CLOSES)
    assert (result.status, said(result)) == (StageStatus.DONE, "before\n")
    assert all_gone(mark)


def test_a_log_that_was_deleted_is_there_again(project: Path, mark: str) -> None:
    _, result = odd(project, DELETES.format(end="write()"))
    assert result.status is StageStatus.DONE
    assert said(result) == "this is written down\n"
    assert all_gone(mark)


def test_words_that_no_terminal_should_hear_are_made_harmless(project: Path, mark: str) -> None:
    _, result = odd(project, GARBAGE)
    assert "the last words" in result.reason
    assert not any(ord(letter) < 32 or 0x7F <= ord(letter) < 0xA0 for letter in result.reason)


def odd_copies(project: Path, script: str, **options: object) -> list[StageResult]:
    """What is said of inferences that are this script, as copies of a warm process."""
    (project / "infer.py").write_text("import os, sys\ndef write():\n    pass\n" + script)
    report = pipeline("train_infer_python.txt", MODE, warm=(), **{"jobs": 1, **options})  # type: ignore[arg-type]
    found = [result for result in report.results if result.stage.kind is StageKind.INFER]
    assert len(found) == 2 and not any(result.not_warm for result in found)
    return found


def test_warm_output_without_end_is_bounded_and_told(project: Path, mark: str) -> None:
    script = f"""
os.write(1, b"the first line\\n")
for _ in range({8 * LOG_BYTES} >> 20):
    os.write(1, b"x" * (1 << 20))
os.write(2, b"\\nthe last line\\n")
"""
    for result in odd_copies(project, script):
        text = said(result)
        assert result.status is StageStatus.DONE and "printed" in result.reason
        assert len(text) < 2 * LOG_BYTES + 1000
        assert text.startswith("the first line\n") and text.endswith("\nthe last line\n")
    assert all_gone(mark)


def test_warm_daemons_are_told_and_ended(project: Path, mark: str) -> None:
    for result in odd_copies(project, DAEMON):
        assert (result.status, result.verdict) == (StageStatus.DONE, Verdict.WARN)
        assert "left 2 processes behind, which were ended" in result.reason
    assert all_gone(mark)


def test_a_warm_stage_that_kills_its_parent_leaves_nobody(project: Path, mark: str) -> None:
    assert any(result.status is StageStatus.CRASHED for result in odd_copies(project, ORPHANS))
    assert all_gone(mark)


@pytest.mark.parametrize(
    ("script", "status", "reason"),
    [
        (DEAF, StageStatus.TIMED_OUT, "ended after its time was up"),
        (GARBAGE, StageStatus.FAILED, "the last words"),
        (CLOSES, StageStatus.DONE, ""),
    ],
    ids=["deaf", "garbage", "closes its output"],
)
def test_warm_stages_are_told_as_others_are(
    project: Path, mark: str, script: str, status: StageStatus, reason: str
) -> None:
    for result in odd_copies(project, script, timeout=3.0):
        assert result.status is status and reason in result.reason
        assert not any(ord(letter) < 32 or 0x7F <= ord(letter) < 0xA0 for letter in result.reason)
    assert all_gone(mark)


FILLS = """
with open("fill", "wb", buffering=0) as file:
    while True:
        file.write(bytes(4096))
"""


def test_the_stage_that_fills_the_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str) -> None:
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(tmp_path)], check=False).returncode:
        pytest.skip("only root may mount")
    try:
        make_project(tmp_path)
        monkeypatch.chdir(tmp_path)
        (tmp_path / "export.py").write_text(WRITES + FILLS)
        with pytest.raises(TruelineError, match=f"{CHAIN}/export has ended.*No space left on device"):
            pipeline("train_infer_python.txt", MODE, jobs=1)
        assert all_gone(mark)
        (tmp_path / "fill").unlink()
        (tmp_path / "export.py").write_text(WRITES + "write()")
        report = pipeline("train_infer_python.txt", MODE, jobs=1)
        assert report.result(f"{CHAIN}/export").status is StageStatus.DONE
    finally:
        monkeypatch.undo()
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)
