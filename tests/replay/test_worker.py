"""One Case measured, whole: what is wrong shows in the evidence, what is right does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from trueline.cases import Case, CaseMeasured, Evidence, Status, Target, TensorSpec  # noqa: E402
from trueline.frameworks.base import Executed, Inputs  # noqa: E402
from trueline.judge.checks import check_standard_named, judge_case  # noqa: E402
from trueline.records import Verdict  # noqa: E402
from trueline.replay import worker  # noqa: E402
from trueline.replay.worker import Options, execute_case, measure_case, measure_executions  # noqa: E402

GELU = "torch.nn.functional.gelu"
KERNELS = "tests.helpers.wrong_kernels"


def case_for(api: str, *shapes: tuple[int, ...], dtype: str = "float32", backward: bool = True, **kwargs: Any) -> Case:
    specs = tuple(
        TensorSpec(f"args.{place}", dtype, shape, requires_grad=backward) for place, shape in enumerate(shapes)
    )
    arguments = {"args": [{"$t": place} for place in range(len(shapes))], "kwargs": kwargs}
    return Case(api, arguments, specs, backward=backward, seed=17)


def measured(case: Case, target: str = "torch:cpu", **options: Any) -> CaseMeasured:
    return measure_case(case, Target.parse(target, options.pop("overrides", None)), None, Options(**options))


def verdict(case: Case, found: CaseMeasured) -> Verdict:
    return judge_case(case, found, check_standard_named("calibrated")).verdict


def with_kernel(name: str, api: str = GELU, **options: Any) -> tuple[Case, CaseMeasured]:
    case = case_for(api, *options.pop("shapes", ((32, 32),)), **options)
    return case, measured(case, overrides={api: f"{KERNELS}:{name}"})


def by_part(found: CaseMeasured, part: str) -> Evidence:
    (evidence,) = [one for one in found.evidence if one.part == part]
    return evidence


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
@pytest.mark.parametrize("api", [GELU, "torch.softmax", "torch.matmul", "torch.Tensor.mul_"])
def test_torch_itself_passes(api: str, dtype: str) -> None:
    shapes = ((16, 16), (16, 16)) if api in ("torch.matmul", "torch.Tensor.mul_") else ((16, 16),)
    case = case_for(api, *shapes, **({"dim": -1} if api == "torch.softmax" else {}))
    found = measured(case, f"torch:cpu/{dtype}")
    assert found.candidate.status is Status.RETURNED
    assert {one.part for one in found.evidence} == {"output", "gradient"}
    assert {one.dtype for one in found.evidence} == {dtype}
    assert all(one.gold is not None and one.honest is not None for one in found.evidence)
    assert verdict(case, found) is Verdict.PASS


def test_a_wrong_override_is_found_forward_and_backward() -> None:
    case, found = with_kernel("scaled_gelu")
    result = judge_case(case, found, check_standard_named("calibrated"))
    assert [one.verdict for one in result.findings] == [Verdict.FAIL, Verdict.FAIL]


def test_a_right_override_passes() -> None:
    case, found = with_kernel("right_gelu")
    assert verdict(case, found) is Verdict.PASS


def test_a_wrong_gradient_alone_is_found() -> None:
    case, found = with_kernel("wrong_gradient_gelu")
    result = judge_case(case, found, check_standard_named("calibrated"))
    assert (result.forward, result.backward) == (Verdict.PASS, Verdict.FAIL)


def test_a_missing_gradient_is_a_fault_of_structure() -> None:
    case, found = with_kernel("detached_gelu")
    assert "no way back" in by_part(found, "gradient").structure
    assert verdict(case, found) is Verdict.FAIL


def test_writing_to_an_input_is_a_fault() -> None:
    case, found = with_kernel("clobbering_gelu", backward=False)
    assert [(one.path, one.structure) for one in found.evidence if one.structure] == [
        ("args.0", "an argument that must not be changed was changed")
    ]
    assert verdict(case, found) is Verdict.FAIL


def test_an_in_place_call_must_work_in_place() -> None:
    case, found = with_kernel("copying_add_", "torch.Tensor.add_", shapes=((8,), (8,)), backward=False)
    assert any("changed in place" in one.structure for one in found.evidence)
    assert verdict(case, found) is Verdict.FAIL


def test_a_wrong_dtype_is_a_fault() -> None:
    case = case_for(GELU, (8, 8), dtype="bfloat16", backward=False)
    found = measured(case, overrides={GELU: f"{KERNELS}:widening_gelu"})
    assert by_part(found, "output").structure == "dtype float32 instead of bfloat16"


def test_what_an_override_raises_is_an_outcome() -> None:
    case, found = with_kernel("raising")
    assert found.candidate.status is Status.RAISED
    assert "no such tile size" in found.candidate.reason
    assert found.reference is not None and found.reference.status is Status.RETURNED
    assert verdict(case, found) is Verdict.FAIL


def test_what_the_reference_refuses_as_well_says_nothing() -> None:
    case = case_for("torch.matmul", (2, 3), (2, 3))
    found = measured(case)
    assert (found.candidate.status, found.evidence) == (Status.RAISED, ())
    assert verdict(case, found) is Verdict.NOT_COMPARED


def test_what_cannot_be_executed_is_skipped_with_the_reason() -> None:
    found = measured(case_for("torch.no_such_thing", (2,)))
    assert "declares no torch.no_such_thing" in found.skipped


def test_without_an_honest_kernel_the_rounded_gold_stands_in() -> None:
    """No CPU kernel inverts matrices in half precision; a candidate that does is judged all the same."""
    case = case_for("torch.linalg.inv", (4, 4), dtype="float16", backward=False)
    case = replace(case, tensors=(replace(case.tensors[0], domain="invertible"),))
    found = measured(case, overrides={"torch.linalg.inv": f"{KERNELS}:inverse_in_single"})
    evidence = by_part(found, "output")
    assert evidence.numbers["honest_rounded"] == 1.0
    assert verdict(case, found) is Verdict.PASS
    wrong = measured(case, overrides={"torch.linalg.inv": f"{KERNELS}:inverse_too_large"})
    assert verdict(case, wrong) is Verdict.FAIL


def test_a_reference_that_is_wrong_does_not_excuse_a_kernel_that_is_as_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    real = torch.sin

    def wrong(x: Any) -> Any:
        return real(x) if x.dtype is torch.float64 else real(x) + 0.25

    monkeypatch.setattr(torch, "sin", wrong)
    case = case_for("torch.sin", (32, 32), backward=False)
    found = measured(case)
    assert by_part(found, "output").numbers["honest_excess"] > 100
    result = judge_case(case, found, check_standard_named("calibrated"))
    assert result.verdict is Verdict.FAIL and "was not trusted" in result.reason


def test_rounding_noise_of_the_reference_is_trusted() -> None:
    """The gradient is the exponential of a difference of large numbers."""
    case = case_for("torch.special.log_ndtr", (17, 31))
    case = replace(case, tensors=(replace(case.tensors[0], domain="uniform(-30, 5)"),))
    found = measured(case)
    assert not any("honest_excess" in one.numbers for one in found.evidence)
    assert verdict(case, found) is Verdict.PASS


def test_gradients_at_nan_are_free_where_an_operator_is_made_of_pieces() -> None:
    case = case_for("torch.nn.functional.hardtanh", (64,))
    case = replace(case, tensors=(replace(case.tensors[0], domain="normal nan inf"),))
    executions = execute_case(case, Target.parse("torch:cpu"))
    candidate, given = executions.candidate, np.isnan(executions.inputs.tensors["args.0"].bits)
    gradient = candidate.gradients["args.0"]
    assert given.any() and gradient.bits is not None
    passed = {"args.0": replace(gradient, bits=np.where(given, np.float32(3), gradient.bits))}
    judged = {}
    for place, gradients in (("at NaN", passed), ("elsewhere", {"args.0": replace(gradient, bits=gradient.bits + 3)})):
        other = replace(executions, candidate=replace(candidate, gradients=gradients))
        judged[place] = verdict(case, measure_executions(case, other))
    assert judged == {"at NaN": Verdict.PASS, "elsewhere": Verdict.FAIL}


def test_statistics_for_the_backward_may_be_wider_or_left_out() -> None:
    """A device keeps what its own backward needs."""
    case = case_for("torch.native_layer_norm", (6, 8), dtype="bfloat16", backward=False)
    case = replace(case, arguments={"args": [{"$t": 0}, [8], None, None, 1e-5], "kwargs": {}})
    executions = execute_case(case, Target.parse("torch:cpu"))
    outputs = dict(executions.candidate.outputs)
    gold = executions.gold.outputs["out.1"].bits
    assert gold is not None
    single = gold.astype(np.float32)
    forms = {
        "wider": replace(outputs["out.1"], bits=single, dtype="float32"),
        "wrong": replace(outputs["out.1"], bits=single + 1, dtype="float32"),
        "left out": replace(outputs["out.1"], bits=single.reshape(-1)[:0], shape=(0,), dtype="float32"),
    }
    judged = {}
    for name, form in forms.items():
        candidate = replace(executions.candidate, outputs={**outputs, "out.1": form})
        judged[name] = verdict(case, measure_executions(case, replace(executions, candidate=candidate)))
    assert judged == {"wider": Verdict.PASS, "wrong": Verdict.FAIL, "left out": Verdict.NOT_COMPARED}


def test_indices_are_compared_by_what_they_select() -> None:
    case = case_for("torch.max", (6, 5), backward=True)
    case = replace(case, arguments={"args": [{"$t": 0}, 1], "kwargs": {}})
    found = measured(case)
    assert {one.path.partition(":")[0] for one in found.evidence} == {"out.0", "out.1", "args.0"}
    assert verdict(case, found) is Verdict.PASS


def test_a_random_call_is_compared_by_its_rule() -> None:
    case = case_for("torch.nn.functional.dropout", (100, 100), p=0.5)
    found = measured(case)
    assert any("check" in one.path for one in found.evidence)
    assert verdict(case, found) is Verdict.PASS


def test_an_ill_conditioned_case_is_measured_with_moved_inputs() -> None:
    executions = execute_case(case_for("torch.log", (64,), backward=False), Target.parse("torch:cpu"))
    golds = [executions.gold, *executions.perturbed()]
    assert len(golds) > 2
    contents = {np.asarray(one.outputs["out"].bits).tobytes() for one in golds}
    assert len(contents) == len(golds)


def test_golds_of_moved_inputs_are_made_once_and_for_what_is_in_doubt() -> None:
    """Only the gradient of the bias is made doubtful: neither the other gradients nor further golds are asked for."""
    case = case_for("torch.nn.functional.linear", (3, 4), (5, 4), (5,))
    executions = execute_case(case, Target.parse("torch:cpu"))
    bias = executions.candidate.gradients["args.2"]
    assert bias.bits is not None
    off = replace(bias, bits=bias.bits + np.float32(1e-6))
    gradients = {**executions.candidate.gradients, "args.2": off}
    asked: list[tuple[frozenset[str], list[Executed]]] = []

    def moved(wanted: frozenset[str] | None) -> tuple[Executed, ...]:
        assert executions.moved is not None and wanted is not None
        made = executions.moved(wanted)
        asked.append((wanted, list(made)))
        return made

    candidate = replace(executions.candidate, gradients=gradients)
    found = measure_executions(case, replace(executions, candidate=candidate, moved=moved))
    ((wanted, golds),) = asked
    assert wanted == {"args.2"} and all(set(one.gradients) == {"args.2"} for one in golds)
    assert {one.path: one.numbers.get("unmoved", 0.0) for one in found.evidence} == {
        "out": 1.0, "args.0": 1.0, "args.1": 1.0, "args.2": 0.0,
    }  # fmt: skip


def test_everybody_is_fed_the_same_gradients() -> None:
    executions = execute_case(case_for("torch.exp", (32,)), Target.parse("torch:cpu/bfloat16"))
    arrived = executions.inputs.gradients["out"]
    assert arrived.dtype == "bfloat16"
    for one in (executions.candidate, executions.honest, executions.gold):
        assert np.array_equal(one.arrived["out"].bits, arrived.bits)


def test_float64_is_judged_by_more_digits() -> None:
    executions = execute_case(case_for("torch.exp", (32,), dtype="float64"), Target.parse("torch:cpu"))
    assert executions.wide
    assert executions.gold.outputs["out"].low is not None
    assert np.any(executions.gold.outputs["out"].low)


def test_an_operator_without_a_wide_form_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from trueline.frameworks.torch.wide import tensor as wide

    def refuse(*arguments: Any, **keywords: Any) -> Any:
        raise wide.NoWideGold("exp", "nobody wrote it")

    monkeypatch.setattr(wide, "_compute", refuse)
    case = case_for("torch.exp", (8,), dtype="float64", backward=False)
    found = measured(case)
    assert "there is no gold" in by_part(found, "output").note
    assert verdict(case, found) is Verdict.NOT_COMPARED


def test_the_stages_are_announced() -> None:
    stages: list[str] = []
    measured(case_for(GELU, (4,)), announce=stages.append)
    assert stages == ["candidate", "honest", "gold", "measure"]


def test_measuring_twice_gives_the_same_numbers() -> None:
    case = case_for("torch.nn.functional.layer_norm", (8, 16))
    case = replace(case, arguments={"args": [{"$t": 0}, {"$tuple": [16]}], "kwargs": {}})
    first, second = measured(case), measured(case)
    assert [one.numbers for one in first.evidence] == [one.numbers for one in second.evidence]


class Recording:
    """An executor that says in which modes it was asked, and whether gradients could arrive."""

    def __init__(self, inner: Any, asked: list[tuple[str, bool]]) -> None:
        self._inner = inner
        self._asked = asked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def run(self, case: Case, inputs: Inputs, *, mode: Any, watch: Any = ()) -> Executed:
        self._asked.append((mode, inputs.draw is not None))
        done: Executed = self._inner.run(case, inputs, mode=mode, watch=watch)
        return done


def asked_of(case: Case, monkeypatch: pytest.MonkeyPatch, kernel: str = "") -> list[tuple[str, bool]]:
    asked: list[tuple[str, bool]] = []
    made = worker.executors_for

    def recording(*words: Any) -> Any:
        one = Recording(made(*words)[0], asked)
        return one, one

    monkeypatch.setattr(worker, "executors_for", recording)
    measured(case, overrides={case.api: f"{KERNELS}:{kernel}"} if kernel else {})
    return asked


def test_of_a_call_that_does_not_return_no_gradients_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked_of(case_for(GELU, (4, 4)), monkeypatch, "raising") == [("candidate", True), ("honest", False)]


def test_both_are_executed_once_where_they_ask_for_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    found = asked_of(case_for(GELU, (4, 4)), monkeypatch, "right_gelu")
    assert [mode for mode, _ in found] == ["candidate", "honest", "gold"]


def test_a_candidate_is_asked_again_for_what_the_reference_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_for("torch.Tensor.add_", (8,), (8,), backward=False)
    found = asked_of(case, monkeypatch, "copying_add_")
    assert [mode for mode, _ in found[:3]] == ["candidate", "honest", "candidate"]


def test_what_two_implementations_only_move_needs_no_gold(monkeypatch: pytest.MonkeyPatch) -> None:
    found = asked_of(case_for("torch.t", (3, 4)), monkeypatch, "right_t")
    assert [mode for mode, _ in found] == ["candidate", "honest"]
    assert verdict(case_for("torch.t", (3, 4)), measured(case_for("torch.t", (3, 4)))) is Verdict.PASS


def test_one_that_agrees_with_itself_needs_a_gold(monkeypatch: pytest.MonkeyPatch) -> None:
    found = asked_of(case_for("torch.t", (3, 4)), monkeypatch)
    assert [mode for mode, _ in found] == ["candidate", "honest", "gold"]


def test_a_long_list_of_numbers_is_one_result() -> None:
    case = case_for("torch.Tensor.tolist", (10, 20), backward=False)
    found = measured(case)
    assert [(one.path, one.shape) for one in found.evidence] == [("out", (10, 20))]
    assert verdict(case, found) is Verdict.PASS
