"""Times Cases with torch: the same call as a check makes, its arguments made once, run again and again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from typing import Any

import torch

from trueline.cases import Case, Target
from trueline.frameworks.base import ArrayIn, Inputs
from trueline.frameworks.timing_prepared import Call, PreparedCase, best, engine_start, undisturbed
from trueline.frameworks.torch import arrays, timing_memory
from trueline.frameworks.torch.execute import TorchExecution, TorchExecutor, synchronise
from trueline.frameworks.torch.rebuild import Unreplayable, torch_dtype
from trueline.frameworks.torch.timing_clock import clock_for
from trueline.profiles import Footprint, Roofline


class TorchTimer:
    """Makes Cases ready on one Target."""

    def __init__(self, target: Target) -> None:
        self._executor = TorchExecutor(target)
        self._ground = TorchGround(torch.device(target.device))

    def prepare(self, case: Case, inputs: Inputs) -> PreparedCase:
        inputs = self._executor.rounded(case, inputs)
        job = self._executor._job(case, "candidate")
        autocast = "" if self._executor.target.dtype else case.autocast
        return PreparedCase(_Ready(case, inputs, job, autocast), self._ground)

    def roofline(self, dtypes: Iterable[str]) -> Roofline:
        """Products of square matrices, and a copy of a tensor that no cache holds."""
        large = self._ground.device.type != "cpu"
        with undisturbed():
            bandwidth = self._copied(1 << (30 if large else 27))
            flops = {name: speed for name in dtypes if (speed := self._multiplied(name, 8192 if large else 1024))}
        return Roofline(flops, bandwidth)

    def _multiplied(self, dtype: str, side: int) -> float | None:
        """Operations a second; None where this device does not multiply such matrices."""
        side = side // 2 if dtype in ("float32", "float64") and side > 4096 else side
        try:
            matrix = torch.randn(side, side, device=self._ground.device).to(torch_dtype(dtype))
            seconds = best(self._ground.clock, partial(torch.matmul, matrix, matrix))
        except (RuntimeError, Unreplayable):
            return None
        return 2.0 * float(side) ** 3 / seconds

    def _copied(self, size: int) -> float:
        source = torch.zeros(size // 2, dtype=torch.uint8, device=self._ground.device)
        target = torch.zeros_like(source)
        return float(size) / best(self._ground.clock, partial(target.copy_, source))


class TorchGround:
    """One device of torch's."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.clock = clock_for(device)

    @cached_property
    def engine_start(self) -> float:
        return engine_start(self._trivial, partial(synchronise, self.device))

    def _trivial(self, length: int) -> Call:
        with torch.enable_grad():
            leaf = torch.zeros(1, device=self.device, requires_grad=True)
            end = leaf
            for _ in range(length):
                end = end.view_as(end)
        return partial(_run_engine, (end,), (torch.ones(1, device=self.device),), (leaf,))

    def footprint(self, call: Call) -> Footprint | None:
        return timing_memory.footprint(call, self.device)

    def engine(self, ends: Sequence[tuple[Any, ArrayIn, Any]], leaves: Sequence[Any]) -> Call:
        fed = []
        for value, array, strides in ends:
            gradient = arrays.enter(array, strides, value.device, wide=False)
            fed.append(gradient if gradient.dtype is value.dtype else arrays.cast(gradient, value.dtype))
        return partial(_run_engine, tuple(value for value, _, _ in ends), tuple(fed), tuple(leaves))

    def kept(self, tensor: Any) -> Any:
        return tensor.detach().clone()

    def put_back(self, tensor: Any, content: Any) -> None:
        with torch.no_grad():
            tensor.copy_(content)


class _Ready(TorchExecution):
    """One execution, for ``PreparedCase``."""

    copies = True

    def _own_memory(self, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return super()._own_memory(args, kwargs) if self.copies else (args, kwargs)


def _run_engine(ends: tuple[Any, ...], fed: tuple[Any, ...], leaves: tuple[Any, ...]) -> Any:
    """The gradients of leaves, keeping the graph, without what ``torch.autograd.grad`` does in Python around it."""
    engine = torch.autograd.Variable._execution_engine
    return engine.run_backward(ends, fed, True, False, leaves, allow_unreachable=True, accumulate_grad=False)


def make(target: Target) -> TorchTimer:
    return TorchTimer(target)
