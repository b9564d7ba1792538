"""Golds that are not computed where a result is right beyond doubt change no verdict."""

from __future__ import annotations

import pytest

pytest.importorskip("paddle")
pytest.importorskip("torch")

from tests.helpers.apart import run_apart
from trueline.campaign.sources import parts_of, plan_of
from trueline.cases import Case, CaseResult, Target
from trueline.judge.checks import check_standard_named, judge_case
from trueline.records import Verdict
from trueline.replay.worker import Options, measure_case

PADDLE, TORCH = Target.parse("paddle:cpu"), Target.parse("torch:cpu")
EACH = 14
"""One example of so many; all of them take a minute."""


def judged(case: Case, target: Target, reference: Target, *, thorough: bool) -> CaseResult:
    measured = measure_case(case, target, reference, Options(thorough=thorough))
    return judge_case(case, measured, check_standard_named("calibrated"))


def examples(pattern: str, target: Target) -> list[Case]:
    return list(plan_of(parts_of([], [pattern], 0, target)).cases)


def test_examples_of_the_mapping_get_the_same_verdicts() -> None:
    run_apart("tests.replay.test_short_cut:verdicts_are_the_same")


def verdicts_are_the_same() -> None:
    cases = examples("paddle.*", PADDLE)[::EACH]
    assert len(cases) > 40
    short = [judged(case, PADDLE, TORCH, thorough=False) for case in cases]
    full = [judged(case, PADDLE, TORCH, thorough=True) for case in cases]
    different = [(one.case.api, one.verdict, other.verdict) for one, other in zip(short, full, strict=True)
                 if one.verdict is not other.verdict]  # fmt: skip
    assert different == []
    passed = [one for one in short if one.verdict is Verdict.PASS]
    settled = [one for one in passed if all(find.evidence.numbers.get("unmoved") for find in one.findings)]
    assert len(settled) > 0.7 * len(passed)  # else it is no short cut


@pytest.mark.parametrize("wrong", ["scaled", "shifted", "coarse"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_is_wrong_is_found_all_the_same(wrong: str, dtype: str) -> None:
    overrides = {"torch.nn.functional.gelu": f"tests.replay.test_short_cut:{wrong}"}
    target = Target.parse(f"torch:cpu/{dtype}", overrides)
    reference = Target.parse("torch:cpu/float64")
    for case in examples("torch.nn.functional.gelu", target)[:3]:
        for thorough in (False, True):
            assert judged(case, target, reference, thorough=thorough).verdict is Verdict.FAIL


def scaled(*args: object, **kwargs: object) -> object:
    import torch

    return torch.nn.functional.gelu(*args, **kwargs) * 1.005  # type: ignore[arg-type]


def shifted(*args: object, **kwargs: object) -> object:
    import torch

    return torch.nn.functional.gelu(*args, **kwargs) + 0.02  # type: ignore[arg-type]


def coarse(*args: object, **kwargs: object) -> object:
    """Rounded to eight digits in float32, to five in bfloat16."""
    import torch

    made = torch.nn.functional.gelu(*args, **kwargs)  # type: ignore[arg-type]
    keep = 256.0 if made.dtype is torch.float32 else 32.0
    return made + (made * keep - (made * keep - made)) - made
