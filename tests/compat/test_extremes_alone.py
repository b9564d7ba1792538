"""What the library does with what old files say: the extremes of a tensor and nothing else; results that must hold."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.checks import evidence_of
from trueline.cases import Case
from trueline.dtypes import dtype_named
from trueline.judge.tolerances import Allclose
from trueline.records import Statistics, Verdict
from trueline.replay.likeness import in_likeness
from trueline.replay.stream import Stream


@pytest.mark.parametrize(("low", "high"), [(-2.0, 3.0), (0.0, 1e-6), (-8e307, 8e307), (4.0, 4.0)])
def test_numbers_are_drawn_between_known_extremes(low: float, high: float) -> None:
    known = Statistics(1000, low, high, math.nan, math.nan, 0, 0, 0, 0, 0, -1)
    values = in_likeness(known, Stream(1, "x"), (1000,), dtype_named("float64"))
    assert np.isfinite(values).all()
    assert low <= values.min() and values.max() == high


def test_bools_of_which_both_occur_are_both_drawn() -> None:
    known = Statistics(100, 0.0, 1.0, math.nan, math.nan, 0, 0, 0, 0, 0, -1)
    values = in_likeness(known, Stream(1, "x"), (10, 10), dtype_named("bool"))
    assert 0 < values.sum() < 100


def test_what_is_equal_needs_no_numbers() -> None:
    held = replace(evidence_of([True], [True], [True], "bool"), numbers={})
    assert Allclose().judge_tensor(held, Case("paddle.topk", None)).verdict is Verdict.PASS
    broken = replace(evidence_of([True], [False], [False], "bool"), numbers={})
    assert Allclose().judge_tensor(broken, Case("paddle.topk", None)).verdict is Verdict.NOT_COMPARED
