"""Values that matter do not make the judge cry out at honest implementations: examples of the mapping in every draw."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("paddle")
pytest.importorskip("torch")

from tests.helpers.apart import run_apart
from trueline.campaign.variants import another_draw, strided
from trueline.cases import Case, Target
from trueline.formats.configs import config_to_case, parse_config
from trueline.judge.checks import check_standard_named, judge_case
from trueline.ops.domains import with_domains
from trueline.ops.mapping.rows import rows
from trueline.records import Verdict
from trueline.replay.worker import Options, measure_case

TARGET, REFERENCE = Target.parse("paddle:cpu"), Target.parse("torch:cpu")
STANDARD = check_standard_named("calibrated")
EVERY = 47
PADDLE_IS_WRONG = {
    "equal": "numbers closer than 1e-8 are equal to it",
    "prod": "its gradient divides by the element, which may be zero",
    "silu": "its gradient is NaN far below zero",
    "clamp_": "a limit that is not given is the largest float32, also for float64",
}


def sampled() -> Iterator[Case]:
    """A few rows of the mapping, spread over all of it; none that says that the two frameworks disagree."""
    for row in list(rows().values())[::EVERY]:
        if row.examples and not row.disagreement:
            yield with_domains(config_to_case(parse_config(row.examples[0]), 11))


def verdict(case: Case) -> tuple[Verdict, str]:
    result = judge_case(case, measure_case(case, TARGET, REFERENCE, Options(predecessors=False)), STANDARD)
    return result.verdict, result.reason


def test_no_draw_and_no_layout_raises_a_false_alarm() -> None:
    run_apart("tests.replay.test_draws_are_quiet:every_draw_is_quiet")


def every_draw_is_quiet() -> None:
    measured = 0
    for case in sampled():
        for number in range(4):
            for one in (another_draw(case, number), strided(another_draw(case, number))):
                found, reason = verdict(one)
                measured += found in (Verdict.PASS, Verdict.WARN)
                assert found not in (Verdict.FAIL, Verdict.ERROR), (one.api, one.calls, reason)
    assert measured > 100


@pytest.mark.parametrize(
    ("line", "draws"),
    [
        ('paddle.equal(Tensor([64],"float32"), Tensor([64],"float32"), )', (1, 2)),
        ('paddle.prod(Tensor([3, 4],"float32"), )', (1,)),
        ('paddle.nn.functional.silu(Tensor([64],"float32"), )', (2,)),
        ('paddle.Tensor.clamp_(Tensor([64],"float64"), max=0.2, )', (2,)),
    ],
)
def test_the_draws_find_what_is_wrong_at_the_edges(line: str, draws: tuple[int, ...]) -> None:
    case = with_domains(config_to_case(parse_config(line), 11))
    assert case.api.rpartition(".")[2] in PADDLE_IS_WRONG
    assert verdict(case)[0] is Verdict.PASS
    assert Verdict.FAIL in [verdict(another_draw(case, number))[0] for number in draws]
