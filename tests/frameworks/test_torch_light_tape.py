"""Steps on a tape: nothing of them is held, and a bad one is computed again. Tensors in CPU memory stand for those of a
device."""

from __future__ import annotations

import gc
import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from tests.frameworks.test_torch_light import Overflowing, Watching, model_of, train  # noqa: E402
from trueline.frameworks.light import Sink  # noqa: E402
from trueline.frameworks.torch.calls import fast_calls  # noqa: E402
from trueline.frameworks.torch.light import TorchLightWatcher  # noqa: E402
from trueline.frameworks.torch.light_looks import RAW, key_of  # noqa: E402
from trueline.frameworks.torch.light_share import ALERT, Share  # noqa: E402
from trueline.records import Phase  # noqa: E402

SAME = "the step was computed again and gave the same loss"


@pytest.fixture(autouse=True)
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    if fast_calls() is None:
        pytest.skip("the C extension is not built")
    monkeypatch.delattr(torch._C, "_cuda_getCurrentRawStream", raising=False)  # a build for CUDA may find no driver
    start = TorchLightWatcher.start

    def start_later(watcher: TorchLightWatcher) -> None:
        watcher.watch.looks.read_later(torch.zeros(1))
        start(watcher)

    monkeypatch.setattr(TorchLightWatcher, "start", start_later)
    torch.manual_seed(0)


class Asking(Watching):
    """Examines each step before the optimizer changes its parameters."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"budget": 1.0, **options})
        self.found: list[Any] = []

    def __enter__(self) -> Asking:
        super().__enter__()
        from torch.optim import optimizer

        self._hooks.append(optimizer.register_optimizer_step_pre_hook(self._ask))
        return self

    def _ask(self, *unused: Any) -> None:
        self.found.append(self.watcher.examine(self.step))


def examined(model: nn.Module, batch: Any, loss_of: Any = None, **options: Any) -> Any:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Asking(**options) as asking:
        train(model, optimizer, batch, loss_of)
        asking.end_step()
    return asking.found[0]


def test_the_origin_of_a_loss() -> None:
    found = examined(model_of(nn.Linear(8, 8), Overflowing(), nn.Linear(8, 4)), torch.ones(3, 8))
    origin = found.origin
    assert (origin.api, origin.nth, origin.module, origin.phase) == ("torch.exp", 0, "1", Phase.FORWARD)
    assert origin.stack[0].function == "forward" and "test_torch_light.py" in origin.stack[0].file
    values = np.frombuffer(origin.inputs[0].content(), np.float32)
    assert np.isfinite(values).all() and values.max() > 89
    assert found.note == SAME and found.missed == 0


def test_the_origin_of_a_gradient() -> None:
    class Root(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.sqrt(x * 0.0)

    origin = examined(model_of(nn.Linear(8, 8), Root(), nn.Linear(8, 4)), torch.ones(3, 8)).origin
    assert (origin.api, origin.phase, origin.module) == ("torch.sqrt", Phase.BACKWARD, "1")


def test_random_numbers_running_statistics_and_autocast_are_as_they_were() -> None:
    model = model_of(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Asking() as asking:
        for _ in range(3):
            with torch.autocast("cpu", torch.bfloat16):
                train(model, optimizer, torch.randn(6, 8), lambda out: out.float().square().mean())
            asking.end_step()
    assert [found.note for found in asking.found] == [SAME] * 3
    assert all(found.origin is None and found.missed == 0 for found in asking.found)


def ends(ask: bool) -> list[Any]:
    torch.manual_seed(3)
    model = model_of(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(8, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    cache = torch.zeros(8)

    def run(after: Any) -> None:
        for _ in range(4):
            optimizer.zero_grad(set_to_none=False)
            out = model(torch.randn(6, 8))
            cache.mul_(0.9).add_(out.detach().sum())
            (out.square().mean() + cache.sum() * 0).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            after()

    if ask:
        with Asking() as asking:
            run(asking.end_step)
        assert [found.note for found in asking.found] == [SAME] * 4
    else:
        run(lambda: None)
    left = [*model.parameters(), *model.buffers(), cache, torch.randn(3)]
    grads = [one.grad.numpy().tobytes() for one in model.parameters() if one.grad is not None]
    return [one.detach().numpy().tobytes() for one in left] + grads


def test_playing_a_step_changes_nothing() -> None:
    assert ends(ask=True) == ends(ask=False)


def test_nothing_of_what_a_step_makes_is_held() -> None:
    left: list[int] = []
    with Watching(budget=1.0, tape_rotation=1 << 20) as watching:
        watching.watcher._turns = 1  # nothing has its turn
        watching.watcher._begin_tape()
        value = torch.ones(1000, requires_grad=True)
        for _ in range(20):
            value = torch.sin(value * 2.0)
            left.append(value.untyped_storage()._weak_ref())
        value.sum().backward()
        del value
        gone = [torch.UntypedStorage._expired(reference) for reference in left]
        watching.end_step()
    for reference in left:
        torch.UntypedStorage._free_weak_ref(reference)
    assert all(gone)


def test_steps_leave_nothing_behind() -> None:
    model = model_of(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    counts = []
    with Watching() as watching:
        for step in range(2000):
            train(model, optimizer, torch.ones(2, 4))
            watching.end_step()
            watching.watcher.forget(step)
            watching.looks.clear()
            if step in (500, 1999):
                gc.collect()
                counts.append(len(gc.get_objects()))
        assert len(watching.watcher._steps) <= 2 and watching.watcher.watch.entries == []
    assert counts[1] <= counts[0] + 50


def test_a_step_that_is_left_out_says_so_and_the_next_are_not() -> None:
    model = model_of(nn.Linear(8, 8, bias=False), Overflowing(), nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with Asking(budget=0.03) as asking:
        asking.watcher._share.every = 100
        asking.watcher._share.ended = lambda *unused: None  # type: ignore[method-assign]
        for batch in (torch.zeros(3, 8), torch.ones(3, 8), torch.ones(3, 8)):
            train(model, optimizer, batch)
            asking.end_step()
    _, second, third = asking.found
    assert not second.calls and second.note.startswith("it was not recorded: one step in 100 is")
    assert third.calls and third.note == SAME
    kinds = [row["sink"] for looks in asking.looks if looks.step == 1 and looks.bad for row in looks.looks]
    assert Sink.LOSS in kinds and Sink.GRADIENT in kinds


def test_what_cannot_be_computed_again_is_held() -> None:
    class Twice(torch.autograd.Function):
        calls = 0

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            Twice.calls += 1
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient * 2

    class Custom(nn.Module):
        def forward(self, x: Any) -> Any:
            return Twice.apply(x)

    model = model_of(nn.Linear(8, 8, bias=False), Custom(), Overflowing(), nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Asking() as asking:
        for batch in (torch.zeros(3, 8), torch.ones(3, 8)):
            train(model, optimizer, batch)
            asking.end_step()
        assert not asking.watcher.watch.taping
    first, second = asking.found
    assert Twice.calls == 2, "it was not called once more"
    assert first.origin is None and first.note
    assert second.origin is not None and second.origin.api == "torch.exp" and not second.note


def test_modes_of_the_program() -> None:
    with torch.device("meta"), Watching(budget=1.0) as watching:
        assert watching.watcher.watch.taping and watching.watcher._tape.device == torch.device("meta")

    class Own(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    with Own(), Watching(budget=1.0) as watching:
        assert not watching.watcher.watch.taping


def test_views_properties_and_several_gradients() -> None:
    class Odd(nn.Module):
        def forward(self, x: Any) -> Any:
            left, right = x.chunk(2, dim=1)
            left = left.T.contiguous().T
            (slope,) = torch.autograd.grad(functional.softplus(right).sum(), right, create_graph=True)
            right = right.data.exp() + slope
            made = torch.empty_like(left)
            made.copy_(left * 3.0)
            made[0] = 1.0
            return torch.cat([made, right, left.view(-1, 4).real], dim=1)

    found = examined(model_of(nn.Linear(8, 8), Odd(), nn.Linear(12, 4)), torch.ones(3, 8))
    assert found.note == SAME and found.missed == 0 and found.origin is None


def test_numbers_of_a_generator_of_the_program_are_held() -> None:
    generator = torch.Generator().manual_seed(1)

    class Noisy(nn.Module):
        def forward(self, x: Any) -> Any:
            return x + torch.rand(x.shape, generator=generator)

    found = examined(model_of(nn.Linear(8, 8), Noisy(), nn.Linear(8, 4)), torch.ones(3, 8))
    assert found.note == SAME and found.missed == 0


def rows(largest: float, nan: int = 0) -> Any:
    found = np.zeros(1, RAW)
    found["call"], found["key"] = -1, key_of(0, 3, 1, 0, Sink.GRADIENT)
    found["largest"], found["nan"], found["count"] = largest, nan, 4
    return found


def test_a_share_of_the_steps() -> None:
    share = Share(0.03)
    assert share.wants_next()
    for _ in range(5):
        share.ended(calls=1000, spent=10_000_000, seconds=0.11)  # 10 ms of 100
    assert share.every == 4
    assert [share.wants_next() for _ in range(8)] == [False, False, False, True] * 2
    for _ in range(10):
        share.hear(rows(1.0))
    share.hear(rows(100.0))
    assert all(share.wants_next() for _ in range(ALERT)), "numbers grow"
    assert not share.wants_next()
    share.hear(rows(1.0, nan=1))
    assert share.wants_next() and not math.isnan(share._usual)
