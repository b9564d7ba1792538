"""What a Case is given: drawn in the likeness of what was recorded, the same bits every time."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import pytest

from trueline.cases import Case, TensorSpec
from trueline.dtypes import DTYPES, dtype_named
from trueline.frameworks.base import ArrayIn, Inputs
from trueline.numerics import statistics, widen
from trueline.numerics.narrow import narrow
from trueline.replay.inputs import drawn, inputs_for, nudged, perturbed
from trueline.replay.stream import Stream

FLOATS = [name for name, row in DTYPES.items() if row.is_float]


def likeness(values: Any, dtype: str = "float32", strides: tuple[int, ...] | None = None, seed: int = 3) -> Any:
    """Numbers drawn in the likeness of an array."""
    kind = dtype_named(dtype)
    array = np.array(values, dtype=kind.storage)
    spec = TensorSpec("args.0", dtype, array.shape, strides, statistics=statistics(array, kind))
    return widen(drawn(spec, seed, "args.0").bits, kind) if kind.is_float else drawn(spec, seed, "args.0").bits


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def test_the_same_seed_draws_the_same_bits_for_ever() -> None:
    """These bits are part of what a Case is: a stored check may be executed again years later, elsewhere."""
    recorded = statistics(normal(1000).astype("f4"), dtype_named("float32"))
    spec = TensorSpec("args.0", "float32", (64, 64), statistics=recorded)
    digest = hashlib.sha256(drawn(spec, 11, "args.0").bits.tobytes()).hexdigest()
    again = hashlib.sha256(drawn(spec, 11, "args.0").bits.tobytes()).hexdigest()
    assert digest == again
    assert hashlib.sha256(Stream(1, "x").words(16).tobytes()).hexdigest()[:16] == "196bff7b5ff6f2fd"
    assert hashlib.sha256(Stream(1, "x").normal(64).tobytes()).hexdigest()[:16] == "f3c252757d39a712"


def test_every_tensor_has_a_seed_of_its_own() -> None:
    specs = tuple(TensorSpec(path, "float32", (32,)) for path in ("args.0", "args.1"))
    inputs = inputs_for(Case("torch.add", {"args": [{"$t": 0}, {"$t": 1}], "kwargs": {}}, specs, seed=1))
    other = inputs_for(Case("torch.add", {"args": [{"$t": 0}, {"$t": 1}], "kwargs": {}}, specs, seed=2))
    drawn_bits = [inputs.tensors["args.0"], inputs.tensors["args.1"], other.tensors["args.0"]]
    assert len({array.bits.tobytes() for array in drawn_bits}) == 3


def test_floats_keep_range_mean_and_spread() -> None:
    values = 3.0 + 0.5 * normal(40, 50)
    made = likeness(values)
    single = values.astype("f4")
    assert (made.min(), made.max()) == (single.min(), single.max())
    assert made.mean() == pytest.approx(values.mean(), abs=0.05)
    assert made.std() == pytest.approx(values.std(), rel=0.1)


def test_zeros_keep_their_share() -> None:
    values = np.maximum(normal(50, 50), 0)
    made = likeness(values)
    assert np.count_nonzero(made == 0) == np.count_nonzero(values == 0)
    assert made.min() == 0


def test_data_over_many_orders_of_magnitude_stay_so() -> None:
    values = np.exp(4 * normal(5000))
    made = likeness(values)
    assert made.min() == np.float32(values.min()) and made.max() == np.float32(values.max())
    assert np.median(made) < made.mean() / 10


def test_the_smallest_magnitude_occurs() -> None:
    values = normal(1000)
    values[5] = 1e-30
    assert np.abs(likeness(values)).min() < 2e-30


def test_nan_and_infinities_are_counted() -> None:
    values = normal(500)
    values[:7], values[7:10], values[10:12] = np.nan, np.inf, -np.inf
    made = likeness(values)
    assert (np.isnan(made).sum(), np.isposinf(made).sum(), np.isneginf(made).sum()) == (7, 3, 2)


@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_bools_keep_their_share(share: float) -> None:
    values = np.arange(200) < share * 200
    assert np.count_nonzero(likeness(values, "bool")) == share * 200


def test_a_causal_mask_stays_one() -> None:
    mask = np.where(np.tril(np.ones((9, 9))) > 0, 0.0, -np.inf)
    assert np.array_equal(likeness(np.broadcast_to(mask, (2, 9, 9))), np.broadcast_to(mask, (2, 9, 9)))


def test_a_causal_mask_of_bools_stays_one() -> None:
    mask = np.tril(np.ones((7, 7), dtype=bool))
    assert np.array_equal(likeness(mask, "bool"), mask)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_integers_stay_within_their_range_and_reach_its_ends(dtype: str) -> None:
    values = np.random.default_rng(0).integers(3, 91, 400)
    made = likeness(values, dtype)
    assert (made.min(), made.max()) == (values.min(), values.max())
    assert len(np.unique(made)) > 50


def test_positions_stay_in_order() -> None:
    values = np.tile(np.arange(16), (4, 1))
    assert np.array_equal(likeness(values, "int64"), values)


def test_shuffled_indices_are_not_taken_for_a_range() -> None:
    values = np.random.default_rng(0).integers(0, 16, (4, 16))
    assert not np.array_equal(likeness(values, "int64"), np.tile(np.arange(16), (4, 1)))


@pytest.mark.parametrize("values", [[], [[]], 2.5, [7.0]], ids=["empty", "empty rows", "number", "one"])
def test_small_shapes(values: Any) -> None:
    made = likeness(values)
    assert made.shape == np.shape(values)
    assert made.size == 0 or made.reshape(-1)[0] == np.float32(np.reshape(values, -1)[0])


def test_expanded_tensors_repeat_what_they_repeat() -> None:
    made = likeness(np.broadcast_to(normal(6, 1), (6, 8)), strides=(1, 0))
    assert (made == made[:, :1]).all()
    assert len(np.unique(made)) > 1


def test_sliding_windows_share_their_elements() -> None:
    made = likeness(np.lib.stride_tricks.sliding_window_view(normal(20), 8), strides=(1, 1))
    assert np.array_equal(made[1:, :-1], made[:-1, 1:])


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers(dtype: str) -> None:
    spec = TensorSpec("args.0", dtype, (5, 3))
    made = widen(drawn(spec, 1, "args.0").bits, dtype_named(dtype))
    assert made.shape == (5, 3) and np.iscomplexobj(made) and (made.imag != 0).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_rounding_gives_the_nearest_number(dtype: str) -> None:
    kind = dtype_named(dtype)
    values = np.abs(normal(2000)) if kind.digits == 1 else normal(2000)
    made = widen(narrow(values, kind), kind)
    apart = np.ldexp(kind.epsilon, np.floor(np.log2(np.abs(values))).astype(int))
    close = np.abs(values) >= math.ldexp(1.0, kind.exponent_min)
    assert (np.abs(made - values)[close] <= apart[close] / 2).all()
    assert np.array_equal(narrow(made, kind), narrow(values, kind))


def test_rounding_to_bfloat16_happens_once() -> None:
    """Through float32 this number would be rounded twice, to the wrong neighbour."""
    value = np.array(1.0 + 2.0**-8 + 2.0**-40)
    assert widen(narrow(value, dtype_named("bfloat16")), dtype_named("bfloat16")) == 1.0 + 2.0**-7


def test_perturbed_inputs_move_by_one_rounding_to_opposite_sides() -> None:
    values = np.random.default_rng(0).random((30, 30)).astype("f4")
    values[0, 0] = 1.0
    case = Case("torch.log", {"args": [{"$t": 0}], "kwargs": {}}, (TensorSpec("args.0", "float32", (30, 30)),))
    inputs = inputs_for(case)
    inputs = type(inputs)({"args.0": ArrayIn(values, "float32"), "args.1": ArrayIn(np.arange(3), "int64")})
    first, second = perturbed(inputs, "float32", seed=1, rounds=2)
    moved = first.tensors["args.0"].bits
    assert first.tensors["args.0"].dtype == "float64" and first.settled
    change = np.abs(moved / values.astype("f8") - 1)
    assert change.max() == pytest.approx(2.0**-24, rel=1e-6)
    assert np.count_nonzero(change) == values.size - 1 and moved[0, 0] == 1.0  # a probability must not be more
    assert np.array_equal(moved + second.tensors["args.0"].bits, 2 * values.astype("f8"))
    assert first.tensors["args.1"].bits is inputs.tensors["args.1"].bits


@pytest.mark.parametrize(
    ("values", "still"), [([1.0, 1.0], 0), ([-1.0, 0.5, 1.0], 2), ([1.0, 2.0], 1), ([0.5, 1.5], 0)]
)
def test_only_ones_that_end_a_range_stay(values: list[float], still: int) -> None:
    inputs = Inputs({"args.0": ArrayIn(np.array(values, "f4"), "float32")}, settled=True)
    for moved in (*perturbed(inputs, "float32", seed=1, rounds=3), *nudged(inputs, seed=1)):
        assert np.count_nonzero(moved.tensors["args.0"].bits == values) == still


def test_neighbours_are_of_the_same_dtype() -> None:
    bits = narrow(np.linspace(-3.0, 5.0, 99), dtype_named("bfloat16"))
    inputs = Inputs({"args.0": ArrayIn(bits, "bfloat16"), "args.1": ArrayIn(np.arange(3), "int64")}, settled=True)
    for moved in nudged(inputs, seed=0):
        one = moved.tensors["args.0"]
        assert (one.dtype, one.bits.dtype) == ("bfloat16", bits.dtype)
        assert (one.bits != bits).all() and np.abs(one.bits.astype(int) - bits).max() <= 2
        assert moved.tensors["args.1"].bits is inputs.tensors["args.1"].bits


def test_perturbations_follow_the_dtype_that_was_worked_in() -> None:
    specs = (TensorSpec("args.0", "float32", (9,)),)
    inputs = inputs_for(Case("torch.neg", {"args": [{"$t": 0}], "kwargs": {}}, specs))
    (moved,) = perturbed(inputs, "bfloat16", seed=1, rounds=1)
    change = np.abs(moved.tensors["args.0"].bits / inputs.tensors["args.0"].bits.astype("f8") - 1)
    assert change.max() == pytest.approx(2.0**-8)
