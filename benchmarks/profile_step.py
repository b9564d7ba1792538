"""Does a profile add up, and does it find what was planted?

    python -m benchmarks.profile_step [--framework torch|paddle] [--device cpu|cuda] [--threads N] [--only NAME]

1. *Adds up*: a real training step (a transformer, a convolutional net) is timed bare, captured, and its Run profiled:
   the sum over all calls of forward, backward and optimizer must be the bare step within 20 %. On a GPU the sum of the
   device times is held against the device time of the step by the framework's own profiler, and the host's share is
   told apart.
   The C library is told to keep memory that was freed: else it gives it back to the system and asks for it again in
   every step, and mapping it (a third of the step of the convolutional net) belongs to no call.
2. *Clean*: the same target against itself gives no finding.
3. *Planted*: a kernel that does its work twice and one that makes a copy that nobody needs are named, and nothing else.

Writes ``results/profile_<framework>_<device>.json`` and ``.md``; exit code 1 where one of these does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

RESULTS = Path(__file__).parent / "results"
WITHIN = 0.20
CAPTURED_STEP = 0
_KEEP_MEMORY = "MALLOC_TRIM_THRESHOLD_"


def main() -> int:
    options = _parser().parse_args()
    os.chdir(ROOT)
    if _KEEP_MEMORY not in os.environ:
        settings = {_KEEP_MEMORY: "10000000000", "MALLOC_MMAP_THRESHOLD_": "10000000000"}
        module = "benchmarks.profile_step"
        os.execve(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]], {**os.environ, **settings})
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(options.threads)
    result: dict[str, Any] = {
        "framework": options.framework, "device": options.device, "threads": options.threads,
        "load_average": os.getloadavg()[0], "steps": {}, "pairs": {},
    }  # fmt: skip
    folder = Path(tempfile.mkdtemp(prefix="trueline-profile-"))
    try:
        jobs = _jobs(options.framework, options.device)
        result["versions"], result["machine"] = _about(options.framework, options.device)
        for name, make in jobs.items():
            if options.only in ("", name):
                result["steps"][name] = _adds_up(make(), folder / name, options)
                _write(result, Path(options.out))
        if options.only in ("", "pairs"):
            run = folder / "transformer"
            if not run.exists():
                _captured(jobs["transformer"]().step, run)
            overrides = _planted(options.framework)
            result["pairs"]["planted"] = _pair(run, options, overrides, tuple(overrides))
            _write(result, Path(options.out))
            result["pairs"]["clean"] = _pair(run, options, {}, (), options.clean_cases)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(_write(result, Path(options.out)))
    return 0 if result["holds"] else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--framework", choices=("torch", "paddle"), default="torch")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda (torch) or gpu (paddle)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget", type=float, default=0.5, help="seconds for a noisy case")
    parser.add_argument("--repeat", type=int, default=15, help="bare steps that are timed, before and after")
    parser.add_argument("--clean-cases", type=int, help="only so many cases of the clean pair")
    parser.add_argument("--only", default="", help="one of the steps, or pairs")
    parser.add_argument("--out", default=str(RESULTS), metavar="FOLDER")
    return parser


def _jobs(framework: str, device: str) -> dict[str, Callable[[], Any]]:
    from benchmarks import profile_jobs

    return profile_jobs.jobs(framework, device)


def _planted(framework: str) -> dict[str, str]:
    module = "benchmarks.profile_kernels"
    if framework == "torch":
        return {
            "torch.nn.functional.gelu": f"{module}:torch_gelu_twice",
            "torch.nn.functional.layer_norm": f"{module}:torch_layer_norm_copying",
        }
    return {
        "paddle.nn.functional.gelu": f"{module}:paddle_gelu_twice",
        "paddle.nn.functional.layer_norm": f"{module}:paddle_layer_norm_copying",
    }


def _about(framework: str, device: str) -> tuple[dict[str, str], str]:
    if framework == "torch":
        import torch

        machine = torch.cuda.get_device_name() if device.startswith("cuda") else f"{os.cpu_count()} cores"
        return {"torch": str(torch.__version__)}, machine
    import paddle

    return {"paddle": str(paddle.__version__)}, f"{os.cpu_count()} cores"


def _captured(step: Callable[[], Any], run: Path) -> None:
    import trueline

    with trueline.capture(run, data="stats", steps=[CAPTURED_STEP]) as capture:
        step()
        capture.step()


def _adds_up(job: Any, run: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The bare step, before and after it is profiled, and the sum of its calls."""
    from trueline.campaign.profile import profile

    for _ in range(3):
        job.step()
    bare = _bare(job, options.repeat)
    device_step = job.device_seconds() if hasattr(job, "device_seconds") else None
    _captured(job.step, run)
    started = time.perf_counter()
    report = profile(
        run, target=f"{options.framework}:{options.device}", threads=options.threads, budget=options.budget
    )
    took = time.perf_counter() - started
    bare += _bare(job, options.repeat)
    step = statistics.median(bare)
    found = report.totals
    measured = device_step if device_step is not None else step
    share = found["seconds"] / measured
    slowest = [{"api": one.case.api, "calls": one.case.count, "seconds": one.total} for one in list(report.results)[:8]]
    return {
        "step": step, "step_low": min(bare), "step_high": max(bare), "device_step": device_step, **found,
        "share": share, "holds": abs(share - 1) <= WITHIN and report.timed > 0, "cases": len(report.results),
        "calls": report.info.calls, "timed": report.timed, "skipped": dict(report.info.skipped), "took": took,
        "slowest": slowest, "rooflines": {name: _plain(line) for name, line in report.info.rooflines.items()},
    }  # fmt: skip


def _plain(line: Any) -> dict[str, Any]:
    return {"flops": dict(line.flops), "bandwidth": line.bandwidth}


def _bare(job: Any, count: int) -> list[float]:
    """Seconds of bare steps, by the clock that the profile uses as well: what other processes took is taken off."""
    from trueline.frameworks.timing_prepared import HostClock

    def step() -> None:
        job.step()
        job.wait()

    clock = HostClock()
    job.wait()
    return [clock.lap(step, 1).seconds for _ in range(count)]


def _pair(
    run: Path,
    options: argparse.Namespace,
    overrides: dict[str, str],
    named: tuple[str, ...],
    limit: int | None = None,
) -> dict[str, Any]:
    """A target against itself, with or without planted kernels."""
    from trueline.campaign.profile import profile

    target = f"{options.framework}:{options.device}"
    started = time.perf_counter()
    report = profile(
        run, target=target, against=target, overrides=overrides, threads=options.threads, budget=options.budget,
        limit=limit,
    )  # fmt: skip
    found = [
        {
            "api": one.case.api,
            "reasons": [finding.reason for finding in one.findings if finding.verdict.name == "FAIL"],
            "what": sorted({finding.what for finding in one.findings if finding.verdict.name == "FAIL"}),
            "lost": one.lost,
        }
        for one in report.findings
    ]
    apis = {one["api"] for one in found}
    return {
        "overrides": overrides, "counts": report.counts, "findings": found, "verdict": report.verdict.name,
        "holds": apis == set(named) and report.counts["PASS"] > 0, "took": time.perf_counter() - started,
    }  # fmt: skip


def _write(result: dict[str, Any], folder: Path) -> str:
    """Writes what there is so far; gives the text."""
    result["load_average_after"] = os.getloadavg()[0]
    result["holds"] = all(one["holds"] for part in ("steps", "pairs") for one in result[part].values())
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"profile_{result['framework']}_{result['device'].partition(':')[0]}"
    (folder / f"{stem}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    text = _markdown(result)
    (folder / f"{stem}.md").write_text(text, encoding="utf-8")
    return text


def _markdown(result: dict[str, Any]) -> str:
    from benchmarks.tables import table

    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    lines = [
        f"# Profile of a step: {versions}, {result['device']} ({result['machine']})\n",
        f"{result['threads']} thread(s); load average {result['load_average']:.1f} before, "
        f"{result['load_average_after']:.1f} after. Made by `python -m benchmarks.profile_step "
        f"--framework {result['framework']} --device {result['device']}`.\n",
    ]
    if result["steps"]:
        header = ["step", "calls", "bare step", "device time of it", "sum of calls", "forward", "backward",
                  "host busy", "sum / step", "within 20 %"]  # fmt: skip
        lines.append(table(header, [_step_row(name, one) for name, one in result["steps"].items()]))
        lines.append("Calls of the optimizer count as forward.\n")
    if result["pairs"]:
        lines.append(table(["pair", "cases", "findings", "as it must be"], [
            [name, str(sum(one["counts"].values())), _told(one), "yes" if one["holds"] else "NO"]
            for name, one in result["pairs"].items()
        ]))  # fmt: skip
    return "\n".join(lines)


def _step_row(name: str, one: dict[str, Any]) -> list[str]:
    device = "-" if one["device_step"] is None else _milliseconds(one["device_step"])
    return [
        name, f"{one['calls']:,}", _milliseconds(one["step"]), device, _milliseconds(one["seconds"]),
        _milliseconds(one["forward"]), _milliseconds(one["backward"]),
        _milliseconds(one["launch"]) if one["launch"] else "-", f"{one['share']:.2f}", "yes" if one["holds"] else "NO",
    ]  # fmt: skip


def _told(one: dict[str, Any]) -> str:
    if not one["findings"]:
        return "none"
    return "; ".join(f"{found['api']}: {', '.join(found['reasons'])}" for found in one["findings"])


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"


if __name__ == "__main__":
    sys.exit(main())
