"""Calls made ready for timing with Paddle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("paddle")

from trueline.cases import Case, Status, Target, TensorSpec
from trueline.frameworks.base import ArrayIn, Inputs
from trueline.frameworks.timing import CallFailed, timer
from trueline.profiles import Footprint
from trueline.records import Phase

SIZE = 64 * 1024 * 4


@pytest.fixture(scope="module")
def clock() -> Any:
    return timer(Target("paddle", "cpu"))


def ready(clock: Any, api: str, *shapes: tuple[int, ...], gradient: bool = True, **kwargs: Any) -> Any:
    """A call of tensors of these shapes."""
    specs = tuple(
        TensorSpec(f"args.{place}", "float32", shape, requires_grad=gradient) for place, shape in enumerate(shapes)
    )
    generator = np.random.default_rng(0)
    tensors = {spec.path: ArrayIn(generator.random(spec.shape, dtype=np.float32), "float32") for spec in specs}
    tree = {"args": [{"$t": place} for place in range(len(shapes))], "kwargs": kwargs}

    def draw(path: str, shape: tuple[int, ...], dtype: str) -> ArrayIn:
        return ArrayIn(np.ones(shape, dtype=np.float32), "float32")

    return clock.prepare(Case(api, tree, specs, backward=gradient, seed=3), Inputs(tensors, draw=draw))


def test_forward_and_backward_take_time_and_memory(clock: Any) -> None:
    one = ready(clock, "paddle.nn.functional.gelu", (64, 1024))
    assert one.phases == (Phase.FORWARD, Phase.BACKWARD)
    for phase in one.phases:
        assert one.lap(phase, 3).seconds > 0
        footprint = one.memory(phase)
        assert SIZE <= footprint.retained <= footprint.peak <= 2.1 * SIZE


def test_what_is_freed_before_it_returns_is_in_its_peak(clock: Any) -> None:
    footprint = ready(clock, "paddle.nn.functional.mse_loss", (64, 1024), (64, 1024)).memory(Phase.FORWARD)
    assert footprint.peak >= SIZE


def test_a_view_takes_no_memory(clock: Any) -> None:
    one = ready(clock, "paddle.reshape", (64, 1024), gradient=False, shape=[1024, 64])
    assert one.memory(Phase.FORWARD) == Footprint(0, 0)


def test_a_call_in_place_is_restored(clock: Any) -> None:
    one = ready(clock, "paddle.Tensor.scale_", (1000,), gradient=False, scale=1e-20)
    assert "restored" in one.notes[0]
    one.lap(Phase.FORWARD, 4)
    assert float(one._sets[0].given["args.0"].max()) > 0  # four times in a row would have left nothing but zeros


def test_what_raises_is_an_outcome(clock: Any) -> None:
    with pytest.raises(CallFailed) as failed:
        ready(clock, "paddle.matmul", (2, 3), (2, 3))
    assert failed.value.outcome.status is Status.RAISED


def test_the_roofline_is_measured(clock: Any) -> None:
    line = clock.roofline(["float32"])
    assert 1e8 < line.flops["float32"] < 1e14 and 1e8 < line.bandwidth < 1e13
