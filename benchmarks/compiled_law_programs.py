"""The configurations of ``compiled_law``: small programs that are compiled in all the ways that torch has.

Each is a generator: what comes before its first ``yield`` compiles and runs, what comes before its second runs on (and
compiles again where its shapes or its mode have changed), what it yields third is everything that it computed.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn


class Skip(Exception):
    """This machine, or this torch, cannot run it."""


Program = Iterator[Any]
PROGRAMS: dict[str, Callable[[], Program]] = {}


def program(function: Callable[[], Program]) -> Callable[[], Program]:
    PROGRAMS[function.__name__] = function
    return function


@contextlib.contextmanager
def code_listener(code: list[str]) -> Iterator[None]:
    """Collects what inductor generates, by the place that torch keeps for its own tests."""
    try:
        from torch._inductor.graph import GraphLowering
    except ImportError:
        yield
        return
    before = vars(GraphLowering)["save_output_code"]
    GraphLowering.save_output_code = staticmethod(code.append)  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        GraphLowering.save_output_code = before


class Net(nn.Module):
    """Two blocks with a buffer that changes."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first, self.second = Block(width), Block(width)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        return self.second(self.first(x))


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + nn.functional.gelu(self.linear(self.norm(x)))


class Breaking(Net):
    """Has a graph break, and looks at a number of the data."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        torch._dynamo.graph_break()
        if y.sum().item() > 1e9:
            y = -y
        return self.second(y)


def training(net: nn.Module, call: Any, sizes: tuple[int, ...], optimizer: Any = None, step: Any = None) -> Program:
    """Trains with a batch of each size; the first is the first stage."""
    optimizer = optimizer or torch.optim.SGD(net.parameters(), lr=0.1)
    step = step or optimizer.step
    made: list[torch.Tensor] = []

    def batch(size: int) -> None:
        out = call(torch.randn(size, 8))
        loss = out.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        made.extend((out.detach(), loss.detach()))
        made.extend(p.grad.clone() for p in net.parameters() if p.grad is not None)
        step()

    batch(sizes[0])
    yield
    for size in sizes[1:]:
        batch(size)
    yield
    yield [*made, *net.parameters(), *net.buffers()]


def compiled(sizes: tuple[int, ...] = (4, 4, 4), *, kind: type[Net] = Net, **how: Any) -> Program:
    net = kind()
    return training(net, torch.compile(net, **how), sizes)


@program
def inductor() -> Program:
    return compiled()


@program
def aot_eager() -> Program:
    return compiled(backend="aot_eager")


@program
def eager() -> Program:
    return compiled(backend="eager")


@program
def custom_backend_that_lies() -> Program:
    return compiled(backend=lying)


def lying(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    """A backend that makes every output 1 % too large."""

    def call(*args: Any) -> Any:
        return tuple(one * 1.01 if isinstance(one, torch.Tensor) else one for one in graph(*args))

    return call


@program
def fullgraph_inductor() -> Program:
    return compiled(fullgraph=True)


@program
def fullgraph_aot_eager() -> Program:
    return compiled(fullgraph=True, backend="aot_eager")


@program
def dynamic_shapes() -> Program:
    return compiled((4, 6, 9), dynamic=True)


@program
def recompiles_for_other_shapes() -> Program:
    return compiled((4, 6, 9, 4), backend="aot_eager")


@program
def graph_breaks() -> Program:
    return compiled(kind=Breaking, backend="aot_eager")


@program
def reduce_overhead() -> Program:
    return compiled(mode="reduce-overhead")


@program
def max_autotune_no_cudagraphs() -> Program:
    return compiled(mode="max-autotune-no-cudagraphs")


@program
def compiled_submodules() -> Program:
    net = Net()
    for name in ("first", "second"):
        setattr(net, name, torch.compile(getattr(net, name), backend="aot_eager"))
    return training(net, net, (4, 4, 4))


@program
def compiled_in_place() -> Program:
    net = Net()
    net.first.compile(backend="aot_eager")
    net.compile(backend="aot_eager")
    return training(net, net, (4, 4, 4))


@program
def eager_submodule_in_a_compiled_model() -> Program:
    net = Net()
    net.second.forward = torch.compiler.disable(net.second.forward)  # type: ignore[method-assign]
    return training(net, torch.compile(net, backend="aot_eager"), (4, 4, 4))


@program
def compiled_autograd() -> Program:
    if not hasattr(torch._dynamo.config, "compiled_autograd"):
        raise Skip("this torch has no compiled autograd")
    from torch._dynamo import compiled_autograd

    net = Net()
    steps = training(net, torch.compile(net, backend="aot_eager"), (4, 4, 4))
    for _ in range(2):
        with compiled_autograd._enable(torch.compile(backend="aot_eager")):
            next(steps)
        yield
    yield next(steps)


@program
def compiled_optimizer() -> Program:
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=torch.tensor(0.01))
    return training(net, net, (4, 4, 4), optimizer, torch.compile(optimizer.step, backend="aot_eager"))


@program
def compiled_training_step() -> Program:
    net = Net()
    loss_of = torch.compile(lambda x: net(x).pow(2).mean().reshape(1), backend="aot_eager")
    return training(net, loss_of, (4, 4, 4))


@program
def inference_under_autocast() -> Program:
    net = Net().eval()
    call = torch.compile(net, backend="inductor")
    made = []
    for _ in range(2):
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            made.append(call(torch.randn(4, 8)))
        yield
    yield made


@program
def exported() -> Program:
    net = Net().eval()
    x = torch.randn(4, 8)
    made = torch.export.export(net, (x,))
    out = [made.module()(x)]
    yield
    again = torch.export.export(net, (x,), strict=True)
    out += [made.module()(x + 1), again.module()(x), again.run_decompositions().module()(x)]
    yield
    yield [*out, str(made.graph), str(again.graph)]


@program
def ahead_of_time() -> Program:
    net = Block(8).eval()
    x = torch.randn(4, 8)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "net.pt2")
        torch._inductor.aoti_compile_and_package(torch.export.export(net, (x,)), package_path=path)
        loaded = torch._inductor.aoti_load_package(path)
        out = [loaded(x)]
        yield
        out.append(loaded(x + 1))
        yield
        yield out


@program
def scripted_and_traced() -> Program:
    net = Block(8)
    traced, scripted = torch.jit.trace(net, torch.randn(4, 8)), torch.jit.script(net)
    made = [traced(torch.randn(4, 8))]
    yield
    loss = (traced(torch.randn(4, 8)) + scripted(torch.randn(4, 8))).sum()
    loss.backward()
    yield
    yield [*made, loss, *(p.grad for p in net.parameters())]
