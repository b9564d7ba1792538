"""How long a call takes on a device of torch's, and how long it keeps the host busy.

An accelerator keeps its own time, between two events. A short sleep is put into its queue before the first of them, so
that the host has said everything before the device begins: what is measured is the work of the device, not how fast
the host can tell it. What the telling costs is measured beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from trueline.frameworks.timing_prepared import Clock, HostClock
from trueline.profiles import Lap

_HEAD_START = 1.5
"""The device sleeps this many times as long as the host needed the last time."""
_LEAST_SLEEP = 50e-6
_LONGEST_SLEEP = 0.05
_CYCLES_PER_SECOND = 2.0e9
"""At most: a slower device sleeps longer, which costs time and nothing else."""
_MOST_QUEUED = 64
"""A device takes about a thousand kernels into its queue before the host must wait."""


class DeviceClock:
    """The device's own time between two events."""

    on_host = False

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._backend: Any = getattr(torch, device.type)
        self._stream = self._backend.current_stream(device)
        self._sleep: Callable[[int], Any] | None = getattr(self._backend, "_sleep", None)

    def lap(self, call: Callable[[], Any], times: int) -> Lap:
        times = min(times, _MOST_QUEUED)
        busy = self._lap(call, times, 0.0)  # how long the host needs, with nothing in its way
        rest = _HEAD_START * (busy.launch or 0.0) * times + _LEAST_SLEEP
        if self._sleep is None or rest > _LONGEST_SLEEP:
            return busy
        ahead = self._lap(call, times, rest)
        if ahead.launch is not None and ahead.launch * times >= rest:
            return busy  # the call waits for the device by itself: there is no running ahead
        return Lap(ahead.seconds, busy.launch, times)

    def _lap(self, call: Callable[[], Any], times: int, sleep: float) -> Lap:
        begin, end = (self._backend.Event(enable_timing=True) for _ in range(2))
        self._backend.synchronize(self._device)
        if sleep and self._sleep is not None:
            self._sleep(int(sleep * _CYCLES_PER_SECOND))
        begin.record(self._stream)
        started = time.perf_counter()
        for _ in range(times):
            call()
        launch = (time.perf_counter() - started) / times
        end.record(self._stream)
        end.synchronize()
        return Lap(begin.elapsed_time(end) / 1e3 / times, launch, times)


def clock_for(device: torch.device) -> Clock:
    if device.type == "cpu":
        return HostClock()
    return DeviceClock(device)
