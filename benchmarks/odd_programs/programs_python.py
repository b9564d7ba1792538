"""Python around torch: introspection, tracing, warnings, exceptions, generators and monkeypatches."""

from __future__ import annotations

import inspect
import sys
import warnings
from typing import Any

import torch
from torch import nn

from benchmarks.odd_programs.registry import program


def _mine(frames: Any) -> list[str]:
    """The functions of this file among the frames of a traceback."""
    return [frame.name for frame in frames if frame.filename == __file__]


@program
def user_traces_with_settrace() -> Any:
    seen: list[str] = []

    def tracer(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename == __file__:
            seen.append(f"{event} {frame.f_code.co_name}")
        return tracer

    def work(x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x)
        return y * 2

    previous = sys.gettrace()
    sys.settrace(tracer)
    out = work(torch.ones(2))
    kept = sys.gettrace() is tracer
    sys.settrace(previous)
    return out, seen, kept, previous is None


@program
def user_profiles_with_setprofile() -> Any:
    calls: dict[str, int] = {}

    def profiler(frame: Any, event: str, argument: Any) -> None:
        if frame.f_code.co_filename == __file__ and event in ("call", "c_call"):
            name = argument.__name__ if event == "c_call" else frame.f_code.co_name
            calls[f"{event} {name}"] = calls.get(f"{event} {name}", 0) + 1

    def work(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x).add(1).sum()

    previous = sys.getprofile()
    sys.setprofile(profiler)
    out = work(torch.ones(2))
    kept = sys.getprofile() is profiler
    sys.setprofile(previous)
    return out, calls, kept


@program
def user_stops_at_a_line_with_bdb() -> Any:
    import bdb

    lines: list[int] = []
    first = inspect.getsourcelines(_stepped)[1]

    class Stepper(bdb.Bdb):
        def user_line(self, frame: Any) -> None:
            if frame.f_code is _stepped.__code__:
                lines.append(frame.f_lineno - first)
            self.set_step()

    stepper = Stepper(skip=["torch*", "trueline*", "contextlib", "_weakrefset"])
    out = stepper.runcall(_stepped, torch.ones(3))
    return out, lines, sys.gettrace() is None


def _stepped(x: torch.Tensor) -> torch.Tensor:
    y = torch.exp(x)
    y = y - 1
    return y.log1p()


@program
def texts_and_frames_of_exceptions() -> Any:
    import traceback

    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(4, 2))
    found = []
    for call in (
        lambda: torch.ones(2) @ torch.ones(3),
        lambda: net(torch.ones(1, 2)),
        lambda: torch.add("a", 1),
        lambda: torch.ones(2).reshape(3),
        lambda: torch.zeros(2, 2).nonexistent,
        lambda: nn.functional.cross_entropy(torch.ones(1, 2), torch.tensor([5])),
        lambda: torch.relu(torch.ones(1), wrong=3),
        lambda: torch.ones(2)[5],
        lambda: nn.Linear(2, 2)(),
    ):
        try:
            call()
        except Exception as error:
            mine = _mine(traceback.extract_tb(error.__traceback__))
            found.append((type(error).__name__, str(error), mine, error.__cause__ is None, error.__context__ is None))
    return found


@program
def frames_above_a_module() -> Any:
    """As ``logging`` and ``warnings`` do: who called me?"""
    callers: list[Any] = []

    class Curious(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            frame = inspect.currentframe()
            while frame is not None:
                callers.append(frame.f_code.co_name) if frame.f_code.co_filename == __file__ else None
                frame = frame.f_back
            return x

    def outer() -> torch.Tensor:
        return nn.Sequential(Curious())(torch.ones(1))

    out = outer()
    return out, callers[:2]


@program
def stack_levels_of_warnings() -> Any:
    class Old(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            warnings.warn("this layer is old", DeprecationWarning, stacklevel=2)
            return nn.functional.softmax(x)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        out = Old()(torch.ones(2))
        nn.functional.mse_loss(torch.ones(2), torch.ones(2, 1))
        torch.tensor(torch.ones(1))
        nn.functional.interpolate(torch.ones(1, 1, 2), size=4, mode="linear", recompute_scale_factor=None)
        torch.std(torch.ones(3).T[:1])
    return out, [(w.category.__name__, str(w.message)[:60], w.filename.rsplit("/", 1)[-1], w.lineno) for w in caught]


@program
def warnings_once_each_and_as_errors() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        texts = []
        for _ in range(2):
            try:
                nn.functional.mse_loss(torch.ones(2), torch.ones(2, 1))
            except UserWarning as error:
                texts.append(str(error)[:50])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            nn.functional.mse_loss(torch.ones(2), torch.ones(2, 1))
    return texts, len(caught)


@program
def generator_that_waits_inside_no_grad() -> Any:
    @torch.no_grad()
    def numbers() -> Any:
        x = torch.ones(1, requires_grad=True)
        for _ in range(3):
            got = yield (x * 2).requires_grad
            states.append((got, torch.is_grad_enabled()))

    def open_ended() -> Any:
        with torch.no_grad():
            yield torch.is_grad_enabled()
            yield torch.is_grad_enabled()

    states: list[Any] = []
    stream = numbers()
    states.append((next(stream), torch.is_grad_enabled()))
    states.append((stream.send("sent"), torch.is_grad_enabled()))
    stream.close()
    other = open_ended()
    states.append((next(other), torch.is_grad_enabled()))
    other.close()
    return states, torch.is_grad_enabled(), (torch.ones(1, requires_grad=True) * 2).requires_grad


@program
def context_variables_and_exit_stacks() -> Any:
    import contextlib
    import contextvars

    who = contextvars.ContextVar("who", default="nobody")
    seen = []

    class Layer(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(who.get())
            who.set("layer")
            return x * 2

    context = contextvars.copy_context()
    out = context.run(Layer(), torch.ones(1))
    Layer()(torch.ones(1))
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(contextlib.suppress(ValueError))
        stack.callback(seen.append, "left")
        raise ValueError("suppressed")
    return out, seen, context[who], who.get(), torch.is_grad_enabled()


@program
def recursion_in_a_deep_nest_of_modules() -> Any:
    class Layer(nn.Module):
        def __init__(self, inner: nn.Module | None) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1 if self.inner is None else self.inner(x) * 1.0

    net = None
    for _ in range(150):
        net = Layer(net)
    x = torch.zeros(1, requires_grad=True)
    out = net(x)
    out.backward()
    return out, x.grad, sys.getrecursionlimit(), sum(1 for _ in net.modules())


@program
def recursion_without_end_is_caught() -> Any:
    class Endless(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self(torch.relu(x))

    try:
        Endless()(torch.ones(1))
        text = "no error"
    except RecursionError as error:
        text = str(error)[:32]
    return text, nn.Linear(2, 2)(torch.ones(1, 2))


@program
def a_very_long_graph() -> Any:
    x = torch.ones(2, requires_grad=True)
    y = x
    for _ in range(3000):
        y = y + 0.001
    y.sum().backward()
    return y, x.grad


@program
def exits_and_keyboard_interrupts() -> Any:
    class Leaves(nn.Module):
        def forward(self, kind: type[BaseException]) -> None:
            raise kind("from a module")

    seen = []
    for kind in (KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration, MemoryError):
        try:
            Leaves()(kind)
        except BaseException as error:
            seen.append(f"{type(error).__name__} {error}")
    return seen, torch.ones(1) + 1


@program
def output_and_logging_of_the_program() -> Any:
    import contextlib
    import io
    import logging

    text, stream = io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(stream)
    logging.getLogger().addHandler(handler)
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        print(torch.arange(3), nn.Linear(2, 2))
        print(torch.randn(2, 2, requires_grad=True).exp())
        torch.set_printoptions(precision=2)
        print(torch.ones(2) / 3, file=sys.stderr)
        torch.set_printoptions(profile="default")
        logging.getLogger("user").warning("a value of %s", torch.ones(1).item())
    logging.getLogger().removeHandler(handler)
    return text.getvalue(), stream.getvalue()


@program
def imports_in_the_middle() -> Any:
    import importlib
    import importlib.abc

    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, name: str, path: Any, target: Any = None) -> None:
            asked.append(name)

    asked: list[str] = []
    finder = Finder()
    sys.meta_path.insert(0, finder)
    sys.modules.pop("colorsys", None)
    module = importlib.import_module("colorsys")
    out = nn.Linear(2, 2)(torch.ones(1, 2)) * module.rgb_to_hls(1, 0, 0)[1]
    sys.meta_path.remove(finder)
    return out, asked
