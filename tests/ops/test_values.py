"""Values that matter: what is drawn in each kind of draw."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from trueline.dtypes import dtype_named
from trueline.ops.spans import Span, span_of
from trueline.ops.values import DRAWS, differentiable_in_draw, kind_of_draw, takes_complex, values_for
from trueline.replay.stream import Stream

CALL = {"args": [{"$t": 0}], "kwargs": {}}


def made(api: str, dtype: str = "float32", draw: int = 0, domain: str = "", size: int = 500, **more: Any) -> Any:
    maker = values_for(api, domain, dtype, draw, more.pop("arguments", CALL), **more)
    return None if maker is None else maker(Stream(3, "args.0").generator, (size,))


def test_draws_come_around_again() -> None:
    assert [kind_of_draw(number) for number in range(6)] == [*DRAWS, "plain", "edges"]


@pytest.mark.parametrize("api", ["paddle.equal", "torch.ge", "paddle.Tensor.__lt__", "torch.unique"])
def test_what_is_compared_has_equal_elements(api: str) -> None:
    assert len(np.unique(made(api))) == 3
    assert len(np.unique(made(api, "int64", domain="normal"))) == 3


def test_what_asks_for_nan_gets_it() -> None:
    values = made("paddle.isnan")
    assert np.isnan(values).any() and np.isposinf(values).any() and np.isneginf(values).any()
    assert np.isfinite(values).any()
    assert np.isnan(made("paddle.nanmean")).any() and np.isnan(made("paddle.nan_to_num")).any()
    assert values_for("paddle.mean", "", "float32", 0) is None


def test_limits_are_crossed() -> None:
    assert made("paddle.nn.functional.relu6").max() > 6.5 and made("paddle.nn.functional.relu6").min() < -3
    call = {"args": [{"$t": 0}, 200.0, 255.0], "kwargs": {}}
    clipped = made("paddle.clip", arguments=call)
    assert clipped.min() < 200 < 255 < clipped.max()
    assert made("paddle.nn.functional.hardtanh", arguments=call).max() > 255
    assert made("paddle.clip", arguments={"args": [{"$t": 0}], "kwargs": {"min": -math.inf}}) is None


def test_rounding_meets_halves() -> None:
    values = made("paddle.round")
    assert np.any(values % 1 == 0.5) and np.any((values * 2) % 1 != 0)


def test_logic_meets_zeros() -> None:
    assert 0.3 < np.mean(made("paddle.logical_and") == 0) < 0.7
    assert 0.3 < np.mean(made("paddle.any", "int32", domain="normal") == 0) < 0.75


def test_edges_are_zeros_of_both_signs_and_the_ends_of_what_the_operator_bears() -> None:
    moved = made("torch.reshape", "float32", 1)
    assert np.any((moved == 0) & np.signbit(moved)) and np.any((moved == 0) & ~np.signbit(moved))
    assert np.abs(moved).max() == 2.0**126 and 0 < np.abs(moved)[moved != 0].min() < 2.0**-126
    assert np.abs(made("torch.exp", "float32", 1)).max() <= 32
    assert np.abs(made("torch.add", "float16", 1)).max() <= 8
    assert (made("torch.div", "float32", 1, "nonzero") != 0).all()


@pytest.mark.parametrize(("domain", "low", "high"), [("positive", 0.05, 8), ("uniform(-0.9, 8)", -0.9, 8),
                                               ("probability", 0.02, 0.98), ("unit_open", -0.98, 0.98)])  # fmt: skip
@pytest.mark.parametrize("draw", [1, 2])
def test_values_stay_in_their_domain_and_reach_its_ends(domain: str, low: float, high: float, draw: int) -> None:
    values = made("paddle.lgamma", "float64", draw, domain)
    assert low <= values.min() and values.max() <= high
    assert draw == 2 or (values.min() == low and values.max() == high)


def test_wide_values_spread_over_the_powers_of_two() -> None:
    values = made("torch.mul", "float32", 2)
    exponents = np.log2(np.abs(values))
    assert exponents.max() > 25 and exponents.min() < -25 and abs(np.median(exponents)) < 8
    assert 0.4 < np.mean(values < 0) < 0.6


def test_integers_reach_the_extremes_of_their_type_where_nothing_is_computed() -> None:
    assert made("torch.eq", "int32", 1, "normal").min() == -(2**31)
    assert np.abs(made("torch.mul", "int32", 1, "normal").astype("i8")).max() == 2**15 - 1
    assert values_for("paddle.expand", "sizes(2, 3)", "int32", 1) is None
    indices = made("torch.gather", "int64", 1, "index(7)")
    assert (indices.min(), indices.max()) == (0, 6) and np.mean(np.isin(indices, [0, 6])) > 0.4


@pytest.mark.parametrize("domain", ["permutation", "positive_definite", "distinct(9)", "boxes"])
def test_what_has_a_structure_keeps_it(domain: str) -> None:
    assert all(values_for("torch.cholesky", domain, "float32", draw) is None for draw in range(4))


def test_nan_is_drawn_only_for_operators_that_say_what_becomes_of_it() -> None:
    assert np.isnan(made("torch.reshape", draw=3)).any() and np.isinf(made("torch.eq", draw=3)).any()
    assert values_for("torch.matmul", "", "float32", 3) is None
    assert values_for("torch.add", "", "complex64", 3) is None
    assert np.isnan(made("torch.maximum", draw=3)).any()
    assert not differentiable_in_draw("paddle.maximum", 3) and differentiable_in_draw("paddle.maximum", 2)


def test_complex_numbers_have_two_parts_in_every_draw() -> None:
    for draw in (1, 2):
        values = made("torch.mul", "complex64", draw)
        assert np.any(values.imag != 0) and np.any(values.real != 0)
    assert takes_complex("paddle.add") and not takes_complex("paddle.floor")


def test_few_bools_take_every_combination() -> None:
    first, second = (made("paddle.logical_and", "bool", size=4, position=place, seed=9) for place in (0, 1))
    assert len(set(zip(first.tolist(), second.tolist(), strict=True))) == 4


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_few_compared_numbers_are_equal_and_not(dtype: str, seed: int) -> None:
    first, second = (made("paddle.less_than", dtype, size=3, position=place, seed=seed) for place in (0, 1))
    assert np.any(first == second) and np.any(first != second)


def test_a_single_element_lies_where_something_is_to_be_seen() -> None:
    assert made("paddle.isinf", size=1)[0] == math.inf and math.isnan(made("paddle.isnan", size=1)[0])
    assert made("paddle.nn.functional.relu6", size=1)[0] > 6 and made("paddle.abs", size=1)[0] < 0
    assert made("paddle.round", size=1)[0] == 2.5


def test_a_span_knows_whether_zero_belongs_to_it() -> None:
    kind = dtype_named("float32")
    span = span_of("torch.div", "div", "nonzero", (), kind)
    assert span is not None and 0.0 not in span.edges(kind)
    assert span_of("torch.add", "add", "permutation", (), kind) is None
    assert -0.0 in Span(-1.0, 1.0, 0.5).edges(kind)


def test_only_positive_spans_stay_positive() -> None:
    values = Span(0.25, 8.0, 0.25).wide(Stream(1, "x").generator, (200,))
    assert values.min() >= 0.25 and values.max() <= 8.0
