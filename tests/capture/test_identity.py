"""The observer does not change the observed: the same bits with capture on and off, and nothing stays behind."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path

import pytest
import torch

import trueline
from tests.capture.conftest import apply_now
from tests.helpers.models import THREE_MODELS, Trained, train

LEVELS = ("api", "module", "kernel", "api+module")
DATA = ("structure", "stats", "digest", "tensors")


@cache
def bare(name: str) -> Trained:
    return train(name)


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", THREE_MODELS)
def test_loss_gradients_and_parameters_keep_their_bits(name: str, level: str, data: str, tmp_path: Path) -> None:
    capture = trueline.capture(tmp_path / "run", level=level, data=data)
    assert bare(name).differences(train(name, capture)) == []
    assert capture.certificate is not None and capture.certificate.complete
    assert capture.certificate.not_recorded == {}
    wanted = {f"{one} forward" for one in level.split("+")} | {f"{one} backward" for one in level.split("+")}
    assert wanted == set(capture.certificate.calls)


@pytest.mark.parametrize("data", ["stats", "tensors"])
def test_an_optimizer_that_loops_over_its_parameters(data: str, tmp_path: Path) -> None:
    capture = trueline.capture(tmp_path / "run", data=data, witness=True)
    assert bare("transformer-loop").differences(train("transformer-loop", capture)) == []
    assert capture.certificate is not None and capture.certificate.kernels_outside == {}


def test_the_comparison_can_fail() -> None:
    """One bit of one gradient is enough to be noticed."""
    first, second = train("mixed", steps=1), train("mixed", steps=1)
    assert first.differences(second) == []
    second.gradients[0]["matrix"].view(torch.int32)[0, 0] ^= 1
    assert first.differences(second) == ["gradient of matrix in step 0"]


def test_random_numbers_drawn_under_capture_are_the_same(tmp_path: Path) -> None:
    torch.manual_seed(3)
    expected = [torch.rand(5), torch.randn(5), torch.randperm(9), torch.nn.functional.dropout(torch.ones(50))]
    state = torch.get_rng_state()
    torch.manual_seed(3)
    with trueline.capture(tmp_path / "run", data="tensors"):
        found = [torch.rand(5), torch.randn(5), torch.randperm(9), torch.nn.functional.dropout(torch.ones(50))]
    assert all(torch.equal(*pair) for pair in zip(expected, found, strict=True))
    assert torch.equal(state, torch.get_rng_state())


def test_a_step_that_is_not_wanted_runs_as_if_nobody_watched(tmp_path: Path) -> None:
    """Between the wanted steps no mode and no splice is on, so a call costs what it always cost."""
    model, x = torch.nn.Linear(4, 4), torch.randn(2, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def cost() -> float:
        times = []
        for _ in range(200):
            start = time.perf_counter()
            torch.add(x, x)
            times.append(time.perf_counter() - start)
        return min(times)

    before = cost()
    code = apply_now()
    with trueline.capture(tmp_path / "run", steps=[1]) as capture:
        assert torch._C._len_torch_function_stack() == 0
        assert apply_now() is code
        assert cost() < 3 * before
        optimizer.step()
        assert torch._C._len_torch_function_stack() == 1
        optimizer.step()
        assert torch._C._len_torch_function_stack() == 0
        assert apply_now() is code
    assert cost() < 3 * before
    assert capture.certificate is not None
