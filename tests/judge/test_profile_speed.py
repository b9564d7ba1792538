"""What is too slow or too large, and what is only noise."""

from __future__ import annotations

import pytest

from tests.helpers.profiles import side, timed
from trueline.judge.speed import LEAST_BYTES, judge_speed
from trueline.profiles import CaseTimed, Limits, Ratio
from trueline.records import Phase, Verdict

EQUAL = Ratio(1.0, 0.98, 1.02)


def pair(ratio: Ratio, peaks: tuple[int, int] = (4096, 4096), seconds: float = 1e-3) -> CaseTimed:
    return timed(side(ratio.value * seconds, peak=peaks[0]), side(seconds, peak=peaks[1]), ratio)


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        (EQUAL, Verdict.PASS),
        (Ratio(0.5, 0.4, 0.6), Verdict.PASS),
        (Ratio(1.15, 1.10, 1.19), Verdict.PASS),  # slower, and allowed
        (Ratio(2.0, 1.9, 2.1), Verdict.FAIL),
        (Ratio(1.21, 1.205, 1.3), Verdict.FAIL),
        (Ratio(1.5, 1.1, 1.9), Verdict.WARN),  # slower for sure, beyond the limit perhaps
        (Ratio(1.5, 0.9, 2.5), Verdict.PASS),  # within the spread: no difference
    ],
)
def test_time_is_judged_with_its_noise(ratio: Ratio, verdict: Verdict) -> None:
    found, reason, findings = judge_speed(pair(ratio), Limits())
    assert found is verdict, reason
    assert f"{ratio.value:.2f}" in findings[0].reason
    assert {finding.what for finding in findings} == {"time", "memory"}


def test_limits_are_chosen() -> None:
    assert judge_speed(pair(Ratio(2.0, 1.9, 2.1)), Limits(time=2.5))[0] is Verdict.PASS
    assert judge_speed(pair(EQUAL, (8192, 4096)), Limits(memory=2.5))[0] is Verdict.PASS


def test_less_than_a_microsecond_is_no_finding() -> None:
    short = pair(Ratio(1.5, 1.4, 1.6), seconds=1.5e-6)
    found, _, findings = judge_speed(short, Limits())
    assert found is Verdict.PASS and "microsecond" in findings[0].reason
    assert judge_speed(pair(Ratio(1.5, 1.4, 1.6), seconds=1.5e-5), Limits())[0] is Verdict.FAIL


@pytest.mark.parametrize(
    ("peaks", "verdict"),
    [
        ((8192, 4096), Verdict.FAIL),
        ((4096, 8192), Verdict.PASS),
        ((4096 + LEAST_BYTES - 1, 4096), Verdict.PASS),  # allocators round up
        ((4096 + LEAST_BYTES, 4096), Verdict.FAIL),
        ((50_000, 0), Verdict.FAIL),
        ((1_050_000, 1_000_000), Verdict.PASS),  # 5 % more, and allowed
    ],
)
def test_memory_has_no_noise(peaks: tuple[int, int], verdict: Verdict) -> None:
    found, reason, _ = judge_speed(pair(EQUAL, peaks), Limits())
    assert found is verdict, reason
    if verdict is Verdict.FAIL:
        assert f"{peaks[0]:,}" in reason


def test_the_worst_direction_counts() -> None:
    both = timed(side(1e-3, 4e-3), side(1e-3, 1e-3), EQUAL, Ratio(4.0, 3.9, 4.1))
    found, reason, findings = judge_speed(both, Limits())
    assert found is Verdict.FAIL and reason.startswith("backward")
    assert [one.verdict for one in findings if one.phase is Phase.FORWARD] == [Verdict.PASS, Verdict.PASS]


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        (timed(side(None), side(1e-3)), "raised: RuntimeError: no kernel"),
        (timed(side(1e-3), side(None)), "on the other side: raised"),
        (timed(side(1e-3), None), "nothing to hold it against"),
        (timed(side(1e-3), side(1e-3)), "no direction in common"),
    ],
)
def test_nothing_passes_that_was_not_measured(measured: CaseTimed, said: str) -> None:
    found, reason, findings = judge_speed(measured, Limits())
    assert found is Verdict.NOT_COMPARED and said in reason and findings == ()
