"""What every test of capture shares: a place for Runs, and a look at what a capture left behind."""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.nn.modules import module as torch_modules  # noqa: E402 - only where torch is
from torch.optim import optimizer as torch_optimizers  # noqa: E402

import trueline  # noqa: E402
from trueline.records import Call  # noqa: E402
from trueline.store import RankReader, open_run  # noqa: E402


def apply_now() -> Any:
    """What makes ``apply`` of custom functions do what it does; it is a builtin since torch 2.15."""
    apply = vars(torch.autograd.Function)["apply"]
    return apply.__func__.__code__ if isinstance(apply, classmethod) else apply


def _codes() -> dict[str, Any]:
    """The code of every function that a capture is known to splice, and of all of torch.distributed, which it might."""
    collectives = vars(torch.distributed.distributed_c10d)
    found = {name: item.__code__ for name, item in collectives.items() if type(item) is types.FunctionType}
    return {**found, "autograd.Function.apply": apply_now(), "Thread": threading.Thread._bootstrap_inner.__code__}


def hooks_left() -> list[str]:
    """The names of torch's global hook tables that are not empty."""
    tables = {
        f"{module.__name__}.{name}": table
        for module in (torch_modules, torch_optimizers)
        for name, table in vars(module).items()
        if name.startswith("_global_") and isinstance(table, dict)
    }
    assert len(tables) >= 8, "torch has renamed its global hooks: look for them anew"
    return [name for name, table in tables.items() if table]


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """The models are small: more threads would only wait for each other."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """No test may leave a mode, a hook, a splice or a thread of ours."""
    before = _codes()
    yield
    assert torch._C._len_torch_function_stack() == 0
    assert torch._C._len_torch_dispatch_stack() == 0
    assert hooks_left() == []
    after = _codes()
    assert [name for name in before if after[name] is not before[name]] == []
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("trueline")] == []


@pytest.fixture
def captured(tmp_path: Path) -> Callable[..., RankReader]:
    """``captured(function, **options)`` records a function and gives what was recorded of it."""
    numbers = iter(range(1000))

    def run(function: Callable[[], Any], **options: Any) -> RankReader:
        path = tmp_path / f"run{next(numbers)}"
        with trueline.capture(path, **options):
            function()
        reader = open_run(path).rank(0)
        faults = [reason for reason in reader.certificate.not_recorded if "internal fault" in reason]
        assert not faults, faults
        return reader

    return run


@pytest.fixture
def calls(captured: Callable[..., RankReader]) -> Callable[..., list[Call]]:
    """Like ``captured``, giving the calls alone."""
    return lambda function, **options: list(captured(function, **options).trace())
