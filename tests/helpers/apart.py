"""Runs part of a test in a process of its own: some kernels of Paddle damage the memory of the process they run in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_ATTEMPTS = 3


def run_apart(place: str) -> None:
    """Calls ``module:function``; what it asserts holds here too. A process that dies of a signal is tried again: it is
    not what the test is about."""
    module, _, function = place.partition(":")
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "GLOG_minloglevel": "2"}
    words = [sys.executable, "-c", f"from {module} import {function}; {function}()"]
    for _ in range(_ATTEMPTS):
        done = subprocess.run(words, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode >= 0:
            break
    assert done.returncode == 0, done.stderr[-3000:]
