"""Modes without a comparison of numbers: what ran, and whether it gives the same bits again."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from trueline.cases import Case, CaseMeasured, CaseResult, Status, Target, TensorSpec  # noqa: E402
from trueline.frameworks.base import ArrayOut  # noqa: E402
from trueline.judge.checks import check_standard_named, judge_case  # noqa: E402
from trueline.records import Verdict  # noqa: E402
from trueline.replay.modes_alone import _repeated, repeating, run_once, run_repeatedly, running  # noqa: E402
from trueline.replay.serial import case_to_json, measured_from_json, target_to_json  # noqa: E402

RELU = "torch.relu"
KERNELS = "tests.helpers.mode_kernels"
CPU = Target.parse("torch:cpu")


def case_of(api: str = RELU, dtype: str = "float32", *, domain: str = "", backward: bool = True) -> Case:
    spec = TensorSpec("args.0", dtype, (4, 30), requires_grad=backward, domain=domain)
    return Case(api, {"args": [{"$t": 0}], "kwargs": {}}, (spec,), backward=backward, seed=3)


def target_with(kernel: str) -> Target:
    return Target.parse("torch:cpu", {RELU: f"{KERNELS}:{kernel}"})


def judged(case: Case, measured: CaseMeasured, standard: str) -> CaseResult:
    return judge_case(case, measured, check_standard_named(standard))


def test_what_ran_passes_and_says_that_nothing_was_compared() -> None:
    case = case_of()
    found = run_once(case, CPU)
    assert [(one.part, one.path) for one in found.evidence] == [("output", "out"), ("gradient", "args.0")]
    result = judged(case, found, "ran")
    assert result.verdict is Verdict.PASS
    assert "nothing was compared" in result.reason


def test_another_standard_passes_nothing_that_was_not_compared() -> None:
    case = case_of()
    assert judged(case, run_once(case, CPU), "calibrated").verdict is Verdict.NOT_COMPARED


def test_nan_that_no_input_explains_is_told_with_its_place() -> None:
    case = case_of()
    result = judged(case, run_once(case, target_with("relu_with_nan")), "ran")
    assert result.verdict is Verdict.WARN
    assert "NaN of 120 elements, the first at [" in result.reason


def test_a_call_that_raises_fails() -> None:
    case = Case("torch.reshape", {"args": [{"$t": 0}, [7, 7]], "kwargs": {}}, (TensorSpec("args.0", "float32", (4,)),))
    found = run_once(case, CPU)
    assert found.candidate.status is Status.RAISED
    assert judged(case, found, "ran").verdict is Verdict.FAIL


def test_a_call_that_returns_nothing_ran() -> None:
    case = Case("torch.Tensor.dim", {"args": [{"$t": 0}], "kwargs": {}}, (TensorSpec("args.0", "float32", (4,)),))
    assert judged(case, run_once(case, CPU), "ran").verdict is Verdict.PASS


def test_torch_is_stable_in_both_directions() -> None:
    case = case_of("torch.nn.functional.softmax", backward=True)
    case = Case(case.api, {"args": [{"$t": 0}, 1], "kwargs": {}}, case.tensors, backward=True, seed=3)
    found = run_repeatedly(case, CPU, CPU, 4)
    assert [(one.part, one.path) for one in found.evidence] == [
        ("output", "out"), ("gradient", "args.0"), ("output", "reference out"), ("gradient", "reference args.0"),
    ]  # fmt: skip
    result = judged(case, found, "repeatable")
    assert (result.verdict, result.reason) == (Verdict.PASS, "the same bits in 4 runs")


def test_random_calls_are_seeded_and_so_repeat() -> None:
    case = Case("torch.rand_like", {"args": [{"$t": 0}], "kwargs": {}}, (TensorSpec("args.0", "float32", (50,)),))
    assert judged(case, run_repeatedly(case, CPU, CPU, 3), "repeatable").verdict is Verdict.PASS


def test_what_differs_is_named_with_its_first_element() -> None:
    case = case_of(backward=False)
    result = judged(case, run_repeatedly(case, target_with("unstable_relu"), CPU, 3), "repeatable")
    assert result.verdict is Verdict.FAIL
    assert "of 3 differs from the first in 1 of 120 elements, the first at [0, 5]" in result.reason


def test_a_reference_that_differs_is_to_be_looked_at() -> None:
    case = case_of(backward=False)
    found = run_repeatedly(case, target_with("unstable_relu"), CPU, 3)
    mine = found.evidence[0]
    theirs = type(mine)(mine.part, "reference out", mine.dtype, mine.shape, direct=mine.direct, numbers=mine.numbers)
    moved = CaseMeasured(case.key, found.candidate, evidence=(theirs,))
    assert judged(case, moved, "repeatable").verdict is Verdict.WARN


def test_a_later_run_that_raises_is_a_failure() -> None:
    case = case_of(backward=False)
    found = run_repeatedly(case, target_with("raises_later"), CPU, 3)
    assert found.candidate.status is Status.RAISED
    assert judged(case, found, "repeatable").verdict is Verdict.FAIL


def test_bits_are_compared_not_numbers() -> None:
    def array(values: list[float]) -> ArrayOut:
        return ArrayOut(np.array(values, dtype=np.float32), "float32", (2,), (1,), "cpu")

    same = _repeated("output", "out", array([float("nan"), 1.0]), [array([float("nan"), 1.0])])
    assert same.numbers["differs"] == 0.0
    signs = _repeated("output", "out", array([0.0, 1.0]), [array([0.0, 1.0]), array([-0.0, 1.0])])
    assert (signs.numbers["differs"], signs.numbers["differs_at"], signs.numbers["differs_in"]) == (1.0, 0.0, 3.0)
    other = ArrayOut(np.zeros(3, np.float32), "float32", (3,), (1,), "cpu")
    assert "run 2 float32 [3]" in _repeated("output", "out", array([0.0, 1.0]), [other]).structure


def test_jobs_answer_in_json() -> None:
    setup = {"target": target_to_json(CPU), "reference": target_to_json(CPU), "repeats": 2}
    for maker in (running, repeating):
        stages: list[str] = []
        answer = maker(setup, stages.append)(case_to_json(case_of()))
        assert measured_from_json(answer).candidate.status is Status.RETURNED
        assert "candidate" in stages
