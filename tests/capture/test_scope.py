"""What is recorded is what was asked for: steps, ranks, APIs, modules, single calls, ranges; stacks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import trueline
from tests.helpers.models import train
from trueline.errors import UsageError
from trueline.records import Call, Phase
from trueline.store import RankReader, open_run

Captured = Callable[..., RankReader]
Calls = Callable[..., list[Call]]


def loop(capture: Any = None, steps: int = 5) -> nn.Module:
    """A training loop; tells its steps if it is given a capture."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        if capture is not None:
            capture.step()
    return model


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize(
    ("asked", "expected"), [(None, (0, 1, 2, 3, 4)), ([1, 3], (1, 3)), ("0,2-3", (0, 2, 3)), (4, (4,))]
)
def test_steps_are_found_or_told(told: bool, asked: Any, expected: tuple[int, ...], tmp_path: Path) -> None:
    with trueline.capture(tmp_path / "run", steps=asked) as capture:
        loop(capture if told else None)
    reader = open_run(tmp_path / "run").rank(0)
    assert reader.steps == expected
    for step in expected:
        linear = [c for c in reader.trace(step) if c.api.endswith("functional.linear") and c.phase is Phase.FORWARD]
        assert [call.index for call in linear] == [0, 1], "calls are counted anew in each step"
        assert any(call.context == "optimizer" for call in reader.trace(step))


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize(("asked", "expected"), [(None, (0, 3, 6)), ("1-5", (3,))])
def test_each_so_many_th_step_is_recorded(told: bool, asked: Any, expected: tuple[int, ...], tmp_path: Path) -> None:
    with trueline.capture(tmp_path / "run", steps=asked, every=3) as capture:
        loop(capture if told else None, steps=8)
    assert open_run(tmp_path / "run").rank(0).steps == expected


def test_nothing_of_ours_is_asked_between_recorded_steps(tmp_path: Path) -> None:
    with trueline.capture(tmp_path / "run", every=4) as capture:
        loop(capture, steps=2)
        assert not torch.overrides._get_current_function_mode_stack()


def test_several_optimizer_steps_in_a_told_step_are_one(tmp_path: Path) -> None:
    """As in training with two optimizers; a program that tells from the start is believed from its first word."""
    model = nn.Linear(2, 2)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for _ in range(2)]
    with trueline.capture(tmp_path / "run") as capture:
        for _ in range(3):
            model(torch.ones(1, 2)).sum().backward()
            capture.step()
            for optimizer in optimizers:
                optimizer.step()
    calls = open_run(tmp_path / "run").rank(0).trace()
    assert [c.step for c in calls if c.api.endswith("linear") and c.phase is Phase.FORWARD] == [0, 1, 2]


def test_the_program_ends_after_the_last_step_if_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = trueline.capture(tmp_path / "run", steps=[1], exit_after_last_step=True)
    with pytest.raises(SystemExit) as ended, capture:
        loop()
    assert ended.value.code == 0
    assert "recorded the last step" in capsys.readouterr().out
    reader = open_run(tmp_path / "run").rank(0)
    assert reader.steps == (1,) and reader.certificate.complete


def test_what_comes_after_the_last_step_runs_free(tmp_path: Path) -> None:
    with trueline.capture(tmp_path / "run", steps=[0]) as capture:
        loop()
        assert capture.certificate is not None and capture.certificate.complete
        assert open_run(tmp_path / "run").rank(0).steps == (0,), "the Run is whole before the program ends"


def test_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "4")
    for name, ranks in (("mine", [2, 3]), ("other", [0])):
        with trueline.capture(tmp_path / name, ranks=ranks):
            torch.ones(3).sin()
    assert open_run(tmp_path / "mine").ranks == (2,)
    assert not (tmp_path / "other").exists()


def names(calls: list[Call]) -> list[str]:
    return [f"{call.api}.{call.index}" for call in calls]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"apis": ["torch.Tensor.sin"]}, ["torch.Tensor.sin.0", "torch.Tensor.sin.1"]),
        ({"apis": "cos"}, ["torch.Tensor.cos.0", "torch.Tensor.cos.1"]),
        (
            {"apis": ["*.s?n", "exp"]},
            ["torch.Tensor.sin.0", "torch.Tensor.exp.0", "torch.Tensor.sin.1", "torch.Tensor.exp.1"],
        ),
        ({"calls": ["torch.Tensor.sin.1"]}, ["torch.Tensor.sin.1"]),
        ({"calls": ["torch.Tensor.sin.1.forward", "torch.Tensor.cos.0"]}, ["torch.Tensor.cos.0", "torch.Tensor.sin.1"]),
        (
            {"between": ["torch.Tensor.cos.0", "torch.Tensor.sin.1"]},
            ["torch.Tensor.cos.0", "torch.Tensor.exp.0", "torch.Tensor.sin.1"],
        ),
    ],
)
def test_calls_by_name(options: dict[str, Any], expected: list[str], calls: Calls) -> None:
    x = torch.ones(3)
    assert names(calls(lambda: [x.sin().cos().exp() for _ in range(2)], **options)) == expected


def test_the_backward_of_a_chosen_call_comes_with_it(calls: Calls) -> None:
    x = torch.ones(3, requires_grad=True)
    found = calls(lambda: x.sin().cos().sum().backward(), apis=["cos"])
    assert [call.name for call in found] == ["torch.Tensor.cos.0.forward", "torch.Tensor.cos.0.backward"]


def test_modules_by_glob(calls: Calls) -> None:
    found = calls(lambda: train("transformer", steps=1, keep=False), modules=["blocks.1.*"])
    parts = ("first", "qkv", "out", "second", "drop", "feed.0", "feed.1", "feed.2")
    assert {call.module for call in found} == {f"blocks.1.{name}" for name in parts}
    found = calls(lambda: train("transformer", steps=1, keep=False), modules="optimizer")
    assert {call.context for call in found} == {"optimizer"}


def test_a_range_begins_anew_in_each_step(captured: Captured) -> None:
    reader = captured(lambda: loop(steps=3), between=["torch.nn.functional.relu.0", "torch.nn.functional.linear.1"])
    for step in range(3):
        found = [call.api for call in reader.trace(step) if call.phase is Phase.FORWARD]
        assert found == ["torch.nn.functional.relu", "torch.nn.functional.linear"]


def test_stacks_can_be_left_out(captured: Captured) -> None:
    assert all(call.stack for call in captured(lambda: torch.ones(3).sin()).trace())
    assert not any(call.stack for call in captured(lambda: torch.ones(3).sin(), stacks=False).trace())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": "layer"}, "level must be one of api, module"),
        ({"data": "everything"}, "data must be one of structure"),
        ({"steps": "1,x"}, "not a list of numbers"),
        ({"steps": [-1]}, "whole numbers from 0"),
        ({"between": ["only.one"]}, "two call names"),
        ({"every": 0}, "every takes a whole number from 1"),
        ({"every": 10, "steps": "1-9"}, "every=10 divides none of the steps"),
        ({"apis": [3]}, "takes names"),
        ({"framework": "abacus"}, "unknown framework 'abacus'"),
    ],
)
def test_what_cannot_be_done_is_said(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        trueline.capture(tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_seed_all_makes_runs_alike() -> None:
    import random

    import numpy as np

    drawn = []
    for _ in range(2):
        trueline.seed_all(5)
        drawn.append((random.random(), float(np.random.rand()), torch.rand(3).tolist()))
    assert drawn[0] == drawn[1]
