"""Known mistakes are named, and nothing else is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trueline.pipeline.explain import how_related
from trueline.pipeline.gold import allowed_error, blind_error, error_of

RANDOM = np.random.default_rng(0)
PICTURES = RANDOM.normal(size=(6, 3, 7, 5))
SCORES = RANDOM.normal(size=(8, 10))


def softmax(values: Any) -> Any:
    powers = np.exp(values - values.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.parametrize(
    ("made", "right", "words"),
    [
        (PICTURES[:, ::-1], PICTURES, "channels are in reverse"),
        (PICTURES[:, [1, 2, 0]], PICTURES, "channels are in the order (1, 2, 0)"),
        (PICTURES / 255.0, PICTURES, "0.00392157 times"),
        (PICTURES * np.array([1.0, 2.0, 3.0]).reshape(3, 1, 1) + 1.0, PICTURES, "another normalisation"),
        (PICTURES.transpose(0, 2, 3, 1), PICTURES, "order (0, 2, 3, 1)"),
        (PICTURES[::-1], PICTURES, "samples are in reverse"),
        (softmax(SCORES), SCORES, "softmax was applied once more"),
        (softmax(softmax(SCORES)), softmax(SCORES), "softmax was applied once more"),
        (1 / (1 + np.exp(-SCORES)), SCORES, "sigmoid"),
        (SCORES + np.arange(10.0), SCORES, "a bias is missing"),
        (SCORES * 0 + SCORES[:1], SCORES, "every sample gives what the first"),
        (SCORES.T, SCORES, "order (1, 0)"),
        (SCORES.reshape(-1), SCORES, "another shape"),
    ],
)
def test_mistakes_are_named(made: Any, right: Any, words: str) -> None:
    assert words in how_related(np.ascontiguousarray(made), right)


@pytest.mark.parametrize("made", [RANDOM.normal(size=(8, 10)), SCORES * RANDOM.random((8, 10)), SCORES + np.nan])
def test_what_is_just_wrong_has_no_name(made: Any) -> None:
    assert how_related(made, SCORES) == ""


def test_errors_are_relative_and_count_what_is_not_finite() -> None:
    right = np.array([1.0, -2.0, np.inf, np.nan])
    assert error_of(right, right) == error_of(right.copy(), right)
    assert error_of(right, right).spread == 0.0 and error_of(right, right).bad == 0
    made = np.array([1.0, np.nan, np.inf, 0.0])
    assert error_of(made, right).bad == 2 and error_of(made, right).worst == 1
    assert error_of(np.array([1.5, -2.0]), right[:2]).peak == pytest.approx(0.25)
    assert error_of(np.array([1.0]), np.array([0.0])).spread == np.inf


def test_the_yardstick_scales_with_the_dtype_and_has_a_floor() -> None:
    eager = error_of(np.array([1.0 + 2e-7, 2.0]), np.array([1.0, 2.0]))
    same, half = allowed_error(eager, "float32", "float32"), allowed_error(eager, "float32", "bfloat16")
    assert 3 * eager.spread < same.spread < 1e-5
    assert half.spread / same.spread > 2**14
    exact = error_of(np.array([1.0]), np.array([1.0]))
    assert allowed_error(exact, "float32", "float32").spread > 0.0
    broken = error_of(np.array([1.4, 2.0]), np.array([1.0, 2.0]))
    assert allowed_error(broken, "float32", "float32").spread < 1e-2, "an eager model that is wrong permits nothing"
    assert blind_error("float32").spread < 1e-4
