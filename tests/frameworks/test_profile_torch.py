"""Calls made ready for timing with torch: what is run, what is put right between runs, what memory it took."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.helpers.executing import case_of  # noqa: E402
from trueline.cases import Status, Target  # noqa: E402
from trueline.frameworks.base import CannotExecute  # noqa: E402
from trueline.frameworks.timing import CallFailed, timer  # noqa: E402
from trueline.frameworks.timing_prepared import HostClock  # noqa: E402
from trueline.frameworks.torch.timing_memory import held_bytes  # noqa: E402
from trueline.profiles import Footprint  # noqa: E402
from trueline.records import Phase  # noqa: E402

SIZE = 64 * 1024 * 4


@pytest.fixture(scope="module")
def clock() -> Any:
    return timer(Target("torch", "cpu"))


def ready(clock: Any, api: str, *args: Any, **kwargs: Any) -> Any:
    return clock.prepare(*case_of(api, *args, **kwargs))


def leaf(*shape: int) -> Any:
    return torch.randn(*shape, requires_grad=True)


def test_forward_and_backward_take_time_and_memory(clock: Any) -> None:
    one = ready(clock, "torch.nn.functional.gelu", leaf(64, 1024))
    assert one.phases == (Phase.FORWARD, Phase.BACKWARD)
    assert [(output.path, output.shape, output.shared) for output in one.outputs] == [("out", (64, 1024), False)]
    for phase in one.phases:
        lap = one.lap(phase, 3)
        assert lap.seconds > 0 and lap.launch is None and lap.calls == 3
        assert one.memory(phase) == Footprint(SIZE, SIZE)


def test_what_a_call_frees_before_it_returns_is_in_its_peak(clock: Any) -> None:
    found = ready(clock, "torch.nn.functional.mse_loss", leaf(64, 1024), torch.randn(64, 1024)).memory(Phase.FORWARD)
    assert found.peak >= SIZE + 4 and found.retained <= found.peak - 4


def test_a_view_takes_no_memory(clock: Any) -> None:
    one = ready(clock, "torch.Tensor.transpose", leaf(64, 1024), 0, 1)
    assert one.memory(Phase.FORWARD) == Footprint(0, 0) and one.outputs[0].shared


def test_a_call_without_gradients_has_no_backward(clock: Any) -> None:
    assert ready(clock, "torch.argmax", torch.randn(8)).phases == (Phase.FORWARD,)


def test_a_call_in_place_is_given_the_same_numbers_every_time(clock: Any) -> None:
    value = torch.full((1000,), 1e-20)
    one = ready(clock, "torch.Tensor.mul_", value, 1e-10)
    assert "restored" in one.notes[0]
    one.lap(Phase.FORWARD, 5)
    left = one._sets[0].given["args.0"]
    assert torch.equal(left, value * 1e-10)  # five times in a row would have left nothing but zeros
    assert one.memory(Phase.FORWARD).retained == 0


def test_a_call_in_place_has_its_backward(clock: Any) -> None:
    one = ready(clock, "torch.nn.functional.relu", leaf(64, 1024), inplace=True)
    assert one.phases == (Phase.FORWARD, Phase.BACKWARD)
    assert one.lap(Phase.FORWARD, 2).seconds > 0 and one.lap(Phase.BACKWARD, 2).seconds >= 0


def test_starting_the_engine_is_not_part_of_a_backward(clock: Any) -> None:
    start = clock._ground.engine_start
    assert 0 < start < 1e-3
    one = ready(clock, "torch.Tensor.reshape", leaf(4, 4), 16)  # a backward of next to nothing
    assert one.taken_off == start
    best = min(one.lap(Phase.BACKWARD, 100).seconds for _ in range(100))
    assert best < 2 * start + 2e-5  # and not start and more, on a machine that others use too


def test_what_raises_is_an_outcome_and_what_cannot_be_run_a_reason(clock: Any) -> None:
    with pytest.raises(CallFailed) as failed:
        ready(clock, "torch.matmul", torch.zeros(2, 3), torch.zeros(2, 3))
    assert failed.value.outcome.status is Status.RAISED
    with pytest.raises(CannotExecute, match="no operator"):
        ready(clock, "torch.Tensor.backward", torch.zeros(2))


def test_an_override_is_what_is_timed(tmp_path: Path) -> None:
    (tmp_path / "costly.py").write_text("import torch\ndef relu(x):\n    return torch.relu(x.clone())\n")
    overrides = {"torch.relu": f"{tmp_path / 'costly.py'}:relu"}
    mine = timer(Target("torch", "cpu", overrides=overrides))
    one = ready(mine, "torch.relu", leaf(64, 1024))
    assert one.memory(Phase.FORWARD) == Footprint(2 * SIZE, SIZE)
    assert one.memory(Phase.BACKWARD) == Footprint(SIZE, SIZE)  # the copies that we make to watch it do not count


def test_the_roofline_is_measured(clock: Any) -> None:
    line = clock.roofline(["float32", "no_such_dtype"])
    assert 1e8 < line.flops["float32"] < 1e14 and 1e8 < line.bandwidth < 1e13
    assert "no_such_dtype" not in line.flops


def test_the_clock_of_the_host_reads_time_but_not_waiting() -> None:
    clock = HostClock()
    lap = clock.lap(lambda: time.sleep(0.02), 2)
    assert 0.015 < lap.seconds <= lap.wall and lap.calls == 2
    assert clock.lap(lambda: None, 1).seconds < 1e-3
    assert clock.waited() >= 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_device_keeps_its_own_time() -> None:
    one = ready(timer(Target("torch", "cuda")), "torch.matmul", leaf(2048, 2048), leaf(2048, 2048))
    lap = one.lap(Phase.FORWARD, 4)
    assert lap.launch is not None and lap.launch > 0 and lap.seconds > 5e-6
    assert one.memory(Phase.FORWARD) == Footprint(4 * 2048 * 2048, 4 * 2048 * 2048)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_what_was_freed_before_does_not_count_as_memory_of_a_call() -> None:
    """A free block a little larger than what is asked for is handed out whole."""
    one = ready(timer(Target("torch", "cuda")), "torch.relu", leaf(2048, 2048))
    larger = torch.empty(4 * 2048 * 2048 + 300_000, dtype=torch.uint8, device="cuda")
    del larger
    assert one.memory(Phase.FORWARD) == Footprint(4 * 2048 * 2048, 4 * 2048 * 2048)


def test_an_allocator_that_tells_less_is_asked_for_less() -> None:
    class Plain:
        memory_allocated = staticmethod(lambda device: 7)
        max_memory_allocated = staticmethod(lambda device: 9)

    class Exact(Plain):
        memory_stats = staticmethod(lambda device: {"requested_bytes.all.current": 5, "requested_bytes.all.peak": 6})

    device = torch.device("cpu")
    assert held_bytes(Plain, device) == (7, 9)
    assert held_bytes(Exact, device) == (5, 6)
