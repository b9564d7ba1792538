"""One cell of a measurement, in a process of its own: ``python -m benchmarks.cell '{"kind": "step", ...}'``.

The request is one JSON object, the answer the last line of standard output, again JSON. A cell runs in our
environment or in the peer's and imports only the tool that it measures; before it captures, it times the bare program
in the same process, so that both sides of a ratio saw the same machine.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks import peer
from benchmarks.workloads import Job, build

NEVER = 10**9
"""A step that no measurement reaches: a capture asked for it alone is inactive."""


def _synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _time(action: Callable[..., object], *arguments: object) -> float:
    _synchronize()
    start = time.perf_counter()
    action(*arguments)
    _synchronize()
    return time.perf_counter() - start


def _bare(job: Job, steps: int) -> list[float]:
    """Times bare steps after two that warm up."""
    batches = [job.make_batch(step) for step in range(steps + 2)]
    return [_time(job.train_step, batch) for batch in batches][2:]


def _peak() -> int:
    """Device memory at its highest since the last time it was asked for; 0 without a device."""
    if not torch.cuda.is_available():
        return 0
    peak = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    return peak


def measure_step(request: dict[str, Any]) -> dict[str, Any]:
    """Step times of one workload under one tool, with the bare times of the same process."""
    job = build(request["workload"])
    bare = _bare(job, request["bare_steps"])
    peak_bare = _peak()
    folder = Path(request["folder"])
    run = _ours_steps if request["tool"] == "ours" else _peer_steps
    captured = run(job, request["data"], request["steps"], folder)
    return {"bare": bare, **captured, "peak": _peak(), "peak_bare": peak_bare}


def _our_step(capture: Any, job: Job, batch: Any) -> None:
    job.train_step(batch)
    capture.step()


def _certificate(capture: Any) -> Any:
    """What the capture says of itself; a capture that gave up is no measurement."""
    certificate = capture.certificate
    if certificate is None or not certificate.complete:
        reason = "no certificate" if certificate is None else certificate.stopped_because
        raise RuntimeError(f"the capture did not finish: {reason}")
    return certificate


def _ours_steps(job: Job, data: str, steps: int, folder: Path) -> dict[str, Any]:
    import trueline

    batches = [job.make_batch(100 + step) for step in range(steps + 1)]
    with trueline.capture(folder / "warm", data=data, steps=[0]) as capture:
        _our_step(capture, job, batches[0])
    shutil.rmtree(folder / "warm")
    times = []
    start = time.perf_counter()
    with trueline.capture(folder / "run", data=data, steps=list(range(steps))) as capture:
        for batch in batches[1:]:
            times.append(_time(_our_step, capture, job, batch))
    whole = time.perf_counter() - start
    certificate = _certificate(capture)
    return {
        "steps": times,
        "whole": whole,
        "records": sum(certificate.calls.values()) // steps,
        "tensors": certificate.visits // steps,
        "bytes": certificate.bytes_seen // steps,
        "unique_bytes": certificate.bytes_stored // steps,
    }


def _peer_steps(job: Job, data: str, steps: int, folder: Path) -> dict[str, Any]:
    batches = [job.make_batch(100 + step) for step in range(steps + 1)]
    debugger = peer.debugger(folder, _peer_task(data))
    times = [_time(_peer_step, debugger, job, batch) for batch in batches]
    return {"steps": times[1:], "whole": sum(times[1:]), **peer.dump_size(folder, 1)}


def _peer_task(data: str) -> str:
    return {"stats": "statistics", "tensors": "tensor"}[data]


def _peer_step(debugger: Any, job: Job, batch: Any) -> None:
    """One captured step as the peer's manual shows it: everything between start and stop."""
    debugger.start(model=job.model)
    job.train_step(batch)
    debugger.stop()
    debugger.step()


def measure_inactive(request: dict[str, Any]) -> dict[str, Any]:
    """Steps under a capture that was asked for other steps, in turn with bare ones in the same process."""
    import trueline

    job = build(request["workload"])
    _bare(job, 2)
    batch = job.make_batch(0)
    bare, inactive = [], []
    for turn in range(request["turns"]):
        bare += [_time(job.train_step, batch) for _ in range(request["steps"])]
        folder = Path(request["folder"]) / f"run{turn}"
        with trueline.capture(folder, data="stats", steps=[NEVER]) as capture:
            inactive += [_time(_our_step, capture, job, batch) for _ in range(request["steps"])]
    return {"bare": bare, "steps": inactive}


@contextlib.contextmanager
def _recording(tool: str, folder: Path) -> Iterator[None]:
    """Statistics of everything inside, by either tool or none; leaving it ends the capture."""
    if tool == "ours":
        import trueline

        with trueline.capture(folder / "run", data="stats"):
            yield
    elif tool == "peer":
        debugger = peer.debugger(folder, "statistics")
        debugger.start()
        yield
        debugger.stop()
        debugger.step()
    else:
        yield


def _tiny_calls(count: int, tensor: torch.Tensor, one: torch.Tensor) -> None:
    for _ in range(count):
        tensor = torch.mul(tensor, one)


def measure_tiny(request: dict[str, Any]) -> dict[str, Any]:
    """A loop of tiny calls, in ten parts, bare and captured: is the cost of a record flat?"""
    tensor, one = torch.randn(8), torch.ones(8)
    part = request["records"] // 10
    _tiny_calls(part, tensor, one)
    bare = [_time(_tiny_calls, part, tensor, one) for _ in range(10)]
    with _recording(request["tool"], Path(request["folder"]) / "warm"):
        _tiny_calls(10, tensor, one)
    start = time.perf_counter()
    with _recording(request["tool"], Path(request["folder"])):
        parts = [_time(_tiny_calls, part, tensor, one) for _ in range(10)]
    return {"bare": sum(bare), "parts": parts, "whole": time.perf_counter() - start, "records": part * 10}


def make_dump(request: dict[str, Any]) -> dict[str, Any]:
    """One captured step of a workload, its weights perturbed if so asked: one side of a comparison."""
    job = build(request["workload"])
    if request["perturb"]:
        job.perturb(request["perturb"])
    folder, batch = Path(request["folder"]), job.make_batch(0)
    torch.manual_seed(1)
    if request["tool"] == "peer":
        _peer_step(peer.debugger(folder, _peer_task(request["data"])), job, batch)
        return {"path": str(peer.dump_file(folder)), **peer.dump_size(folder, 0)}
    import trueline

    with trueline.capture(folder / "run", data=request["data"], steps=[0]) as capture:
        _our_step(capture, job, batch)
    certificate = _certificate(capture)
    return {
        "path": str(folder / "run"),
        "records": sum(certificate.calls.values()),
        "bytes": certificate.bytes_seen,
        "unique_bytes": certificate.bytes_stored,
    }


KINDS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "step": measure_step,
    "inactive": measure_inactive,
    "tiny": measure_tiny,
    "dump": make_dump,
}


def main(argument: str) -> None:
    request = json.loads(argument)
    torch.set_num_threads(request["threads"])
    print(json.dumps(KINDS[request["kind"]](request)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
