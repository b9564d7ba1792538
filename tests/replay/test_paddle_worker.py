"""Cases of Paddle measured: by Paddle alone, and with torch as the judge; Cases of torch measured on Paddle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

paddle = pytest.importorskip("paddle")

from tests.helpers.paddle_cases import T, case_of, drawn  # noqa: E402
from trueline.cases import Case, CaseResult, Status, Target  # noqa: E402
from trueline.frameworks.base import Inputs  # noqa: E402
from trueline.judge.checks import check_standard_named, judge_case  # noqa: E402
from trueline.records import Verdict  # noqa: E402
from trueline.replay.worker import execute_case, measure_case, measure_executions  # noqa: E402

GELU = "paddle.nn.functional.gelu"
KERNELS = "tests.helpers.wrong_paddle_kernels"


def judged(
    made: tuple[Case, Inputs], target: str = "paddle:cpu", reference: str = "paddle:cpu", **overrides: str
) -> CaseResult:
    case, inputs = made
    named = {GELU: f"{KERNELS}:{overrides['gelu']}"} if "gelu" in overrides else None
    executions = execute_case(case, Target.parse(target, named), Target.parse(reference), inputs=inputs)
    return judge_case(case, measure_executions(case, executions), check_standard_named("calibrated"))


def gelu(dtype: str = "float32") -> tuple[Case, Inputs]:
    return case_of(GELU, T(drawn(16, 32), dtype, grad=True))


BOTH = ["paddle:cpu", "torch:cpu"]


@pytest.mark.parametrize("reference", BOTH)
def test_what_is_right_passes(reference: str) -> None:
    if reference.startswith("torch"):
        pytest.importorskip("torch")
    result = judged(gelu(), reference=reference)
    assert (result.verdict, result.forward, result.backward) == (Verdict.PASS,) * 3
    assert judged(gelu(), reference=reference, gelu="right").verdict is Verdict.PASS


@pytest.mark.parametrize("reference", BOTH)
@pytest.mark.parametrize("fault", ["negated", "tanh_form", "wrong_gradient", "one_element", "writes_to_its_argument"])
def test_what_is_wrong_fails(fault: str, reference: str) -> None:
    if reference.startswith("torch"):
        pytest.importorskip("torch")
    assert judged(gelu(), reference=reference, gelu=fault).verdict is Verdict.FAIL


def test_a_missing_kernel_is_not_compared() -> None:
    result = judged(gelu(), "paddle:cpu/bfloat16")
    assert result.verdict is Verdict.NOT_COMPARED
    assert "no kernel gelu for bfloat16 on CPU" in result.reason


@pytest.mark.parametrize("reference", BOTH)
def test_a_simulated_dtype_is_judged_and_marked(reference: str) -> None:
    if reference.startswith("torch"):
        pytest.importorskip("torch")
    result = judged(gelu(), "paddle:cpu/bfloat16+simulated", reference)
    assert result.verdict is Verdict.PASS
    assert "no kernel gelu" in result.measured.candidate.simulated
    assert result.findings[0].evidence.dtype == "bfloat16"


def test_float64_is_judged_by_torch_and_not_by_paddle() -> None:
    pytest.importorskip("torch")
    alone = judged(case_of("paddle.exp", T(drawn(64), "float64", grad=True)))
    assert alone.verdict is Verdict.NOT_COMPARED
    assert "--reference torch:cpu" in alone.reason
    judge = judged(case_of("paddle.exp", T(drawn(64), "float64", grad=True)), reference="torch:cpu")
    assert judge.verdict is Verdict.PASS


@pytest.mark.parametrize(
    "made",
    [
        case_of("paddle.reshape", T(drawn(4, 6), "float64"), [6, 4]),
        case_of("paddle.cast", T(drawn(4, 6)), {"$dtype": "float64"}),
    ],
    ids=["moves", "casts"],
)
def test_float64_that_is_only_moved_needs_no_wider_judge(made: tuple[Case, Inputs]) -> None:
    assert judged(made).verdict is Verdict.PASS


def test_a_call_of_torch_on_paddle() -> None:
    pytest.importorskip("torch")
    made = case_of("torch.nn.functional.silu", T(drawn(8, 8), grad=True))
    assert judged(made, "paddle:cpu", "torch:cpu").verdict is Verdict.PASS
    assert judged(made, "torch:cpu", "paddle:cpu").verdict is Verdict.PASS


def test_what_has_no_counterpart_says_so() -> None:
    pytest.importorskip("torch")
    case, _ = case_of("torch.nn.functional.no_such_thing", T(drawn(2)))
    measured = measure_case(case, Target.parse("paddle:cpu"), Target.parse("torch:cpu"))
    assert measured.candidate.status is Status.UNSUPPORTED
    assert "no counterpart in paddle" in measured.skipped


def names_change(case: Case, framework: str) -> Any:
    """A translation by hand: Paddle's ``x`` and ``y`` are torch's ``other`` and ``input``."""
    from trueline.ops.mapping.rows import row
    from trueline.ops.mapping.translate import Translation

    assert (case.api, framework) == ("paddle.backwards_subtract", "torch")
    moved = {"args.0": "kwargs.other", "args.1": "kwargs.input"}
    specs = tuple(replace(spec, path=moved[spec.path]) for spec in case.tensors)
    arguments = {"args": [], "kwargs": {"other": {"$t": 0}, "input": {"$t": 1}}}
    return Translation(replace(case, api="torch.subtract", arguments=arguments, tensors=specs), moved,
                       row("paddle.backwards_subtract", "torch.subtract", "x:other y:input"))  # fmt: skip


def test_results_come_back_under_the_paths_of_the_case(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    from tests.helpers.paddle_cases import numbers
    from trueline.replay import translated

    monkeypatch.setattr(translated, "translate", names_change)
    case, inputs = case_of("paddle.backwards_subtract", T([1.0, 2.0], grad=True), T([10.0, 20.0], grad=True))
    executor = translated.executor_for(case, Target.parse("torch:cpu"))
    done = executor.run(case, inputs, mode="candidate")
    assert numbers(done.outputs["out"]).tolist() == [9.0, 18.0]
    assert executor.run(case, inputs, mode="candidate", watch={"args.1"}).outputs["args.1"].alias == "args.1"
    assert {path: numbers(array).tolist() for path, array in done.gradients.items()} == {
        "args.0": [-1.0, -1.0],
        "args.1": [1.0, 1.0],
    }


def test_both_are_fed_the_same_numbers() -> None:
    pytest.importorskip("torch")
    case, inputs = case_of("paddle.add", T(drawn(64), grad=True), T(drawn(64, seed=1)))
    target = Target.parse("paddle:cpu/bfloat16+simulated")
    executions = execute_case(case, target, Target.parse("torch:cpu"), inputs=inputs)
    assert executions.crossed
    assert executions.inputs.tensors["args.0"].dtype == "bfloat16"
    first, second = executions.candidate.outputs["out"], executions.honest.outputs["out"]
    assert first.bits is not None and second.bits is not None and np.array_equal(first.bits, second.bits)


def test_a_gold_in_single_precision_is_none() -> None:
    """Paddle gives float32 here whatever it is asked for; of what only picks elements that is as good as any other."""
    hot = judged(case_of("paddle.nn.functional.one_hot", T([1, 2, 0], "int64"), 4))
    assert hot.verdict is Verdict.PASS
    window = judged(case_of("paddle.hann_window", 8))
    assert window.verdict is Verdict.NOT_COMPARED
    assert "even where it is asked for float64" in window.reason


def test_inputs_that_cannot_be_drawn_are_a_reason_and_no_fault() -> None:
    case, _ = case_of("paddle.exp", T([1, 2, 3], "int64"))
    spec = replace(case.tensors[0], domain="distinct(2)")
    measured = measure_case(replace(case, tensors=(spec,)), Target.parse("paddle:cpu"), Target.parse("paddle:cpu"))
    assert "cannot be drawn" in measured.skipped
