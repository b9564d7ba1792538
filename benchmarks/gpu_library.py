"""What capture and watch cost on models of other people's libraries, on a GPU.

    python -m benchmarks.gpu_library [--models NAME ...] [--tools stats watch tensors] [--rounds N] [--json FILE]

Every model in a process of its own. Bare and observed rounds take turns; a round is a run of steps with one wait for
the device at its end. Of each: milliseconds a step, milliseconds until the program has given the step away (host),
peak memory, what the allocator had to try again, and whether parameters and losses of a few steps are the same bits
as bare (with deterministic kernels, in which the bare program gives the same bits twice).
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

SECONDS = 400
"""How long one model may take."""
BITS_STEPS = 3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=[])
    parser.add_argument("--tools", nargs="+", default=["stats", "watch"], choices=sorted(TOOLS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--one", metavar="NAME", help=argparse.SUPPRESS)
    options = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        print("skipped: no CUDA device here")
        return 0
    from benchmarks import library_models

    if options.one:
        print(json.dumps(measured(options.one, options)), flush=True)
        return 0
    rows = []
    for name in options.models or list(library_models.MODELS):
        rows.append(_in_process(name, options))
        print(json.dumps(rows[-1]), flush=True)
        if options.json:
            report = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "host": _host(), "rows": rows}
            Path(options.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


def _host() -> str:
    from benchmarks.gpu_overhead import host

    return host()


def _in_process(name: str, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.gpu_library", "--one", name, "--rounds", str(options.rounds)]
    command += ["--steps", str(options.steps), "--tools", *options.tools]
    environment = {**os.environ, "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        return {"model": name, "error": f"not done after {SECONDS} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        return {"model": name, "error": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    return dict(json.loads(lines[-1]))


def measured(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """One model, bare and under each tool in turns."""
    from benchmarks import library_models

    try:
        step = library_models.build(name)
    except library_models.Missing as missing:
        return {"model": name, "missing": str(missing)}
    with tempfile.TemporaryDirectory() as folder:
        row: dict[str, Any] = {"model": name, **_times(step, options, Path(folder))}
    del step
    row["same_bits"] = _same_bits(name, options.tools)
    return row


def _times(step: Callable[[], Any], options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    for _ in range(5):
        step()
    rounds: dict[str, list[dict[str, float]]] = {tool: [] for tool in ("bare", *options.tools)}
    for tool in options.tools:  # kernels are compiled, once
        _round(step, tool, 3, folder)
    for _ in range(options.rounds):
        for tool in rounds:
            rounds[tool].append(_round(step, tool, options.steps, folder))
    return {tool: _row(done, rounds["bare"]) for tool, done in rounds.items()}


def _row(done: list[dict[str, float]], bare: list[dict[str, float]]) -> dict[str, float]:
    row = {key: statistics.median(one[key] for one in done) for key in done[0]}
    base = {key: statistics.median(one[key] for one in bare) for key in ("ms", "host_ms", "peak_gib")}
    together = [one["ms"] / other["ms"] for one, other in zip(done, bare, strict=True)]
    return {
        **row,
        "ratio": row["ms"] / base["ms"],
        "ratio_by_rounds": statistics.median(together),
        "host_ratio": row["host_ms"] / base["host_ms"],
        "peak_ratio": row["peak_gib"] / base["peak_gib"],
    }


def _round(step: Callable[[], Any], tool: str, count: int, folder: Path) -> dict[str, float]:
    import torch

    place = folder / "run"
    with TOOLS[tool](step, place) as observed:
        observed()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        retries = torch.cuda.memory_stats()["num_alloc_retries"]
        begin = time.perf_counter()
        for _ in range(count):
            observed()
        given = time.perf_counter()
        torch.cuda.synchronize()
        end = time.perf_counter()
        memory = torch.cuda.memory_stats()
    shutil.rmtree(place, ignore_errors=True)
    return {
        "ms": (end - begin) / count * 1e3,
        "host_ms": (given - begin) / count * 1e3,
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30,
        "reserved_gib": torch.cuda.max_memory_reserved() / 2**30,
        "retries": memory["num_alloc_retries"] - retries,
    }


@contextlib.contextmanager
def _bare(step: Callable[[], Any], place: Path) -> Iterator[Callable[[], Any]]:
    yield step


def _capturing(**asked: Any) -> Any:
    @contextlib.contextmanager
    def observed(step: Callable[[], Any], place: Path) -> Iterator[Callable[[], Any]]:
        import trueline

        with trueline.capture(place, **asked) as capture:
            yield lambda: (step(), capture.step())[0]

    return observed


@contextlib.contextmanager
def _watching(step: Callable[[], Any], place: Path) -> Iterator[Callable[[], Any]]:
    import trueline

    with trueline.watch(place) as watching:
        yield lambda: (step(), watching.step())[0]


TOOLS: dict[str, Any] = {
    "bare": _bare,
    "stats": _capturing(data="stats"),
    "tensors": _capturing(data="tensors"),
    "structure": _capturing(data="structure"),
    "every50": _capturing(data="stats", every=50),
    "watch": _watching,
}


def _same_bits(name: str, tools: list[str]) -> dict[str, bool]:
    import torch

    torch.use_deterministic_algorithms(True, warn_only=True)
    with tempfile.TemporaryDirectory() as folder:
        digests = {tool: _digest(name, tool, Path(folder) / tool) for tool in ("bare", "again", *tools)}
    bare = digests.pop("bare")
    return {tool: digest == bare for tool, digest in digests.items()}


def _digest(name: str, tool: str, place: Path) -> str:
    """Of the losses and parameters after a few steps from the same seed."""
    import torch

    from benchmarks import library_models

    step: Any = library_models.build(name)
    seen = hashlib.sha256()
    with TOOLS.get(tool, _bare)(step, place) as observed:
        for _ in range(BITS_STEPS):
            seen.update(observed().float().cpu().numpy().tobytes())
    for parameter in step.model.parameters():
        seen.update(parameter.detach().view(torch.uint8).cpu().numpy().tobytes())
    return seen.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
