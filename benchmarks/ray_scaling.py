"""Whether a campaign on a Ray cluster is faster with two workers: two nodes on this machine, Paddle against torch.

    python -m benchmarks.ray_scaling [--corpus FILE] [--lines N] [--rounds N]

Rounds with one worker, with two, and with one and two processes without Ray are interleaved; each is the check that
users run, on lines of the project's own corpus or of a file. A rate is that of cases from the tenth part that ended to
the last. On a machine of two cores the coordinator and Ray itself take their share of what the second worker could
have; the table without Ray says how much of that is Ray's. Writes ``results/ray_scaling.json`` and ``.md``.
"""

from __future__ import annotations

import argparse
import json
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
    """Cases a second, start-up left out."""
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
    first = len(ended) // 10  # by then both workers are at work
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
    gains = [two / one for one, two in zip(rates["ray, 1"], rates["ray, 2"], strict=True)]
    gain = statistics.median(gains)
    return {"machine": machine(), "lines": len(lines), "rates": rates, "gains": gains, "gain": gain}


def rendered(found: dict[str, Any]) -> str:
    rows = [
        [name, f"{statistics.median(rates):.1f}", ", ".join(f"{rate:.1f}" for rate in rates)]
        for name, rates in found["rates"].items()
    ]
    header = ["executor, workers", "cases/s, median", "rounds"]
    title = f"# Ray: two local nodes\n\n{found['lines']:,} lines; {found['machine']}. Two workers on Ray are "
    return f"{title}{found['gain']:.2f} times as fast as one.\n\n{table(header, rows)}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--corpus", type=Path, help="a file of config lines (default: the project's own)")
    parser.add_argument("--out", type=Path, default=RESULTS / "ray_scaling", help="where to write, without its ending")
    options = parser.parse_args()
    found = measure(corpus.read(options.corpus)[: options.lines], options.rounds)
    options.out.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    options.out.with_suffix(".md").write_text(rendered(found), encoding="utf-8")
    print(rendered(found))


if __name__ == "__main__":
    main()
