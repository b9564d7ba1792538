"""How fast the CPU kernels are, in gigabytes a second on one core, beside numpy doing the same work.

    python benchmarks/kernels.py [--elements N] [--repeats N] [--json]

``reduce`` makes all statistics and the sketch in one pass; ``compare`` every number of a Measurement, and counts the
bytes of both sides. numpy's column is the package's own fallback, which makes the same numbers with numpy. Tiny tensors
are measured in batches, as time per tensor. The best of the repeats counts.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from trueline.dtypes import DTYPES
from trueline.numerics import cpu, fallback, layout


@dataclass
class Result:
    name: str
    kernels: float
    numpy: float
    unit: str


def best_time(work: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def as_dtype(values: np.ndarray, name: str) -> np.ndarray:
    if name == "bfloat16":
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    if name == "float8_e5m2":
        return (values.astype(np.float16).view(np.uint16) >> 8).astype(np.uint8)
    return (values * 1000).astype(name) if DTYPES[name].is_exact else values.astype(name)


def measure_reduce(label: str, array: np.ndarray, name: str, repeats: int, *, digest: bool = False) -> Result:
    descriptor, out = cpu.describe(array, DTYPES[name]), np.zeros(1, layout.STATISTICS)
    fast = best_time(lambda: cpu.reduce_batch(descriptor, out, digest=digest), repeats)
    slow = best_time(lambda: fallback.reduce_batch(descriptor, out, digest=digest), 2)
    return Result(f"reduce {label}", array.nbytes / fast / 1e9, array.nbytes / slow / 1e9, "GB/s")


def measure_compare(label: str, reference: np.ndarray, left: str, candidate: np.ndarray, right: str, n: int) -> Result:
    descriptors = cpu.describe(reference, DTYPES[left]), cpu.describe(candidate, DTYPES[right])
    out = np.zeros(1, layout.COMPARISON)
    fast = best_time(lambda: cpu.compare_batch(*descriptors, out), n)
    slow = best_time(lambda: fallback.compare_batch(*descriptors, out), 2)
    size = (reference.nbytes + candidate.nbytes) / 1e9
    return Result(f"compare {label}", size / fast, size / slow, "GB/s")


def measure_tiny(elements: int, repeats: int, tensors: int = 1000) -> Result:
    arrays = np.random.default_rng(0).standard_normal((tensors, elements)).astype(np.float32)
    descriptors = np.concatenate([cpu.describe(array, DTYPES["float32"]) for array in arrays])
    out = np.zeros(tensors, layout.STATISTICS)
    fast = best_time(lambda: cpu.reduce_batch(descriptors, out, digest=False), repeats)
    slow = best_time(lambda: fallback.reduce_batch(descriptors, out, digest=False), 1)
    name = f"reduce float32, {tensors} tensors of {elements}"
    return Result(name, fast / tensors * 1e6, slow / tensors * 1e6, "µs each")


def measure(elements: int, repeats: int) -> list[Result]:
    generator = np.random.default_rng(0)
    side = int(elements**0.5)
    values = generator.standard_normal(side * side).astype(np.float32)
    other = (values * (1 + 1e-3 * generator.standard_normal(values.size))).astype(np.float32)
    masked = np.where(values > 0, values, -np.inf).astype(np.float32)
    names = ["float32", "bfloat16", "float16", "float8_e5m2", "float64", "int32", "int64"]
    results = [measure_reduce(name, as_dtype(values, name), name, repeats) for name in names]
    results += [
        measure_reduce("float32 with digest", values, "float32", repeats, digest=True),
        measure_reduce("float32, half of it infinite", masked, "float32", repeats),
        measure_reduce("float32 transposed", values.reshape(side, side).T, "float32", repeats),
        measure_reduce("bfloat16 transposed", as_dtype(values, "bfloat16").reshape(side, side).T, "bfloat16", repeats),
        measure_reduce("float32, every second", values[::2], "float32", repeats),
        measure_compare("float32, float32", values, "float32", other, "float32", repeats),
        measure_compare("float32, bfloat16", values, "float32", as_dtype(other, "bfloat16"), "bfloat16", repeats),
        measure_compare(
            "float64, float64", values.astype(np.float64), "float64", other.astype(np.float64), "float64", repeats
        ),
        measure_tiny(1, repeats),
        measure_tiny(50, repeats),
        measure_tiny(1000, repeats),
    ]
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=1 << 24, help="elements of each large tensor (default 16 Mi)")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    os.environ.pop("TRUELINE_NO_KERNELS", None)
    if not cpu.available():
        parser.exit(2, "the C extension is not built: python setup.py build_ext --inplace\n")
    results = measure(arguments.elements, arguments.repeats)
    if arguments.json:
        print(json.dumps({"instructions": cpu.instruction_set(), "results": [asdict(r) for r in results]}, indent=1))
        return
    print(f"{'':44}{cpu.instruction_set():>10}{'numpy':>10}")
    for result in results:
        print(f"{result.name:44}{result.kernels:10.2f}{result.numpy:10.3f}  {result.unit}")


if __name__ == "__main__":
    main()
