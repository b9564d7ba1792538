"""How fast single calls are checked, ours and the peer's, on steps of the same models in one go.

    python -m benchmarks.check_speed [--rounds N] [--workload transformer ...] [--peer-calls N]

Ours: one captured training step (statistics only, inputs are drawn in their likeness), every call of it, forward and
backward, against float64, with an honest implementation and perturbed inputs as yardsticks. The peer: the first calls
of its own dump of the same step, as its manual shows, on the CPU (see ``benchmarks.peer_check``). Rounds are
interleaved. Writes ``results/check_speed.json`` and ``.md`` beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import peer
from benchmarks.workloads import build

RESULTS = Path(__file__).resolve().parent / "results"
WORKLOADS = ("transformer", "resnet")


def capture(workload: str, folder: Path) -> int:
    """Captures one step; gives the number of its forward calls."""
    import trueline

    job = build(workload)
    with trueline.capture(folder) as watched:
        job.train_step(job.make_batch(0))
    assert watched.certificate is not None
    return watched.certificate.calls["api forward"]


def ours(run: Path, workers: int) -> dict[str, Any]:
    """Checks every call of a Run, by the command that users run."""
    import trueline

    start = time.perf_counter()
    report = trueline.check(run, target="torch:cpu", workers=workers)
    seconds = time.perf_counter() - start
    merged = sum(result.case.count for result in report.results) - len(report.results)
    return {
        "seconds": seconds,
        "cases": len(report.results),
        "merged": merged,
        "skipped": dict(report.info.skipped),
        "accounted": len(report.results) + merged + sum(report.info.skipped.values()),
        "calls": report.info.calls,
        "verdict": str(report.verdict),
        "counts": dict(report.counts),
    }


def small_cases(workers: int) -> dict[str, Any]:
    """A few hundred small cases of the catalogue: what a case costs besides its own arithmetic."""
    import trueline

    start = time.perf_counter()
    report = trueline.check(ops="torch.*", target="torch:cpu/float32", workers=workers, limit=1000)
    seconds = time.perf_counter() - start
    return {"cases": len(report.results), "seconds": seconds, "per_second": len(report.results) / seconds}


def peers(workload: str, calls: int, folder: Path) -> dict[str, Any]:
    command = [str(peer.python()), "-m", "benchmarks.peer_check", str(folder), workload, str(calls)]
    done = peer.timed(command, 1)
    answers = [line for line in done.output.splitlines() if line.startswith('{"calls"')]
    if done.returncode != 0 or not answers:
        return {"error": (done.output.strip().splitlines() or ["no output"])[-1]}
    answer: dict[str, Any] = json.loads(answers[-1])
    return answer


def measure(workload: str, rounds: int, peer_calls: int, with_peer: bool, scratch: Path) -> dict[str, Any]:
    run = scratch / workload
    calls = capture(workload, run)
    one, two, theirs = [], [], []
    for number in range(rounds):
        one.append(ours(run, 1))
        if with_peer:
            theirs.append(peers(workload, peer_calls, scratch / f"peer-{workload}-{number}"))
        two.append(ours(run, 2))
        print(f"{workload}, round {number + 1} of {rounds}: {one[-1]['seconds']:.1f} s with one worker", flush=True)
    row: dict[str, Any] = {"workload": workload, "forward_calls": calls, "ours": one[0], "rounds": rounds}
    row["seconds_one_worker"] = statistics.median(answer["seconds"] for answer in one)
    row["seconds_two_workers"] = statistics.median(answer["seconds"] for answer in two)
    row["cases_per_second"] = row["ours"]["cases"] / row["seconds_one_worker"]
    row["calls_per_second"] = row["ours"]["calls"] / row["seconds_one_worker"]
    good = [answer for answer in theirs if "error" not in answer]
    if good:
        row["peer_calls_per_second"] = statistics.median(answer["calls"] / answer["seconds"] for answer in good)
        row["ratio_of_cases"] = row["cases_per_second"] / row["peer_calls_per_second"]
        row["ratio_of_calls"] = row["calls_per_second"] / row["peer_calls_per_second"]
    elif theirs:
        row["peer_error"] = theirs[0]["error"]
    return row


def table(report: dict[str, Any]) -> str:
    lines = [
        "# Checking every call of a captured step",
        "",
        f"{report['cores']} cores, one torch thread a worker, torch {report['torch']}. Peer: {report['peer']}.",
        "",
        "| step | calls | cases | merged | skipped | verdict | s, 1 worker | s, 2 workers | cases/s | peer, calls/s "
        "| cases, x peer | calls, x peer |",
        "| --- |" + " --- |" * 11,
    ]
    for row in report["rows"]:
        own = row["ours"]
        lines.append(
            f"| {row['workload']} | {own['calls']} | {own['cases']} | {own['merged']} | {sum(own['skipped'].values())} "
            f"| {own['verdict']} | {row['seconds_one_worker']:.1f} | {row['seconds_two_workers']:.1f} "
            f"| {row['cases_per_second']:.1f} | {row.get('peer_calls_per_second', float('nan')):.2f} "
            f"| {row.get('ratio_of_cases', float('nan')):.1f} | {row.get('ratio_of_calls', float('nan')):.0f} |"
        )
    small = report["small"]
    lines += ["", f"Small cases of the catalogue, one worker, start-up included: {small['per_second']:.0f} a second."]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workload", action="append", choices=("mlp", *WORKLOADS))
    parser.add_argument("--peer-calls", type=int, default=30)
    parser.add_argument("--no-peer", action="store_true")
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    version = "not asked"
    if not options.no_peer:
        peer.ensure()
        version = peer.version()
    with tempfile.TemporaryDirectory() as scratch:
        rows = [
            measure(name, options.rounds, options.peer_calls, not options.no_peer, Path(scratch))
            for name in options.workload or WORKLOADS
        ]
        report = {
            "cores": os.cpu_count(),
            "torch": torch.__version__,
            "peer": version,
            "rows": rows,
            "small": small_cases(1),
        }
    (RESULTS / "check_speed.json").write_text(json.dumps(report, indent=1) + "\n")
    (RESULTS / "check_speed.md").write_text(table(report))
    print(table(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
