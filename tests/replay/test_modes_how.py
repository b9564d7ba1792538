"""Candidates that are executed as graphs or under autocast, held against eager execution."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from trueline.cases import Case, CaseMeasured, CaseResult, Status, Target, TensorSpec  # noqa: E402
from trueline.judge.checks import check_standard_named, judge_case  # noqa: E402
from trueline.records import Verdict  # noqa: E402
from trueline.replay.modes_how import measure_graph, measure_under_autocast, measurer_for  # noqa: E402
from trueline.replay.worker import measure_case  # noqa: E402

KERNELS = "tests.helpers.mode_kernels"
AMP = "torch:cpu+amp-bfloat16"


def case_for(api: str, *shapes: tuple[int, ...], dtype: str = "float32", **kwargs: Any) -> Case:
    specs = tuple(TensorSpec(f"args.{place}", dtype, shape, requires_grad=True) for place, shape in enumerate(shapes))
    arguments = {"args": [{"$t": place} for place in range(len(shapes))], "kwargs": kwargs}
    return Case(api, arguments, specs, backward=True, seed=17)


def measured(case: Case, target: str, reference: str | None = None, **overrides: str) -> CaseMeasured:
    place = Target.parse(target, {name.replace("_", "."): where for name, where in overrides.items()})
    return measurer_for(place)(case, place, None if reference is None else Target.parse(reference), None)


def result_of(case: Case, found: CaseMeasured) -> CaseResult:
    return judge_case(case, found, check_standard_named("calibrated"))


def test_each_target_has_its_measurer() -> None:
    found = {how: measurer_for(Target.parse(f"torch:cpu{how}")) for how in ("", "+compile", "+amp-float16")}
    assert found == {"": measure_case, "+compile": measure_graph, "+amp-float16": measure_under_autocast}


# Autocast


def test_autocast_lowers_what_is_on_its_list_on_both_sides() -> None:
    case = case_for("torch.matmul", (24, 40), (40, 16))
    found = measured(case, AMP, AMP)
    out, *gradients = found.evidence
    assert (out.dtype, {one.dtype for one in gradients}) == ("bfloat16", {"float32"})
    assert result_of(case, found).verdict is Verdict.PASS
    assert measured(case, "torch:cpu").evidence[0].dtype == "float32"


def test_autocast_leaves_the_rest_as_it_is() -> None:
    case = case_for("torch.exp", (24, 40))
    found = measured(case, AMP, AMP)
    assert found.evidence[0].dtype == "float32"
    assert result_of(case, found).verdict is Verdict.PASS


def test_the_reference_follows_where_it_lowers_other_calls() -> None:
    """The override lowers; an honest run without autocast does not by itself."""
    case = case_for("torch.matmul", (24, 40), (40, 16))
    found = measured(case, AMP, "torch:cpu")
    assert found.evidence[0].dtype == "bfloat16" and not found.evidence[0].structure
    assert result_of(case, found).verdict is Verdict.PASS


def test_a_wrong_call_under_autocast_is_found() -> None:
    case = case_for("torch.matmul", (24, 40), (40, 16))
    found = measured(case, AMP, AMP, torch_matmul=f"{KERNELS}:relu_off_under_autocast")
    assert result_of(case, found).verdict is Verdict.FAIL


# Graphs of Paddle


@pytest.fixture(scope="module")
def paddle() -> Any:
    return pytest.importorskip("paddle")


@pytest.mark.parametrize(
    "case",
    [
        case_for("paddle.matmul", (12, 8), (8, 5)),
        case_for("paddle.nn.functional.softmax", (6, 7), axis=-1),
        case_for("paddle.Tensor.multiply", (6, 7), (6, 7)),
        case_for("paddle.Tensor.tanh_", (6, 7)),
        case_for("paddle.Tensor.exp", (6, 7), dtype="float64"),
        case_for("paddle.topk", (6, 7), k=3),
        replace(case_for("paddle.Tensor.__setitem__", (6, 7), (7,)),
                arguments={"args": [{"$t": 0}, 2, {"$t": 1}], "kwargs": {}},
                tensors=(TensorSpec("args.0", "float32", (6, 7), requires_grad=True),
                         TensorSpec("args.2", "float32", (7,), requires_grad=True))),
        replace(case_for("paddle.Tensor.add"), tensors=case_for("", (3,), (3,)).tensors,
                arguments={"args": [], "kwargs": {"x": {"$t": 0}, "y": {"$t": 1}}}),
    ],
    ids=lambda case: case.api,
)  # fmt: skip
def test_a_graph_gives_what_eager_calls_give(paddle: Any, case: Case) -> None:
    paths = tuple(spec.path for spec in case.tensors)
    if not case.arguments["args"]:
        names = tuple(case.arguments["kwargs"])
        tensors = tuple(replace(spec, path=f"kwargs.{name}") for spec, name in zip(case.tensors, names, strict=True))
        case, paths = replace(case, tensors=tensors), tuple(spec.path for spec in tensors)
    found = measured(case, "paddle:cpu+static")
    result = result_of(case, found)
    assert result.verdict is Verdict.PASS, result.reason
    gradients = {one.path for one in found.evidence if one.part == "gradient"}
    assert gradients == set(paths)


def test_what_a_graph_cannot_hold_is_unsupported_with_the_reason(paddle: Any) -> None:
    found = measured(case_for("paddle.Tensor.tolist", (4, 4)), "paddle:cpu+static")
    assert found.candidate.status is Status.UNSUPPORTED
    assert found.candidate.reason.startswith("not in a graph: AssertionError: 'tolist' only can be called")


def test_what_raises_is_told_without_the_translator(paddle: Any) -> None:
    found = measured(case_for("paddle.nn.functional.softmax", (4, 4), axis=5), "paddle:cpu+static")
    assert found.candidate.status is Status.RAISED
    assert found.candidate.reason.startswith("ValueError: Attr(axis) value should be in range")


def test_a_graph_that_differs_from_eager_calls_is_found(paddle: Any) -> None:
    case = case_for("paddle.tanh", (16, 16))
    found = measured(case, "paddle:cpu+static", paddle_tanh="tests.helpers.mode_kernels_paddle:other_in_graphs")
    result = result_of(case, found)
    assert result.verdict is Verdict.FAIL
    assert {one.evidence.part for one in result.findings if one.verdict is Verdict.FAIL} == {"output", "gradient"}


def test_graphs_are_forgotten(paddle: Any) -> None:
    """Paddle keeps every program that it has executed: a megabyte and a half each."""
    cases = [case_for("paddle.matmul", (12, 8 + size), (8 + size, 5)) for size in range(35)]
    for case in cases[:15]:
        measured(case, "paddle:cpu+static")
    before = _resident()
    for case in cases[15:]:
        measured(case, "paddle:cpu+static")
    assert _resident() - before < 12 * 2**20


def _resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as stream:
        return int(stream.read().split()[1]) * 4096


def test_without_cinn_that_is_said(paddle: Any) -> None:
    if paddle.is_compiled_with_cinn():
        pytest.skip("this Paddle has CINN")
    found = measured(case_for("paddle.tanh", (4, 4)), "paddle:cpu+cinn")
    assert (found.candidate.status, "without CINN" in found.candidate.reason) == (Status.UNSUPPORTED, True)


def test_autocast_that_does_nothing_is_said(paddle: Any) -> None:
    found = measured(case_for("paddle.matmul", (4, 4), (4, 4)), "paddle:cpu+amp-bfloat16")
    assert (found.candidate.status, "does nothing" in found.candidate.reason) == (Status.UNSUPPORTED, True)


# Graphs of torch


def test_what_torch_compiles_gives_what_eager_calls_give() -> None:
    case = case_for("torch.tanh", (6, 7))
    found = measured(case, "torch:cpu+compile")
    if found.candidate.status is Status.UNSUPPORTED and "nothing compiles here" in found.candidate.reason:
        pytest.skip(found.candidate.reason)
    assert result_of(case, found).verdict is Verdict.PASS
    assert {one.part for one in found.evidence} == {"output", "gradient"}


def test_what_is_no_one_graph_for_torch_is_unsupported() -> None:
    found = measured(case_for("torch.Tensor.tolist", (4, 4)), "torch:cpu+compile")
    assert found.candidate.status is Status.UNSUPPORTED
    assert "not in a graph" in found.candidate.reason
