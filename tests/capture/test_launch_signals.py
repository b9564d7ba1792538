"""What is sent to a command under ``trueline capture`` is the program's to answer, not ours."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"

RUN = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
from trueline.capture.launch import run_command
sys.exit(run_command([sys.executable, sys.argv[1]], {"out": sys.argv[2]}))
"""
PROGRAM = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
def ended(number, frame):
    sys.exit(7)
signal.signal(signal.SIGTERM, ended)
while True:
    try:
        open("ready", "w").close()
        time.sleep(60)
    except KeyboardInterrupt:
        time.sleep(0.5)  # longer than anybody waits who would end it
        open("went on", "w").close()
        sys.exit(5)
"""


def started(folder: Path) -> subprocess.Popen[bytes]:
    (folder / "program.py").write_text(PROGRAM)
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, "program.py", "run"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not (folder / "ready").exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    return process


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="no process groups")
def test_a_program_that_goes_on_after_an_interrupt_may_go_on(tmp_path: Path) -> None:
    process = started(tmp_path)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
    assert process.wait(60) == 5
    assert (tmp_path / "went on").exists()


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="no process groups")
def test_what_is_to_end_us_ends_the_program_in_its_own_way(tmp_path: Path) -> None:
    process = started(tmp_path)
    process.terminate()  # us alone
    assert process.wait(60) == 7
