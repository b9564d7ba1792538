"""The contract of a call, and what a kernel keeps from one call to the next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.helpers import keeping_kernels  # noqa: E402
from tests.replay.test_worker import case_for, verdict  # noqa: E402
from trueline.cases import CaseMeasured, Target  # noqa: E402
from trueline.judge.checks import check_standard_named, judge_case  # noqa: E402
from trueline.records import Verdict  # noqa: E402
from trueline.replay.worker import measure_case  # noqa: E402

KERNELS = "tests.helpers.keeping_kernels"


def told(api: str, kernel: str, *shapes: tuple[int, ...], **options: Any) -> str:
    """What is said of a kernel that is wrong."""
    case = case_for(api, *shapes, **options)
    found = judge_case(case, measured(case, kernel), check_standard_named("calibrated"))
    assert found.verdict is Verdict.FAIL, f"{kernel} passed: {found.reason}"
    return found.reason


def measured(case: Any, kernel: str) -> CaseMeasured:
    keeping_kernels.forget()
    return measure_case(case, Target.parse("torch:cpu", {case.api: f"{KERNELS}:{kernel}"}))


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        ("one_buffer", "is changed by the next call"),
        ("by_address", "other values at the same place"),
        ("first_weights", "other values at the same place"),
        ("fails_later", "it raises RuntimeError"),
    ],
)
def test_what_a_kernel_keeps_is_found(kernel: str, says: str) -> None:
    assert says in told("torch.mul", kernel, (8, 9), (8, 9), backward=False)


def test_the_same_mask_each_time_is_found() -> None:
    assert "same random numbers" in told("torch.nn.functional.dropout", "same_mask", (40, 50), backward=False)


@pytest.mark.parametrize(
    ("api", "kernel", "says"),
    [
        ("torch.exp", "switches_gradients_off", "leaves gradients switched"),
        ("torch.exp", "seeds", "state of the random numbers"),
        ("torch.relu", "gives_its_input", "args.0 itself, changed"),
        ("torch.clone", "turned_clone", "strides"),
    ],
)
def test_what_a_call_does_besides_is_found(api: str, kernel: str, says: str) -> None:
    before = torch.is_grad_enabled()
    assert says in told(api, kernel, (8, 9))
    assert torch.is_grad_enabled() is before


def test_a_result_in_the_memory_of_an_argument_is_found() -> None:
    case = case_for("torch.abs", (8, 9))
    case = replace(case, tensors=(replace(case.tensors[0], domain="positive"),))
    found = judge_case(case, measured(case, "looks_at_its_input"), check_standard_named("calibrated"))
    assert "shares its memory with args.0" in found.reason


@pytest.mark.parametrize(("api", "kernel"), [("torch.mul", "honest_mul"), ("torch.sum", "looks_at_one")])
def test_an_honest_kernel_that_keeps_tables_is_not_accused(api: str, kernel: str) -> None:
    case = case_for(api, *([(8, 9)] * (2 if api == "torch.mul" else 1)), **({} if api == "torch.mul" else {"dim": 0}))
    assert verdict(case, measured(case, kernel)) is Verdict.PASS


def test_torch_itself_is_called_again_without_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    from trueline.replay import again

    monkeypatch.setattr(again, "_ONE_IN", 1)
    for api in ("torch.mul", "torch.Tensor.mul_"):
        case = case_for(api, (8, 9), (8, 9))
        assert verdict(case, measure_case(case, Target.parse("torch:cpu"))) is Verdict.PASS
