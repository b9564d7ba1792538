"""What a call does to memory: asked of the allocator of the device; on the CPU, of the memory events that torch's own
profiler records, one for each allocation (memory that libraries take behind torch's back is not among them)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch

from trueline.profiles import Footprint

_EVENT = "[memory]"
_ASKED, _MOST_ASKED = "requested_bytes.all.current", "requested_bytes.all.peak"


def footprint(call: Callable[[], Any], device: torch.device) -> Footprint | None:
    """Runs a call, and holds what it gives until the bytes are counted."""
    if device.type == "cpu":
        return _on_cpu(call)
    backend: Any = getattr(torch, device.type)
    if not hasattr(backend, "max_memory_allocated"):
        return None
    backend.synchronize(device)
    backend.reset_peak_memory_stats(device)
    before, _ = held_bytes(backend, device)
    held = call()
    backend.synchronize(device)
    now, peak = held_bytes(backend, device)
    del held
    return Footprint(peak - before, now - before)


def held_bytes(backend: Any, device: torch.device) -> tuple[int, int]:
    """Bytes that programs have asked the allocator of a device for and not given back: now, and the most since the last
    reset. What it hands out may be more: a free block that happens to be a little larger, left by whoever came before,
    which is no fact about the call. An allocator that does not tell the two apart tells what it handed out."""
    told = backend.memory_stats(device) if hasattr(backend, "memory_stats") else {}
    if _ASKED in told:
        return told[_ASKED], told[_MOST_ASKED]
    return backend.memory_allocated(device), backend.max_memory_allocated(device)


def _on_cpu(call: Callable[[], Any]) -> Footprint:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        held = call()
    events = [event for event in recorded.profiler.kineto_results.events() if event.name() == _EVENT]
    changes = [event.nbytes() for event in sorted(events, key=_when) if event.device_type().name == "CPU"]
    sums = list(itertools.accumulate(changes))
    del held
    return Footprint(max(0, *sums), max(0, sums[-1])) if sums else Footprint(0, 0)


def _when(event: Any) -> int:
    """When an event was; torch has counted in microseconds before it counted in nanoseconds."""
    return int(event.start_ns() if hasattr(event, "start_ns") else event.start_us())
