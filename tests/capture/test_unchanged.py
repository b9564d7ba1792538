"""Compilers, exporters, tracers, transforms and the program's own modes find what they would find without a capture."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import trueline

WAYS: dict[str, dict[str, Any]] = {
    "api": {"data": "tensors"},
    "module": {"level": "module"},
    "kernel": {"level": "kernel"},
    "api+module": {"level": "api+module", "data": "digest"},
    "witness": {"witness": True},
    "watch": {"watch": True},
}


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.first(x)) + self.second(x).sin()


@contextlib.contextmanager
def observed(way: dict[str, Any], path: Path) -> Iterator[Any]:
    options = dict(way)
    with trueline.watch(path, rotation=1) if options.pop("watch", False) else trueline.capture(path, **options) as one:
        yield one


def bits(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().numpy().tobytes()
    return [bits(one) for one in value] if isinstance(value, list | tuple) else value


def is_unchanged(program: Callable[[], Any], way: str, path: Path) -> bool:
    torch._dynamo.reset()
    torch.manual_seed(0)
    bare = bits([program(), torch.rand(2)])
    torch._dynamo.reset()
    torch.manual_seed(0)
    with observed(WAYS[way], path) as one:
        seen = bits([program(), torch.rand(2)])
    if isinstance(one, trueline.Capture):
        assert one.certificate is not None and not one.certificate.partial
    assert seen == bare
    return True


def trained(model: Any, inner: torch.nn.Module) -> list[torch.Tensor]:
    optimizer = torch.optim.SGD(inner.parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).square().mean().backward()
        optimizer.step()
    return list(inner.parameters())


class Backend:
    """Counts how often it is asked, and keeps the graphs."""

    def __init__(self) -> None:
        self.graphs: list[str] = []

    def __call__(self, graph: Any, inputs: Any) -> Any:
        self.graphs.append(graph.code)
        return graph.forward


def compiled_whole() -> Any:
    backend, net = Backend(), Net()
    return trained(torch.compile(net, fullgraph=True, backend=backend), net), backend.graphs


def compiled_in_place() -> Any:
    backend, net = Backend(), Net()
    net.compile(fullgraph=True, backend=backend)
    return trained(net, net), backend.graphs


def compiled_in_parts() -> Any:
    backend, net = Backend(), Net()

    def broken(x: torch.Tensor) -> torch.Tensor:
        y = net(x)
        torch._dynamo.graph_break()
        return net(y).sum()

    function = torch.compile(broken, backend=backend)
    return [function(torch.ones(size, 4)) for size in (2, 2, 3)], backend.graphs


def compiled_backward() -> Any:
    net = Net()
    return trained(torch.compile(net, fullgraph=True, backend="aot_eager"), net)


def compiled_optimizer() -> Any:
    backend, net = Backend(), Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    step = torch.compile(lambda: optimizer.step(), backend=backend)
    for _ in range(2):
        net(torch.ones(2, 4)).sum().backward()
        step()
    return list(net.parameters()), backend.graphs


class Own(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def compiled_under_a_mode() -> Any:
    backend = Backend()
    function = torch.compile(lambda x: x.sin() + 1, fullgraph=True, backend=backend)
    with Own():
        first = function(torch.ones(3))
    return first, function(torch.ones(3)), backend.graphs


def exported() -> Any:
    program = torch.export.export(Net(), (torch.ones(2, 4),))
    return str(program.graph), program.module()(torch.ones(2, 4))


def exported_strictly() -> Any:
    program = torch.export.export(Net(), (torch.ones(2, 4),), strict=True)
    return str(program.graph), program.module()(torch.ones(2, 4))


def code_of(graph: Any) -> str:
    return "\n".join(line.partition("#")[0] for line in str(graph).splitlines())


def traced() -> Any:
    made = torch.jit.trace(lambda x: (x.view(x.shape[0], -1) @ x.t()).relu(), torch.ones(2, 4))
    return code_of(made.graph), made(torch.full((2, 4), 2.0))


def scripted() -> Any:
    net = Net()
    made = torch.jit.script(net)
    return code_of(made.graph), trained(made, net)


def fx_traced() -> Any:
    made = torch.fx.symbolic_trace(Net())
    return made.code, made(torch.ones(2, 4))


PROGRAMS = [
    compiled_whole, compiled_in_place, compiled_in_parts, compiled_backward, compiled_optimizer, compiled_under_a_mode,
    exported, exported_strictly, traced, scripted, fx_traced,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_what_is_made_of_a_program_is_the_same(program: Callable[[], Any], way: str, tmp_path: Path) -> None:
    assert is_unchanged(program, way, tmp_path / "run")


def test_what_is_not_seen_inside_is_said(tmp_path: Path) -> None:
    with trueline.capture(tmp_path / "run", level="kernel") as capture:
        torch.compile(Net(), backend="eager")(torch.ones(2, 4))
        torch.export.export(Net(), (torch.ones(2, 4),))
    assert capture.certificate is not None
    reasons = " ".join(capture.certificate.not_recorded)
    assert "inside of a torch.compile region" in reasons and "inside of torch.export.export" in reasons
    assert capture.certificate.complete and not capture.certificate.partial


def test_scripted_functions_are_recorded(calls: Callable[..., Any]) -> None:
    made = torch.jit.trace(lambda x: x.sin() + x.cos(), torch.ones(3))
    recorded = calls(lambda: made(torch.ones(3)), data="tensors")
    (call,) = [one for one in recorded if one.api.startswith("torch.jit.")]
    assert [len(call.inputs), len(call.outputs)] == [1, 1]


class Asked(torch.Tensor):
    """Notes what it is asked about."""

    log: list[str] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.log.append(getattr(func, "__name__", ""))
        return super().__torch_function__(func, types, args, kwargs or {})


def of_a_subclass() -> Any:
    Asked.log.clear()
    x = torch.ones(3, 4, requires_grad=True).as_subclass(Asked)
    (x.sin() * 2).sum().backward()
    y = x + 1
    y.add_(1)
    torch.nn.functional.layer_norm(y, (4,))
    return list(Asked.log)


class Wrapper(torch.Tensor):
    """Holds another tensor and answers kernels with it."""

    log: list[str] = []

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.log.append(str(func))
        inner = [one.inner if isinstance(one, Wrapper) else one for one in args]
        return cls(func(*inner, **(kwargs or {})))


def of_a_wrapper() -> Any:
    Wrapper.log.clear()
    y = Wrapper(torch.ones(3, 4)).sin() * 2
    return y.t().inner, list(Wrapper.log)


class Kernels(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.log.append(str(func))
        return func(*args, **(kwargs or {}))


class Functions(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.log.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


def of_modes() -> Any:
    net = Net()
    with Functions() as functions, Kernels() as kernels:
        parameters = trained(net, net)
    return parameters, functions.log, kernels.log


def overflow_under_modes() -> Any:
    """A watch looks closer at a bad step, while the modes of the program are on."""
    net = Net()
    with torch.no_grad():
        net.first.weight.fill_(float("inf"))
    with Functions() as functions, Kernels() as kernels:
        parameters = trained(net, net)
    return parameters, functions.log, kernels.log


def fast_attention() -> Any:
    """torch takes a faster way through these layers if nobody is to be asked about their calls."""
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    with torch.no_grad():
        return layer(torch.ones(2, 3, 8))


def calls_that_hold_others() -> Any:
    net, attention = Net(), torch.nn.MultiheadAttention(4, 2)
    return trained(net, net), attention(*[torch.ones(3, 4)] * 3)[0].detach(), torch.zeros(2)


def with_a_device() -> Any:
    with torch.device("cpu"):
        return calls_that_hold_others()


def with_default_device() -> Any:
    torch.set_default_device("cpu")
    try:
        return calls_that_hold_others()
    finally:
        torch.set_default_device(None)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "program",
    [
        of_a_subclass,
        of_a_wrapper,
        of_modes,
        overflow_under_modes,
        fast_attention,
        with_a_device,
        with_default_device,
    ],
    ids=lambda program: program.__name__,
)
def test_nobody_sees_a_call_of_ours(program: Callable[[], Any], way: str, tmp_path: Path) -> None:
    assert is_unchanged(program, way, tmp_path / "run")


@pytest.mark.parametrize("way", ["api", "watch"])
@pytest.mark.parametrize("default", [True, False])
def test_a_device_that_was_set_before_may_be_left_inside(way: str, default: bool, tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        if default:
            torch.set_default_device("cpu")
        else:
            stack.enter_context(torch.device("cpu"))
        with observed(WAYS[way], tmp_path / "run") as one:
            calls_that_hold_others()
            if default:
                torch.set_default_device(None)
            else:
                stack.close()
            assert torch._C._len_torch_function_stack() == 1  # ours
            calls_that_hold_others()
    if isinstance(one, trueline.Capture):
        calls = one.certificate.calls if one.certificate is not None else {}
        assert calls["api forward"] > 50


def transformed() -> Any:
    inner = lambda x: (x.sin() * x).sum()  # noqa: E731
    return torch.func.vmap(torch.func.grad(inner))(torch.ones(3, 4)), torch.func.functionalize(lambda x: x + 1)(
        torch.ones(2)
    )


def without_content() -> Any:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        fake = torch.nn.Linear(4, 3)(torch.empty(2, 4))
    meta = torch.empty(3, 4, device="meta").sin()
    nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)]) * 2
    sparse = torch.sparse.mm(torch.eye(3).to_sparse(), torch.ones(3, 3))
    quantized = torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.quint8).dequantize()
    endless = torch.ones(1).expand(2**40).view(2**20, 2**20)
    own = torch.ones(1).expand(2**40).as_subclass(Asked)[:3]
    return [
        str(fake.shape),
        str(meta.shape),
        nested.unbind()[0],
        sparse,
        quantized,
        endless[0, :3] + 1,
        own + 1,
    ]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("data", ["structure", "stats", "digest", "tensors"])
@pytest.mark.parametrize("level", ["api", "kernel"])
@pytest.mark.parametrize("program", [transformed, without_content], ids=lambda program: program.__name__)
def test_tensors_without_content_are_said_not_to_be_recorded(
    program: Callable[[], Any], level: str, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(WAYS, "this", {"level": level, "data": data})
    assert is_unchanged(program, "this", tmp_path / "run")


@pytest.mark.parametrize("data", ["stats", "tensors"])
def test_reading_at_level_kernel_is_no_kernel_of_the_program(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device is read by kernels, and what was read comes back by a copy: none of them may come to our own mode, which
    would have them read in turn, for ever."""
    from trueline.frameworks.torch import tensors
    from trueline.frameworks.torch.readers import CpuReader, one_at_a_time

    made: list[int] = []

    class DeviceLike(CpuReader):
        """Does with plain torch operations what a device's reader does, as carelessly as can be."""

        @one_at_a_time
        def launch(self) -> None:
            made.append(int(torch.empty(4).copy_(torch.ones(4), non_blocking=True).sum()))
            super().launch()

        @one_at_a_time
        def end_step(self) -> None:
            torch.empty(8).copy_(torch.zeros(8))
            super().end_step()

    monkeypatch.setenv("TRUELINE_NO_KERNELS", "1")
    monkeypatch.setattr(tensors, "reader_for", lambda device, notebook, kept: DeviceLike(notebook, kept))
    net, kernels = Net(), Kernels()
    with trueline.capture(tmp_path / "run", level="kernel", data=data) as capture:
        with kernels:
            trained(net, net)
        capture.step()
    from trueline.store import open_run

    recorded = [call.api for call in open_run(tmp_path / "run").rank(0).trace()]
    assert made and [name for name in recorded if "copy_" in name] == []
    assert not [name for name in kernels.log if "copy_" in name]
    assert set(recorded) <= {f"torch.ops.{name}" for name in kernels.log} | set(kernels.log)


@pytest.mark.parametrize("inner", ["api", "module", "watch"])
@pytest.mark.parametrize("outer", ["api", "kernel", "watch"])
def test_observers_that_cross_do_not_ask_each_other_for_ever(outer: str, inner: str, tmp_path: Path) -> None:
    net = Net()

    def gradients() -> Any:
        x = torch.ones(2, 4, requires_grad=True)
        net(x).sum().backward()  # neither records it, and both want to be on for what is inside
        return bits(x.grad)

    bare = gradients()
    first, second = observed(WAYS[outer], tmp_path / "one"), observed(WAYS[inner], tmp_path / "two")
    with contextlib.ExitStack() as kept:
        with first:
            kept.enter_context(second)
            assert gradients() == bare
        assert gradients() == bare
    assert gradients() == bare
