"""Commands end when they should, and nothing of them stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from trueline.pipeline.processes import Ended, Supervised, status_of
from trueline.pipelines import UNSUPPORTED_CODE, StageStatus

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Limits:
    timeout: float | None = None
    memory: int | None = None


def ended(line: str, folder: Path, *, timeout: float | None = None, memory: int | None = None) -> Ended:
    running = Supervised(
        ["bash", "-c", line],
        log=folder / "log.txt",
        environment=dict(os.environ),
        folder=folder,
        limits=Limits(timeout, memory),
    )
    deadline = time.monotonic() + 30
    while (end := running.poll()) is None:
        assert time.monotonic() < deadline, "it never ended"
        time.sleep(0.01)
    return end


def alive(mark: str) -> list[str]:
    """Processes with a word in their command line."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if mark.encode() in words:
            found.append(pid)
    return found


def seconds_mark() -> str:
    """A number of seconds for ``sleep`` that nobody else uses."""
    return f"{300 + os.getpid() % 1000}.{time.monotonic_ns() % 10**6:06d}"


def test_output_and_exit_code(tmp_path: Path) -> None:
    end = ended("echo one; echo two >&2; pwd; exit 3", tmp_path)
    assert (end.code, end.why) == (3, "")
    assert (tmp_path / "log.txt").read_text().splitlines() == ["one", "two", str(tmp_path)]
    assert end.seconds > 0 and end.peak_bytes > 0


@pytest.mark.parametrize(
    ("line", "status", "reason"),
    [
        ("true", StageStatus.DONE, ""),
        ("false", StageStatus.FAILED, "exit code 1"),
        (f"exit {UNSUPPORTED_CODE}", StageStatus.UNSUPPORTED, ""),
        ("kill -SEGV $$", StageStatus.CRASHED, "killed by SIGSEGV"),
        ("no-such-command-at-all", StageStatus.FAILED, "exit code 127"),
    ],
)
def test_what_the_end_means(tmp_path: Path, line: str, status: StageStatus, reason: str) -> None:
    assert status_of(ended(line, tmp_path), UNSUPPORTED_CODE) == (status, reason)


def test_a_hang_is_ended_with_everything_it_started(tmp_path: Path) -> None:
    """Also what ignores being asked, and what has left its group and its session."""
    mark = seconds_mark()
    line = f"trap '' TERM; (trap '' TERM; setsid sleep {mark} &) ; sleep {mark} & sleep {mark}; sleep {mark}"
    started = time.monotonic()
    end = ended(line, tmp_path, timeout=0.5)
    assert status_of(end, UNSUPPORTED_CODE)[0] is StageStatus.TIMED_OUT
    assert time.monotonic() - started < 0.5 + 2.0
    assert alive(mark) == []


def test_what_a_command_leaves_behind_is_ended_and_counted(tmp_path: Path) -> None:
    mark = seconds_mark()
    end = ended(f"(setsid sleep {mark} > /dev/null 2>&1 &); echo done", tmp_path)
    assert end.code == 0
    assert end.left == 1
    assert alive(mark) == []


def test_memory_is_bounded_for_all_processes_together(tmp_path: Path) -> None:
    code = "x = bytearray(b'1') * (120 << 20); import time; time.sleep(30)"
    line = f'{sys.executable} -c "{code}" & {sys.executable} -c "{code}"'
    end = ended(line, tmp_path, memory=200 << 20, timeout=25)
    assert status_of(end, UNSUPPORTED_CODE)[0] is StageStatus.OUT_OF_MEMORY
    assert end.peak_bytes > 200 << 20


def test_one_process_within_its_bound_is_left_alone(tmp_path: Path) -> None:
    end = ended(f"{sys.executable} -c \"x = bytearray(b'1') * (60 << 20)\"", tmp_path, memory=200 << 20)
    assert end.code == 0


TESTER = """
import os, sys, time
from pathlib import Path
sys.path.insert(0, {source!r})
from trueline.pipeline.processes import Supervised
class Limits:
    timeout = None
    memory = None
running = Supervised(["bash", "-c", {line!r}], log=Path({log!r}), environment=dict(os.environ),
                     folder=Path({folder!r}), limits=Limits())
print("started", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_killing_the_tester_leaves_nothing(tmp_path: Path, how: signal.Signals) -> None:
    mark = seconds_mark()
    line = f"(setsid sleep {mark} &); sleep {mark} & sleep {mark}"
    code = TESTER.format(source=str(ROOT / "src"), line=line, log=str(tmp_path / "log.txt"), folder=str(tmp_path))
    tester = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert tester.stdout is not None
    assert tester.stdout.readline() == "started\n"
    deadline = time.monotonic() + 10
    while len(alive(mark)) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(alive(mark)) == 3, "the test can fail"
    tester.send_signal(how)
    tester.wait()
    tester.stdout.close()
    deadline = time.monotonic() + 5
    while alive(mark) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert alive(mark) == []
