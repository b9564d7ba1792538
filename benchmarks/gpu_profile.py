"""Where the host time of a captured GPU step goes: cProfile of the program's thread over a few captured steps.

    python benchmarks/gpu_profile.py [--steps N]
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch

import trueline
from benchmarks import workloads


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--lines", type=int, default=40)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("skipped: no CUDA device here")
        return 0
    job = workloads.build("gpt_host_bound", device="cuda")
    batch = job.make_batch(0)
    job.train_step(batch)
    with tempfile.TemporaryDirectory() as folder, trueline.capture(Path(folder) / "run") as capture:
        for _ in range(3):
            job.train_step(batch)
            capture.step()
        profile = cProfile.Profile()
        profile.enable()
        for _ in range(options.steps):
            job.train_step(batch)
            capture.step()
        profile.disable()
    pstats.Stats(profile).sort_stats("tottime").print_stats(options.lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
