"""What is part of the Run format: widening, sketch, digest, and the layouts of the tables."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trueline.dtypes import DTYPES, DType
from trueline.errors import UsageError
from trueline.numerics import cpu, layout

from .conftest import ALL_DTYPES, ordinary, random_bits

FLOAT32 = DTYPES["float32"]
FROZEN_SKETCH = [-193, 198, 70, 72, 74, 76, 78, -64]
FROZEN_DIGEST = 0x37D1510AABCD7961


@ALL_DTYPES
def test_widen_agrees_with_torch(dtype: DType) -> None:
    torch = pytest.importorskip("torch")
    array = random_bits(dtype, 1 << 16)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    torch_dtype = getattr(torch, dtype.name)
    expected = torch.from_numpy(array.view(np.uint8).copy()).view(torch_dtype).to(wide).numpy()
    found = cpu.widen(array, dtype)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@ALL_DTYPES
def test_widen_keeps_the_shape(dtype: DType) -> None:
    assert cpu.widen(np.zeros((), dtype.storage), dtype).shape == ()
    assert cpu.widen(np.zeros((3, 0, 2), dtype.storage), dtype).shape == (3, 0, 2)
    array = ordinary(dtype, 60).reshape(3, 4, 5).transpose(2, 0, 1)
    np.testing.assert_array_equal(cpu.widen(array, dtype), cpu.widen(array.copy(), dtype))


def sketch(array: np.ndarray) -> np.ndarray:
    return np.array(cpu.statistics(array, FLOAT32).sketch)


def perturbations(x: np.ndarray) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(5)
    rounded = ((x.view(np.uint32) + 0x8000) & np.uint32(0xFFFF0000)).view(np.float32)
    zeroed = x.copy()
    zeroed[generator.choice(len(x), len(x) // 20, replace=False)] = 0.0
    return {
        "bfloat16 rounding": rounded,
        "sign flip": -x,
        "rows zeroed": zeroed,
        "1e-5": x * (1 + 1e-5 * generator.standard_normal(x.shape)).astype(np.float32),
    }


def test_sketches_estimate_distances(implementation: str) -> None:
    # A single estimate is within 20 % in two of three cases or so, its mean over many tensors much closer.
    ratios: dict[str, list[float]] = {}
    for seed in range(12):
        x = np.random.default_rng(seed).standard_normal((400, 97)).astype(np.float32)
        for name, y in perturbations(x).items():
            distance = np.linalg.norm(x.astype(np.float64) - y) / np.linalg.norm(x.astype(np.float64))
            ratios.setdefault(name, []).append(layout.sketch_distance(sketch(x), sketch(y)) / distance)
    for name, values in ratios.items():
        assert np.mean(values) == pytest.approx(1.0, abs=0.1), name
        assert all(0.6 < value < 1.6 for value in values), name
    assert ratios["sign flip"] == pytest.approx([1.0] * 12)


def test_sketches_of_different_precision_differ_by_rounding_only(implementation: str) -> None:
    x = np.random.default_rng(0).standard_normal(300_000).astype(np.float32)
    wide = cpu.statistics(x.astype(np.float64), DTYPES["float64"]).sketch
    assert layout.sketch_distance(wide, sketch(x)) < 3e-7


def test_sketch_distance_of_zeros_and_of_many() -> None:
    zero, some = np.zeros(64), np.arange(64.0)
    assert layout.sketch_distance(zero, zero) == 0.0
    assert layout.sketch_distance(zero, some) == math.inf
    assert layout.sketch_distance(some, zero) == 1.0
    assert layout.sketch_distance(tuple(some), tuple(some)) == 0.0
    many = layout.sketch_distance(np.stack([zero, zero, some]), np.stack([zero, some, zero]))
    np.testing.assert_array_equal(many, [0.0, math.inf, 1.0])
    with pytest.raises(UsageError, match="64 sums"):
        layout.sketch_distance(np.zeros(63), np.zeros(63))


def test_the_sketch_is_the_one_of_the_format(implementation: str) -> None:
    # Frozen: sketches in stored Runs must stay comparable.
    found = cpu.statistics(np.arange(1, 131, dtype=np.int32), DTYPES["int32"]).sketch
    assert found is not None
    assert [int(value) for value in found[:8]] == FROZEN_SKETCH


def test_the_digest_is_the_one_of_the_format(implementation: str) -> None:
    assert cpu.digest(np.arange(1000, dtype=np.int32), DTYPES["int32"]) == FROZEN_DIGEST
    assert cpu.digest(np.zeros(0, np.float32), FLOAT32) == 0


def plain_digest(bits: list[int]) -> int:
    total, mask = 0, 2**64 - 1
    for i, value in enumerate(bits):
        z = (value + (i + 1) * 0x9E3779B97F4A7C15) & mask
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        total += z ^ z >> 31
    return total & mask


@ALL_DTYPES
def test_digest_against_its_definition(dtype: DType, implementation: str) -> None:
    array = random_bits(dtype, 2100)
    size = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    assert cpu.digest(array, dtype) == plain_digest(array.view(f"<u{size}").tolist())


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float8_e5m2", "int64", "complex64"])
def test_digest_sees_every_bit_and_the_order(name: str, implementation: str) -> None:
    dtype = DTYPES[name]
    array = random_bits(dtype, 150)
    seen = {cpu.digest(array, dtype)}
    raw = array.view(np.uint8)
    for bit in range(0, raw.size * 8, 7 if implementation == "native" else 61):
        raw[bit // 8] ^= 1 << bit % 8
        seen.add(cpu.digest(array, dtype))
        raw[bit // 8] ^= 1 << bit % 8
    flips = len(range(0, raw.size * 8, 7 if implementation == "native" else 61))
    assert len(seen) == 1 + flips
    swapped = array.copy()
    swapped[[3, 90]] = array[[90, 3]]
    assert (swapped != array).any()
    assert cpu.digest(swapped, dtype) not in seen


def test_negative_zero_and_nan_payloads_change_the_digest(implementation: str) -> None:
    zeros = np.zeros(70, np.float32)
    assert cpu.digest(zeros, FLOAT32) != cpu.digest(-zeros, FLOAT32)
    nans = np.full(70, 0x7FC00000, np.uint32)
    assert cpu.digest(nans.view(np.float32), FLOAT32) != cpu.digest((nans + 1).view(np.float32), FLOAT32)


@pytest.mark.parametrize(
    ("shape", "strides", "expected"),
    [
        ((), (), ((1,), (1,))),
        ((1, 1), (7, 7), ((1,), (1,))),
        ((2, 3, 4), (12, 4, 1), ((24,), (1,))),
        ((2, 3, 4), (1, 8, 2), ((2, 12), (1, 2))),
        ((2, 1, 4), (4, 99, 1), ((8,), (1,))),
        ((5, 0), (1, 1), ((0,), (1,))),
        ((3, 4), (0, 0), ((12,), (0,))),
        ((3, 4), (0, 1), ((3, 4), (0, 1))),
        ((4, 3), (1, 4), ((4, 3), (1, 4))),
        ((2, 3), (-3, -1), ((6,), (-1,))),
    ],
)
def test_collapse(shape: tuple[int, ...], strides: tuple[int, ...], expected: tuple[tuple[int, ...], ...]) -> None:
    assert layout.collapse(shape, strides) == expected


def test_tables_lie_as_in_c() -> None:
    sizes = (layout.DESCRIPTOR.itemsize, layout.STATISTICS.itemsize, layout.COMPARISON.itemsize)
    assert sizes == (120, 344, 200)
    for table in (layout.DESCRIPTOR, layout.STATISTICS, layout.COMPARISON):
        assert table == np.dtype(table, align=True), "a C compiler would pad this"


def test_pack_descriptor_writes_one_row() -> None:
    table = np.zeros(3, layout.DESCRIPTOR)
    assert layout.pack_descriptor(table, 1, 4096, FLOAT32.code, (4, 3), (1, 4))
    assert table[1].item()[:4] == (4096, 12, 0, 2)
    assert table[1]["shape"].tolist() == [4, 3, 0, 0, 0, 0]
    assert table[1]["strides"].tolist() == [1, 4, 0, 0, 0, 0]
    assert not layout.pack_descriptor(table, 2, 4096, 0, (2,) * 7, (1, 2, 4, 8, 16, 32, 64))
    assert table[0] == table[2] == np.zeros((), layout.DESCRIPTOR)
