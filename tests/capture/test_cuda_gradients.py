"""Gradients of parameters on a GPU: autograd gives them away as it does without us, and they are read before it adds to
them."""

from __future__ import annotations

from pathlib import Path

import pytest

import trueline
from trueline.dtypes import dtype_named
from trueline.numerics import cpu

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

PASSES = 3


def _train(capture: trueline.Capture | None) -> list[int]:
    """One step of several backwards that add up; gives the versions of the gradients after the first."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 8)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.randn(2, 16, 64, device="cuda")
    versions = []
    for number in range(PASSES):
        model(inputs * (number + 1)).square().mean().backward()
        if number == 0:
            versions = [parameter.grad._version for parameter in model.parameters()]
    optimizer.step()
    if capture is not None:
        capture.step()
    return versions


def test_gradients_are_given_away_and_read_in_time(tmp_path: Path) -> None:
    bare = _train(None)
    with trueline.capture(tmp_path / "run", data="tensors") as capture:
        watched = _train(capture)
    assert watched == bare, "a gradient that we hold is copied, which changes its version"
    assert capture.certificate is not None and not capture.certificate.not_recorded
    rank = trueline.open_run(tmp_path / "run").rank(0)
    checked = 0
    for call in rank.trace():
        for tensor in call.tensors:
            assert tensor.statistics is not None
            if not tensor.stored:
                continue
            bits = rank.tensor_bits(tensor.tensor_id, tensor.dtype, tensor.shape)
            expected = cpu.statistics(bits, dtype_named(tensor.dtype))
            assert expected.norm == pytest.approx(tensor.statistics.norm, rel=1e-5)
            assert (expected.maximum, expected.zeros) == (tensor.statistics.maximum, tensor.statistics.zeros)
            checked += 1
    assert checked > 3 * PASSES
