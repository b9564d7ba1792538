"""The compiled cases: declared as they should be, and judged as they should be."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

pytest.importorskip("torch")

from benchmarks.compiled import run
from benchmarks.compiled.cases import Clean, Fault, half_of, load

ROOT = Path(__file__).resolve().parents[2] / "benchmarks" / "compiled"


def test_enough_of_both_kinds_in_both_halves() -> None:
    cases = load()
    faults = [name for name, case in cases.items() if isinstance(case, Fault)]
    pairs = [name for name, case in cases.items() if isinstance(case, Clean)]
    assert len(faults) >= 36 and len(pairs) >= 44
    for half in ("work", "counted"):
        assert sum(half_of(name) == half for name in faults) >= 15
        assert sum(half_of(name) == half for name in pairs) >= 15


@pytest.mark.parametrize("name", sorted(name for name, case in load().items() if isinstance(case, Fault)))
def test_a_fault_says_where_a_right_answer_points(name: str) -> None:
    case = load()[name]
    assert isinstance(case, Fault)
    assert case.description and case.report.startswith("https://github.com/")
    assert case.where.phase in ("forward", "backward")
    assert all(operator.startswith(("aten.", "prims.")) for operator in case.where.operators)
    file, _, function = case.where.source.partition(":")
    if file.startswith("programs/") and function:
        names = {node.name for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
                 if isinstance(node, (ast.FunctionDef, ast.ClassDef))}  # fmt: skip
        assert set(function.split(".")) <= names


@pytest.mark.parametrize("name", ["torch.ops.aten.add_.Tensor", "aten.add", "torch.Tensor.__iadd__", "operator.add"])
def test_operator_names_come_without_overload(name: str) -> None:
    assert run.operator_name(name) == "add"


def test_a_piece_is_found_wherever_it_stands() -> None:
    document = [{"regions": [{"piece": []}, {"piece": [{"operator": "aten.rsqrt.default"}]}]}]
    assert run.named_piece(document) == ["rsqrt"]
    assert run.named_piece([{"regions": [{"piece": []}]}]) == []


def test_an_answer_is_right_only_with_the_region_the_phase_and_the_exit_code() -> None:
    case = next(case for case in load().values() if isinstance(case, Fault) and case.where.phase == "forward")
    origin = {"verdict": "FAIL", "summary": "", "origin": {"call": {"name": "torch.compile.model.graph0.0.forward"}}}
    assert run.judged(case, origin, 1)["right"]
    assert not run.judged(case, origin, 0)["right"]
    assert not run.judged(case, {**origin, "origin": {"call": {"name": "torch.compile.model.graph0.0.backward"}}}, 1)[
        "right"
    ]
    assert not run.judged(case, {**origin, "origin": {"call": {"name": "torch.sum.0.forward"}}}, 1)["right"]
    assert not run.judged(case, {**origin, "origin": None}, 1)["right"]


def test_a_wrong_pass_changes_what_is_computed_below_it_alone() -> None:
    import torch

    plants = importlib.import_module("benchmarks.compiled.plants")
    graph = torch.fx.symbolic_trace(lambda x: torch.ops.aten.add.Tensor(torch.ops.aten.neg.default(x), 1)).graph
    assert plants.every(torch.ops.aten.neg.default, plants.dropped())(graph) == 1
    assert [node.target for node in graph.nodes if node.op == "call_function"] == [torch.ops.aten.add.Tensor]
