"""Comparisons against a plain numpy computation, for every pair of dtypes, layout and implementation."""

from __future__ import annotations

import math
from dataclasses import astuple, fields

import numpy as np
import pytest

from trueline.dtypes import DTYPES, DType
from trueline.errors import UsageError
from trueline.numerics import cpu, layout
from trueline.records import Measurement

from .conftest import ALL_DTYPES, ordinary, random_bits
from .test_statistics import layouts, numbers

FLOAT32 = DTYPES["float32"]
FLOAT64 = DTYPES["float64"]


def units_of(reference: np.ndarray, left: DType, right: DType) -> np.ndarray:
    inexact = [dtype for dtype in (left, right) if dtype.digits]
    if not inexact:
        return np.ones(reference.shape)
    coarser = min(inexact, key=lambda dtype: (dtype.digits, -dtype.exponent_min))
    with np.errstate(divide="ignore"):
        exponent = np.maximum(np.floor(np.log2(np.abs(reference))), coarser.exponent_min)
    return np.ldexp(1.0, exponent.astype(int) - coarser.digits + 1)


def check(found: Measurement, x: np.ndarray, left: DType, y: np.ndarray, right: DType) -> None:
    """``x`` and ``y`` as float64 numbers of ordinary size, or not finite."""
    finite = np.isfinite(x) & np.isfinite(y)
    either_nan = np.isnan(x) | np.isnan(y)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    assert found.count == x.size
    assert found.equal == same.sum()
    assert found.nan_mismatch == (either_nan & ~same).sum()
    assert found.infinity_mismatch == (~finite & ~either_nan & ~same).sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(same, 0.0, np.abs(y - x) / np.abs(x))
    relative[~finite & ~same] = math.inf
    for share, limit in zip(found.within, layout.THRESHOLDS, strict=True):
        low, high = (relative < limit * (1 - 1e-5)).mean(), (relative < limit * (1 + 1e-5)).mean()
        assert low <= share <= high
    relative, x, y = relative[finite], x[finite], y[finite]
    distance = np.abs(y - x)
    close = {"rel": 2e-6, "abs": 1e-300}
    assert found.max_abs == pytest.approx(distance.max(), **close)
    assert found.mean_abs == pytest.approx(distance.mean(), **close)
    assert found.max_rel == pytest.approx(relative.max(), **close)
    assert found.mean_rel == pytest.approx(relative[x != 0].mean(), **close)
    assert found.rmse == pytest.approx(math.sqrt(np.square(distance).mean()), **close)
    assert found.normalized == pytest.approx(np.linalg.norm(distance) / np.linalg.norm(x), **close)
    assert found.bias == pytest.approx((y - x).mean(), rel=2e-6, abs=2e-6 * distance.mean())
    assert found.reference_norm == pytest.approx(np.linalg.norm(x), **close)
    assert found.candidate_norm == pytest.approx(np.linalg.norm(y), **close)
    assert found.reference_max == np.abs(x).max()
    assert found.cosine == pytest.approx(x @ y / np.linalg.norm(x) / np.linalg.norm(y), abs=3e-7)
    with np.errstate(over="ignore"):
        units = distance / units_of(x, left, right)
    assert found.max_ulp == pytest.approx(units.max(), **close)
    assert found.mean_ulp == pytest.approx(units.mean(), **close)


def check_worst(found: Measurement, x: np.ndarray, y: np.ndarray, width: int = 1) -> None:
    distance = np.where(np.isfinite(x) & np.isfinite(y), np.abs(y - x), 0.0)
    if found.worst < 0:
        assert distance.max(initial=0.0) == 0.0
        assert math.isnan(found.worst_reference) and math.isnan(found.worst_candidate)
        return
    pairs = [(x[at], y[at]) for at in range(found.worst * width, (found.worst + 1) * width)]
    assert (found.worst_reference, found.worst_candidate) in pairs
    assert abs(found.worst_candidate - found.worst_reference) == pytest.approx(distance.max(), rel=1e-6)


@ALL_DTYPES
@pytest.mark.parametrize("count", [1, 40, 64, 1024, 3001])
def test_same_dtype(dtype: DType, count: int, implementation: str) -> None:
    left, right = ordinary(dtype, count, seed=1), ordinary(dtype, count, seed=2)
    right[: count // 3] = left[: count // 3]
    x, y = numbers(left, dtype), numbers(right, dtype)
    found = cpu.compare(left, dtype, right, dtype)
    if (x != 0).any():
        check(found, x, dtype, y, dtype)
    check_worst(found, x, y, 2 if dtype.is_complex else 1)


PAIRS = [
    ("float32", "bfloat16"), ("bfloat16", "float32"), ("float16", "bfloat16"), ("float64", "float32"),
    ("float32", "float64"), ("float32", "float8_e4m3fn"), ("float8_e4m3fnuz", "float8_e4m3fn"), ("int64", "float32"),
    ("float16", "int32"), ("int8", "int64"), ("uint64", "int64"), ("bool", "uint8"), ("complex64", "complex128"),
    ("complex32", "complex64"),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_different_dtypes(left: str, right: str, implementation: str) -> None:
    reference, candidate = ordinary(DTYPES[left], 2500, seed=1), ordinary(DTYPES[right], 2500, seed=1)
    x, y = numbers(reference, DTYPES[left]), numbers(candidate, DTYPES[right])
    found = cpu.compare(reference, DTYPES[left], candidate, DTYPES[right])
    if (x != y).any():
        check(found, x, DTYPES[left], y, DTYPES[right])
    check_worst(found, x, y, 2 if left.startswith("complex") else 1)


@ALL_DTYPES
def test_identical(dtype: DType, implementation: str) -> None:
    array = random_bits(dtype, 3000)
    found = cpu.compare(array, dtype, array.copy(), dtype)
    assert found.equal == found.count == 3000 * (2 if dtype.is_complex else 1)
    assert (found.max_abs, found.mean_abs, found.rmse, found.bias, found.max_rel, found.max_ulp) == (0.0,) * 6
    assert found.within == (1.0,) * 4
    assert (found.worst, found.nan_mismatch, found.infinity_mismatch) == (-1, 0, 0)
    if dtype is not FLOAT64 and dtype.name != "complex128":  # squares of the largest of those overflow
        assert found.cosine == 1.0
        assert found.normalized == 0.0


@ALL_DTYPES
def test_implementations_agree_on_random_bits(dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    if not cpu.available():
        pytest.skip("the C extension is not built")
    left, right = random_bits(dtype, 5000, seed=1), random_bits(dtype, 5000, seed=2)
    kernels = cpu.compare(left, dtype, right, dtype)
    monkeypatch.setenv("TRUELINE_NO_KERNELS", "1")
    plain = cpu.compare(left, dtype, right, dtype)
    for field, found, expected in zip(fields(Measurement), astuple(kernels), astuple(plain), strict=True):
        if field.name in ("worst", "worst_reference", "worst_candidate"):
            continue  # ties are broken by the precision of the differences
        if dtype.digits == 53 and field.name in ("bias", "cosine", "normalized"):
            continue  # the sums overflow, in an order of their own
        absolute = 1e-6 * plain.mean_abs if field.name == "bias" else 3e-7 if field.name == "cosine" else 0.0
        if isinstance(expected, tuple):
            assert found == pytest.approx(expected, abs=1e-3), field.name
        else:
            assert found == pytest.approx(expected, rel=3e-6, abs=absolute, nan_ok=True), field.name


def test_not_finite(implementation: str) -> None:
    inf, nan = math.inf, math.nan
    x = np.array([nan, nan, 1.0, inf, inf, -inf, inf, 2.0, 3.0, 0.0] * 200, np.float32)
    y = np.array([nan, 1.0, nan, inf, -inf, -inf, 5.0, -inf, 3.5, 0.0] * 200, np.float32)
    found = cpu.compare(x, FLOAT32, y, FLOAT32)
    check(found, x.astype(np.float64), FLOAT32, y.astype(np.float64), FLOAT32)
    assert (found.nan_mismatch, found.infinity_mismatch, found.equal) == (400, 600, 800)
    assert (found.worst, found.worst_reference, found.worst_candidate) == (8, 3.0, 3.5)


def test_nan_against_infinity_is_a_nan_mismatch(implementation: str) -> None:
    found = cpu.compare(np.array([np.nan]), FLOAT64, np.array([np.inf]), FLOAT64)
    assert (found.nan_mismatch, found.infinity_mismatch) == (1, 0)


def test_nothing_to_measure_is_not_a_number(implementation: str) -> None:
    for array in (np.zeros(0, np.float32), np.full(5, np.nan, np.float32)):
        found = cpu.compare(array, FLOAT32, array, FLOAT32)
        assert found.equal == found.count == array.size
        assert all(math.isnan(v) for v in (found.cosine, found.max_abs, found.max_rel, found.rmse, found.normalized))


@pytest.mark.parametrize("count", [1, 64, 2000])
def test_zero_reference(count: int, implementation: str) -> None:
    zero, one = np.zeros(count, np.float32), np.full(count, 0.5, np.float32)
    found = cpu.compare(zero, FLOAT32, one, FLOAT32)
    assert (found.max_rel, found.mean_rel, found.normalized, found.cosine) == (math.inf, math.inf, math.inf, 0.0)
    assert found.within == (0.0,) * 4
    assert found.max_ulp == 0.5 * 2.0**149
    assert found.mean_ulp == 0.5 * 2.0**149
    found = cpu.compare(zero, FLOAT32, -zero, FLOAT32)
    assert (found.max_rel, found.mean_rel, found.normalized, found.cosine) == (0.0, 0.0, 0.0, 1.0)
    assert found.within == (1.0,) * 4
    assert found.equal == count


@pytest.mark.parametrize("scale", [1e-44, 1e-38, 1e-30, 1e-18, 1e-9, 1e9, 1e19, 1e30, 2e38])
def test_float32_of_any_magnitude(scale: float, implementation: str) -> None:
    generator = np.random.default_rng(0)
    x = (generator.uniform(-1, 1, 2100) * scale).astype(np.float32)
    y = (x.astype(np.float64) * (1 + 0.01 * generator.standard_normal(2100))).astype(np.float32)
    check(cpu.compare(x, FLOAT32, y, FLOAT32), x.astype(np.float64), FLOAT32, y.astype(np.float64), FLOAT32)
    check(cpu.compare(x, FLOAT32, -x, FLOAT32), x.astype(np.float64), FLOAT32, -x.astype(np.float64), FLOAT32)


def test_tiny_differences_beside_large_numbers(implementation: str) -> None:
    x = np.full(1024, 1.0, np.float32)
    y = x.copy()
    x[5], y[5] = 1e-30, 2e-30
    found = cpu.compare(x, FLOAT32, y, FLOAT32)
    assert (found.worst, found.equal) == (5, 1023)
    assert found.rmse == pytest.approx(1e-30 / 32, rel=1e-5)
    found = cpu.compare(np.ones(1024, np.float32), FLOAT32, np.full(1024, 1e-30, np.float32), FLOAT32)
    assert found.candidate_norm == pytest.approx(32e-30, rel=1e-5)


def test_tiny_reference_with_a_large_error(implementation: str) -> None:
    x, y = np.full(1024, 1.0, np.float32), np.full(1024, 1.0, np.float32)
    x[7], y[7] = 1e-42, 100.0
    found = cpu.compare(x, FLOAT32, y, FLOAT32)
    assert found.max_rel == pytest.approx(100.0 / np.float64(x[7]), rel=1e-6)
    assert found.max_ulp == pytest.approx(100.0 * 2.0**149, rel=1e-6)


@pytest.mark.parametrize("name", ["int64", "uint64"])
def test_large_integers_are_compared_exactly(name: str, implementation: str) -> None:
    limits = np.iinfo(name)
    x = np.full(2000, limits.max, name)
    y = x.copy()
    y[1500] -= 1
    found = cpu.compare(x, DTYPES[name], y, DTYPES[name])
    assert (found.equal, found.worst, found.max_abs, found.max_ulp, found.bias) == (1999, 1500, 1.0, 1.0, -1 / 2000)
    y[1500] = limits.min
    found = cpu.compare(x, DTYPES[name], y, DTYPES[name])
    assert found.max_abs == float(int(limits.max) - int(limits.min))


def test_neighbouring_floats_are_one_unit_apart(implementation: str) -> None:
    x = np.random.default_rng(0).standard_normal(2000).astype(np.float32)
    x[:200] *= np.float32(1e-39)
    assert cpu.compare(x, FLOAT32, np.nextafter(x, np.float32(np.inf) * np.sign(x)), FLOAT32).max_ulp == 1.0
    half = x.astype(np.float16)
    away = np.nextafter(half, np.copysign(np.float16(np.inf), half))
    assert cpu.compare(half, DTYPES["float16"], away, DTYPES["float16"]).max_ulp == 1.0


def test_strides_do_not_matter(implementation: str) -> None:
    left, right = layouts(ordinary(FLOAT32, 1 << 14, 1)), layouts(ordinary(DTYPES["bfloat16"], 1 << 14, 1))
    for name, x in left.items():
        y = right[name]
        found = cpu.compare(x, FLOAT32, y, DTYPES["bfloat16"])
        assert found == cpu.compare(x.copy(), FLOAT32, y, DTYPES["bfloat16"])
        assert found == cpu.compare(x.copy(), FLOAT32, y.copy(), DTYPES["bfloat16"])


def test_cosine_keeps_its_digits(implementation: str) -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal(50_000).astype(np.float32)
    y = (x * (1 + 1e-4 * generator.standard_normal(50_000))).astype(np.float32)
    wide, other = x.astype(np.float64), y.astype(np.float64)
    exact = 1 - wide @ other / math.sqrt((wide @ wide) * (other @ other))
    assert 1 - cpu.compare(x, FLOAT32, y, FLOAT32).cosine == pytest.approx(exact, rel=1e-3)


def test_misuse_is_refused(implementation: str) -> None:
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(UsageError, match="shape"):
        cpu.compare(x, FLOAT32, x.T, FLOAT32)
    with pytest.raises(UsageError, match="complex"):
        cpu.compare(x, FLOAT32, x.astype(np.complex64), DTYPES["complex64"])
    with pytest.raises(UsageError, match="different sizes"):
        cpu.compare_batch(cpu.describe(x, FLOAT32), cpu.describe(x[0], FLOAT32), np.zeros(1, layout.COMPARISON))
