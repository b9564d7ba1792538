"""What a program can tell a capture by: the place of a warning, a function of its own in the place of one of torch's, a
subclass that is asked, memory that stays."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
import threading
import warnings
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

import trueline
from tests.capture.test_unchanged import WAYS, observed
from trueline.frameworks.torch.calls import fast_calls
from trueline.frameworks.torch.tensors import likeness
from trueline.frameworks.torch.unseen import Unseen
from trueline.frameworks.torch.warned import WarningsInPlace

EVERY_WAY = pytest.mark.parametrize("way", WAYS)


@EVERY_WAY
def test_a_warning_is_of_the_line_of_the_program(way: str, tmp_path: Path) -> None:
    if fast_calls() is None:
        pytest.skip("without the C extension a call is made from a frame of ours")
    with observed(WAYS[way], tmp_path / "run"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.ones(1).std()
    assert [Path(item.filename).name for item in caught] == ["test_as_without.py"]


class Old(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        warnings.warn("at the call of the module", stacklevel=3)
        return torch.nn.functional.softmax(x)


@EVERY_WAY
def test_a_warning_that_counts_frames_is_of_the_same_line(way: str, tmp_path: Path) -> None:
    def places() -> list[tuple[str, int]]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            Old()(torch.ones(2, 2))
            torch.nn.functional.mse_loss(torch.ones(2), torch.ones(2, 1))
            torch.nn.Sequential(Old())(torch.ones(2))
        return [(item.filename, item.lineno) for item in caught]

    own, bare = warnings.warn, places()
    with observed(WAYS[way], tmp_path / "run"):
        assert places() == bare
    assert len(bare) == 5 and warnings.warn is own


def test_two_observers_that_cross_leave_no_cover() -> None:
    own, first, second = warnings.warn, WarningsInPlace(), WarningsInPlace()
    first.on()
    second.on()
    first.off()
    first.off()
    assert warnings.warn is not own
    second.off()
    assert warnings.warn is own


@EVERY_WAY
@pytest.mark.parametrize("before", [False, True])
def test_a_function_in_the_place_of_one_of_torchs_is_called_once(
    way: str, before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = torch.nn.functional.silu
    calls = []

    def doubled(x: torch.Tensor, inplace: bool = False) -> torch.Tensor:
        calls.append(x)
        return original(x, inplace) * 2

    with monkeypatch.context() as patch:
        if before:
            patch.setattr(torch.nn.functional, "silu", doubled)
        with observed(WAYS[way], tmp_path / "run"):
            patch.setattr(torch.nn.functional, "silu", doubled)
            result = torch.nn.SiLU()(torch.ones(2))
    assert len(calls) == 1 and torch.equal(result, original(torch.ones(2)) * 2)


@EVERY_WAY
def test_a_method_in_the_place_of_one_of_torchs_is_called_once(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, calls = torch.Tensor.backward, []

    def backward(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        calls.append(self)
        return original(self, *args, **kwargs)

    x = torch.ones(3, requires_grad=True)
    with observed(WAYS[way], tmp_path / "run"), monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "backward", backward)
        (x * 2).sum().backward()
    assert len(calls) == 1 and torch.equal(x.grad, torch.full((3,), 2.0))


class Told(TorchFunctionMode):
    """Is told of every function."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[Any] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.log.append(func)
        return func(*args, **(kwargs or {}))


class Kernels(TorchDispatchMode):
    """Is told of every kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.log.append(func)
        return func(*args, **(kwargs or {}))


BORDERS = """
import sys, torch
from pathlib import Path
from tests.capture.test_as_without import Kernels, Told
from tests.capture.test_unchanged import WAYS, observed

with Told() as told, Kernels() as kernels:
    with observed(WAYS[sys.argv[1]], Path(sys.argv[2])):
        pass
print(told.log, kernels.log)
"""


@pytest.mark.parametrize("way", ["api", "watch"])
def test_modes_of_the_program_see_nothing_of_how_an_observer_begins_and_ends(way: str, tmp_path: Path) -> None:
    """In a process of its own: what is tried out once is tried out then."""
    found = subprocess.run([sys.executable, "-c", BORDERS, way, str(tmp_path / "run")], capture_output=True, text=True)
    assert found.stdout == "[] []\n", found.stderr


@pytest.mark.parametrize("later", ["api", "kernel", "watch"])
def test_observers_that_cross_leave_nothing(later: str, tmp_path: Path) -> None:
    before = left_behind()
    with contextlib.ExitStack() as second:
        with observed(WAYS["api"], tmp_path / "first"):
            second.enter_context(observed(WAYS[later], tmp_path / "second"))
            inside = Doubled.apply(torch.ones(2))
        after = Doubled.apply(torch.ones(2)), torch.nn.ReLU()(torch.ones(2))
    assert torch.equal(inside, after[0]) and torch.equal(after[1], torch.ones(2))
    assert left_behind() == before


def left_behind() -> dict[str, Any]:
    """What two observers exchange: the code of functions, names laid over others."""
    functions: list[Any] = [torch.nn.Module._call_impl, torch.autograd.Function.apply.__func__]  # type: ignore[attr-defined]
    functions += [threading.Thread._bootstrap_inner, torch.overrides.handle_torch_function]  # type: ignore[attr-defined]
    found: dict[str, Any] = {one.__name__: (one.__code__, one.__defaults__, one.__kwdefaults__) for one in functions}
    found["scripted"] = vars(torch._C.ScriptFunction)["__call__"]
    found["asks"] = torch.overrides.has_torch_function
    found["covered"] = sorted(vars(torch.Tensor))
    found["registers"] = "_register_hook" in vars(torch.autograd.Function)
    return found


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def test_what_was_called_then_is_torchs_own(calls: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    original = torch.nn.functional.silu

    def program() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(torch.nn.functional, "silu", lambda x, inplace=False: original(x, inplace) * 2)
            torch.nn.SiLU()(torch.ones(2))

    assert [call.api for call in calls(program)] == ["torch.ones", "torch.nn.functional.silu", "torch.Tensor.mul"]


class Counting(torch.Tensor):
    """Tells which of its attributes are read."""

    seen: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("__"):
            Counting.seen.append(name)
        return super().__getattribute__(name)


@EVERY_WAY
def test_a_subclass_is_asked_for_nothing(way: str, tmp_path: Path) -> None:
    x = torch.ones(2, 2, requires_grad=True).as_subclass(Counting)
    with observed(WAYS[way], tmp_path / "run"):
        Counting.seen.clear()
        torch.nn.Identity()(torch.exp(x))
        torch.Tensor.mul_(x.detach(), 2)
    assert Counting.seen == ["detach"]


class Wrapper(torch.Tensor):
    """Holds another tensor and has no memory of its own; tells which kernels it is asked for."""

    inner: torch.Tensor
    seen: list[str] = []
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapper:
        self: Wrapper = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, strides=inner.stride())
        self.inner = inner
        return self

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen.append(str(function))
        plain = tree_map(lambda x: x.inner if isinstance(x, Wrapper) else x, (args, kwargs or {}))
        return tree_map(lambda x: Wrapper(x) if isinstance(x, torch.Tensor) else x, function(*plain[0], **plain[1]))


@EVERY_WAY
def test_a_gradient_that_answers_kernels_is_not_copied(way: str, tmp_path: Path) -> None:
    def program() -> list[str]:
        net = torch.nn.Linear(3, 2)
        net.weight = torch.nn.Parameter(Wrapper(net.weight.detach().clone()))
        Wrapper.seen.clear()
        net(torch.ones(2, 3)).sum().backward()
        return Wrapper.seen[:]

    bare = program()
    with observed(WAYS[way], tmp_path / "run"):
        assert program() == bare


def test_what_stands_for_an_empty_shell_says_the_same() -> None:
    whole = Wrapper(torch.ones(2, 3, dtype=torch.float64))
    Wrapper.seen.clear()
    with Unseen():
        other = likeness(whole)
    assert other is not whole and type(other) is Wrapper
    assert (other.shape, other.dtype, other.device) == (whole.shape, whole.dtype, whole.device)
    assert Wrapper.seen == []


@pytest.mark.parametrize("level", ["api", "kernel"])
def test_a_thread_that_outlives_the_capture_leaves_nothing(level: str, tmp_path: Path) -> None:
    running, released = threading.Event(), threading.Event()
    made: list[Any] = []

    class Waits(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            running.set()
            assert released.wait(10)
            return x * 2

    def work() -> None:
        made.append(weakref.ref(Waits.apply(torch.ones(1733)).untyped_storage()))
        made.append(weakref.ref(torch.nn.Linear(2, 1741)(torch.ones(1, 2)).untyped_storage()))

    with trueline.capture(tmp_path / "run", level=level, data="tensors") as one:
        thread = threading.Thread(target=work)
        thread.start()
        assert running.wait(10)
    released.set()
    thread.join()
    shapes = (1733,), (1, 1741)
    held = [item for item in gc.get_objects() if type(item) is torch.Tensor and tuple(item.shape) in shapes]
    assert len(made) == 2 and not held
    del one


@torch.library.custom_op("trueline_tests::fill_with", mutates_args={"out"})
def fill_with(x: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(x * 2)


def versions() -> list[int]:
    """The version counters of what several kernels have written into."""
    out, parameter = torch.zeros(3), torch.nn.Parameter(torch.ones(3))
    fill_with(torch.ones(3), out)
    torch._foreach_add_([out, out.view(3)], 1)
    torch.add(out, 1, out=out)
    out.add_(1).view(3).fill_(2)
    parameter.grad = torch.ones(3)
    for options in ({"foreach": True}, {"fused": True}, {"foreach": False}):
        torch.optim.Adam([parameter], **options).step()  # type: ignore[arg-type]
    return [out._version, parameter._version]


@EVERY_WAY
def test_version_counters_move_as_without(way: str, tmp_path: Path) -> None:
    bare = versions()
    with observed(WAYS[way], tmp_path / "run"):
        seen = versions()
    assert seen == bare and min(bare) > 1


def test_what_kernels_of_many_tensors_wrote_is_noticed_at_kernel_level(tmp_path: Path) -> None:
    """Autograd refuses a backward through a tensor that was changed since, by its version."""
    x = torch.ones(3, requires_grad=True)
    with trueline.capture(tmp_path / "run", level="kernel"):
        saved = x.exp()
        loss = saved.sum()
        with torch.no_grad():
            torch._foreach_mul_([saved], 2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def profiled() -> list[str]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.GELU(), torch.nn.Linear(4, 1))
    with torch.autograd.profiler.profile() as seen:
        model(torch.randn(6, 3)).sum().backward()
    return sorted(event.name for event in seen.function_events)


@pytest.mark.parametrize("way", [{}, {"level": "module"}, {"data": "digest"}, {"watch": True}])
def test_a_profiler_sees_what_it_would_see(way: dict[str, Any], tmp_path: Path) -> None:
    bare = profiled()
    with observed(way, tmp_path / "run"):
        seen = profiled()
    assert seen == bare and any(name.endswith("Backward0") for name in bare)
