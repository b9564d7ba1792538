"""What this machine offers to workers: cores and memory."""

from __future__ import annotations

import os
from pathlib import Path

from trueline.cases import Target

_MOST_ON_A_DEVICE = 4
"""Each process on an accelerator holds some hundred megabytes of it."""
_SHARE = 0.8
_QUIET = {"GLOG_minloglevel": "2"}
"""Paddle warns in its log of every error that it raises as well."""
_REUSED = {"MALLOC_MMAP_THRESHOLD_": str(8 << 30), "MALLOC_TRIM_THRESHOLD_": str(16 << 30)}
"""The C library is to keep large pieces of memory for the next tensors of the same case, instead of asking the system,
which clears every page, each time; workers give back what a large case leaves."""
_LARGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""And it is to ask for large pages where it does ask: a tensor of a gigabyte has a quarter of a million small ones, and
each of them interrupts whoever first writes to it."""
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def default_workers(target: Target) -> int:
    return cores() if target.device == "cpu" else min(cores(), _MOST_ON_A_DEVICE)


def default_memory(workers: int) -> int | None:
    """Bytes that each worker may use so that all of them fit; None where the machine does not tell."""
    available = _available_memory()
    return None if available is None else int(_SHARE * available / max(workers, 1))


def default_budget() -> int | None:
    """Bytes that all workers together may use; None where the machine does not tell."""
    return default_memory(1)


def worker_environment(workers: int) -> dict[str, str]:
    """Shares the cores among the workers, unless somebody has said how many threads there are to be, and has their
    frameworks say what is raised once."""
    wanted = {**_QUIET, **_REUSED, **_LARGE_PAGES}
    if not any(name in os.environ for name in _THREADS):  # whoever sets one of them, as Ray does, means both
        wanted.update(dict.fromkeys(_THREADS, str(max(1, cores() // max(workers, 1)))))
    return {name: value for name, value in wanted.items() if name not in os.environ}


def _available_memory() -> int | None:
    found = [int(text) for path in _CGROUP_LIMITS if (text := _first_word(path)).isdigit()]
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                found.append(int(line.split()[1]) * 1024)
    except OSError:
        pass
    return min(found, default=None)


def _first_word(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").split()[0]
    except (OSError, IndexError):
        return ""
