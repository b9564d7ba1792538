"""One cell of the cost of a watch, in a process of its own: ``python -m benchmarks.watch.cell '{"tool": ...}'``.

Blocks of bare steps and of steps under the tool take turns in the same process, so that a busy machine hits both alike.
The answer is the last line of standard output, as JSON.
"""

from __future__ import annotations

import contextlib
import json
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
    """Step times, bare and under a tool, in turns."""
    job = build(request["workload"])
    batches = [job.make_batch(number) for number in range(request["steps"] + 2)]
    for batch in batches[:2]:
        job.train_step(batch)
    bare: list[tuple[float, float]] = []
    under: list[tuple[float, float]] = []
    for _ in range(request["turns"]):
        bare += [_timed(lambda batch: job.train_step(batch) and None, batch) for batch in batches][2:]
        with (
            tempfile.TemporaryDirectory(dir=request["folder"]) as folder,
            TOOLS[request["tool"]](job, Path(folder)) as step,
        ):
            under += [_timed(step, batch) for batch in batches][2:]
    return {"bare": bare, "steps": under}


def same_bits(workload: str, folder: Path) -> bool:
    """Whether training under a watch gives the same parameters and losses, to the last bit."""
    ends = []
    for watched in (False, True):
        job = build(workload)
        torch.manual_seed(1)
        losses = []
        with contextlib.ExitStack() as stack:
            if watched:
                stack.enter_context(_watched(job, folder))
            for number in range(4):
                losses.append(job.train_step(job.make_batch(number)))
        ends.append([*losses, *(parameter.detach().clone() for parameter in job.model.parameters())])
    return all(torch.equal(left, right) for left, right in zip(*ends, strict=True))


def main() -> int:
    request = json.loads(sys.argv[1])
    torch.set_num_threads(request.get("threads", 1))
    if request.get("kind") == "bits":
        print(json.dumps({"same": same_bits(request["workload"], Path(request["folder"]))}))
    else:
        print(json.dumps(measure(request)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
