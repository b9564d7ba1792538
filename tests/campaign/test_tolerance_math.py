"""What a sample of errors says: intervals that hold as often as they claim, tolerances that hold and are tight."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from trueline.campaign.tolerance_math import coverage_of, interval, rank_of, rounded_up, tightest
from trueline.numerics.envelope import corners_of


def test_ranks_are_within() -> None:
    assert [rank_of(0.5, count) for count in (1, 2, 3, 4)] == [1, 1, 2, 2]
    assert rank_of(0.99, 100) == 99
    assert rank_of(0.99, 10) == 10


def test_few_values_bound_nothing() -> None:
    assert interval(0.5, 1, 0.95) == (None, None)
    assert interval(0.99, 100, 0.95)[1] is None
    assert interval(0.99, 1000, 0.95)[1] is not None


@pytest.mark.parametrize(
    ("share", "count"), [(0.5, 6), (0.5, 50), (0.9, 80), (0.99, 700), (0.5, 5000), (0.99, 5000)]
)
def test_intervals_hold_as_often_as_they_claim(share: float, count: int) -> None:
    low, high = interval(share, count, 0.95)
    assert low is not None and high is not None and low < high
    # Of numbers drawn between 0 and 1 the quantile is the share itself, and order statistics are known.
    drawn = random.Random(5)
    inside = 0
    for _ in range(400):
        below = sum(drawn.random() < share for _ in range(count)) if count < 1000 else _binomial(drawn, count, share)
        inside += low <= below < high
    assert inside >= 0.92 * 400


def _binomial(drawn: random.Random, count: int, share: float) -> int:
    return int(np.random.default_rng(drawn.getrandbits(32)).binomial(count, share))


def test_the_exact_and_the_normal_interval_agree() -> None:
    exact, normal = interval(0.5, 1000, 0.95), interval(0.5, 1001, 0.95)
    assert exact[0] is not None and exact[1] is not None and normal[0] is not None and normal[1] is not None
    assert abs(exact[0] - normal[0]) <= 2
    assert abs(exact[1] - normal[1]) <= 2


def test_coverage() -> None:
    assert coverage_of(0, 0.95) == 0.0
    assert coverage_of(1, 0.95) == pytest.approx(0.05)
    assert coverage_of(59, 0.95) == pytest.approx(0.95, abs=0.001)  # the known 59 of 95 % with 95 %


@pytest.mark.parametrize("seed", range(20))
def test_tightest_tolerances_hold_and_none_is_tighter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = rng.lognormal(size=300)
    error = np.abs(rng.normal(size=300)) * (1e-7 * size + 1e-8)
    scale = float(np.sqrt(np.mean(size**2)))
    rtol, atol = tightest(corners_of(size, error), scale)
    assert (error <= atol + rtol * size + 1e-18).all()
    for other in np.geomspace(1e-9, 1e-5, 60):
        needed = max(0.0, float((error - other * size).max()))
        assert rtol * scale + atol <= (other * scale + needed) * (1 + 1e-9)


def test_no_error_needs_no_tolerance() -> None:
    assert tightest([], 1.0) == (0.0, 0.0)


@pytest.mark.parametrize("value", [1.0, 1.2345e-7, 9.99e-3, 0.1, 2.0**-23, 3e300])
def test_rounding_up_never_goes_below(value: float) -> None:
    found = rounded_up(value)
    assert value <= found <= 1.11 * value
    assert float(f"{found:.1e}") == found


def test_what_cannot_be_rounded_stays() -> None:
    assert rounded_up(0.0) == 0.0
    assert rounded_up(math.inf) == math.inf
