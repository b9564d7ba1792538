"""Results in which long lists of numbers are one leaf."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trueline.frameworks.layouts import number_array
from trueline.frameworks.values import Packed, leaves_of, packed


class Tensor:
    pass


@pytest.mark.parametrize(("first", "name"), [(True, "bool"), (1, "int64"), (0.5, "float64"), (1j, "complex128")])
def test_many_numbers_in_a_regular_list_are_one_array(first: Any, name: str) -> None:
    ((path, found),) = leaves_of(packed([[first] * 50, [first] * 50]), "out", Tensor, tuple)
    bits, dtype = number_array(found)
    assert (path, bits.shape, dtype) == ("out", (2, 50), name)
    assert (bits == first).all()


@pytest.mark.parametrize(
    "value",
    [
        [1, 2, 3],
        [[1] * 50, [1] * 40],
        [1] * 99 + [0.5],
        [1] * 99 + [True],
        ["a"] * 100,
        [2**70] * 100,
        [],
        [[]] * 100,
    ],
)
def test_others_stay_what_they_are(value: Any) -> None:
    assert packed(value) == value


def test_lists_within_other_results_are_found() -> None:
    value = (Tensor(), {"numbers": [0.5] * 64})
    found = packed(value)
    assert found[0] is value[0]
    assert isinstance(found[1]["numbers"], Packed) and np.array_equal(found[1]["numbers"].array, [0.5] * 64)
