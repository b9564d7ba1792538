"""What cases are guessed to cost: the order of magnitude, in microseconds, from shapes alone."""

from __future__ import annotations

import time

import pytest

from trueline.campaign.schedule import Cost, estimate
from trueline.campaign.sources import parts_of, plan_of
from trueline.cases import Case, Target
from trueline.formats.configs import config_to_case, parse_config

PADDLE, TORCH = Target.parse("paddle:cpu"), Target.parse("torch:cpu")


def cost(line: str) -> Cost:
    return estimate(config_to_case(parse_config(line), 0), PADDLE, TORCH)


def elements(line: str) -> float:
    """What a case is guessed to need beyond what the smallest needs, in bytes."""
    return cost(line).bytes - cost('paddle.neg(Tensor([1],"float32"), )').bytes


def test_the_smallest_cases_take_milliseconds_and_little_memory() -> None:
    small = cost('paddle.add(Tensor([2, 3],"float32"), Tensor([2, 3],"float32"), )')
    assert 0.001 < small.seconds < 0.01
    assert small.bytes < 100_000_000


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ('paddle.nn.functional.one_hot(Tensor([100],"int64"), 1000, )', 100_000),
        ('paddle.nn.functional.one_hot(Tensor([100],"int64"), num_classes=1000, )', 100_000),
        ("paddle.eye(300, 500, )", 150_000),
        ('paddle.expand(Tensor([1, 500],"int64"), shape=list[400, -1], )', 200_000),
        ('paddle.tile(Tensor([1, 500],"int64"), list[400, 1], )', 200_000),
        ('paddle.diag(Tensor([400],"int64"), )', 160_000),
        ('paddle.outer(Tensor([500],"int64"), Tensor([300],"int64"), )', 150_000),
        ('paddle.add(Tensor([500, 1],"int64"), Tensor([1, 300],"int64"), )', 150_000),
        ('paddle.matmul(Tensor([500, 7],"int64"), Tensor([7, 300],"int64"), )', 150_000),
        ('paddle.matmul(Tensor([500, 7],"int64"), Tensor([300, 7],"int64"), False, True, )', 150_000),
        ("paddle.zeros(list[500, 300], )", 150_000),
        ('paddle.nn.functional.conv2d(Tensor([1, 3, 100, 100],"int64"), Tensor([16, 3, 3, 3],"int64"), )', 160_000),
    ],
)
def test_results_larger_than_what_went_in_are_foreseen(line: str, given: int) -> None:
    assert 0.99 * given <= elements(line) / 96 <= 1.6 * given


def test_what_is_more_work_takes_longer() -> None:
    small, large = (f'paddle.tanh(Tensor([{size}],"float32"), )' for size in (1000, 1_000_000))
    assert cost(large).seconds > 10 * cost(small).seconds
    assert cost(large.replace("float32", "float64")).seconds > 2 * cost(large).seconds
    thin = 'paddle.matmul(Tensor([1000, 10],"float32"), Tensor([10, 1000],"float32"), )'
    thick = 'paddle.matmul(Tensor([1000, 10000],"float32"), Tensor([10000, 1000],"float32"), )'
    assert cost(thick).seconds > 50 * cost(thin).seconds


def test_a_case_that_would_fill_the_machine_says_so() -> None:
    huge = cost('paddle.nn.functional.one_hot(Tensor([100000],"int64"), 1000000, )')
    assert huge.bytes > 1e12


def test_every_example_of_the_mapping_can_be_guessed_within_microseconds() -> None:
    cases: list[Case] = list(plan_of(parts_of([], ["paddle.*"], 0, PADDLE)).cases)[::5]
    costs = [estimate(case, PADDLE, TORCH) for case in cases]
    assert all(0.0 < one.seconds < 10.0 and 0 < one.bytes < 1 << 32 for one in costs)
    begin = time.process_time()
    for case in cases:
        estimate(case, PADDLE, TORCH)
    assert (time.process_time() - begin) / len(cases) < 60e-6  # half of that on a machine that is not busy
