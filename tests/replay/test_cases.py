"""Which calls of a Run are which Cases: none lost, the same ones merged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.synthetic import Bits, Spec, array, write_run
from trueline.cases import Case
from trueline.exchange import import_apex
from trueline.records import Level, Phase
from trueline.replay.cases import Planned, cases_from_run
from trueline.replay.inputs import inputs_for
from trueline.store import open_run


def planned(tmp_path: Path, *specs: Spec, **options: Any) -> Planned:
    return cases_from_run(write_run(tmp_path / "run", list(specs)), **options)


def only(plan: Planned) -> Case:
    (case,) = plan.cases
    return case


def test_a_call_becomes_a_case_with_its_data(tmp_path: Path) -> None:
    x, y = array(4, 3), array(4, 3, seed=2)
    case = only(planned(tmp_path, Spec("torch.add", [x, y], [x + y], kwargs={"alpha": 2.0}, module="block")))
    assert (case.api, case.module, case.count, case.calls) == ("torch.add", "block", 1, ("torch.add.0.forward",))
    assert case.arguments["kwargs"] == {"alpha": 2.0}
    assert np.array_equal(inputs_for(case).tensors["args.1"].bits, y)


def test_calls_that_look_the_same_are_one_case(tmp_path: Path) -> None:
    specs = [Spec("torch.relu", [array(4, seed=n)], [array(4, seed=n)]) for n in range(3)]
    plan = planned(tmp_path, *specs, Spec("torch.relu", [array(5)], [array(5)]))
    assert [case.count for case in plan.cases] == [3, 1]
    assert plan.calls == 4


@pytest.mark.parametrize(
    "other",
    [
        Spec("torch.abs", [array(4)], [array(4)]),
        Spec("torch.relu", [array(2, 2)], [array(2, 2)]),
        Spec("torch.relu", [array(4).astype("f8")], [array(4).astype("f8")]),
        Spec("torch.relu", [array(4)], [array(4)], kwargs={"inplace": True}),
    ],
    ids=["api", "shape", "dtype", "argument"],
)
def test_calls_that_differ_are_two(tmp_path: Path, other: Spec) -> None:
    plan = planned(tmp_path, Spec("torch.relu", [array(4)], [array(4)]), other)
    assert len(plan.cases) == 2
    assert len({case.key for case in plan.cases}) == 2
    assert len({case.seed for case in plan.cases}) == 2


def test_all_data_keeps_calls_apart_that_were_given_other_numbers(tmp_path: Path) -> None:
    specs = [Spec("torch.relu", [array(4, seed=n)], [array(4, seed=n)]) for n in range(3)]
    plan = planned(tmp_path, *specs, all_data=True)
    assert len(plan.cases) == 3


def test_the_call_with_the_most_to_see_is_taken(tmp_path: Path) -> None:
    """In the first step the state of an optimizer is all zeros."""
    still, lively = np.zeros(8, dtype="f4"), array(8)
    plan = planned(
        tmp_path, Spec("torch.Tensor.sqrt", [still], [still]), Spec("torch.Tensor.sqrt", [lively], [lively])
    )
    assert np.array_equal(inputs_for(only(plan)).tensors["args.0"].bits, lively)


def captured(path: Path, *, backward: bool) -> Case:
    """A real product, captured with its tensors."""
    torch = pytest.importorskip("torch")
    import trueline

    x, weight = torch.randn(4, 3), torch.randn(3, 2, requires_grad=True)
    with trueline.capture(path, data="tensors"):
        out = torch.matmul(x, weight)
        if backward:
            out.backward(torch.full((4, 2), 0.5))
    return next(case for case in cases_from_run(path).cases if case.api == "torch.matmul")


def test_a_backward_call_belongs_to_its_forward_call(tmp_path: Path) -> None:
    case = captured(tmp_path / "run", backward=True)
    assert case.backward
    assert [(spec.path, spec.requires_grad) for spec in case.tensors] == [("args.0", False), ("args.1", True)]
    assert np.array_equal(inputs_for(case).gradients["out"].bits, np.full((4, 2), 0.5, dtype="f4"))


def test_without_a_backward_call_there_is_no_backward(tmp_path: Path) -> None:
    case = captured(tmp_path / "run", backward=False)
    assert not case.backward
    assert not any(spec.requires_grad for spec in case.tensors)


def test_a_backward_call_without_its_forward_call_is_counted(tmp_path: Path) -> None:
    forward = Spec("torch.relu", [array(4)], [array(4)], level=Level.MODULE)
    back = Spec("torch.relu", [array(4)], [array(4)], phase=Phase.BACKWARD)
    plan = planned(tmp_path, forward, back)
    assert (plan.cases, plan.calls, sum(plan.skipped.values())) == ((), 1, 1)


def test_gradients_that_arrived_are_kept_where_outputs_were_not(tmp_path: Path) -> None:
    """PaddleAPEX keeps the gradients of a call's outputs, and no outputs."""
    node = {"type": "paddle.Tensor", "dtype": "FLOAT32", "shape": [4], "Max": 2.0, "Min": -2.0, "stop_gradient": False}
    entry = {"args": [node], "kwargs": {}, "dout_list": [{**node, "Max": 7.0, "Min": 7.0}]}
    file = tmp_path / "forward_rank0.json"
    file.write_text(json.dumps({"paddle.tanh*0": entry}), encoding="utf-8")
    import_apex(file, tmp_path / "run")
    case = only(cases_from_run(tmp_path / "run"))
    assert case.backward and [spec.path for spec in case.gradients] == ["out"]
    assert inputs_for(case).gradients["out"].bits.tolist() == [7.0] * 4


def bfloat16(*shape: int) -> Bits:
    return Bits(np.full(shape, 0x3F80, dtype="<u2"), "bfloat16")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (Spec("torch.matmul", [array(2, 2), array(2, 2)], [bfloat16(2, 2)]), "bfloat16"),
        (Spec("torch.nn.functional.linear", [bfloat16(2, 2), array(2, 2)], [bfloat16(2, 2)]), "bfloat16"),
        (Spec("torch.softmax", [bfloat16(2, 2), -1], [array(2, 2)]), "float32"),
        (Spec("torch.nn.functional.layer_norm", [bfloat16(2, 2), [2], array(2)], [array(2, 2)]), "float32"),
        (Spec("torch.nn.functional.layer_norm", [bfloat16(2, 2), [2], array(2)], [bfloat16(2, 2)]), ""),
        (Spec("torch.Tensor.bfloat16", [array(2)], [bfloat16(2)]), ""),
        (Spec("torch.sum", [bfloat16(2)], [array(1)], kwargs={"dtype": {"$dtype": "float32"}}), ""),
        (Spec("torch.mul", [bfloat16(2), np.array(0.5, dtype="f4")], [bfloat16(2)]), ""),
        (Spec("torch.add", [bfloat16(2), array(2)], [array(2)]), ""),
    ],
    ids=["product", "mixed product", "raised", "raised norm", "mixed norm", "cast", "dtype argument", "number",
         "promotion"],
)  # fmt: skip
def test_autocast_shows_in_the_dtypes(tmp_path: Path, spec: Spec, expected: str) -> None:
    assert only(planned(tmp_path, spec)).autocast == expected


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (Spec("torch.distributed.all_reduce", [array(4)], [array(4)]), "other ranks"),
        (Spec("mine.Swish.apply", [array(4)], [array(4)]), "custom autograd function"),
        (Spec("mine.kernel", [array(4)], [array(4)]), "not a function of the framework"),
        (Spec("torch.relu", [array(4), {"$object": "mine.Thing", "text": ""}], [array(4)]), "mine.Thing"),
    ],
)
def test_what_cannot_be_a_case_is_skipped_with_the_reason(tmp_path: Path, spec: Spec, reason: str) -> None:
    plan = planned(tmp_path, spec, Spec("torch.relu", [array(4)], [array(4)]))
    assert [case.api for case in plan.cases] == ["torch.relu"]
    ((text, count),) = plan.skipped.items()
    assert reason in text and count == 1


def test_an_override_makes_a_case_of_a_foreign_function(tmp_path: Path) -> None:
    plan = planned(tmp_path, Spec("mine.kernel", [array(4)], [array(4)]), overridden=["mine.kernel"])
    assert only(plan).api == "mine.kernel"


def test_seeds_do_not_depend_on_the_company(tmp_path: Path) -> None:
    relu = Spec("torch.relu", [array(4)], [array(4)])
    alone = only(planned(tmp_path / "a", relu))
    second = planned(tmp_path / "b", Spec("torch.abs", [array(9)], [array(9)]), relu).cases[1]
    assert alone.seed == second.seed
    assert only(planned(tmp_path / "c", relu, seed=1)).seed != alone.seed


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One step of each helper program, captured with statistics alone."""
    pytest.importorskip("torch")
    import trueline
    from tests.helpers.models import PROGRAMS, train

    folder = tmp_path_factory.mktemp("captures")
    for name in PROGRAMS:
        train(name, trueline.capture(folder / name, data="stats"), steps=1)
    return {name: folder / name for name in PROGRAMS}


@pytest.mark.parametrize("name", ["transformer", "transformer-loop", "convolution", "mixed"])
def test_no_call_of_a_real_program_is_lost(captures: dict[str, Path], name: str) -> None:
    plan = cases_from_run(captures[name])
    recorded = open_run(captures[name]).rank(0).certificate.calls
    assert plan.calls == recorded["api forward"]
    assert plan.backward_calls == recorded["api backward"]
    assert sum(case.count for case in plan.cases) + sum(plan.skipped.values()) == plan.calls
    assert len(plan.cases) < plan.calls


@pytest.mark.parametrize("name", ["transformer", "convolution", "mixed"])
def test_every_case_of_a_real_program_runs_and_passes(captures: dict[str, Path], name: str) -> None:
    from trueline.cases import Target
    from trueline.judge.checks import check_standard_named, judge_case
    from trueline.records import Verdict
    from trueline.replay.worker import measure_case

    standard = check_standard_named("calibrated")
    for case in cases_from_run(captures[name]).cases:
        measured = measure_case(case, Target.parse("torch:cpu"))
        result = judge_case(case, measured, standard)
        assert result.verdict is Verdict.PASS, f"{case.api}: {result.reason}"
        if case.backward:
            assert any(one.part == "gradient" for one in measured.evidence), case.api


def test_generated_data_have_the_statistics_that_were_recorded(captures: dict[str, Path]) -> None:
    from trueline.dtypes import dtype_named
    from trueline.numerics import statistics

    seen = 0
    for case in cases_from_run(captures["transformer"]).cases:
        inputs = inputs_for(case)
        for spec in case.tensors:
            if spec.statistics is None or spec.statistics.count < 2 or spec.strides is not None:
                continue
            made = statistics(inputs.tensors[spec.path].bits, dtype_named(spec.dtype))
            if dtype_named(spec.dtype).is_float:
                assert (made.zeros, made.nan) == (spec.statistics.zeros, spec.statistics.nan)
            assert spec.statistics.minimum <= made.minimum <= made.maximum <= spec.statistics.maximum
            seen += 1
    assert seen > 50


def test_cases_travel_without_sketches(captures: dict[str, Path]) -> None:
    case = cases_from_run(captures["transformer"]).cases[0]
    assert all(spec.statistics is None or spec.statistics.sketch is None for spec in case.tensors)
    assert replace(case, count=7).key == case.key
