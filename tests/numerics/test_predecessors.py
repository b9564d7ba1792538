"""The numbers of other tools' standards, against their formulas written out plainly."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tests.helpers.checks import bits_of
from trueline.dtypes import DTYPES
from trueline.numerics import widen
from trueline.numerics.envelope import corners_of, from_numbers, needed_atol, to_numbers
from trueline.numerics.predecessors import BLOCK, predecessor_numbers


def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    return widen(bits_of(values, dtype), DTYPES[dtype])


def sample(dtype: str, count: int = 500, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Candidate, honest and gold with errors and magnitudes of all sizes."""
    random = np.random.default_rng(seed)
    gold = random.normal(size=count) * 10.0 ** random.uniform(-8, 3, count)
    gold[:3] = 0.0
    noise = 10.0 ** random.uniform(-9, -1, count) * random.choice([-1, 1], count)
    return rounded(gold * (1 + noise), dtype), rounded(gold, dtype), gold


EPSILON = {"float16": 2.0**-23, "bfloat16": 2.0**-8, "float32": 2.0**-52}
DIRECT = {"float16": 2.0**-10, "bfloat16": 2.0**-8, "float32": 2.0**-23, "float64": 2.0**-52}
SMALL = {"apex": {"float32": (1e-6, 1e-9)}, "msprobe": {"float32": (2.0**-20, 2.0**-30)}}
SMALL16 = {"apex": (1e-3, 1e-5), "msprobe": (2.0**-10, 1e-16)}


def bench_of(gold: np.ndarray, dtype: str) -> np.ndarray:
    return gold if dtype in ("float32", "float64") else gold.astype(np.float32).astype(np.float64)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("tool", ["apex", "msprobe"])
def test_the_five_metrics_follow_their_formulas(dtype: str, tool: str) -> None:
    candidate, honest, gold = sample(dtype)
    numbers = predecessor_numbers(candidate, honest, gold, dtype)
    bench = bench_of(gold, dtype)
    limit, allowed = SMALL[tool].get(dtype, SMALL16[tool])
    for side, values in (("", candidate), ("honest_", honest)):
        error = np.abs(values - bench)
        small = np.abs(bench) <= limit
        assert 3 < small.sum() < small.size
        relative = error[~small] / (np.abs(bench[~small]) + EPSILON[dtype])
        assert numbers[f"{tool}_{side}small_share"] == pytest.approx((error[small] > allowed).mean())
        assert numbers[f"{tool}_{side}max_rel"] == relative.max()
        assert numbers[f"{tool}_{side}mean_rel"] == pytest.approx(relative.mean())
        mean = np.square(np.where(small, 0.0, error)).mean()
        count = error.size
        told = np.sqrt(mean * (count / (count - small.sum() + 0.0001) + 0.0001))
        assert numbers[f"{tool}_{side}rmse"] == pytest.approx(told)
        device = bench.astype(np.float16).astype(float) if dtype == "float16" else gold.astype(np.float32).astype(float)
        balance = abs((values > device).sum() - (values < device).sum()) / count
        assert numbers[f"{tool}_{side}balance"] == balance


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_shares_use_each_tools_epsilon(dtype: str) -> None:
    candidate, honest, gold = sample(dtype)
    numbers = predecessor_numbers(candidate, honest, gold, dtype)
    bench = bench_of(gold, dtype)
    pairs = (("bench", bench, EPSILON.get(dtype, 2.0**-52)), ("direct", honest, DIRECT[dtype]))
    for reference, values, epsilon in pairs:
        relative = np.abs(candidate - values) / (np.abs(values) + epsilon)
        for name, limit in (("hundredth", 1e-2), ("thousandth", 1e-3), ("ten_thousandth", 1e-4)):
            assert numbers[f"{reference}_within_{name}"] == (relative < limit).mean()
        assert numbers[f"{reference}_max_abs"] == np.abs(candidate - values).max()


@pytest.mark.parametrize(("dtype", "digits"), [("float32", 23), ("bfloat16", 7), ("float16", 10)])
def test_zero_has_the_unit_of_one_in_msprobe(dtype: str, digits: int) -> None:
    step = 8 * 2.0**-digits
    candidate, gold = np.array([step, 1.0, 2.5 + step]), np.array([0.0, 1.0, 2.5])
    numbers = predecessor_numbers(candidate, gold, gold, dtype)
    assert numbers["msprobe_ulp_max"] == 8.0  # in units of 1.0; those of 2.5 are twice as large
    assert numbers["msprobe_ulp_mean"] == pytest.approx((8.0 + 0.0 + 4.0) / 3)
    assert numbers["msprobe_honest_ulp_mean"] == 0.0


def test_units_of_the_smallest_bfloat16_overflow_in_msprobe() -> None:
    gold = np.array([2.0**-125, 1.0])
    numbers = predecessor_numbers(gold * np.array([1.5, 1.0]), gold, gold, "bfloat16")
    assert numbers["msprobe_ulp_max"] == np.inf
    assert predecessor_numbers(gold * np.array([1.5, 1.0]), gold, gold, "float32")["msprobe_ulp_max"] == 2.0**22


def test_ulp_shares_use_32_for_float32_and_1_for_others() -> None:
    gold = np.ones(100)
    wrong = gold.copy()
    wrong[:10] += 40 * 2.0**-23
    wrong[10:30] += 20 * 2.0**-23
    assert predecessor_numbers(wrong, gold, gold, "float32")["msprobe_ulp_share"] == 0.1
    half = gold.copy()
    half[:7] += 2 * 2.0**-10
    half[7:20] += 2.0**-10
    assert predecessor_numbers(half, gold, gold, "float16")["msprobe_ulp_share"] == 0.07


def test_eight_bit_errors_keep_their_sign_as_in_msprobe() -> None:
    gold = np.full(10, 1.0)
    low, high = gold - 0.5, gold + 0.5  # four units of 2**-3 each
    assert predecessor_numbers(high, gold, gold, "float8_e4m3fn")["msprobe_ulp_share"] == 1.0
    assert predecessor_numbers(low, gold, gold, "float8_e4m3fn")["msprobe_ulp_share"] == 0.0


def test_absolute_thresholds() -> None:
    gold = np.concatenate([np.full(10, 1.0), np.full(10, 1e-7), [np.inf, np.nan, np.inf, 5.0]])
    candidate = gold.copy()
    candidate[0] *= 1 + 2.0**-18  # beyond rtol 2**-20
    candidate[10:12] += 2.0**-28  # beyond 2**-30
    candidate[20:] = [np.inf, np.nan, -np.inf, np.nan]
    numbers = predecessor_numbers(candidate, gold, gold, "float32")
    assert numbers["msprobe_absolute_relative"] == 0.1
    assert numbers["msprobe_absolute_small"] == 0.2
    assert numbers["msprobe_absolute_not_finite"] == 0.5, "the same Inf and NaN are well"
    endless = predecessor_numbers(np.array([5.0]), np.array([5.0]), np.array([np.inf]), "float32")
    assert endless["msprobe_absolute_not_finite"] == 0.0, "anything finite is well where the benchmark is not"


def test_not_a_number_goes_through_as_in_the_tools() -> None:
    gold = np.array([1.0, np.nan, 3.0, 4.0])
    numbers = predecessor_numbers(gold, gold, gold, "float32")
    assert np.isnan(numbers["bench_max_abs"]) and np.isnan(numbers["candidate_peak"])
    assert numbers["bench_within_thousandth"] == 0.75
    assert numbers["bench_unequal"] == 0.25
    assert numbers["direct_both_nan"] == 1.0 and numbers["direct_bits_differ"] == 0.0


def test_signs_of_zeros_are_bits() -> None:
    numbers = predecessor_numbers(np.array([0.0, 1.0]), np.array([-0.0, 1.0]), None, "float32")
    assert numbers["direct_bits_differ"] == 1.0 and numbers["direct_unequal"] == 0.0
    assert "bench_max_abs" not in numbers


def test_exact_and_complex_types() -> None:
    numbers = predecessor_numbers(np.array([1, 2, 9]), np.array([1, 2, 3]), np.array([1, 2, 3]), "int64")
    assert numbers["bench_unequal"] == pytest.approx(1 / 3) and numbers["direct_bits_differ"] == 1.0
    assert needed_atol(from_numbers(numbers, "direct"), 1.0) == 3.0
    values = np.array([3 + 4j, 1j])
    numbers = predecessor_numbers(values + 1, values, None, "complex64")
    assert numbers["direct_max_abs"] == 1.0
    assert needed_atol(from_numbers(numbers, "direct"), 0.0) == 1.0


def test_empty_tensors_have_no_numbers() -> None:
    nothing = np.zeros((0, 3))
    assert predecessor_numbers(nothing, nothing, nothing, "float32") == {}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_blocks_add_up(dtype: str) -> None:
    """A large tensor, and the same in pieces of a block: counts, means and peaks agree."""
    candidate, honest, gold = sample(dtype, 2 * BLOCK + 17)
    whole = predecessor_numbers(candidate, honest, gold, dtype)
    parts = [slice(0, BLOCK), slice(BLOCK, 2 * BLOCK), slice(2 * BLOCK, None)]
    pieces = [predecessor_numbers(candidate[p], honest[p], gold[p], dtype) for p in parts]
    sizes = [candidate[p].size for p in parts]
    for name in ("bench_within_thousandth", "direct_within_hundredth", "bench_unequal"):
        told = sum(piece[name] * size for piece, size in zip(pieces, sizes, strict=True)) / candidate.size
        assert whole[name] == pytest.approx(told)
    for name in ("bench_max_abs", "candidate_peak", "direct_max_abs"):
        assert whole[name] == max(piece[name] for piece in pieces)
    for rtol in (0.0, 1e-6, 1e-3, 0.5):
        exact = max(0.0, (np.abs(candidate - honest) - rtol * np.abs(honest)).max())
        assert max(0.0, needed_atol(from_numbers(whole, "direct"), rtol)) == pytest.approx(exact, rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("seed", range(20))
def test_corners_answer_for_any_tolerance(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 3000))
    size = 10.0 ** random.uniform(-6, 4, count) * (random.uniform(size=count) > 0.05)
    error = size * 10.0 ** random.uniform(-8, -2, count) + (random.uniform(size=count) > 0.9) * 1e-5
    corners = from_numbers(to_numbers(corners_of(size, error), "x"), "x")
    assert len(corners) < 40
    for rtol in [0.0, *10.0 ** random.uniform(-9, 1, 20)]:
        assert max(0.0, needed_atol(corners, rtol)) == pytest.approx(max(0.0, (error - rtol * size).max()), rel=1e-12)


def test_corners_of_a_curve_are_bounded() -> None:
    """Every point of a square root is a corner; those kept answer within a few per cent."""
    size = np.linspace(1e-3, 1.0, 20_000)
    error = np.sqrt(size)
    corners = corners_of(size, error)
    assert len(corners) <= 49
    for rtol in (0.1, 0.3, 1.0, 3.0):
        exact = (error - rtol * size).max()
        assert exact * 0.95 <= needed_atol(corners, rtol) <= exact


def test_equal_tensors_have_no_corners() -> None:
    assert corners_of(np.ones(4), np.zeros(4)) == []
    assert needed_atol([], 0.0) == 0.0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float8_e5m2"])
def test_the_short_way_for_equal_tensors_gives_the_same_numbers(dtype: str) -> None:
    gold = np.random.default_rng(1).normal(size=300)
    values = widen(bits_of(gold, dtype), DTYPES[dtype]) if not dtype.startswith("float8") else np.round(gold)
    short = predecessor_numbers(values, values, gold, dtype)
    # one more element, NaN on both sides, takes the long way
    long = predecessor_numbers(np.append(values, np.nan), np.append(values, np.nan), np.append(gold, np.nan), dtype)
    assert short.keys() == long.keys()
    alone = predecessor_numbers(values, None, gold, dtype)
    for name, value in short.items():
        if "honest_" in name and name.partition("_")[0] in ("apex", "msprobe"):
            assert value == alone[name.replace("honest_", "")]
    assert short["direct_within_thousandth"] == 1.0 and short["direct_max_abs"] == 0.0


def test_small_tensors_are_quick() -> None:
    candidate, honest, gold = sample("float32", 256)
    best = min(_seconds(candidate, honest, gold) for _ in range(30))
    assert best < 1e-3, "seconds for 256 elements; 0.2 ms on a quiet machine"


def _seconds(candidate: np.ndarray, honest: np.ndarray, gold: np.ndarray) -> float:
    start = time.perf_counter()
    predecessor_numbers(candidate, honest, gold, "float32")
    return time.perf_counter() - start
