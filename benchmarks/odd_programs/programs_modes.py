"""Modes for functions and for dispatch, nested, left and entered in unusual places."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.odd_programs.registry import Skip, program


class FunctionLog(TorchFunctionMode):
    """Writes down every function it is told of."""

    def __init__(self, label: str = "", log: list[str] | None = None) -> None:
        super().__init__()
        self.label, self.log = label, [] if log is None else log

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = resolve_name(function) or getattr(function, "__name__", repr(type(function)))
        self.log.append(f"{self.label}{name} {len(args)} {sorted(kwargs or {})} {[t.__name__ for t in types]}")
        return function(*args, **(kwargs or {}))


class DispatchLog(TorchDispatchMode):
    """Writes down every operator it is told of."""

    def __init__(self, label: str = "", log: list[str] | None = None) -> None:
        super().__init__()
        self.label, self.log = label, [] if log is None else log

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.log.append(f"{self.label}{function} {len(args)} {sorted(kwargs or {})}")
        return function(*args, **(kwargs or {}))


def _train_once() -> torch.Tensor:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Dropout(0.2), nn.Linear(8, 2))
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    loss = nn.functional.cross_entropy(net(torch.randn(6, 4)), torch.randint(2, (6,)))
    loss.backward()
    optimizer.step()
    return torch.cat([value.detach().flatten() for value in net.parameters()])


@program
def function_mode_logs_a_training_step() -> Any:
    with FunctionLog() as mode:
        result = _train_once()
    return result, mode.log


@program
def dispatch_mode_logs_a_training_step() -> Any:
    with DispatchLog() as mode:
        result = _train_once()
    return result, mode.log


@program
def modes_of_both_kinds_nested_four_deep() -> Any:
    log: list[str] = []
    with FunctionLog("a ", log), DispatchLog("b ", log), FunctionLog("c ", log), DispatchLog("d ", log):
        x = torch.ones(3, requires_grad=True)
        (torch.relu(x) * x[1:2]).sum().backward()
        result = x.grad
    return result, log


@program
def function_mode_entered_before_and_left_inside() -> Any:
    mode = FunctionLog()
    mode.__enter__()
    x = torch.arange(4.0)
    yield
    y = torch.softmax(x, 0)
    mode.__exit__(None, None, None)
    z = torch.exp(y)
    yield
    return y, z, torch.sin(z), mode.log


@program
def dispatch_mode_entered_before_and_left_inside() -> Any:
    mode = DispatchLog()
    mode.__enter__()
    x = torch.arange(4.0)
    yield
    y = torch.softmax(x, 0)
    mode.__exit__(None, None, None)
    z = torch.exp(y)
    yield
    return y, z, torch.sin(z), mode.log


@program
def function_mode_entered_inside_and_left_after() -> Any:
    mode = FunctionLog()
    x = torch.arange(4.0)
    yield
    mode.__enter__()
    y = torch.softmax(x, 0)
    yield
    z = torch.exp(y)
    mode.__exit__(None, None, None)
    return y, z, torch.sin(z), mode.log


@program
def dispatch_mode_entered_inside_and_left_after() -> Any:
    mode = DispatchLog()
    x = torch.arange(4.0)
    yield
    mode.__enter__()
    y = torch.softmax(x, 0)
    yield
    z = torch.exp(y)
    mode.__exit__(None, None, None)
    return y, z, torch.sin(z), mode.log


@program
def function_mode_that_replaces_a_function() -> Any:
    class Replace(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function is nn.functional.relu:
                return nn.functional.silu(*args)
            if function is torch.Tensor.add:
                return torch.sub(*args, **(kwargs or {}))
            return function(*args, **(kwargs or {}))

    x = torch.randn(4)
    with Replace():
        return nn.ReLU()(x), torch.relu(x), x.add(x), x + x, nn.functional.relu(x)


@program
def dispatch_mode_that_changes_dtypes() -> Any:
    class Half(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = function(*args, **(kwargs or {}))
            return out.to(torch.float64) if isinstance(out, torch.Tensor) and out.is_floating_point() else out

    with Half():
        x = torch.ones(3)
        return x, torch.exp(x), x.sum(), torch.arange(3)


@program
def dispatch_mode_that_calls_python_inside() -> Any:
    class Twice(TorchDispatchMode):
        depth = 0

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = function(*args, **(kwargs or {}))
            if Twice.depth == 0 and isinstance(out, torch.Tensor):
                Twice.depth += 1
                with self:
                    out = torch.add(out, 1)
                Twice.depth -= 1
            return out

    with Twice():
        x = torch.zeros(2)
        return x, x * 1, (x * 1).sum()


@program
def mode_that_raises_and_is_survived() -> Any:
    class Strict(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if getattr(function, "__name__", "") == "sin":
                raise PermissionError("no sine here")
            return function(*args, **(kwargs or {}))

    texts = []
    for _ in range(3):
        try:
            with Strict():
                torch.cos(torch.ones(2))
                torch.sin(torch.ones(2))
        except PermissionError as error:
            texts.append(str(error))
    return texts, torch.sin(torch.ones(2))


@program
def function_mode_inside_of_a_backward() -> Any:
    log: list[str] = []

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
            context.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
            with FunctionLog("inner ", log), DispatchLog("dispatch ", log):
                return gradient * 2 * context.saved_tensors[0]

    x = torch.randn(3, requires_grad=True)
    with FunctionLog("outer ", log):
        Square.apply(x).sum().backward()
    return x.grad, log


@program
def what_a_program_sees_of_the_mode_stacks() -> Any:
    """Libraries look here: DTensor, FlexAttention and FSDP take another way where a mode is on."""
    from torch.overrides import _get_current_function_mode
    from torch.utils._python_dispatch import _get_current_dispatch_mode

    seen = [torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()]
    with FunctionLog(), DispatchLog():
        seen += [type(_get_current_function_mode()).__name__, type(_get_current_dispatch_mode()).__name__]
    return seen, str(type(_get_current_function_mode())), str(type(_get_current_dispatch_mode()))


@program
def torch_function_switched_off() -> Any:
    x = torch.randn(3)
    log: list[str] = []
    seen = [torch._C._is_torch_function_enabled()]
    with FunctionLog("", log):
        with torch._C.DisableTorchFunctionSubclass():
            a = torch.sin(x)
            seen.append(torch._C._is_torch_function_enabled())
        if hasattr(torch._C, "DisableTorchFunction"):
            with torch._C.DisableTorchFunction():
                b = torch.cos(x)
        c = torch.tan(x)
    return a, b, c, log, seen


@program
def flops_are_counted() -> Any:
    from torch.utils.flop_counter import FlopCounterMode

    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5))
    with FlopCounterMode(display=False) as counter:
        net(torch.randn(2, 3, 6, 6)).sum().backward()
    counts = {str(k): {str(op): n for op, n in v.items()} for k, v in counter.get_flop_counts().items()}
    return counter.get_total_flops(), counts


@program
def debug_mode_of_torch() -> Any:
    try:
        from torch.utils._debug_mode import DebugMode
    except ImportError:
        raise Skip("DebugMode is missing") from None
    net = nn.Linear(3, 2)
    with DebugMode() as mode:
        net(torch.ones(2, 3)).sum().backward()
    return mode.debug_string(), net.weight.grad


@program
def device_context_and_default_device() -> Any:
    made = []
    with torch.device("meta"):
        made += [torch.ones(2).device.type, nn.Linear(2, 2).weight.device.type, torch.tensor([1.0]).device.type]
    torch.set_default_device("meta")
    made += [torch.rand(3).device.type, torch.empty_like(torch.ones(2, device="cpu")).device.type]
    torch.set_default_device(None)
    with torch.device("cpu"):
        made.append(torch.arange(3).device.type)
    return made, torch.rand(2)


@program
def set_default_device_left_on_after() -> Any:
    torch.set_default_device("cpu")
    yield
    x = torch.ones(2)
    torch.set_default_device("meta")
    y = torch.ones(2)
    yield
    z = torch.ones(2)
    torch.set_default_device(None)
    return [t.device.type for t in (x, y, z)], torch.ones(2)


@program
def mode_shared_by_two_threads() -> Any:
    import threading

    log: list[str] = []
    mode = FunctionLog("", log)

    def work() -> None:
        torch.sin(torch.ones(1))
        with mode:
            torch.cos(torch.ones(1))

    with mode:
        torch.tan(torch.ones(1))
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        torch.exp(torch.ones(1))
    return log
