"""Statistics against a plain numpy computation, for every dtype, layout and implementation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trueline.dtypes import DTYPES, DType
from trueline.errors import UsageError
from trueline.numerics import cpu, layout
from trueline.records import Statistics

from .conftest import ALL_DTYPES, ordinary, random_bits

FLOAT32 = DTYPES["float32"]
FLOAT64 = DTYPES["float64"]


def hash_word(x: int) -> int:
    """The hash of the format's definition, in plain Python."""
    x ^= x >> 16
    x = x * 0x7FEB352D & 0xFFFFFFFF
    x ^= x >> 15
    x = x * 0x846CA68B & 0xFFFFFFFF
    return x ^ x >> 16


SIGNS = np.array([-1.0 if hash_word(i >> 5) >> (i & 31) & 1 else 1.0 for i in range(12_032)])


def plain_sketch(values: np.ndarray) -> np.ndarray:
    sums = np.zeros(64)
    signed = np.where(np.isfinite(values), values, 0.0) * SIGNS[: values.size]
    np.add.at(sums, np.arange(values.size) & 63, signed)
    return sums


def numbers(array: np.ndarray, dtype: DType) -> np.ndarray:
    """The real components in logical order, as float64."""
    return np.ascontiguousarray(cpu.widen(array, dtype)).reshape(-1).view(np.float64)


def check(found: Statistics, values: np.ndarray) -> None:
    finite = values[np.isfinite(values)]
    magnitudes = np.abs(finite[finite != 0.0])
    assert found.count == values.size
    assert found.nan == np.isnan(values).sum()
    assert found.positive_infinity == np.isposinf(values).sum()
    assert found.negative_infinity == np.isneginf(values).sum()
    assert found.zeros == (values == 0.0).sum()
    assert found.finite == finite.size
    if finite.size == 0:
        assert math.isnan(found.minimum) and math.isnan(found.maximum) and math.isnan(found.mean)
        assert found.norm == 0.0
    else:
        assert (found.minimum, found.maximum) == (finite.min(), finite.max())
        scale = np.abs(finite).max() or 1.0
    if finite.size and scale < 1e300:  # sums of larger numbers may overflow
        mean, norm = (finite / scale).mean() * scale, math.sqrt(np.square(finite / scale).sum()) * scale
        assert found.mean == pytest.approx(mean, rel=1e-6, abs=1e-6 * scale / math.sqrt(finite.size))
        assert found.norm == pytest.approx(norm, rel=1e-6)
    if magnitudes.size == 0:
        assert (found.exponent_min, found.exponent_max) == (0, -1)
    else:
        assert found.exponent_min == math.frexp(magnitudes.min())[1] - 1
        assert found.exponent_max == math.frexp(magnitudes.max())[1] - 1


def check_sketch(found: Statistics, values: np.ndarray) -> None:
    expected = plain_sketch(values)
    actual = np.array(found.sketch)
    assert np.linalg.norm(actual - expected) <= 3e-7 * np.linalg.norm(expected)


@ALL_DTYPES
@pytest.mark.parametrize("count", [1, 63, 64, 65, 1000, 1024, 5000])
def test_ordinary_numbers(dtype: DType, count: int, implementation: str) -> None:
    array = ordinary(dtype, count, seed=count)
    found = cpu.statistics(array, dtype)
    check(found, numbers(array, dtype))
    check_sketch(found, numbers(array, dtype))


@ALL_DTYPES
def test_random_bits(dtype: DType, implementation: str) -> None:
    array = random_bits(dtype, 6000)
    check(cpu.statistics(array, dtype), numbers(array, dtype))


@ALL_DTYPES
def test_empty_and_scalar(dtype: DType, implementation: str) -> None:
    empty = np.zeros((3, 0, 2), dtype.storage)
    check(cpu.statistics(empty, dtype), np.zeros(0))
    scalar = ordinary(dtype, 1, seed=3).reshape(())
    check(cpu.statistics(scalar, dtype), numbers(scalar, dtype))


@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["float32", "float64"])
def test_one_element_that_is_not_finite(name: str, special: float, implementation: str) -> None:
    for position in (0, 1, 700, 1023, 1024, 2999):
        array = ordinary(DTYPES[name], 3000)
        array[position] = special
        found = cpu.statistics(array, DTYPES[name])
        check(found, numbers(array, DTYPES[name]))
        check_sketch(found, numbers(array, DTYPES[name]))


def test_nothing_finite(implementation: str) -> None:
    array = np.full(500, np.nan, np.float32)
    array[::2] = -np.inf
    found = cpu.statistics(array, FLOAT32)
    check(found, array.astype(np.float64))
    assert found.sketch == (0.0,) * 64


def test_negative_zero_is_a_zero(implementation: str) -> None:
    found = cpu.statistics(np.full(200, -0.0, np.float32), FLOAT32)
    assert (found.zeros, found.minimum, found.maximum, found.exponent_max) == (200, 0.0, 0.0, -1)


@pytest.mark.parametrize("scale", [1e-44, 1e-30, 1e-20, 1e20, 1e37])
def test_float32_of_any_magnitude(scale: float, implementation: str) -> None:
    array = (np.random.default_rng(1).uniform(-1, 1, 3000) * scale).astype(np.float32)
    check(cpu.statistics(array, FLOAT32), array.astype(np.float64))


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-200, 1e-160, 1e160, 1e300])
def test_float64_of_any_magnitude(scale: float, implementation: str) -> None:
    array = np.random.default_rng(1).uniform(-50, 50, 3000) * scale
    check(cpu.statistics(array, FLOAT64), array)


@pytest.mark.parametrize("name", ["int64", "uint64"])
def test_extremes_of_integers(name: str, implementation: str) -> None:
    limits = np.iinfo(name)
    array = np.array([limits.min, limits.max, 0, 1] * 40, name)
    found = cpu.statistics(array, DTYPES[name])
    check(found, array.astype(np.float64))
    assert found.maximum == float(limits.max)


def layouts(base: np.ndarray) -> dict[str, np.ndarray]:
    """Views of at least 64 x 48 x 5 elements in many memory orders."""
    block = base[: 64 * 48 * 5].reshape(64, 48, 5)
    return {
        "transposed": base[: 96 * 130].reshape(96, 130).T,
        "transposed, odd": base[: 61 * 67].reshape(61, 67).T,
        "batch transposed": block.transpose(2, 1, 0),
        "swapped": block.transpose(1, 0, 2),
        "outer last": block.transpose(0, 2, 1),
        "every second": base[::2],
        "reversed": base[::-1],
        "sliced": block[3:, ::3, 1:4],
        "reversed transposed": block[::-1, :, 2].T,
        "repeated": np.broadcast_to(base[:70], (33, 70)),
        "one number": np.broadcast_to(base[:1], (33, 70)),
        "six dimensions": base[:4096].reshape(4, 4, 4, 4, 4, 4).transpose(5, 4, 3, 2, 1, 0),
        "seven dimensions": base[: 2**14].reshape(4, 4, 4, 4, 4, 4, 4).transpose(6, 5, 4, 3, 2, 1, 0),
    }


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float64", "bool", "complex64", "complex128", "int64"])
def test_strides_do_not_matter(name: str, implementation: str) -> None:
    dtype = DTYPES[name]
    for view in layouts(ordinary(dtype, 1 << 14)).values():
        copy = view.copy(order="C")
        assert cpu.statistics(view, dtype) == cpu.statistics(copy, dtype)
        assert cpu.digest(view, dtype) == cpu.digest(copy, dtype)


@pytest.mark.parametrize("name", ["float32", "float64", "bfloat16", "float16", "int64", "complex128"])
def test_misaligned_memory(name: str, implementation: str) -> None:
    dtype = DTYPES[name]
    array = ordinary(dtype, 3001)
    for offset in (1, 3, 7):
        memory = np.zeros(array.nbytes + 8, np.uint8)
        memory[offset : offset + array.nbytes] = array.view(np.uint8)
        moved = memory[offset : offset + array.nbytes].view(dtype.storage)
        assert cpu.statistics(moved, dtype) == cpu.statistics(array, dtype)
        assert cpu.digest(moved, dtype) == cpu.digest(array, dtype)


def test_batches(implementation: str) -> None:
    generator = np.random.default_rng(0)
    arrays = [generator.standard_normal(size).astype(np.float32) for size in (0, 1, 17, 64, 1025, 4000)]
    descriptors = np.concatenate([cpu.describe(array, FLOAT32) for array in arrays])
    out = np.zeros(len(arrays), layout.STATISTICS)
    cpu.reduce_batch(descriptors, out, digest=True)
    assert [int(row["digest"]) for row in out] == [cpu.digest(array, FLOAT32) for array in arrays]
    for array, row in zip(arrays, out, strict=True):
        check(layout.to_statistics(row), array.astype(np.float64))
        assert layout.to_statistics(row, sketch=False).sketch is None
    cpu.reduce_batch(descriptors, out, digest=False)
    assert not out["digest"].any()


def test_bad_tables_are_refused(implementation: str) -> None:
    array = np.zeros(3, np.float32)
    row = cpu.describe(array, FLOAT32)
    with pytest.raises(UsageError, match="table of 2 rows"):
        cpu.reduce_batch(row, np.zeros(2, layout.STATISTICS), digest=False)
    with pytest.raises(UsageError, match="stored as numpy"):
        cpu.describe(array, DTYPES["bfloat16"])
    with pytest.raises(UsageError, match="contiguous first"):
        cpu.describe(np.zeros((4,) * 7, np.float32).transpose(6, 5, 4, 3, 2, 1, 0), FLOAT32)


@pytest.mark.parametrize(("field", "value"), [("dtype", 99), ("ndim", 7), ("ndim", 0), ("numel", 4), ("pointer", 0)])
def test_damaged_descriptors_do_not_crash(field: str, value: int) -> None:
    if not cpu.available():
        pytest.skip("the C extension is not built")
    row = cpu.describe(np.zeros(3, np.float32), FLOAT32)
    row[field] = value
    with pytest.raises(ValueError, match="descriptor 0"):
        cpu.reduce_batch(row, np.zeros(1, layout.STATISTICS), digest=False)


def test_subnormals_count_although_the_program_flushes_them(implementation: str) -> None:
    torch = pytest.importorskip("torch")
    array = np.full(100, 1e-40, np.float32)
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush subnormals")
    try:
        if implementation != "numpy":
            assert cpu.statistics(array, FLOAT32).zeros == 0
            assert cpu.statistics(array, FLOAT32).norm == pytest.approx(1e-39, rel=1e-4)
        assert (torch.tensor(1e-40) * 1).item() == 0.0, "the program's own setting was changed"
    finally:
        torch.set_flush_denormal(False)


def test_import_brings_no_framework() -> None:
    import subprocess
    import sys

    code = "import sys, trueline.numerics; print(sorted({'torch', 'numba', 'triton', 'paddle'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
