"""torch's graphs: a call made into one by ``torch.compile``, whole, and executed. Honest runs and golds are eager."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import torch

from trueline.cases import Case, Outcome, Status, Target
from trueline.frameworks.base import Executed, Inputs, Mode
from trueline.frameworks.torch.execute import Job, TorchExecution, TorchExecutor

_LONGEST = 300


class CompiledExecutor(TorchExecutor):
    """Executes the candidate as a graph."""

    def __init__(self, target: Target, reference: Target | None = None) -> None:
        super().__init__(target, reference)
        # Workers are many already; compiling in yet more processes only makes them wait for each other.
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
        importlib.import_module("torch._inductor.compile_fx")  # seconds, which no case is to pay for

    def _job(self, case: Case, mode: Mode) -> Job:
        job = super()._job(case, mode)
        return replace(job, function=_compiled(job.function)) if mode == "candidate" else job

    def _run(self, case: Case, inputs: Inputs, job: Job, watch: Collection[str]) -> Executed:
        if not hasattr(job.function, "is_compiled_by_us"):
            return super()._run(case, inputs, job, watch)
        try:
            autocast = "" if self.target.dtype else case.autocast
            return CompiledExecution(case, inputs, job, autocast).execute(watch)
        finally:
            torch._dynamo.reset()  # the graph of this case is of use to no other


class CompiledExecution(TorchExecution):
    """One execution of one Case through a graph."""

    def ended(self, error: Exception, seconds: float) -> Outcome:
        """What cannot be made into one graph, or compiled on this machine, is unsupported here; what the call itself
        raises while the graph is made is told as if it had been called."""
        from torch._dynamo.exc import BackendCompilerFailed, TorchDynamoException, TorchRuntimeError

        text = " ".join(str(error).partition("\n")[0].split())
        if isinstance(error, BackendCompilerFailed):
            if type(error.inner_exception).__name__ == "InvalidCxxCompiler":
                return Outcome(Status.UNSUPPORTED, f"nothing compiles here: {text}"[:_LONGEST], seconds)
        elif isinstance(error, TorchDynamoException) and not isinstance(error, TorchRuntimeError):
            return Outcome(Status.UNSUPPORTED, f"not in a graph: {text}"[:_LONGEST], seconds)
        return super().ended(error, seconds)


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose every call is compiled as one graph, for these very shapes."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    compiled: Any = torch.compile(call, fullgraph=True, dynamic=False)

    def through_graph(*args: Any, **kwargs: Any) -> Any:
        return compiled(*args, **kwargs)

    through_graph.is_compiled_by_us = True  # type: ignore[attr-defined]
    return through_graph


def make(target: Target, reference: Target | None) -> CompiledExecutor:
    return CompiledExecutor(target, reference)
