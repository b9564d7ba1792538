"""The peer's check of single calls, made to run on the CPU; a process in the peer's environment.

    python -m benchmarks.peer_check FOLDER WORKLOAD CALLS

Dumps the statistics of one training step, then checks its first CALLS forward calls with their backward. The peer takes
the device for a GPU or an NPU; here it is told that the CPU is one, nothing else of it is changed. The last line of
standard output is a JSON object: calls and seconds of the loop, its start-up left out.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks import peer
from benchmarks.workloads import build


def dump(folder: Path, workload: str) -> Path:
    """Dumps one step; gives the path of its dump.json."""
    job = build(workload)
    debugger = peer.debugger(folder, "statistics")
    debugger.start(model=job.model)
    job.train_step(job.make_batch(0))
    debugger.stop()
    debugger.step()
    return peer.dump_file(folder)


def cut(dumped: Path, calls: int) -> Path:
    """A dump.json with the first forward calls of another one, and their backward calls."""
    content = json.loads(dumped.read_text())
    names = [name for name in content["data"] if name.endswith(".forward")][:calls]
    kept = {name: content["data"][name] for name in names}
    for name in names:
        backward = name.removesuffix("forward") + "backward"
        if backward in content["data"]:
            kept[backward] = content["data"][backward]
    path = dumped.with_name("cut.json")
    path.write_text(json.dumps({**content, "data": kept}))
    return path


def check(dumped: Path, out: Path) -> float:
    """Runs the peer's check; gives the seconds of its loop."""
    from msprobe.pytorch.api_accuracy_checker.acc_check import (  # type: ignore[import-not-found]
        acc_check,
        acc_check_utils,
    )

    for module in (acc_check, acc_check_utils):
        module.current_device = "cpu"
    torch.cuda.set_device = torch.cuda.empty_cache = lambda *_: None  # type: ignore[assignment]
    seconds: list[float] = []
    loop = acc_check.run_api_offline

    def timed(*arguments: Any) -> None:
        start = time.perf_counter()
        loop(*arguments)
        seconds.append(time.perf_counter() - start)

    acc_check.run_api_offline = timed
    parser = argparse.ArgumentParser()
    acc_check._acc_check_parser(parser)
    acc_check.acc_check_command(parser.parse_args(["-api_info", str(dumped), "-o", str(out)]))
    return seconds[0]


def main() -> int:
    folder, workload, calls = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    dumped = cut(dump(folder, workload), calls)
    count = sum(name.endswith(".forward") for name in json.loads(dumped.read_text())["data"])
    out = folder / "out"
    out.mkdir(parents=True, exist_ok=True)
    print(json.dumps({"calls": count, "seconds": check(dumped, out)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
