"""Numbers of pairs and threes of tensors for standards that look at elements."""

from __future__ import annotations

import numpy as np
import pytest

from trueline.compare.apex import apex_numbers, epsilon_of
from trueline.compare.elements import Elements, error_ratios, ratio_of, three_way, two_way
from trueline.dtypes import dtype_named

FLOAT32, FLOAT64, BFLOAT16 = (dtype_named(name) for name in ("float32", "float64", "bfloat16"))


def test_small_values_are_counted_apart() -> None:
    bench = np.array([1.0, 2.0, 5e-7, 1e-7])
    device = np.array([1.1, 2.0, 5e-7 + 2e-9, 1e-7])
    found = apex_numbers(device, bench, FLOAT32, FLOAT32)
    assert found["small_share"] == 0.5
    assert found["rmse"] == pytest.approx(np.sqrt(0.01 / 2), rel=1e-3)
    assert found["max_rel"] == pytest.approx(0.1)
    assert found["mean_rel"] == pytest.approx(0.05)
    assert found["balance"] == 0.5
    assert found["max_abs"] == pytest.approx(0.1)
    assert found["within_hundredth"] == 0.75
    assert found["unequal"] == 0.5


def test_what_is_not_finite_and_what_is_empty() -> None:
    found = apex_numbers(np.array([np.nan, 1.0]), np.array([1.0, 1.0]), FLOAT32, FLOAT32)
    assert np.isnan(found["max_abs"]) and found["rmse"] == 0.0
    assert apex_numbers(np.zeros(0), np.zeros(0), FLOAT32, FLOAT32) == {}
    exact = apex_numbers(np.array([1, 2]), np.array([1, 3]), dtype_named("int64"), dtype_named("int64"))
    assert exact["unequal"] == 0.5 and "rmse" not in exact


def test_the_epsilon_is_that_of_the_bench() -> None:
    assert epsilon_of(FLOAT32, FLOAT32) == 2.0**-23
    assert epsilon_of(FLOAT32, FLOAT64) == 2.0**-52
    assert epsilon_of(dtype_named("float16"), FLOAT32) == 2.0**-23
    assert epsilon_of(BFLOAT16, FLOAT32) == 2.0**-8


def test_structure_comes_first() -> None:
    one, other = Elements(np.zeros((2, 3), np.float32), FLOAT32), Elements(np.zeros((3, 2), np.float32), FLOAT32)
    assert two_way("output", "out", one, other).structure == "shape [3, 2] instead of [2, 3]"
    integers = Elements(np.zeros((2, 3), np.int32), dtype_named("int32"))
    assert "int32 instead of float32" in two_way("output", "out", one, integers).structure
    assert "the baseline has shape" in three_way("output", "out", one, one, other).note


def test_errors_in_units_of_the_peers() -> None:
    random = np.random.default_rng(0)
    gold = random.standard_normal(1000)
    noise = 1e-6 * random.standard_normal(1000)
    sides = [Elements((gold + factor * noise).astype(np.float32), FLOAT32) for factor in (3.0, 1.0)]
    found = three_way("output", "out", Elements(gold, FLOAT64), *sides)
    ratios = {error.metric: error for error in error_ratios(found)}
    assert ratios["RMSE"].ratio == pytest.approx(3.0, rel=0.02)
    assert ratios["distance"].ratio == pytest.approx(3.0, rel=0.02)
    assert ratios["RMSE"].candidate == pytest.approx(3e-6, rel=0.1)


def test_a_ratio_to_nothing() -> None:
    assert ratio_of(0.0, 0.0) == 1.0
    assert ratio_of(1e-9, 0.0) == 10000.0
    assert ratio_of(2.0, 4.0) == 0.5
