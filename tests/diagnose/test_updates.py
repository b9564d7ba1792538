"""What becomes of parameters and of an optimizer's states, each judged by itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import trueline
from trueline.diagnose import Comparison
from trueline.records import Verdict

torch = pytest.importorskip("torch")
Step = Callable[[Any], None]


def trained(path: Path, make: Callable[[list[Any]], Step], data: str, steps: int = 2) -> Path:
    """Two steps of a small model, updated by what ``make`` gives for its parameters."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.Tanh(), torch.nn.Linear(6, 4))
    spare = torch.nn.Parameter(torch.ones(3))
    model.register_parameter("spare", spare)
    update = make(list(model.parameters()))
    with trueline.capture(path, data=data) as capture:
        for step in range(steps):
            x = torch.randn(5, 8, generator=torch.Generator().manual_seed(step))
            model.zero_grad()
            model(x).square().mean().backward()
            update(model)
            capture.step()
    return path


def adam(**options: Any) -> Callable[[list[Any]], Step]:
    def make(parameters: list[Any]) -> Step:
        optimizer = torch.optim.AdamW(parameters, lr=1e-3, **options)
        return lambda model: optimizer.step()

    return make


def sgd(parameters: list[Any]) -> Step:
    optimizer = torch.optim.SGD(parameters, lr=0.05)
    return lambda model: optimizer.step()


def without_spare(parameters: list[Any]) -> Step:
    optimizer = torch.optim.SGD([one for one in parameters if one.shape != (3,)], lr=0.05)
    return lambda model: optimizer.step()


def by_hand(rate: float) -> Callable[[list[Any]], Step]:
    def update(model: Any) -> None:
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.sub_(rate * parameter.grad)

    return lambda parameters: update


def compared(tmp_path: Path, data: str, reference: Any, candidate: Any, steps: int = 2) -> Comparison:
    paths = [trained(tmp_path / name, make, data, steps) for name, make in (("a", reference), ("b", candidate))]
    return trueline.compare(*paths)


@pytest.mark.parametrize("data", ["tensors", "stats"])
def test_a_state_that_the_gradients_do_not_explain_is_no_explanation(tmp_path: Path, data: str) -> None:
    with compared(tmp_path, data, adam(), adam(betas=(0.8, 0.999))) as report:
        assert report.verdict is Verdict.FAIL and report.origin is not None
        assert report.origin.kind == "update" and report.origin.comparison.call.step == 0
        assert any(name.endswith(".exp_avg") for name in report.origin.names)


@pytest.mark.parametrize("data", ["tensors", "stats"])
def test_states_of_optimizers_written_otherwise_agree(tmp_path: Path, data: str) -> None:
    for number, options in enumerate(({"foreach": True}, {"fused": True})):
        with compared(tmp_path / str(number), data, adam(foreach=False), adam(**options)) as report:
            assert report.verdict <= Verdict.WARN


@pytest.mark.parametrize("data", ["tensors", "stats"])
def test_an_update_by_hand_is_laid_beside_that_of_an_optimizer(tmp_path: Path, data: str) -> None:
    with compared(tmp_path / "right", data, sgd, by_hand(0.05)) as report:
        assert report.verdict <= Verdict.WARN
        assert {one.kind for one in report.observables if one.reference and one.candidate} >= {"gradient", "update"}
    with compared(tmp_path / "wrong", data, sgd, by_hand(0.06), steps=1) as report:
        assert report.verdict is Verdict.FAIL and report.origin is not None
        assert report.origin.kind == "update" and "1.2 times as large" in report.origin.headline


def test_a_parameter_that_nobody_moves_may_be_left_out(tmp_path: Path) -> None:
    with compared(tmp_path, "tensors", sgd, without_spare) as report:
        assert report.verdict is Verdict.PASS


@pytest.mark.parametrize("data", ["tensors", "stats"])
def test_what_is_added_to_a_parameter_tells_where_its_rounding_hides_the_update(tmp_path: Path, data: str) -> None:
    """In bfloat16 hardly any update changes a parameter; Nesterov's is nearly twice as large all the same."""

    def make(nesterov: bool, foreach: bool = True) -> Callable[[list[Any]], Step]:
        def made(parameters: list[Any]) -> Step:
            for one in parameters:
                one.data = one.data.to(torch.bfloat16)
            options = {"lr": 1e-4, "momentum": 0.9, "nesterov": nesterov, "foreach": foreach}
            optimizer = torch.optim.SGD(parameters, **options)

            def step(model: Any) -> None:
                optimizer.step()

            return step

        return made

    with rounded(tmp_path / "wrong", data, make(True), make(False)) as report:
        assert report.verdict is Verdict.FAIL and report.origin is not None and report.origin.kind == "update"
        assert report.origin.comparison.call.step == 0
    with rounded(tmp_path / "right", data, make(True), make(True, foreach=False)) as report:
        assert report.verdict <= Verdict.WARN


def rounded(tmp_path: Path, data: str, reference: Any, candidate: Any) -> Comparison:
    """The same model in bfloat16, whose gradients are no matter of rounding."""
    paths = []
    for name, make in (("a", reference), ("b", candidate)):
        torch.manual_seed(0)
        model = torch.nn.Linear(32, 16)
        update = make(list(model.parameters()))
        paths.append(tmp_path / name)
        with trueline.capture(paths[-1], data=data) as capture:
            for step in range(3):
                x = torch.randn(8, 32, generator=torch.Generator().manual_seed(step)).to(torch.bfloat16)
                model.zero_grad()
                model(x).square().mean().backward()
                update(model)
                capture.step()
    return trueline.compare(*paths)
