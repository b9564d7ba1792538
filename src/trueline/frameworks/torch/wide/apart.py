"""Computing by the table where torch would do: another implementation, not more digits.

Whole numbers and bools need no digits, but a kernel of torch's that is wrong is wrong for them as well. Functions that
mpmath computes one element after another take milliseconds an element; where float64's digits are enough, its kernel
is asked, and believed where the table agrees in a sample of the elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch

from trueline.frameworks.torch.wide.table import Array, Entry

_vouching: ContextVar[bool] = ContextVar("vouching", default=False)

SLOW = frozenset(
    """i0 special_i0e special_i1 special_i1e special_modified_bessel_i0 special_modified_bessel_i1
    special_modified_bessel_k0 special_modified_bessel_k1 special_scaled_modified_bessel_k0
    special_scaled_modified_bessel_k1 special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1
    special_airy_ai special_zeta igamma igammac""".split()
)
"""Entries that go through mpmath for every element; elements of the result belong to those of the arguments."""
SAMPLE = 40
_AGREE = 2.0**-32
"""Relative; float64 kernels of these functions are off by some 2**-48, and a float32 result is judged by 2**-25."""


@contextmanager
def vouching() -> Iterator[None]:
    """Inside, slow functions are computed by torch in float64 where the table vouches for it."""
    before = _vouching.set(True)
    try:
        yield
    finally:
        _vouching.reset(before)


def vouched(name: str, function: Any, computed: Entry, given: Sequence[Any]) -> Array | None:
    """What torch makes of arguments of the operator ``name`` in float64, where that is enough, and right in a sample;
    None where the table has to do it all."""
    if not _vouching.get() or name not in SLOW:
        return None
    arrays = np.broadcast_arrays(*(np.asarray(one) for one in given))
    if arrays[0].size <= 2 * SAMPLE:
        return None
    plain = function(*(torch.from_numpy(one.astype(np.float64)) for one in arrays)).numpy()
    # Not every n-th one: whatever has a period of its own (lanes of a register) would hide from it.
    places = np.random.default_rng(arrays[0].size).permutation(plain.size)[:SAMPLE]
    sample = np.asarray(computed(*(one.reshape(-1)[places] for one in arrays)))
    if not _agree(plain.reshape(-1)[places], sample):
        return None
    return plain.astype(np.longdouble)


def _agree(plain: Array, sample: Array) -> bool:
    wide = plain.astype(np.longdouble)
    same = (wide == sample) | (np.isnan(wide) & np.isnan(sample))
    with np.errstate(all="ignore"):
        return bool(np.all(same | (np.abs(wide - sample) <= _AGREE * np.abs(sample))))


def exactly(computed: Entry, made: Any, given: Sequence[Any], named: dict[str, Any]) -> Any:
    """What the table makes of whole numbers and bools, in place of what torch ``made``, which says how many results
    there are, and of which types and shapes. Where the table has none of these, torch's stands."""
    outputs = list(made) if isinstance(made, list | tuple) else [made]
    if not all(isinstance(one, torch.Tensor) and not (one.is_floating_point() or one.is_complex()) for one in outputs):
        return made
    try:
        result = computed(*given, **named)
    except (TypeError, ValueError, IndexError, NotImplementedError):  # an entry for numbers with digits alone
        return made
    results = [np.asarray(one) for one in (result if isinstance(result, list | tuple) else [result])]
    if len(results) != len(outputs) or not all(map(_is_like, results, outputs)):
        return made
    tensors = [torch.from_numpy(np.array(one, order="C")) for one in results]
    return type(made)(tensors) if isinstance(made, list | tuple) else tensors[0]


def _is_like(result: Array, made: torch.Tensor) -> bool:
    return result.shape == tuple(made.shape) and result.dtype == made.numpy().dtype
