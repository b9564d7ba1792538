"""What the parts of a watch cost on a GPU: steps that are recorded, steps that are left out, and the mixture.

    python -m benchmarks.watch_cost [--models NAME ...] [--rounds N] [--steps N] [--json FILE]

Rounds take turns: bare, a watch that records every step (budget 1), one that records next to none (budget 1e-6) and one
as it is by default. Of each the median of milliseconds a step, and the peak of memory.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

BUDGETS: dict[str, float | None] = {"bare": None, "every step": 1.0, "hardly any": 1e-6, "default": 0.03}
FIRST = 4
"""Steps before a round is timed: the first few are all recorded."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["llama_1024", "vit"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        print("skipped: no CUDA device here")
        return 0
    from benchmarks import library_models

    rows = []
    for name in options.models:
        step = library_models.build(name)
        for _ in range(5):
            step()
        times: dict[str, list[dict[str, float]]] = {way: [] for way in BUDGETS}
        _round(step, 1.0, FIRST)  # kernels are compiled, once
        for _ in range(options.rounds):
            for way, budget in BUDGETS.items():
                times[way].append(_round(step, budget, options.steps))
        rows.append({"model": name, **{way: _medians(done) for way, done in times.items()}})
        print(json.dumps(rows[-1]), flush=True)
        del step
        if options.json:
            report = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}
            Path(options.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


def _medians(done: list[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.median(one[key] for one in done) for key in done[0]}


def _round(step: Callable[[], Any], budget: float | None, count: int) -> dict[str, float]:
    import torch

    import trueline

    with tempfile.TemporaryDirectory() as folder:
        watching = None if budget is None else trueline.watch(Path(folder) / "run", budget=budget).start()
        for _ in range(FIRST):
            _stepped(step, watching)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        begin = time.perf_counter()
        for _ in range(count):
            _stepped(step, watching)
        torch.cuda.synchronize()
        spent = time.perf_counter() - begin
        if watching is not None:
            watching.stop()
    return {"ms": spent / count * 1e3, "peak_gib": torch.cuda.max_memory_allocated() / 2**30}


def _stepped(step: Callable[[], Any], watching: Any) -> None:
    step()
    if watching is not None:
        watching.step()


if __name__ == "__main__":
    sys.exit(main())
