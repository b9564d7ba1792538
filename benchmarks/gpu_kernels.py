"""Host and device time of the grouped statistics on a GPU.

    python benchmarks/gpu_kernels.py

Prints the host's microseconds per ``GroupedReducer.launch`` for batches of 16 to 512 small tensors, the bandwidth of
large tensors, of many middle-sized ones, and of the paths that need more work (strides, NaN, float64, digest), and what
a training loop loses on the host and on the device when every activation and gradient is reduced. Takes less than a
minute. Data is random, and sets of inputs are rotated so that they do not stay in the cache.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from trueline.dtypes import dtype_named
from trueline.numerics.cuda import GroupedReducer
from trueline.numerics.layout import DESCRIPTOR, pack_descriptor

DEVICE = "cuda"


def describe(tensors: Sequence[Any]) -> Any:
    table = np.zeros(len(tensors), DESCRIPTOR)
    for row, tensor in enumerate(tensors):
        code = dtype_named(str(tensor.dtype)).code
        if not pack_descriptor(table, row, tensor.data_ptr(), code, tensor.shape, tensor.stride()):
            raise SystemExit("too many dimensions")
    return table


def host_microseconds(reducer: GroupedReducer, table: Any, repeats: int = 300) -> tuple[float, float]:
    """Median and 90th percentile of one launch while the device keeps up."""
    samples = []
    for repeat in range(repeats):
        start = time.perf_counter()
        reducer.launch(table, 0)
        samples.append((time.perf_counter() - start) * 1e6)
        if repeat % 8 == 7:
            torch.cuda.synchronize()
    reducer.fetch()
    return statistics.median(samples), float(np.percentile(samples, 90))


def device_milliseconds(work: Callable[[int], None], repeats: int = 15) -> float:
    """Median of the device's time; ``work`` gets the number of the repetition, to rotate its inputs."""
    for warm in range(3):
        work(warm)
    torch.cuda.synchronize()
    times = []
    for repeat in range(repeats):
        before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        # a long kernel first, so that the host is ahead and launch gaps do not count
        torch.cuda._sleep(2_000_000)
        before.record()
        work(repeat)
        after.record()
        torch.cuda.synchronize()
        times.append(before.elapsed_time(after))
    return statistics.median(times)


def bandwidth(reducer: GroupedReducer, label: str, sets: Sequence[Sequence[Any]], *, digest: bool = False) -> None:
    tables = [describe(tensors) for tensors in sets]
    size = sum(tensor.numel() * tensor.element_size() for tensor in sets[0])
    milliseconds = device_milliseconds(lambda number: reducer.launch(tables[number % len(tables)], 0, digest=digest))
    reducer.fetch().wait()
    print(f"  {label:<52} {size / 2**20:9.1f} MiB {milliseconds * 1e3:9.1f} us {size / milliseconds / 1e6:8.0f} GB/s")


def copy_ceiling() -> None:
    source, target = torch.randn(2, 2**29, device=DEVICE)
    milliseconds = device_milliseconds(lambda _: target.copy_(source))
    print(f"  device-to-device copy, bytes read + written: {2 * 2**31 / milliseconds / 1e6:.0f} GB/s")
    milliseconds = device_milliseconds(lambda _: torch.sum(source))
    print(f"  torch.sum of 2 GiB of float32 (read only):   {2**31 / milliseconds / 1e6:.0f} GB/s")


def host_cost(reducer: GroupedReducer) -> None:
    print("host time of one launch (1 KB tensors of mixed dtypes):")
    kinds = (torch.float32, torch.bfloat16, torch.float16)
    for count in (16, 64, 256, 512):
        tensors = [torch.randn(256, device=DEVICE).to(kinds[number % 3]) for number in range(count)]
        table = describe(tensors)
        median, high = host_microseconds(reducer, table)
        each = device_milliseconds(lambda _, table=table: reducer.launch(table, 0)) * 1e3
        print(f"  {count:4d} tensors: {median:6.1f} us (90 %: {high:6.1f}), device {each:6.1f} us")
    tensors = [torch.randn(256, device=DEVICE) for _ in range(512)]
    table = describe(tensors)
    start = time.perf_counter()
    for _ in range(20):
        describe(tensors)
    print(f"  (describing 512 tensors in Python: {(time.perf_counter() - start) / 20 * 1e6:.0f} us)")
    samples = []
    for _ in range(50):
        reducer.launch(table, 0)
        start = time.perf_counter()
        fetched = reducer.fetch()
        samples.append((time.perf_counter() - start) * 1e6)
        fetched.wait()
    print(f"  fetch of 512 rows: {statistics.median(samples):.1f} us on the host")


def device_speed(reducer: GroupedReducer) -> None:
    print("device bandwidth:")
    copy_ceiling()
    for kind in (torch.bfloat16, torch.float16, torch.float32):
        for count in (2**30, 2**25):
            sets = [[torch.randn(count, device=DEVICE, dtype=kind)] for _ in range(2 if count > 2**26 else 8)]
            bandwidth(reducer, f"one {str(kind)[6:]} of {count / 2**20:.0f} Mi elements", sets)
            del sets
    for kind, count, size in (
        (torch.bfloat16, 512, 32768),
        (torch.float32, 512, 16384),
        (torch.bfloat16, 512, 2**20),
        (torch.bfloat16, 64, 2**24),
        (torch.bfloat16, 1024, 512),
    ):
        sets = [[torch.randn(size, device=DEVICE).to(kind) for _ in range(count)] for _ in range(4)]
        kilobytes = size * sets[0][0].element_size() / 1024
        bandwidth(reducer, f"{count} {str(kind)[6:]} of {kilobytes:.0f} KiB", sets)
        del sets
    base = torch.randn(2**26, device=DEVICE, dtype=torch.bfloat16)
    attention = base.reshape(8, 2048, 32, 128).transpose(1, 2)
    bandwidth(reducer, "bfloat16 [8, 32, 2048, 128] of [8, 2048, 32, 128]", [[attention]])
    bandwidth(reducer, "bfloat16 [8192, 8192] transposed", [[base.reshape(8192, 8192).t()]])
    bandwidth(reducer, "bfloat16, not aligned", [[base[1:]]])
    bandwidth(reducer, "bfloat16 with a digest", [[base]], digest=True)
    damaged = base.clone()
    damaged[::1000] = float("nan")
    bandwidth(reducer, "bfloat16 with NaN in every block", [[damaged]])
    bandwidth(reducer, "float64", [[torch.randn(2**25, device=DEVICE, dtype=torch.float64)]])
    bandwidth(reducer, "int64", [[torch.randint(-5, 5, (2**25,), device=DEVICE)]])
    bandwidth(reducer, "uint8", [[torch.randint(0, 255, (2**26,), device=DEVICE, dtype=torch.uint8)]])


def training_step(reducer: GroupedReducer) -> None:
    """A loop of elementwise work with and without the reduction of everything it makes."""
    print("a step of 480 operations on bfloat16 tensors of 8 MiB, reduced in batches of 48:")
    tensors = [torch.randn(2**22, device=DEVICE, dtype=torch.bfloat16) for _ in range(48)]
    table = describe(tensors)

    def step(reduce: bool) -> None:
        for number in range(10):
            for tensor in tensors:
                tensor.mul_(1.0)
            if reduce:
                reducer.launch(table, number * len(tensors))
        if reduce:
            reducer.fetch()

    for reduce in (False, True):
        for _ in range(3):
            step(reduce)
        torch.cuda.synchronize()
        host, total = [], []
        for _ in range(10):
            start = time.perf_counter()
            step(reduce)
            host.append(time.perf_counter() - start)
            torch.cuda.synchronize()
            total.append(time.perf_counter() - start)
        label = "with" if reduce else "without"
        print(
            f"  {label:>7}: host {statistics.median(host) * 1e3:6.2f} ms, until the device is done "
            f"{statistics.median(total) * 1e3:6.2f} ms"
        )


def main() -> None:
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs a CUDA device")
    import triton

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}")
    torch.manual_seed(0)
    start = time.perf_counter()
    reducer = GroupedReducer(DEVICE)
    reducer.launch(describe([torch.randn(100, device=DEVICE)]), 0)
    reducer.fetch().wait()
    print(f"first launch, with compilation: {time.perf_counter() - start:.1f} s")
    for name, kernel in (("reduce", reducer._reduce), ("fold", reducer._fold)):
        compiled = kernel._compiled
        path = "straight to the launcher" if compiled is not None else "through Triton's dispatch"
        registers, spills = getattr(compiled, "n_regs", "?"), getattr(compiled, "n_spills", "?")
        print(f"  {name}: {registers} registers, {spills} spills, launched {path}")
    host_cost(reducer)
    training_step(reducer)
    device_speed(reducer)
    print(f"took {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
