"""Runs of 200,000 calls: compared from statistics in seconds, in bounded memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from trueline.numerics.layout import STATISTICS
from trueline.records import RunInfo
from trueline.store import Batch, RankWriter, write_run_info
from trueline.store.columns import CALL_COLUMNS

CALLS = 200_000
MODULES = 500
STEPS = 10


def write(path: Path, wrong: int | None, noise: float) -> None:
    """A chain of matmuls by one weight; ``wrong`` is a call whose output, and all after it, is another."""
    numbers = np.arange(CALLS)
    calls = np.full((CALLS, len(CALL_COLUMNS)), -1, dtype=np.int64)
    columns = {"id": numbers, "level": 0, "phase": 0, "api": 0, "nth": numbers % (CALLS // STEPS), "thread": 0}
    columns |= {
        "step": numbers // (CALLS // STEPS),
        "module": numbers % MODULES,
        "context": 1,
        "arguments": 0,
        "result": 1,
    }
    for name, values in columns.items():
        calls[:, CALL_COLUMNS.index(name)] = values
    # Tensor 0 is the weight, tensor n + 1 the input of call n, tensor n + 2 its output.
    visits = np.empty((CALLS, 3, 5), dtype=np.int64)
    visits[:, :, 0] = numbers[:, None]
    visits[:, :, 1] = (0, 1, 2)
    visits[:, :, 2] = (0, 0, 1)
    visits[:, :, 3] = np.stack([numbers + 1, np.zeros(CALLS, dtype=np.int64), numbers + 2], axis=1)
    visits[:, :, 4] = 0
    generator = np.random.default_rng(0)
    rows = np.zeros(CALLS + 2, dtype=STATISTICS)
    rows["count"], rows["norm"], rows["minimum"], rows["maximum"] = 64, 8.0, -3.0, 3.0
    rows["exponent_min"] = -6
    rows["exponent_max"] = 1
    rows["sketch"] = generator.standard_normal((CALLS + 2, 64))
    if noise:
        rows["sketch"][1:] *= 1 + noise * generator.standard_normal((CALLS + 1, 64))
    if wrong is not None:
        rows["sketch"][wrong + 2 :] *= 1.01
    definitions = {
        "names": [[0, "torch.matmul"], [1, ""]],
        "modules": [[number, f"layers.{number}", ""] for number in range(MODULES)],
        "trees": [[0, {"args": [{"$t": 0}, {"$t": 1}], "kwargs": {}}], [1, {"out": {"$t": 2}}]],
        "layouts": [[0, "float32", [8, 8], [8, 1], "cpu", 0]],
    }
    path.mkdir()
    writer = RankWriter(path, 0)
    writer.submit(
        Batch(
            definitions=definitions,
            calls=calls,
            visits=visits.reshape(-1, 5),
            statistics=lambda: (np.arange(len(rows), dtype=np.int64), rows),
        )
    )
    writer.close({"complete": True})
    write_run_info(path, RunInfo(1, "0", "", "none", "0", "", "", (), (), "", None, 1, {}))


# The peak is read from /proc: what getrusage says includes the process that this one was started from.
PROGRAM = """
import json, re, sys, time
started = time.process_time()
from trueline.diagnose import compare_runs
report = compare_runs(sys.argv[1], sys.argv[2])
seconds = time.process_time() - started
call = report.first_divergence
print(json.dumps({
    "seconds": seconds,
    "peak": int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024,
    "calls": len(report.calls),
    "verdict": report.verdict.name,
    "first": None if call is None else [call.id, call.module],
    "middle": report.calls[100_000].call.name,
    "frameworks": [name for name in ("torch", "numba", "scipy", "pandas") if name in sys.modules],
}))
"""


def test_200_000_calls(tmp_path: Path) -> None:
    write(tmp_path / "a", None, 0.0)
    write(tmp_path / "b", 150_123, 1e-7)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "a"), str(tmp_path / "b")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["calls"] == CALLS
    assert found["first"] == [150_123, f"layers.{150_123 % MODULES}"]
    assert found["verdict"] == "FAIL"
    assert found["frameworks"] == []
    assert found["seconds"] < 30.0, found
    assert found["peak"] < 700.0, found
