"""Coverage of a corpus, from results made by hand; and explanations that still speak of something."""

from __future__ import annotations

import fnmatch

import pytest
from benchmarks.corpus_coverage import coverage_of, explained, explanations

from trueline.cases import Case, CaseMeasured, CaseResult, Evidence, Outcome, Status, TensorFinding
from trueline.ops.mapping.rows import rows
from trueline.records import Verdict

RETURNED = Outcome(Status.RETURNED)
UNMAPPED = ["paddle.incubate.nn.functional.fused_rms_norm"]
"""Without a counterpart, and yet with a finding: it ends its process."""


def result(api: str, verdict: Verdict, gradient: Verdict | None = Verdict.PASS, *, skipped: str = "",
           candidate: Outcome = RETURNED, backward: bool = True) -> CaseResult:  # fmt: skip
    parts = [("output", Verdict.PASS), *([("gradient", gradient)] if gradient is not None else [])]
    findings = () if skipped else tuple(
        TensorFinding(Evidence(part, "out", "float32", (2,)), one, f"{part} {one.name}") for part, one in parts
    )  # fmt: skip
    measured = CaseMeasured("key", candidate, RETURNED, skipped=skipped)
    return CaseResult(Case(api, None, backward=backward), measured, verdict, skipped or "why", findings)


def test_lines_are_counted_once_and_gradients_where_there_are_some() -> None:
    unmapped = "no counterpart in torch: paddle.x is not mapped"
    found = coverage_of([
        result("paddle.a", Verdict.PASS),
        result("paddle.b", Verdict.PASS, None),  # not differentiable
        result("paddle.c", Verdict.NOT_COMPARED, Verdict.NOT_COMPARED),
        result("paddle.d", Verdict.FAIL, Verdict.FAIL),
        result("paddle.e", Verdict.NOT_COMPARED, skipped=unmapped),
        result("paddle.f", Verdict.NOT_COMPARED, candidate=Outcome(Status.UNSUPPORTED, "no kernel")),
        result("paddle.g", Verdict.PASS, backward=False),
    ])  # fmt: skip
    assert found.lines == 7 == sum(found.endings.values())
    assert [reason for _, reason in found.unmapped] == [unmapped]
    assert (found.compared, found.differentiable) == (2, 4)
    assert [reason for _, reason in found.without_gradients] == ["gradient NOT_COMPARED", unmapped]
    assert [one.case.api for _, _, one in found.findings] == ["paddle.d"]


def test_a_reference_that_takes_too_long_is_no_finding() -> None:
    late = result("paddle.a", Verdict.NOT_COMPARED, skipped="timed out in the reference",
                  candidate=Outcome(Status.TIMED_OUT, "late"))  # fmt: skip
    found = coverage_of([late, result("paddle.b", Verdict.ERROR, candidate=Outcome(Status.TIMED_OUT, "late"))])
    assert [reason for _, reason in found.late] == ["timed out in the reference"]
    assert [one.case.api for _, _, one in found.findings] == ["paddle.b"]
    assert (found.compared, found.differentiable) == (0, 1)


def test_explanations_are_found_by_api_line_and_reason() -> None:
    table = [{"api": "paddle.a", "line": "float64", "why": "one"}, {"api": ["paddle.*"], "reason": "why", "why": "two"}]
    wrong = result("paddle.a", Verdict.FAIL)
    assert explained('paddle.a(Tensor([],"float64"))', wrong, table) is table[0]
    assert explained('paddle.a(Tensor([],"float32"))', wrong, table) is table[1]
    assert explained("torch.a()", result("torch.a", Verdict.FAIL), table) is None


@pytest.mark.parametrize("row", explanations(), ids=lambda row: str(row["api"]))
def test_an_explanation_speaks_of_functions_that_exist(row: dict[str, object]) -> None:
    assert row["fault"] in ("Paddle", "the config", "the harness") and row["why"]
    patterns = row["api"] if isinstance(row["api"], list) else [row["api"]]
    for pattern in patterns:
        assert fnmatch.filter([*rows(), *UNMAPPED], pattern), pattern
