"""Rules on what torch really returns: an implementation held against itself must not be called wrong."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from trueline.cases import Case, CaseResult, Target
from trueline.judge.checks import check_standard_named, judge_case
from trueline.ops.catalogue import catalogue_cases
from trueline.ops.equivalence import RULES, rule_for
from trueline.records import Verdict
from trueline.replay.worker import Options, measure_case

FREE = ("nobody has written", "free phase", "free choice", "random", "chose other signs")
MISSING = ("reference", "not implemented")
"""Why nothing can be said of some outputs: a choice is free, or there is no kernel or gradient in this dtype."""


def ruled_cases(dtype: str, each: int = 3) -> list[Case]:
    """A few cases of every API of the catalogue that has a rule."""
    chosen: dict[str, list[Case]] = {}
    for case in catalogue_cases("*", dtype):
        if rule_for(case.api) is not None:
            chosen.setdefault(case.api, []).append(case)
    return [case for cases in chosen.values() for case in cases[:: max(1, len(cases) // each)]]


def judged(case: Case, dtype: str) -> CaseResult:
    measured = measure_case(case, Target.parse(f"torch:cpu/{dtype}"), None, Options(predecessors=False))
    return judge_case(case, measured, check_standard_named("calibrated"))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_torch_agrees_with_itself(dtype: str) -> None:
    for case in ruled_cases(dtype):
        result = judged(case, dtype)
        call = f"{case.api} {case.arguments}: {result.reason}"
        assert result.verdict in (Verdict.PASS, Verdict.WARN, Verdict.NOT_COMPARED), call
        if result.verdict is Verdict.NOT_COMPARED:
            assert any(text in result.reason for text in FREE + MISSING), call


def test_every_rule_is_exercised_by_the_catalogue() -> None:
    names = {rule.name for case in catalogue_cases() if (rule := rule_for(case.api)) is not None}
    assert {rule.name for rule in RULES} <= names
