"""torch under ``torch.autocast``: calls on the list of those that are safe in a narrow dtype are lowered to it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import torch

from trueline.cases import Case, Target
from trueline.frameworks.base import Executed, Inputs, Mode
from trueline.frameworks.torch.execute import Job, TorchExecution, TorchExecutor
from trueline.frameworks.torch.rebuild import torch_dtype


class AutocastExecutor(TorchExecutor):
    """Executes the candidate under autocast where the target says so, and honest runs where the reference does."""

    def __init__(self, target: Target, reference: Target | None = None) -> None:
        super().__init__(target, None if reference is None else replace(reference, how=""))
        self._lowered_to = {"candidate": target.autocast, "honest": "" if reference is None else reference.autocast}

    def _job(self, case: Case, mode: Mode) -> Job:
        job = super()._job(case, mode)
        dtype = self._lowered_to.get(mode, "")
        if not dtype:
            return job
        return replace(job, function=_Lowered(job.function, job.setting.device.type, dtype))

    def _run(self, case: Case, inputs: Inputs, job: Job, watch: Collection[str]) -> Executed:
        if isinstance(job.function, _Lowered):  # which casts what it is given by itself
            return TorchExecution(case, inputs, job, "").execute(watch)
        return super()._run(case, inputs, job, watch)


class _Lowered:
    """A function under autocast."""

    def __init__(self, function: Callable[..., Any], device: str, dtype: str) -> None:
        self._function = function
        self._device = device
        self._dtype = torch_dtype(dtype)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with torch.autocast(self._device, dtype=self._dtype, cache_enabled=False):
            return self._function(*args, **kwargs)


def make(target: Target, reference: Target | None) -> AutocastExecutor:
    return AutocastExecutor(target, reference)
