"""Rates of campaigns, reckoned from spans whose rates are known."""

from __future__ import annotations

import pytest
from benchmarks.steady import Span, rates, window


def spans(*begun_and_ended: tuple[float, float], target: float = 0.0) -> list[Span]:
    return [Span(ended, ended - begun, target, "line") for begun, ended in begun_and_ended]


def test_start_and_tail_do_not_count() -> None:
    """Two workers, ten cases a second each; the second comes a second late, and the last case of the first is long."""
    first = [(0.1 * place, 0.1 * (place + 1)) for place in range(50)]
    second = [(1.0 + 0.1 * place, 1.0 + 0.1 * (place + 1)) for place in range(40)]
    found = rates(spans(*first, *second, (5.0, 9.0)), 2)
    assert window(spans(*first, *second, (5.0, 9.0)), 2) == pytest.approx((1.0, 5.0), abs=1e-9)
    assert found["all"] == pytest.approx(10.0) and found["all seconds"] == pytest.approx(4.0)
    assert found["busy"] == pytest.approx(91 / 13.0)


def test_a_case_counts_with_its_share() -> None:
    found = rates(spans((0.0, 4.0), (4.0, 6.0)), 1)
    assert found["all"] == pytest.approx(1 / 4)


def test_slow_kernels_are_counted_apart_and_named() -> None:
    slow = [Span(10.0, 9.0, 5.0, "the slow one")]
    found = rates([*spans(*((float(place), place + 0.5) for place in range(10))), *slow], 1)
    assert found["ordinary"] == pytest.approx(2.0) and found["busy"] == pytest.approx(11 / 14.0)
    assert [one["line"] for one in found["slow"]] == ["the slow one"] and found["slow lines"] == 1


def test_what_ended_its_worker_is_said() -> None:
    found = rates([*spans((0.0, 1.0), (1.0, 2.0)), Span(2.0, 0.0, 0.0, "died")], 1)
    assert found["ended their worker"] == 1 and found["busy"] == pytest.approx(1.0)


def test_the_middle_is_without_the_long_lines_at_the_beginning_and_the_waiting_at_the_end() -> None:
    long = [Span(ended=50.0, worked=50.0, target=40.0, line="long")]
    even = [Span(ended=50.0 + n * 0.1, worked=0.1, target=0.1, line=str(n)) for n in range(1, 99)]
    last = [Span(ended=90.0, worked=30.0, target=20.0, line="last")]
    assert rates([*long, *even, *last], workers=1)["middle"] == pytest.approx(10.0)
