"""Paddle under ``paddle.amp.auto_cast``: calls on the list of those that are safe in a narrow dtype are lowered to it.

Paddle lowers nothing on the CPU, where this is said in place of executing anything: see ``does_nothing``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import paddle

from trueline.cases import Case, Outcome, Status, Target
from trueline.frameworks.base import Executed, Inputs, Mode
from trueline.frameworks.paddle.execute import PaddleExecution, PaddleExecutor

LEVEL = "O1"
"""Lowers by list, call by call, as almost every program has it."""


class AutocastExecutor(PaddleExecutor):
    """Executes the candidate under autocast where the target says so, and honest runs where the reference does."""

    def __init__(self, target: Target, reference: Target | None = None) -> None:
        super().__init__(target, None if reference is None else replace(reference, how=""))
        self._lowered_to = {"candidate": target.autocast, "honest": "" if reference is None else reference.autocast}

    def run(self, case: Case, inputs: Inputs, *, mode: Mode, watch: Collection[str] = ()) -> Executed:
        if mode == "candidate" and self._lowered_to[mode] and (reason := does_nothing(self._device)):
            return Executed(Outcome(Status.UNSUPPORTED, reason))
        return super().run(case, inputs, mode=mode, watch=watch)

    def _execution(self, case: Case, inputs: Inputs, mode: Mode) -> PaddleExecution:
        dtype = self._lowered_to.get(mode, "")
        if not dtype:
            return super()._execution(case, inputs, mode)
        job = self._job(case, mode)
        return PaddleExecution(case, inputs, replace(job, function=_under_autocast(job.function, dtype)), "")


def does_nothing(device: str) -> str:
    """Why autocast lowers no call on a device; empty where it does."""
    if device == "cpu":
        return "autocast does nothing on paddle:cpu: Paddle lowers calls on GPUs, XPUs and custom devices only"
    return ""


def _under_autocast(function: Callable[..., Any], dtype: str) -> Callable[..., Any]:
    def lowered(*args: Any, **kwargs: Any) -> Any:
        with paddle.amp.auto_cast(enable=True, level=LEVEL, dtype=dtype):
            return function(*args, **kwargs)

    return lowered


def make(target: Target, reference: Target | None) -> AutocastExecutor:
    return AutocastExecutor(target, reference)
