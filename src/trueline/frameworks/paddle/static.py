"""Paddle's graphs: a call made into a program by ``to_static``, with or without the compiler CINN, and executed.

The graph has the tensors of the call as its inputs, so that gradients go back through it. It cannot write to them: what
a call changes in place is given back as one more result, and stands for the argument. Honest runs and golds are eager.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import paddle

from trueline.cases import Case, Outcome, Status, Target
from trueline.frameworks.base import Executed, Inputs, Mode
from trueline.frameworks.paddle.execute import Job, PaddleExecution, PaddleExecutor
from trueline.frameworks.paddle.execute_errors import no_kernel, outcome_of, sentence_of
from trueline.frameworks.paddle.execute_facts import may_change
from trueline.frameworks.values import replaced

_METHODS = "paddle.Tensor."
_SET_ITEM = "paddle.Tensor.__setitem__"
_NO_GRAPH = re.compile(
    "|".join(
        (
            r"has no attribute",
            r"Check data type error for op",
            r"in_dygraph_mode\(\)",
            r"only (?:supported|available|works?|be used|called) .{0,40}(?:dygraph|dynamic)",
            r"(?:dygraph|dynamic graph|imperative) mode",
            r"not support(?:ed)? .{0,40}(?:static|PIR|pir)",
        )
    )
)
"""How Paddle says, in its many ways, that a call is for eager execution alone."""
_NO_CINN = "this Paddle was built without CINN (paddle.is_compiled_with_cinn() is false)"
_RAISED = re.compile(r"^ *(?P<kind>\w*(?:Error|Exception)): ", re.MULTILINE)
_LONGEST = 300


class StaticExecutor(PaddleExecutor):
    """Executes the candidate as a graph; ``target.how`` is ``static`` or ``cinn``."""

    def run(self, case: Case, inputs: Inputs, *, mode: Mode, watch: Collection[str] = ()) -> Executed:
        if mode == "candidate" and self.target.how == "cinn" and not paddle.is_compiled_with_cinn():
            return Executed(Outcome(Status.UNSUPPORTED, _NO_CINN))
        try:
            return super().run(case, inputs, mode=mode, watch=watch)
        finally:
            if mode == "candidate":
                paddle.base.core.clear_executor_cache()  # which else grows by a megabyte a graph

    def _execution(self, case: Case, inputs: Inputs, mode: Mode) -> PaddleExecution:
        if mode != "candidate":
            return super()._execution(case, inputs, mode)
        backend = "CINN" if self.target.how == "cinn" else None
        autocast = "" if self.target.dtype else case.autocast
        return StaticExecution(case, inputs, self._job(case, mode), autocast, backend)


class StaticExecution(PaddleExecution):
    """One execution of one Case through a graph."""

    def __init__(self, case: Case, inputs: Inputs, job: Job, autocast: str, backend: str | None) -> None:
        super().__init__(case, inputs, job, autocast)
        self._backend = backend
        self._call = job.function if job.foreign else _for_graphs(case.api, job.function)
        self.function = self._through_graph

    def _through_graph(self, *args: Any, **kwargs: Any) -> Any:
        """Makes the graph, executes it, and has what came out stand for the arguments that the call may change."""
        paths = list(self.given)
        numbers = [id(self.given[path]) for path in paths]
        call = self._call

        # The program is made by calling this with its symbols; Paddle is not to rewrite its source.
        @paddle.jit.not_to_static  # type: ignore[untyped-decorator]
        def traced(symbols: Sequence[Any]) -> Any:
            given = dict(zip(numbers, symbols, strict=True))
            returned = call(*replaced(args, given, paddle.Tensor), **replaced(kwargs, given, paddle.Tensor))
            return returned, list(symbols)

        def forward(symbols: Any) -> Any:
            return traced(symbols)

        graph = paddle.jit.to_static(forward, full_graph=True, backend=self._backend)
        returned, after = graph([self.given[path] for path in paths])
        if may_change(self.case.api, kwargs):
            self.given.update(zip(paths, after, strict=True))
            if paths and self.case.api.endswith("_") and isinstance(returned, paddle.Tensor):
                self.given[paths[0]] = returned  # relu_(x) is x, and x[0] = y gives x to a graph
        return None if self.case.api == _SET_ITEM else returned

    def ended(self, error: Exception, seconds: float) -> Outcome:
        """How it ended, told without the way there through Paddle's translator."""
        found = outcome_of(error, seconds)
        if found.status in (Status.OUT_OF_MEMORY, Status.CRASHED):
            return found
        reason = _told(error)
        if found.status is Status.UNSUPPORTED or _NO_GRAPH.search(reason):
            return Outcome(Status.UNSUPPORTED, no_kernel(str(error)) or f"not in a graph: {reason}", seconds)
        return Outcome(found.status, reason, seconds)


def _told(error: Exception) -> str:
    """The error that was raised in the end, in one line; the lines before it say where."""
    text = str(error)
    begins = list(_RAISED.finditer(text))
    kind, text = (begins[-1]["kind"], text[begins[-1].end() :]) if begins else (type(error).__name__, text)
    return f"{kind}: {sentence_of(text)}"[:_LONGEST].rstrip(": ")


def _for_graphs(api: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as symbols have it: methods of tensors are not those of symbols, but have the same names."""
    if not api.startswith(_METHODS):
        return function
    name = api.removeprefix(_METHODS)
    if not callable(getattr(paddle.Tensor, name, None)):
        return lambda symbol: getattr(symbol, name)

    def method(*args: Any, **kwargs: Any) -> Any:
        if args:
            return getattr(args[0], name)(*args[1:], **kwargs)
        own = next(iter(kwargs))  # paddle.Tensor.add(x=..., y=...)
        return getattr(kwargs.pop(own), name)(**kwargs)

    return method


def make(target: Target, reference: Target | None) -> StaticExecutor:
    return StaticExecutor(target, reference)
