"""The numbers of PaddleAPEX's comparison of two tensors, to the letter of its code.

``d`` is the device (here the candidate), ``b`` the bench (here the reference), ``e = |d - b|``, ``r = e / (|b| + eps)``
with eps the machine epsilon of the bench's dtype, or 2**-8 where the device's is bfloat16. Values whose ``|b|`` is at
most 1e-3 (16 bits) or 1e-6 are small: of them the share with ``e`` above 1e-5 (1e-9) counts. RMSE and relative errors
are those of the other finite values.

    max_abs                          largest e
    within_hundredth, within_thousandth, within_ten_thousandth     shares of elements with r < 1e-2, 1e-3, 1e-4
    unequal                          share of elements with d != b
    balance                          |elements above - elements below| / elements
    rmse, small_share, max_rel, mean_rel
    peak, bench_peak                 largest magnitudes of device and bench
    zeros, bench_zeros               numbers of zeros
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trueline.dtypes import DType

Values = NDArray[Any]

_BFLOAT16_EPSILON = 2.0**-8
_SMALL_HALF, _SMALL_SINGLE = (1e-3, 1e-5), (1e-6, 1e-9)
_HALF = ("float16", "bfloat16")
_SHARES = (("within_hundredth", 1e-2), ("within_thousandth", 1e-3), ("within_ten_thousandth", 1e-4))


def apex_numbers(device: Values, bench: Values, device_dtype: DType, bench_dtype: DType) -> dict[str, float]:
    """The numbers of one pair of tensors of the same shape, given as numbers (``widen``), not as storage bits. Exact
    and complex types have ``unequal`` and the zeros only; an empty tensor has nothing."""
    count = device.size
    if count == 0:
        return {}
    d, b = device.reshape(-1), bench.reshape(-1)
    found: dict[str, float] = {
        "unequal": np.count_nonzero(d != b) / count,
        "zeros": float(count - np.count_nonzero(d)),
        "bench_zeros": float(count - np.count_nonzero(b)),
    }
    if not (device_dtype.is_float and bench_dtype.is_float):
        return found
    with np.errstate(all="ignore"):
        return found | _float_numbers(d, b, device_dtype, bench_dtype)


def _float_numbers(d: Values, b: Values, device_dtype: DType, bench_dtype: DType) -> dict[str, float]:
    size, error = np.abs(b), np.abs(d - b)
    relative = error / (size + epsilon_of(device_dtype, bench_dtype))
    found: dict[str, float] = {name: np.count_nonzero(relative < limit) / d.size for name, limit in _SHARES}
    above = d - b
    found |= {
        "max_abs": float(error.max()),
        "peak": float(np.abs(d).max()),
        "bench_peak": float(size.max()),
        "balance": abs(np.count_nonzero(above > 0.0) - np.count_nonzero(above < 0.0)) / d.size,
    }
    finite = np.isfinite(d) & np.isfinite(b)
    limit, tolerance = _SMALL_HALF if device_dtype.name in _HALF else _SMALL_SINGLE
    small = finite & (size <= limit)
    normal = finite & ~small
    smalls, normals = int(np.count_nonzero(small)), int(np.count_nonzero(normal))
    squares = float(np.square(error[normal]).sum())
    found |= {
        "small_share": np.count_nonzero(error[small] > tolerance) / smalls if smalls else 0.0,
        # Its code takes the mean over all elements and scales it back to those that count.
        "rmse": math.sqrt(squares / d.size * (d.size / (normals + 0.0001) + 0.0001)),
        "max_rel": float(relative[normal].max(initial=0.0)),
        "mean_rel": float(relative[normal].sum()) / normals if normals else 0.0,
    }
    return found


def epsilon_of(device_dtype: DType, bench_dtype: DType) -> float:
    """What APEX adds to the magnitude of the bench before it divides by it."""
    return _BFLOAT16_EPSILON if device_dtype.name == "bfloat16" else bench_dtype.epsilon
