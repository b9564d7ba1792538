"""Times Cases with Paddle: the same call as a check makes, its arguments made once, run again and again.

Paddle says of the host as of its devices how many bytes its allocator has given out, so memory is counted on the CPU
as well. A device keeps its own time between two events; nothing can be put into its queue to give the host a head
start, so a kernel that is shorter than its launch counts as long as its launch.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from typing import Any

import paddle
from paddle.base import core

from trueline.cases import Case, Target
from trueline.frameworks.base import ArrayIn, CannotExecute, Inputs
from trueline.frameworks.paddle import arrays
from trueline.frameworks.paddle.execute import PaddleExecution, PaddleExecutor
from trueline.frameworks.paddle.rebuild import dtype_name, paddle_dtype, place_of
from trueline.frameworks.timing_prepared import (
    Call,
    Clock,
    HostClock,
    PreparedCase,
    best,
    engine_start,
    undisturbed,
)
from trueline.profiles import Footprint, Lap, Roofline

_ALLOCATED = "Allocated"


class PaddleTimer:
    """Makes Cases ready on one Target."""

    def __init__(self, target: Target) -> None:
        self._executor = PaddleExecutor(target)
        self._ground = PaddleGround(self._executor._device)
        paddle.set_device(self._ground.device)

    def prepare(self, case: Case, inputs: Inputs) -> PreparedCase:
        inputs = self._executor.rounded(case, inputs)
        execution = self._executor._execution(case, inputs, "candidate")
        return PreparedCase(_Ready(case, inputs, execution._job, execution._autocast), self._ground)

    def roofline(self, dtypes: Iterable[str]) -> Roofline:
        """Products of square matrices, and a copy of a tensor that no cache holds."""
        large = self._ground.device != "cpu"
        with undisturbed(), paddle.no_grad():
            bandwidth = self._copied(1 << (30 if large else 27))
            flops = {name: speed for name in dtypes if (speed := self._multiplied(name, 8192 if large else 1024))}
        return Roofline(flops, bandwidth)

    def _multiplied(self, dtype: str, side: int) -> float | None:
        """Operations a second; None where this device does not multiply such matrices."""
        side = side // 2 if dtype in ("float32", "float64") and side > 4096 else side
        try:
            matrix = paddle.randn([side, side]).astype(paddle_dtype(dtype))
            seconds = best(self._ground.clock, partial(paddle.matmul, matrix, matrix))
        except (RuntimeError, ValueError, CannotExecute):
            return None
        return 2.0 * float(side) ** 3 / seconds

    def _copied(self, size: int) -> float:
        source = paddle.zeros([size // 8], dtype="float32")
        target = paddle.zeros_like(source)
        return float(size) / best(self._ground.clock, partial(paddle.assign, source, target))


class PaddleGround:
    """One device of Paddle's."""

    def __init__(self, device: str) -> None:
        self.device = device
        self._place = place_of(device)
        self.clock: Clock = HostClock() if device == "cpu" else PaddleClock(device)

    @cached_property
    def engine_start(self) -> float:
        return engine_start(self._trivial, partial(_synchronise, self.device))

    def _trivial(self, length: int) -> Call:
        with paddle.enable_grad():
            leaf = paddle.zeros([1])
            leaf.stop_gradient = False
            end = leaf
            for _ in range(length):
                end = paddle.reshape(end, [1])
        return partial(_run_engine, [end], [paddle.ones([1])], [leaf])

    def footprint(self, call: Call) -> Footprint | None:
        """By Paddle's own count of what its allocator has given out."""
        kind, _, number = self.device.partition(":")
        if kind not in ("cpu", "gpu"):
            return None
        stat = "host_memory_stat" if kind == "cpu" else "device_memory_stat"
        which = (_ALLOCATED, int(number or 0))
        _synchronise(self.device)
        getattr(core, f"{stat}_reset_peak_value")(*which)
        before = getattr(core, f"{stat}_current_value")(*which)
        held = call()
        _synchronise(self.device)
        peak = getattr(core, f"{stat}_peak_value")(*which) - before
        retained = getattr(core, f"{stat}_current_value")(*which) - before
        del held
        return Footprint(max(0, int(peak)), max(0, int(retained)))

    def engine(self, ends: Sequence[tuple[Any, ArrayIn, Any]], leaves: Sequence[Any]) -> Call:
        fed = []
        for value, array, strides in ends:
            gradient = arrays.enter(array, strides, self._place)
            same = gradient.dtype == value.dtype
            fed.append(gradient if same else arrays.cast(gradient, dtype_name(value.dtype)))
        return partial(_run_engine, [value for value, _, _ in ends], fed, list(leaves))

    def kept(self, tensor: Any) -> Any:
        return tensor.detach().clone()

    def put_back(self, tensor: Any, content: Any) -> None:
        with paddle.no_grad():
            paddle.assign(content, tensor)


class PaddleClock:
    """The device's own time between two events."""

    on_host = False

    def __init__(self, device: str) -> None:
        self._device = device

    def lap(self, call: Call, times: int) -> Lap:
        begin, end = (paddle.device.Event(self._device, enable_timing=True) for _ in range(2))
        _synchronise(self._device)
        begin.record()
        started = time.perf_counter()
        for _ in range(times):
            call()
        launch = (time.perf_counter() - started) / times
        end.record()
        end.synchronize()
        return Lap(begin.elapsed_time(end) / 1e3 / times, launch, times)


class _Ready(PaddleExecution):
    """One execution, for ``PreparedCase``."""

    copies = True

    def _own_memory(self, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return super()._own_memory(args, kwargs) if self.copies else (args, kwargs)

    def shared(self, value: Any) -> str:
        """The path of an argument whose memory a result shares."""
        if not value.size or not hasattr(value, "data_ptr"):
            return ""
        place = value.data_ptr()
        for path, given in self.given.items():
            if given.size and given.data_ptr() <= place < given.data_ptr() + given.size * given.element_size():
                return path
        return ""


def _run_engine(ends: list[Any], fed: list[Any], leaves: list[Any]) -> Any:
    """The gradients of leaves, keeping the graph."""
    return paddle.grad(ends, leaves, fed, retain_graph=True, create_graph=False, allow_unused=True)


def _synchronise(device: str) -> None:
    if device != "cpu":
        paddle.device.synchronize(device)


def make(target: Target) -> PaddleTimer:
    return PaddleTimer(target)
