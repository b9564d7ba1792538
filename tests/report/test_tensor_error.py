"""Where in a tensor the error is."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from trueline.dtypes import dtype_named
from trueline.report.tensor_error import CELLS, SLICES, error_of, tensor_error, with_gold, with_slices

FLOAT32 = dtype_named("float32")


def test_one_wrong_tile_is_where_it_is() -> None:
    one = np.ones((2, 200, 300))
    other = one.copy()
    other[1, 100:110, 30:40] += 0.5
    other[1, 104, 33] += 0.25
    found = error_of(one, other, FLOAT32, at=[1])
    heat = np.array(found["heat"])
    assert heat.shape == (CELLS, CELLS) and found["rest"] == [0] and found["at"] == [1] and found["axes"] == [1, 2]
    rows, columns = np.nonzero(heat)
    assert set(rows) <= set(range(31, 36)) and set(columns) <= set(range(6, 9))
    assert np.array(error_of(one, other, FLOAT32, at=[0])["heat"]).max() == 0  # the slice before it is right
    assert error_of(one, other, FLOAT32)["at"] == [1]  # unless told, the one with the worst element
    along = [np.nonzero(np.array(profile))[0] for profile in found["profiles"]]
    assert along[0].tolist() == [1] and set(along[1]) == set(rows) and set(along[2]) == set(columns)
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


def test_any_two_dimensions_can_be_rows_and_columns() -> None:
    one = np.zeros((3, 4, 5))
    other = one.copy()
    other[2, 3, 1] = 1.0
    found = error_of(one, other, FLOAT32, at=[3], axes=[0, 2])
    assert found["extent"] == [3, 5] and found["rest"] == [1] and np.argwhere(found["heat"]).tolist() == [[2, 1]]
    turned = error_of(one, other, FLOAT32, at=[3], axes=[2, 0])
    assert turned["extent"] == [5, 3] and np.argwhere(turned["heat"]).tolist() == [[1, 2]]
    assert error_of(one, other, FLOAT32, axes=[0, 9])["axes"] == [1, 2]


def test_complex_numbers_are_told_as_text() -> None:
    found = error_of(np.array([1 + 1j, 2j]), np.array([1 + 1j, 3j]), dtype_named("complex64"))
    assert found["worst"] == [{"at": [1], "reference": "2j", "candidate": "3j", "error": 1.0}]


class Kept:
    """A comparison of one tensor."""

    def __init__(self, elements: object, gold: object = "it cannot be called again") -> None:
        self._elements, self._gold = elements, gold

    def elements(self, position: int, place: int) -> Any:
        return self._elements

    def gold(self, position: int, place: int) -> Any:
        return self._gold


def test_what_cannot_be_drawn_is_said() -> None:
    assert tensor_error(cast(Any, Kept("it was not kept")), 0, 0) == {"missing": "it was not kept"}
    empty = np.zeros((0, 3))
    assert tensor_error(cast(Any, Kept((empty, empty, FLOAT32))), 0, 0) == {"missing": "it has no elements"}
    one = np.ones(3)
    assert with_gold(cast(Any, Kept((one, one, FLOAT32))), 0, 0) == {"missing": "it cannot be called again"}
    assert "another shape" in with_gold(cast(Any, Kept((one, one, FLOAT32), np.ones(4))), 0, 0)["missing"]


def test_the_gold_says_who_is_nearer() -> None:
    gold = np.array([1.0, 2.0, 2.0])
    found = with_gold(cast(Any, Kept((gold, gold + np.array([0, 0, 0.3]), FLOAT32), gold)), 0, 0)
    assert found == {"values": [2.0], "reference": 0.0, "candidate": pytest.approx(0.1)}


def test_a_page_from_disk_has_the_slices_with_the_largest_errors() -> None:
    one = np.zeros((50, 4, 4))
    other = one + np.arange(50)[:, None, None]
    comparison = cast(Any, Kept((one, other, FLOAT32)))
    slices = with_slices(tensor_error(comparison, 0, 0), comparison, 0, 0)["slices"]
    assert [item["at"] for item in slices] == [[n] for n in range(49, 49 - SLICES, -1)]
