"""Where in a tensor the error is."""

from __future__ import annotations

import numpy as np

from trueline.dtypes import dtype_named
from trueline.report.tensor_error import CELLS, error_of

FLOAT32 = dtype_named("float32")


def test_one_wrong_tile_is_where_it_is() -> None:
    one = np.ones((2, 200, 300))
    other = one.copy()
    other[1, 100:110, 30:40] += 0.5
    other[1, 104, 33] += 0.25
    found = error_of(one, other, FLOAT32, at=[1])
    heat = np.array(found["heat"])
    assert heat.shape == (CELLS, CELLS) and found["leading"] == [2] and found["at"] == [1]
    rows, columns = np.nonzero(heat)
    assert set(rows) <= set(range(31, 36)) and set(columns) <= set(range(6, 9))
    assert np.array(error_of(one, other, FLOAT32)["heat"]).max() == 0  # the slice before it is right
    assert found["equal"] == one.size - 100 and found["histogram"] == [[-1, 100]]
    assert found["worst"][0] == {"at": [1, 104, 33], "reference": 1.0, "candidate": 1.75, "error": 0.75}
    assert sum(found["ulps"]) == one.size and found["ulps"][0] == one.size - 100


def test_units_in_the_last_place_follow_the_dtype() -> None:
    one = np.array([1.0, 1.0, 1.0, 1024.0])
    other = one + np.array([0.0, 2.0**-23, 2.0**-21, 2.0**-13])
    assert error_of(one, other, FLOAT32)["ulps"] == [1, 2, 0, 1]  # equal; one unit twice; four units
    assert error_of(one, other, dtype_named("bfloat16"))["ulps"] == [1, 3]


def test_nan_and_infinity_on_one_side_are_beyond_any_error() -> None:
    one = np.array([[np.nan, np.inf, 1.0, np.inf]])
    other = np.array([[np.nan, np.inf, np.nan, -np.inf]])
    found = error_of(one, other, FLOAT32)
    assert found["equal"] == 2 and found["histogram"] == [["inf", 2]] and found["worst"][0]["error"] == "inf"
    assert found["heat"] == [[0.0, 0.0, "inf", "inf"]]


def test_a_number_alone_and_integers_have_a_picture_too() -> None:
    assert error_of(np.array(1.0), np.array(2.0), FLOAT32)["heat"] == [[1.0]]
    found = error_of(np.array([1.0, 5.0]), np.array([1.0, 9.0]), dtype_named("int64"))
    assert found["ulps"] == [] and found["histogram"] == [[0, 1]]
