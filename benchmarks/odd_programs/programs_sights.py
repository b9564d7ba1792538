"""What a program sees of itself while it runs: profilers, counters, depth, code that others exchange, its own files."""

from __future__ import annotations

import functools
import gc
import inspect
import io
import sys
import threading
import tracemalloc
import unittest.mock
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.odd_programs.registry import program


def _train(steps: int = 2) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.GELU(), nn.Linear(4, 1))
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(6, 3)).square().mean().backward()
        optimizer.step()
    return model, optimizer


@program
def profiler_sees_the_operators_of_a_step() -> Any:
    from torch.profiler import ProfilerActivity, profile

    model, _ = _train(0)
    with profile(activities=[ProfilerActivity.CPU]) as record:
        model(torch.randn(6, 3)).sum().backward()
    names = sorted((one.key, one.count) for one in record.key_averages() if one.key.startswith("aten::"))
    return names


@program
def profiler_of_autograd_sees_one_call() -> Any:
    x = torch.randn(4, 4, requires_grad=True)
    with torch.autograd.profiler.profile() as record:
        y = torch.mm(x, x)
    return y, [(one.name, len(one.cpu_children)) for one in record.function_events]


@program
def profiler_counts_writing_in_place() -> Any:
    from torch.profiler import ProfilerActivity, profile

    x = torch.zeros(4)
    with profile(activities=[ProfilerActivity.CPU]) as record:
        for _ in range(3):
            x.add_(1).mul_(2)
        x[1] = 5.0
    return x, sorted((one.key, one.count) for one in record.key_averages())


@program
def threads_are_named_and_counted() -> Any:
    before = threading.active_count()
    worker = threading.Thread(target=lambda: torch.ones(2).sum(), name="of the program")
    worker.start()
    worker.join()
    names = sorted(thread.name for thread in threading.enumerate() if thread is not threading.main_thread())
    return before, threading.active_count(), names


@program
def numbers_of_new_threads_go_up() -> Any:
    names = []
    for _ in range(3):
        thread = threading.Thread(target=torch.ones(2).sum)
        names.append(thread.name.partition(" ")[0])
        thread.start()
        thread.join()
    return [int(name.rpartition("-")[2]) - int(names[0].rpartition("-")[2]) for name in names]


@program
def versions_of_what_batch_norm_writes() -> Any:
    layer = nn.BatchNorm1d(3)
    versions = []
    for _ in range(2):
        layer(torch.randn(4, 3)).sum().backward()
        versions.append([buffer._version for buffer in layer.buffers()])
    return versions, [buffer.clone() for buffer in layer.buffers()]


@program
def versions_of_parameters_and_their_states() -> Any:
    model, optimizer = _train(3)
    parameters = [parameter._version for parameter in model.parameters()]
    states = [
        {name: value._version for name, value in state.items() if isinstance(value, torch.Tensor)}
        for state in optimizer.state.values()
    ]
    return parameters, states


@program
def versions_of_what_operators_write_into() -> Any:
    out, running = torch.empty(3), torch.zeros(3)
    torch.add(torch.ones(3), 1, out=out)
    torch.ops.aten.add_(running, torch.ones(3))
    running.copy_(out)
    view = running[1:]
    view.fill_(3)
    torch._foreach_add_([out, running], 1)
    return out._version, running._version, view._version, out, running


@program
def versions_under_a_batch_norm_without_gradients() -> Any:
    layer, x = nn.BatchNorm1d(2, affine=False), torch.randn(4, 2)
    with torch.no_grad():
        layer(x)
        functional = torch.nn.functional.batch_norm(x, layer.running_mean, layer.running_var, training=True)
    return functional, layer.running_mean._version, layer.running_var._version  # type: ignore[union-attr]


@program
def nest_of_modules_as_deep_as_python_allows() -> Any:
    class Deep(nn.Module):
        def __init__(self, inner: nn.Module | None) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1 if self.inner is None else self.inner(x)

    depth = (sys.getrecursionlimit() - len(inspect.stack()) - 60) // 4
    model: nn.Module | None = None
    for _ in range(depth):
        model = Deep(model)
    assert model is not None
    return model.forward(torch.zeros(1))


@program
def recursion_of_calls_near_the_limit() -> Any:
    def down(x: torch.Tensor, left: int) -> torch.Tensor:
        return torch.neg(x) if left == 0 else down(torch.neg(x), left - 1)

    return down(torch.ones(1), sys.getrecursionlimit() - len(inspect.stack()) - 40)


@program
def recursion_through_python_kernels() -> Any:
    class Counting(TorchDispatchMode):
        def __init__(self, left: int) -> None:
            super().__init__()
            self.left = left

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if self.left:
                self.left -= 1
                with self:
                    return func(*args, **(kwargs or {}))
            return func(*args, **(kwargs or {}))

    mode = Counting(30)
    with mode:
        x = torch.ones(2) + 1
    return x, mode.left


@program
def sparse_tensors_say_whether_they_are_coalesced() -> Any:
    found = torch.sparse_coo_tensor(torch.tensor([[0, 1, 1]]), torch.tensor([1.0, 2.0, 3.0]), (3,))
    states = [found.is_coalesced()]
    product = found * 2
    states.append(product.is_coalesced())
    together = product + found
    states += [together.is_coalesced(), together.coalesce().is_coalesced(), found.is_coalesced()]
    return states, found._nnz(), together._nnz(), together.coalesce().values()


@program
def sparse_matrix_times_dense_and_its_gradient() -> Any:
    indices = torch.tensor([[0, 1, 1], [2, 0, 0]])
    values = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    matrix = torch.sparse_coo_tensor(indices, values, (2, 3))
    dense = torch.ones(3, 2, requires_grad=True)
    out = torch.sparse.mm(matrix, dense)
    out.sum().backward()
    return out, values.grad, dense.grad, matrix.is_coalesced()


@program
def subclass_that_dispatches_again_inside_itself() -> Any:
    class Twice(torch.Tensor):
        elem: torch.Tensor
        __torch_function__ = torch._C._disabled_torch_function_impl

        @staticmethod
        def __new__(cls: Any, elem: torch.Tensor) -> Any:
            made = torch.Tensor._make_wrapper_subclass(cls, elem.shape, dtype=elem.dtype)
            made.elem = elem
            return made

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            log.append(str(func))
            plain = [one.elem if isinstance(one, cls) else one for one in args]
            out = func(*plain, **(kwargs or {}))
            checked = torch.isfinite(out).all() if isinstance(out, torch.Tensor) and out.is_floating_point() else None
            return cls(out) if checked else out

    log: list[str] = []
    x = Twice(torch.ones(3))
    y = (x + 1) * 2
    return y.elem, log


@program
def checkpoint_saved_and_read_between_steps() -> Any:
    model, optimizer = _train(1)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    again = torch.load(file, weights_only=True)
    model.load_state_dict(again["model"])
    optimizer.load_state_dict(again["optimizer"])
    model(torch.randn(6, 3)).sum().backward()
    optimizer.step()
    return list(model.parameters()), len(file.getvalue()) > 0


@program
def tensors_are_pickled_and_mapped() -> Any:
    import pickle
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        torch.save({"x": torch.arange(6.0), "y": torch.ones(2, dtype=torch.bfloat16)}, file.name)
        mapped = torch.load(file.name, mmap=True, weights_only=True)
        total = mapped["x"].sum() + mapped["y"].sum()
    return total, pickle.loads(pickle.dumps(torch.eye(2)))


@program
def mocked_functions_are_called_as_asked() -> Any:
    with unittest.mock.patch("torch.nn.functional.linear", wraps=torch.nn.functional.linear) as linear:
        out = nn.Linear(2, 2)(torch.ones(1, 2))
    with unittest.mock.patch.object(torch.Tensor, "sum", autospec=True) as total:
        total.return_value = torch.tensor(7.0)
        found = torch.ones(3).sum()
    return out, linear.call_count, len(linear.call_args.args), found, total.call_count


@program
def patch_of_an_operator_made_inside_stays() -> Any:
    own = torch.nn.functional.gelu
    calls: list[int] = []

    @functools.wraps(own)
    def gelu(*args: Any, **kwargs: Any) -> torch.Tensor:
        calls.append(len(args))
        return own(*args, **kwargs)

    yield
    torch.nn.functional.gelu = gelu
    first = nn.GELU()(torch.ones(2))
    yield
    second = nn.GELU()(torch.ones(2))
    kept = torch.nn.functional.gelu is gelu
    torch.nn.functional.gelu = own
    return first, second, calls, kept


@program
def code_of_a_function_exchanged_by_the_program() -> Any:
    def other(x: torch.Tensor) -> torch.Tensor:
        return x * 10

    def mine(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    first = mine(torch.ones(2))
    mine.__code__ = other.__code__
    return first, mine(torch.ones(2)), mine.__name__


@program
def code_of_torchs_own_exchanged_inside_and_kept() -> Any:
    target = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]
    yield
    own, ran = target.__code__, []

    def _bootstrap_inner(self: Any) -> None:
        self._started.set()
        ran.append(type(self).__name__)

    target.__code__ = _bootstrap_inner.__code__.replace(co_freevars=own.co_freevars) if own.co_freevars else own
    same = target.__code__ is own
    yield
    return same, ran


@program
def memory_traced_by_python() -> Any:
    tracemalloc.start()
    x = torch.ones(10)
    for _ in range(3):
        x = x * 2
    traced = tracemalloc.is_tracing()
    tracemalloc.stop()
    return x, traced


@program
def objects_known_to_the_collector() -> Any:
    gc.collect()
    before = sum(type(item) is torch.Tensor for item in gc.get_objects())
    x = torch.ones(3)
    y = [torch.exp(x) for _ in range(4)]
    after = sum(type(item) is torch.Tensor for item in gc.get_objects())
    del y
    gc.collect()
    last = sum(type(item) is torch.Tensor for item in gc.get_objects())
    return after - before, last - before
