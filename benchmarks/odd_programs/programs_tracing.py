"""Tracers and compilers: fake tensors, make_fx, fx, jit, export and torch.compile."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from benchmarks.odd_programs.registry import Skip, program


def _block(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    y = torch.relu(x @ weight).softmax(-1)
    return nn.functional.layer_norm(y, y.shape[-1:]) + x.mean()


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


class _Counting:
    """A backend that runs the graph as it is and counts."""

    def __init__(self) -> None:
        self.graphs: list[str] = []

    def __call__(self, graph: Any, inputs: Any) -> Any:
        self.graphs.append(
            f"{len(inputs)} inputs: {[str(getattr(n.target, '__name__', n.op)) for n in graph.graph.nodes]}"
        )
        return graph.forward


@program
def fake_tensors_made_and_used() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        net = _Net()
        out = net(torch.randn(3, 4))
        inside = [type(v).__name__ for v in (out, net.first.weight, out.sum())]
        converted = mode.from_tensor(torch.ones(2))
        try:
            out.sum().item()
            text = "a number"
        except Exception as error:
            text = type(error).__name__
    return inside, tuple(out.shape), str(out), text, type(converted).__name__


@program
def fake_tensors_mixed_with_real_ones() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    real = torch.ones(2)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = torch.empty(2)
        both = fake + real
    try:
        text = str(fake + mode.from_tensor(real)) + str(fake * real)
    except Exception as error:
        text = f"{type(error).__name__}: {str(error)[:90]}"
    return str(both), text, real


@program
def fake_tensor_left_over_outside_of_its_mode() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.empty(3, 1 << 40, requires_grad=True)
    out = (fake.exp() * 2).sum(0)
    out.sum().backward()
    return str(out), str(fake.grad), out.shape[0]


@program
def make_fx_of_a_block() -> Any:
    from torch.fx.experimental.proxy_tensor import make_fx

    x, weight = torch.randn(3, 4), torch.randn(4, 4)
    codes = [make_fx(_block, tracing_mode=mode)(x, weight).code for mode in ("real", "fake", "symbolic")]
    return codes, make_fx(_block)(x, weight)(x, weight)


@program
def make_fx_of_a_gradient() -> Any:
    from torch.fx.experimental.proxy_tensor import make_fx

    def step(x: torch.Tensor) -> torch.Tensor:
        y = x.detach().requires_grad_()
        return torch.autograd.grad(_block(y, torch.eye(4)).pow(2).sum(), y)[0]

    x = torch.randn(3, 4)
    graph = make_fx(step, pre_dispatch=False)(x)
    return graph.code, graph(x)


@program
def fx_symbolic_trace_and_interpreter() -> Any:
    graph = torch.fx.symbolic_trace(_Net())
    seen: list[str] = []

    class Watching(torch.fx.Interpreter):
        def run_node(self, node: Any) -> Any:
            out = super().run_node(node)
            seen.append(f"{node.op} {node.target} {tuple(out.shape) if isinstance(out, torch.Tensor) else out}")
            return out

    x = torch.randn(2, 4)
    out = Watching(graph).run(x)
    wrapped = torch.fx.symbolic_trace(lambda a: torch.add(a, 1).clamp(min=0) @ a.T)
    return graph.code, out, seen[:-1], wrapped.code, wrapped(x)


@program
def fx_proxy_reaches_python_control_flow() -> Any:
    texts = []
    for function in (lambda x: x if x.sum() > 0 else -x, lambda x: sum(x), lambda x: int(x), len):
        try:
            torch.fx.symbolic_trace(function)
            texts.append("traced")
        except Exception as error:
            texts.append(f"{type(error).__name__}: {str(error)[:80]}")
    return texts


@program
def jit_trace_inside() -> Any:
    net = _Net().eval()
    traced = torch.jit.trace(net, torch.randn(2, 4))
    function = torch.jit.trace(_block, (torch.randn(2, 4), torch.eye(4)))
    x = torch.randn(3, 4)
    return traced(x), function(x, torch.eye(4)), str(traced.graph), function.code


@program
def jit_trace_before() -> Any:
    net = _Net().eval()
    traced = torch.jit.trace(net, torch.randn(2, 4))
    yield
    x = torch.randn(3, 4, requires_grad=True)
    out = traced(x)
    out.sum().backward()
    yield
    return out, x.grad, net.first.weight.grad, traced(x)


@program
def jit_script_inside() -> Any:
    @torch.jit.script
    def loop(x: torch.Tensor, n: int) -> torch.Tensor:
        for i in range(n):
            if bool(x.sum() > 10):
                x = torch.nn.functional.relu(x) - 5
            else:
                x = x * 2 + i
        return x

    scripted = torch.jit.script(_Net())
    x = torch.ones(2, 4)
    return loop(x, 5), loop.code, scripted(x), scripted.code, [type(m).__name__ for m in scripted.modules()]


@program
def jit_script_before_and_saved_inside() -> Any:
    import io

    scripted = torch.jit.script(_Net())
    yield
    buffer = io.BytesIO()
    torch.jit.save(scripted, buffer)
    buffer.seek(0)
    loaded = torch.jit.load(buffer)
    x = torch.ones(2, 4)
    futures = [torch.jit.fork(scripted, x * i) for i in range(3)]
    waited = [torch.jit.wait(future) for future in futures]
    frozen = torch.jit.freeze(scripted.eval())
    yield
    return loaded(x), waited, frozen(x), loaded.code


@program
def jit_script_of_overloaded_functionals() -> Any:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.max_pool1d(x, 2)
        z = torch.nn.functional.dropout(y, 0.5, False)
        return (
            torch.nn.functional.interpolate(z, scale_factor=2.0).norm(2.0, [1])
            + torch.stft(torch.ones(16), 8, return_complex=True, window=torch.ones(8)).abs().sum()
        )

    scripted = torch.jit.script(function)
    return scripted(torch.randn(1, 2, 8)), str(scripted.inlined_graph).count("aten::")


@program
def export_of_a_module() -> Any:
    net = _Net()
    exported = torch.export.export(net, (torch.randn(3, 4),))
    x = torch.randn(3, 4)
    return exported.module()(x), str(exported.graph), sorted(exported.state_dict)


@program
def export_with_dynamic_batch() -> Any:
    batch = torch.export.Dim("batch", min=2, max=64)
    exported = torch.export.export(_Net(), (torch.randn(3, 4),), dynamic_shapes=({0: batch},))
    out = [exported.module()(torch.ones(n, 4)) for n in (2, 7)]
    try:
        exported.module()(torch.ones(2, 5))
        text = "no error"
    except Exception as error:
        text = type(error).__name__
    return out, text, str(exported.graph_signature)[:200]


@program
def compile_fullgraph_eager() -> Any:
    compiled = torch.compile(_block, backend="eager", fullgraph=True)
    x = torch.randn(3, 4, requires_grad=True)
    out = compiled(x, torch.eye(4))
    out.sum().backward()
    return out, x.grad, compiled(x.detach() * 2, torch.eye(4))


@program
def compile_fullgraph_aot_eager() -> Any:
    net = _Net()
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = compiled(torch.ones(3, 4)).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, [value.grad for value in net.parameters()]


@program
def compile_counts_graphs_and_breaks() -> Any:
    backend = _Counting()

    def function(x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x)
        torch._dynamo.graph_break()
        if y.sum() > 0:
            y = y.cos()
        return y * 2

    out = torch.compile(function, backend=backend)(torch.ones(3))
    explained = torch._dynamo.explain(function)(torch.ones(3))
    return out, backend.graphs, explained.graph_count, explained.graph_break_count


@program
def compile_counts_recompiles() -> Any:
    backend = _Counting()
    compiled = torch.compile(lambda x, n: x * n + torch.ones_like(x), backend=backend)
    sizes, numbers = (2, 3, 4, 4, 5), (1, 1, 2, 3, 4)
    out = [
        compiled(torch.ones(size, dtype=torch.float64 if number > 2 else None), number)
        for size, number in zip(sizes, numbers, strict=True)
    ]
    return out, backend.graphs


@program
def compile_before_and_called_inside_and_after() -> Any:
    backend = _Counting()
    net = _Net()
    compiled = torch.compile(net, backend=backend)
    x = torch.ones(2, 4)
    first = compiled(x)
    yield
    second = compiled(x)
    graphs_inside = len(backend.graphs)
    yield
    return first, second, compiled(x), graphs_inside, backend.graphs


@program
def compile_of_a_module_with_hooks() -> Any:
    backend = _Counting()
    net = _Net()
    seen: list[str] = []
    net.first.register_forward_hook(lambda module, args, out: out * 2)
    net.register_forward_pre_hook(lambda module, args: seen.append("pre"))
    out = torch.compile(net, backend=backend)(torch.ones(2, 4))
    return out, backend.graphs, seen


@program
def compile_under_the_users_modes() -> Any:
    backend = _Counting()
    compiled = torch.compile(_block, backend=backend)
    with torch.device("cpu"), torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        out = compiled(torch.ones(2, 4), torch.eye(4))
    return out, backend.graphs


@program
def compile_of_a_branch_with_cond() -> Any:
    if not hasattr(torch, "cond"):
        raise Skip("torch.cond is missing")

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    return torch.compile(function, backend="eager", fullgraph=True)(torch.ones(2)), function(-torch.ones(2))


@program(fork=False)
def compile_imported_for_the_first_time_inside() -> Any:
    import sys

    had = "torch._dynamo" in sys.modules
    backend = _Counting()
    x = torch.ones(2, 4, requires_grad=True)
    out = torch.compile(_block, backend=backend, fullgraph=True)(x, torch.eye(4))
    return had, out, backend.graphs, torch.func.jvp(torch.tanh, (x.detach(),), (torch.ones(2, 4),))
