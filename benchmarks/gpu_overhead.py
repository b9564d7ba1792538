"""What a capture of statistics costs on a GPU: step time, memory, synchronisations.

    python benchmarks/gpu_overhead.py [--json FILE] [--rounds N] [--peer [FOLDER]]

Two training steps: (a) host-bound, 12 layers of width 1024 in bfloat16, batch 8 x 1024, fused AdamW; (b) GPU-bound,
width 4096. Bare and captured rounds are interleaved in one process; a round is a run of steps with one wait for
the device at its end. Statistics of every API call, forward and backward, inputs and outputs, written to disk.

``--peer`` measures the peer (msprobe) on the same steps, in processes of its own that use this interpreter's torch;
FOLDER holds the peer's packages where they are not installed beside it. The peer is slow: few of its steps will do.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch

import trueline
from benchmarks import workloads

ROOT = Path(__file__).resolve().parents[1]
PEER_SECONDS = 300
"""After so long one measurement of the peer is given up."""

Step = Callable[[], Any]


def timed(step: Step, count: int) -> float:
    """Seconds per step over a run of steps."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / count


def captured(step: Step, count: int, folder: Path, options: dict[str, Any]) -> tuple[float, trueline.Capture]:
    """Seconds per captured step, the first one (which warms things up) left out."""
    with trueline.capture(folder, **options) as capture:
        step()
        capture.step()

        def both() -> None:
            step()
            capture.step()

        seconds = timed(both, count)
    return seconds, capture


def synchronisations(step: Step) -> int:
    """How often a step makes the host wait for the device."""
    torch.cuda.set_sync_debug_mode("warn")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        step()
    torch.cuda.set_sync_debug_mode("default")
    return sum("synchron" in str(warning.message) for warning in caught)


def peak(step: Step) -> int:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


def measure(name: str, rounds: int, steps: int, folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    job = workloads.build(name, device="cuda")
    batch = job.make_batch(0)

    def step() -> None:
        job.train_step(batch)

    for _ in range(5):
        step()
    bare_peak = peak(step)
    bare_syncs = synchronisations(step)
    captured(step, 2, folder / f"warm-{name}", options)
    bare, with_capture = [], []
    capture = None
    for number in range(rounds):
        bare.append(timed(step, steps))
        seconds, capture = captured(step, steps, folder / f"round{number}", options)
        with_capture.append(seconds)
        shutil.rmtree(folder / f"round{number}")
    assert capture is not None and capture.certificate is not None
    certificate = capture.certificate
    with trueline.capture(folder / f"peak-{name}", **options) as watched:
        step()
        watched.step()
        captured_peak = peak(step)
        watched.step()
        captured_syncs = synchronisations(step)
    shutil.rmtree(folder / f"peak-{name}")
    base, ours = statistics.median(bare), statistics.median(with_capture)
    return {
        "workload": name,
        "options": options,
        "bare_ms": base * 1e3,
        "captured_ms": ours * 1e3,
        "ratio": ours / base,
        "ratio_of_minima": min(with_capture) / min(bare),
        "peak_ratio": captured_peak / bare_peak,
        "peak_gib": captured_peak / 2**30,
        "synchronisations_bare": bare_syncs,
        "synchronisations_captured": captured_syncs,
        "calls_per_step": {key: count / (steps + 1) for key, count in certificate.calls.items()},
        "tensor_visits_per_step": certificate.visits / (steps + 1),
        "distinct_tensors_per_step": certificate.tensors / (steps + 1),
        "bytes_read_per_step": certificate.bytes_seen / (steps + 1),
        "not_recorded": dict(certificate.not_recorded),
    }


def measure_peer(name: str, data: str, steps: int, folder: Path, packages: str) -> dict[str, Any]:
    """The peer's captured step beside the bare step of the same process, or why there is none."""
    request = {
        "kind": "step", "tool": "peer", "workload": name, "data": data, "steps": steps, "bare_steps": 20,
        "folder": str(folder / f"peer-{name}-{data}"), "threads": torch.get_num_threads(),
    }  # fmt: skip
    places = [str(ROOT / "src"), str(ROOT), *([packages] if packages else []), os.environ.get("PYTHONPATH", "")]
    command = [sys.executable, "-m", "benchmarks.cell", json.dumps(request)]
    row: dict[str, Any] = {"tool": "msprobe", "workload": name, "data": data}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONPATH": os.pathsep.join(places)}, capture_output=True,
            text=True, check=False, timeout=PEER_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {**row, "error": f"not done after {PEER_SECONDS} s"}
    finally:
        shutil.rmtree(request["folder"], ignore_errors=True)
    if done.returncode:
        return {**row, "error": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    found = json.loads(done.stdout.splitlines()[-1])
    bare, captured_seconds = statistics.median(found["bare"]), statistics.median(found["steps"])
    return {
        **row,
        "bare_ms": bare * 1e3,
        "captured_ms": captured_seconds * 1e3,
        "ratio": captured_seconds / bare,
        "peak_ratio": found["peak"] / found["peak_bare"],
        "records_per_step": found["records"],
        "tensors_per_step": found["tensors"],
        "bytes_per_step": found["bytes"],
    }


def host() -> str:
    """What the processor calls itself: the host's share of a step depends on it."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    found = [line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "cpu MHz"))]
    return ", ".join(dict.fromkeys(found[:2])) + f", {os.cpu_count()} cores"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--peer", metavar="FOLDER", nargs="?", const="")
    parser.add_argument("--peer-steps", type=int, default=3)
    parser.add_argument("--peer-tensors", action="store_true", help="its dump of whole tensors as well, of (a) alone")
    parser.add_argument("--workloads", nargs="+", default=["gpt_host_bound", "gpt_device_bound"])
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("skipped: no CUDA device here")
        return 0
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.workloads:
            row = measure(name, options.rounds, options.steps, Path(folder), {"data": "stats"})
            torch.cuda.empty_cache()
            results.append(row)
            print(json.dumps(row), flush=True)
        peers = []
        if options.peer is not None:
            asked = [(name, "stats") for name in options.workloads]
            asked += [(options.workloads[0], "tensors")] if options.peer_tensors else []
            for name, data in asked:
                peers.append(measure_peer(name, data, options.peer_steps, Path(folder), options.peer))
                print(json.dumps(peers[-1]), flush=True)
    report = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "host": host(), "rows": results}
    if peers:
        report["peer"] = peers
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
