"""Functions that are the same on every machine: they are right, and they are the same."""

from __future__ import annotations

import numpy as np
import pytest

from trueline.ops import exact
from trueline.ops.domains import draw
from trueline.replay.stream import Stream


def test_the_exponential_and_the_logarithm_are_right_to_a_few_bits() -> None:
    x = np.linspace(-600, 600, 20001)
    assert np.abs(exact.exp(x) / np.exp(x) - 1).max() < 4e-16
    y = np.exp(x[x != 0])
    assert np.abs(exact.log(y) / np.log(y) - 1).max() < 4e-15
    assert float(exact.log(1.0)) == 0.0 and float(exact.exp(0.0)) == 1.0


def test_powers_of_two_are_exact_and_rise_between_them() -> None:
    x = np.linspace(-5, 5, 1001)
    made = exact.exp2(x)
    assert np.array_equal(made[::100], 2.0 ** np.arange(-5, 6)) and np.all(np.diff(made) > 0)


def test_shares_are_whole_numbers_that_add_up() -> None:
    weights, total = exact.shares(np.array([[0.0, 1.0, -3.0], [-50.0, 0.0, 0.0]]))
    assert np.array_equal(weights.sum(-1, keepdims=True), total) and weights.min() >= 1
    assert (weights / total)[0] == pytest.approx(np.exp([0, 1, -3]) / np.exp([0, 1, -3]).sum(), rel=1e-7)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_reflections_make_orthogonal_matrices(dtype: str) -> None:
    made = draw("orthogonal", Stream(5, "x").generator, (2, 6, 4), dtype)
    product = np.swapaxes(made.conj(), -1, -2) @ made
    assert np.abs(product - np.eye(4)).max() < 1e-14
    assert np.iscomplexobj(made) == (dtype == "complex128")


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_matrices_have_the_spectrum_that_was_asked_for(dtype: str) -> None:
    wide = draw("invertible", Stream(6, "x").generator, (3, 5, 4), dtype)
    assert np.linalg.svd(wide, compute_uv=False) == pytest.approx(np.tile(np.linspace(3.0, 0.5, 4), (3, 1)))
    square = draw("positive_definite", Stream(6, "x").generator, (4, 4), dtype)
    assert np.array_equal(square, square.conj().T)
    assert np.linalg.eigvalsh(square) == pytest.approx(np.linspace(0.5, 4.0, 4))
    assert np.abs(square).min() > 0  # dense
