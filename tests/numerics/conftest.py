"""Runs the tests of this room with each implementation of the CPU kernels that this machine has."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from trueline.dtypes import DTYPES, DType
from trueline.numerics import cpu

IMPLEMENTATIONS = ["native", "portable", "numpy"]


@pytest.fixture(params=IMPLEMENTATIONS)
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The fastest C kernels, the portable C kernels, and numpy."""
    yield from use(request.param, monkeypatch)


def use(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TRUELINE_NO_KERNELS", "1" if name == "numpy" else "0")
    if name == "numpy":
        assert cpu.instruction_set() == "numpy"
        yield name
        return
    if not cpu.available():
        pytest.skip("the C extension is not built")
    from trueline.numerics import _kernels

    chosen = _kernels.instruction_set(name == "portable")
    assert (chosen == "portable") or name == "native"
    yield name
    _kernels.instruction_set(False)


def random_bits(dtype: DType, count: int, seed: int = 0) -> np.ndarray:
    """Storage of ``count`` elements with every bit random: all exponents, subnormals, NaN and infinities occur."""
    raw = np.random.default_rng(seed).integers(0, 256, count * dtype.itemsize, dtype=np.uint8)
    if dtype.name == "bool":
        raw &= 1
    return raw.view(dtype.storage)


def ordinary(dtype: DType, count: int, seed: int = 0) -> np.ndarray:
    """Storage of ``count`` numbers of ordinary size, some of them zero."""
    generator = np.random.default_rng(seed)
    values = generator.standard_normal(count).astype(np.float32)
    values[generator.random(count) < 0.05] = 0.0
    if dtype.name == "bfloat16":
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    if dtype.name.startswith("float8"):
        return generator.integers(0x20, 0x50, count, dtype=np.uint8)
    if dtype.name == "bool":
        return values > 0
    if dtype.name == "complex32":
        return generator.standard_normal(2 * count).astype(np.float16).view(np.uint32)
    if dtype.is_complex:
        return (values + 1j * values[::-1]).astype(dtype.storage)
    return np.abs(values * 30).astype(dtype.storage) if dtype.is_exact else values.astype(dtype.storage)


ALL_DTYPES = pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
