"""Values that a program holds from one step to the next are one value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import trueline  # noqa: E402
from trueline.compare import carry_over  # noqa: E402
from trueline.compare.graph import ValueGraph  # noqa: E402
from trueline.store import open_run  # noqa: E402
from trueline.store.columns import NONE  # noqa: E402
from trueline.store.trace import Trace  # noqa: E402


def captured(path: Path, step: Any) -> Trace:
    with trueline.capture(path) as capture:
        for index in range(2):
            step(index)
            capture.step()
    return open_run(path).rank(0).trace()


def maker_of(trace: Trace, position: int, leaf: int) -> str:
    """The name of the call that made what a call was given."""
    value = int(trace.visits_of(position)[leaf, 3])
    maker = ValueGraph(trace).maker(value)
    return "" if maker == NONE else trace.call(maker).name


def test_a_weight_that_is_updated_by_hand_is_the_same_in_the_next_step(tmp_path: Path) -> None:
    weight, x = torch.randn(4, 4), torch.randn(2, 4)

    def step(_: int) -> None:
        y = x @ weight
        weight.sub_(y.T @ y, alpha=0.01)

    trace = captured(tmp_path / "run", step)
    last = trace.find("torch.Tensor.matmul", step=1)[0]
    assert maker_of(trace, last, 1) == ""
    carry_over(trace, updates=False)
    assert maker_of(trace, last, 1) == "torch.Tensor.sub_.0.forward"
    assert maker_of(trace, last, 0) == "", "data is data in each step"


@pytest.mark.parametrize(("count", "made"), [(16, torch.ones), (3, torch.arange), (16, torch.arange)])
def test_what_may_be_alike_by_chance_is_not_taken_for_the_same(tmp_path: Path, count: int, made: Any) -> None:
    held = made(count)

    def step(index: int) -> None:
        if index:
            torch.neg(held)
        else:
            made(count)

    trace = captured(tmp_path / "run", step)
    carry_over(trace, updates=True)
    telling = made is torch.arange and count == 16
    maker = maker_of(trace, trace.find("torch.neg", step=1)[0], 0)
    assert maker == ("torch.arange.0.forward" if telling else ""), "constants and a few numbers are alike by chance"


def test_updates_of_an_optimizer_are_left_to_their_names(tmp_path: Path) -> None:
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(_: int) -> None:
        optimizer.zero_grad()
        model(torch.ones(2, 8)).square().sum().backward()
        optimizer.step()

    trace = captured(tmp_path / "run", step)
    last = trace.find("torch.nn.functional.linear", step=1)[0]
    carry_over(trace, updates=False)
    assert maker_of(trace, last, 1) == ""
    carry_over(trace, updates=True)
    assert maker_of(trace, last, 1) != ""
