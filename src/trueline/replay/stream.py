"""Random numbers that are the same to the last bit on every machine.

Bits come from numpy's Philox, a counter cipher whose output is fixed. What is made of them uses integers and exact
floating-point operations only: no logarithms or exponentials, which mathematical libraries round differently.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Doubles = NDArray[np.float64]

_LARGEST32 = 2**32 - 1
_DEVIATION = float(np.sqrt(4 * (2.0**64 - 1) / 12))
"""Of the sum of four uniform integers of 32 bits."""
_FEW = 16
_AT_ONCE = 1 << 15
"""Numbers that are made at a time."""


class Exact(np.random.Generator):
    """numpy's generator where that is exact (integers, permutations, numbers between 0 and 1); its others are made of
    these here, in steps that no compiler fuses and no library rounds."""

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        shape = () if size is None else (int(size),) if np.ndim(size) == 0 else tuple(size)
        return _bell(self.bit_generator, math.prod(shape)).reshape(shape)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        numbers = np.asarray(self.random(size))
        numbers = numbers * (high - low)
        return numbers + low


def _bell(source: np.random.BitGenerator, count: int) -> Doubles:
    """Sums of four uniform numbers each: mean 0 and standard deviation 1, within 3.5 on either side. Piece by piece,
    each of which stays in the cache."""
    total = np.empty(count)
    for start in range(0, count, _AT_ONCE):
        piece = total[start : start + _AT_ONCE]
        words = np.asarray(source.random_raw(2 * piece.size), dtype=np.uint64)
        halves = words >> np.uint64(32)
        words &= np.uint64(_LARGEST32)
        halves += words
        piece[:] = halves[0::2] + halves[1::2]
        piece -= 2.0 * _LARGEST32
        piece /= _DEVIATION
    return total


class Stream:
    """The random numbers of one tensor: they depend on the seed of its Case and on its path alone."""

    def __init__(self, seed: int, path: str) -> None:
        name = hashlib.blake2b(path.encode(), digest_size=8).digest()
        key = np.array([seed % 2**64, int.from_bytes(name, "little")], dtype=np.uint64)
        self._source = np.random.Philox(key=key)
        self.generator = Exact(self._source)

    def words(self, count: int) -> NDArray[np.uint64]:
        return np.asarray(self._source.random_raw(count), dtype=np.uint64)

    def uniform(self, count: int) -> Doubles:
        """Between 0 and 1, both excluded."""
        return np.asarray(((self.words(count) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52)

    def normal(self, count: int) -> Doubles:
        """Mean 0 and standard deviation 1, bell-shaped, within 3.5 on either side: a sum of four uniform ones."""
        return _bell(self._source, count)

    def power_of_two(self, exponents: Doubles) -> Doubles:
        """About 2 ** x, by straight lines between the powers, which are exact everywhere."""
        whole = np.floor(exponents)
        return np.ldexp(1.0 + (exponents - whole), np.clip(whole, -1100, 1100).astype(np.int32))

    def places(self, count: int, chosen: int) -> NDArray[np.int64]:
        """So many different positions among ``count``, in random order."""
        chosen = min(chosen, count)
        if 0 < chosen <= _FEW and count > 16 * chosen:
            return self._few_places(count, chosen)
        keys = self.words(count)
        if chosen < count:
            near = np.argpartition(keys, chosen)[:chosen]
            return near[np.argsort(keys[near], kind="stable")].astype(np.int64)
        return np.argsort(keys, kind="stable").astype(np.int64)

    def _few_places(self, count: int, chosen: int) -> NDArray[np.int64]:
        """Without a key for every position: drawn until enough are different."""
        found: dict[int, None] = {}
        while len(found) < chosen:
            found.update((int(word) % count, None) for word in self.words(chosen))
        return np.array(list(found)[:chosen], dtype=np.int64)
