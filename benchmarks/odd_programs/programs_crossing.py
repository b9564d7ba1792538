"""What crosses the border of an observation: modes, hooks, patches, contexts and threads that begin on one side of it
and end on the other, in an order that is not that of brackets."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.odd_programs.registry import program


class Told(TorchFunctionMode):
    """Writes down which functions it was told of."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.log.append(resolve_name(func) or getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


class Kernels(TorchDispatchMode):
    """Writes down which kernels it was told of."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.log.append(str(func))
        return func(*args, **(kwargs or {}))


def _network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2))


def _step(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    loss = torch.nn.functional.softplus(model(x)).mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


@program
def mode_that_is_left_in_the_middle_of_a_step() -> Any:
    model, x = _network(), torch.randn(5, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    mode = Told()
    mode.__enter__()
    first = _step(model, optimizer, x)
    yield
    second = _step(model, optimizer, x)
    optimizer.zero_grad()
    out = model(x)
    mode.__exit__(None, None, None)
    out.sum().backward()
    optimizer.step()
    yield
    return first, second, list(model.parameters()), mode.log


@program
def mode_that_is_entered_in_the_middle_of_a_step() -> Any:
    model, x = _network(), torch.randn(5, 4)
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    mode = Told()
    yield
    out = model(x)
    mode.__enter__()
    out.square().sum().backward()
    optimizer.step()
    yield
    after = _step(model, optimizer, x)
    mode.__exit__(None, None, None)
    return after, list(model.parameters()), mode.log


@program
def two_modes_left_in_the_order_of_a_queue() -> Any:
    one, two = Told(), Told()
    one.__enter__()
    yield
    a = torch.tanh(torch.ones(3))
    two.__enter__()
    b = torch.tanh(a)
    one.__exit__(None, None, None)
    c = torch.tanh(b)
    yield
    d = torch.tanh(c)
    two.__exit__(None, None, None)
    return d, torch.tanh(d), one.log, two.log


@program
def function_mode_kept_by_an_exit_stack() -> Any:
    mode, stack = Told(), contextlib.ExitStack()
    stack.enter_context(mode)
    stack.enter_context(torch.no_grad())
    yield
    a = torch.cosh(torch.ones(2, requires_grad=True))
    stack.close()
    b = torch.cosh(torch.ones(2, requires_grad=True))
    yield
    return a, b, mode.log, torch.is_grad_enabled()


@program
def generator_that_holds_a_mode_is_closed_inside() -> Any:
    log: list[str] = []

    def waiting() -> Iterator[torch.Tensor]:
        with Told() as mode:
            mode.log = log
            while True:
                yield torch.sinh(torch.ones(2))

    source = waiting()
    first = next(source)
    yield
    second = next(source) + torch.ones(2)
    source.close()
    third = torch.sinh(second)
    yield
    return first, second, third, log


@program
def default_device_set_before_and_unset_inside() -> Any:
    torch.set_default_device("meta")
    yield
    a = torch.ones(3)
    torch.set_default_device(None)
    b = torch.ones(3)
    yield
    return str(a.device), b, torch.zeros(2), torch._C._len_torch_function_stack()


@program
def dispatch_mode_entered_before_and_function_mode_inside() -> Any:
    kernels, told = Kernels(), Told()
    kernels.__enter__()
    yield
    a = torch.logsumexp(torch.arange(6.0).reshape(2, 3), 0)
    told.__enter__()
    b = torch.logsumexp(a, 0)
    kernels.__exit__(None, None, None)
    c = torch.exp(b)
    told.__exit__(None, None, None)
    yield
    return a, b, c, kernels.log, told.log


@program
def saved_tensor_hooks_set_before_and_lifted_inside() -> Any:
    packed: list[Any] = []

    def pack(x: torch.Tensor) -> Any:
        packed.append(tuple(x.shape))
        return x.double()

    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x.float())
    x = torch.randn(3, requires_grad=True)
    hooks.__enter__()
    yield
    loss = (x.sin() * x).sum()
    hooks.__exit__(None, None, None)
    other = (x.cos() * x).sum()
    (loss + other).backward()
    yield
    return x.grad, packed


@program
def autocast_entered_before_and_left_inside() -> Any:
    cast = torch.autocast("cpu", torch.bfloat16)
    weight = torch.randn(4, 4, requires_grad=True)
    cast.__enter__()
    before = torch.mm(weight, weight)
    yield
    inside = torch.mm(weight, weight)
    cast.__exit__(None, None, None)
    after = torch.mm(weight, weight)
    yield
    return before, inside, after, torch.is_autocast_enabled("cpu")


@program
def grad_mode_and_anomaly_mode_cross_the_border() -> Any:
    anomaly, grads = torch.autograd.detect_anomaly(), torch.enable_grad()
    torch.set_grad_enabled(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        anomaly.__enter__()
    yield
    x = torch.ones(2, requires_grad=True)
    silent = x * 2
    grads.__enter__()
    y = (x * 3).sum()
    y.backward()
    anomaly.__exit__(None, None, None)
    yield
    grads.__exit__(None, None, None)
    state = torch.is_grad_enabled(), torch.is_anomaly_enabled()
    torch.set_grad_enabled(True)
    return silent.requires_grad, x.grad, state


@program
def checkpoint_recomputed_after_the_observation() -> Any:
    from torch.utils.checkpoint import checkpoint

    model, x = _network(), torch.randn(5, 4, requires_grad=True)
    early = checkpoint(model, x, use_reentrant=False)
    yield
    late = checkpoint(model, x * 2, use_reentrant=False)
    early.sum().backward()
    yield
    late.square().sum().backward()
    return early, late, x.grad, [parameter.grad for parameter in model.parameters()]


@program
def graph_of_before_is_walked_inside_and_after() -> Any:
    x = torch.randn(4, requires_grad=True)
    y = torch.tanh(x * 2)
    seen: list[str] = []
    y.grad_fn.register_hook(lambda gi, go: seen.append("node"))  # type: ignore[union-attr]
    x.register_hook(lambda grad: seen.append("leaf"))
    yield
    z = (y * y).sum()
    (first,) = torch.autograd.grad(z, x, retain_graph=True, create_graph=True)
    yield
    (second,) = torch.autograd.grad(first.sum(), x, retain_graph=True)
    z.backward()
    return first, second, x.grad, seen


@program
def hooks_on_nodes_of_inside_fire_after() -> Any:
    x = torch.randn(3, 3, requires_grad=True)
    log: list[Any] = []
    yield
    y = torch.linalg.matrix_norm(torch.exp(x))
    y.register_hook(lambda grad: log.append(float(grad)))
    saved = hasattr(y.grad_fn, "next_functions")
    yield
    y.backward()
    return y, x.grad, log, saved


@program
def thread_that_waits_at_both_borders() -> Any:
    turn = [threading.Event() for _ in range(3)]
    found: list[torch.Tensor] = []

    def work() -> None:
        for event in turn:
            event.wait()
            found.append(torch.sigmoid(torch.ones(2) * len(found)))
            event.clear()
            done.release()

    done = threading.Semaphore(0)
    thread = threading.Thread(target=work)
    thread.start()
    turn[0].set()
    done.acquire()
    yield
    turn[1].set()
    done.acquire()
    yield
    turn[2].set()
    done.acquire()
    thread.join()
    return found


@program
def thread_started_inside_with_a_mode_of_its_own() -> Any:
    go, log = threading.Event(), []
    result: list[Any] = []

    def work() -> None:
        mode = Told()
        mode.__enter__()
        result.append(torch.atan(torch.ones(2)))
        started.set()
        go.wait()
        result.append(torch.atan(torch.ones(3)))
        mode.__exit__(None, None, None)
        result.append((torch._C._len_torch_function_stack() >= 0, torch.atan(torch.ones(4))))
        log.extend(mode.log)

    started = threading.Event()
    yield
    thread = threading.Thread(target=work)
    thread.start()
    started.wait()
    yield
    go.set()
    thread.join()
    return result, log


@program
def observers_of_the_program_cross_the_border() -> Any:
    import trueline

    with tempfile.TemporaryDirectory() as folder:
        yield
        inner = trueline.capture(Path(folder) / "run", level="api", data="stats")
        inner.start()
        a = torch.relu(torch.linspace(-1, 1, 5))
        yield
        b = torch.relu(a - 0.5)
        inner.stop()
    return a, b, torch.relu(b)


@program
def observer_of_the_program_ends_inside() -> Any:
    import trueline

    with tempfile.TemporaryDirectory() as folder:
        own = trueline.capture(Path(folder) / "run", level="api+module", data="digest")
        own.start()
        model, x = _network(), torch.randn(5, 4)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        first = _step(model, optimizer, x)
        yield
        second = _step(model, optimizer, x)
        own.stop()
        third = _step(model, optimizer, x)
        yield
    return first, second, third, list(model.parameters())


@program
def watch_of_the_program_begins_inside_and_ends_after() -> Any:
    import trueline

    with tempfile.TemporaryDirectory() as folder:
        model, x = _network(), torch.randn(5, 4)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        yield
        own = trueline.watch(Path(folder) / "run")
        own.__enter__()
        first = _step(model, optimizer, x)
        yield
        second = _step(model, optimizer, x)
        own.__exit__(None, None, None)
    return first, second, list(model.parameters())
