"""Element types."""

from __future__ import annotations

import numpy as np
import pytest

from trueline.dtypes import DTYPES
from trueline.numerics.fallback import widen

EIGHT_BITS = [dtype for dtype in DTYPES.values() if dtype.is_float and dtype.itemsize == 1]


@pytest.mark.parametrize("dtype", EIGHT_BITS, ids=lambda dtype: dtype.name)
def test_the_largest_number_is_the_largest_of_all_patterns(dtype) -> None:  # type: ignore[no-untyped-def]
    values = np.asarray(widen(np.arange(256, dtype=np.uint8), dtype), dtype=np.float64)
    assert dtype.largest == values[np.isfinite(values)].max()


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_numpy_knows_the_same_largest_numbers(name: str) -> None:
    assert DTYPES[name].largest == float(np.finfo(name).max)
