"""One cell of the cost of a watch, in a process of its own: ``python -m benchmarks.watch.cell '{"tool": ...}'``.

Blocks of bare steps and of steps under the tool take turns in the same process, so that a busy machine hits both alike.
The answer is the last line of standard output, as JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks import peer
from benchmarks.workloads import Job, build

Step = Callable[[Any], None]
_LEAST_STEPS = 3


def _synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _timed(step: Step, batch: Any) -> tuple[float, float]:
    """Seconds by the clock, and of the processor: the second does not hang on who else uses the machine."""
    _synchronize()
    began, used = time.perf_counter(), time.process_time()
    step(batch)
    _synchronize()
    return time.perf_counter() - began, time.process_time() - used


@contextlib.contextmanager
def _watched(job: Job, folder: Path) -> Iterator[Step]:
    from trueline.diagnose.watching import watch

    with watch(folder / "run") as watching:
        yield lambda batch: (job.train_step(batch), watching.step())[0]  # type: ignore[func-returns-value]


@contextlib.contextmanager
def _captured(job: Job, folder: Path) -> Iterator[Step]:
    import trueline

    with trueline.capture(folder / "run", data="stats") as capture:
        yield lambda batch: (job.train_step(batch), capture.step())[0]  # type: ignore[func-returns-value]


@contextlib.contextmanager
def _anomaly(job: Job, folder: Path) -> Iterator[Step]:
    with torch.autograd.set_detect_anomaly(True):
        yield lambda batch: job.train_step(batch) and None


@contextlib.contextmanager
def _peer(job: Job, folder: Path) -> Iterator[Step]:
    """What the peer's overflow check reads: a dump of the statistics of every step."""
    debugger = peer.debugger(folder, "statistics")

    def step(batch: Any) -> None:
        debugger.start(model=job.model)
        job.train_step(batch)
        debugger.stop()
        debugger.step()

    yield step


TOOLS = {"watch": _watched, "capture": _captured, "anomaly": _anomaly, "peer": _peer}


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Step times, bare and under a tool, in turns: fewer steps and turns where there would be no end of them."""
    job = build(request["workload"])
    for number in range(2):
        taken = _timed(lambda batch: job.train_step(batch) and None, job.make_batch(number))[0]
    steps = round(request["seconds"] / request["turns"] / 2 / taken)
    batches = [job.make_batch(number) for number in range(max(_LEAST_STEPS, min(request["steps"], steps)) + 2)]
    bare: list[tuple[float, float]] = []
    under: list[tuple[float, float]] = []
    begun = time.perf_counter()
    for turn in range(request["turns"]):
        if turn and time.perf_counter() - begun > request["seconds"]:
            break
        bare += [_timed(lambda batch: job.train_step(batch) and None, batch) for batch in batches][2:]
        with (
            tempfile.TemporaryDirectory(dir=request["folder"]) as folder,
            TOOLS[request["tool"]](job, Path(folder)) as step,
        ):
            under += [_timed(step, batch) for batch in batches][2:]
    return {"bare": bare, "steps": under}


def same_bits(workload: str, folder: Path) -> dict[str, bool]:
    """Whether training under a watch gives the same parameters and losses, to the last bit; and, as a control, whether
    the bare program gives them twice."""
    _deterministic()
    ends = [_trained(workload, None), _trained(workload, None), _trained(workload, folder)]
    same = [all(torch.equal(left, right) for left, right in zip(ends[0], end, strict=True)) for end in ends[1:]]
    return {"repeatable": same[0], "same": same[1]}


def _deterministic() -> None:
    """Fused attention sums gradients in the order in which its blocks happen to end: written out, it does not."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    for switch in ("enable_flash_sdp", "enable_mem_efficient_sdp", "enable_cudnn_sdp"):
        if hasattr(torch.backends.cuda, switch):
            getattr(torch.backends.cuda, switch)(False)


def _trained(workload: str, watched: Path | None) -> list[torch.Tensor]:
    """Losses and parameters after four steps."""
    job = build(workload)
    torch.manual_seed(1)
    with contextlib.ExitStack() as stack:
        if watched is not None:
            stack.enter_context(_watched(job, watched))
        losses = [job.train_step(job.make_batch(number)) for number in range(4)]
    return [*losses, *(parameter.detach().clone() for parameter in job.model.parameters())]


def main() -> int:
    request = json.loads(sys.argv[1])
    torch.set_num_threads(request.get("threads", 1))
    if request.get("kind") == "bits":
        print(json.dumps(same_bits(request["workload"], Path(request["folder"]))))
    else:
        print(json.dumps(measure(request)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
