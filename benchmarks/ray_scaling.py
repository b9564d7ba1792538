"""Whether a campaign on a Ray cluster is faster with two workers: two nodes on this machine, Paddle against torch.

    python -m benchmarks.ray_scaling [--corpus FILE] [--lines N] [--rounds N]

Rounds with one worker, with two, and with one and two processes without Ray are interleaved; each is the check that
users run, on lines up to 200,000 elements of the project's own corpus or of a file: larger ones share the memory of the
machine, and a single one that hangs would be all that is measured. A rate is that of the cases after the first two
fifths. Every worker has one thread: Ray reserves one core for each, and without Ray one process alone would have the
threads of two. On a machine of two cores the coordinator and Ray itself take their share of what the second worker
could have; the table without Ray says how much of that is Ray's. Writes ``results/ray_scaling.json`` and ``.md``.
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

from benchmarks import corpus
from benchmarks.campaign import machine
from benchmarks.tables import table

RESULTS = Path(__file__).resolve().parent / "results"
KINDS = (("ray", 1), ("ray", 2), ("processes", 1), ("processes", 2))


def rate(file: Path, executor: str, workers: int, address: str) -> float:
    """Cases a second, start-up left out: actors that import two frameworks on the same cores begin seconds apart."""
    import trueline
    from trueline.events import CaseEnded

    ended: list[float] = []

    def on_case(event: CaseEnded) -> None:
        ended.append(time.perf_counter())

    trueline.check(
        file,
        target="paddle:cpu",
        reference="torch:cpu",
        workers=workers,
        executor=executor,
        address=address if executor == "ray" else None,
        on_case=on_case,
    )
    first = len(ended) * 2 // 5  # by then both workers are at work
    return (len(ended) - 1 - first) / (ended[-1] - ended[first])


def measure(lines: list[str], rounds: int) -> dict[str, Any]:
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 100_000_000}
    nodes = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
    rates: dict[str, list[float]] = {f"{executor}, {workers}": [] for executor, workers in KINDS}
    try:
        nodes.add_node(**small)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "lines.txt"
            file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            for number in range(rounds):
                for executor, workers in KINDS if number % 2 == 0 else reversed(KINDS):
                    found = rate(file, executor, workers, nodes.address)
                    rates[f"{executor}, {workers}"].append(found)
                    print(f"round {number}: {executor}, {workers}: {found:.1f} cases/s", file=sys.stderr, flush=True)
    finally:
        nodes.shutdown()
    gains = {executor: gain(rates[f"{executor}, 1"], rates[f"{executor}, 2"]) for executor in ("ray", "processes")}
    return {"machine": machine(), "lines": len(lines), "rates": rates, "gains": gains}


def gain(ones: list[float], twos: list[float]) -> float:
    """How many times as fast two are, by medians: what else the machine does hits a round here and a round there."""
    return statistics.median(twos) / statistics.median(ones)


def rendered(found: dict[str, Any]) -> str:
    rows = [
        [name, f"{statistics.median(rates):.1f}", ", ".join(f"{rate:.1f}" for rate in rates)]
        for name, rates in found["rates"].items()
    ]
    header = ["executor, workers", "cases/s, median", "rounds"]
    title = f"# Ray: two local nodes\n\n{found['lines']:,} lines; {found['machine']}. Two workers on Ray are "
    on_ray, without = found["gains"]["ray"], found["gains"]["processes"]
    gains = f"{on_ray:.2f} times as fast as one; without Ray they are {without:.2f} times as fast."
    return f"{title}{gains}\n\n{table(header, rows)}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=2500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--corpus", type=Path, help="a file of config lines (default: the project's own)")
    parser.add_argument("--out", type=Path, default=RESULTS / "ray_scaling", help="where to write, without its ending")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    found = measure(corpus.small(corpus.read(options.corpus))[: options.lines], options.rounds)
    options.out.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    options.out.with_suffix(".md").write_text(rendered(found), encoding="utf-8")
    print(rendered(found))


if __name__ == "__main__":
    main()
