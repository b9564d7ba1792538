"""Which half a seed is of.

The SHA-256 of its number decides: an even first byte is ``work``, an odd one ``counted``. Pairs of the working half are
there to be opened and mended for; of the counted half only the outcomes are counted.
"""

from __future__ import annotations

import hashlib

HALVES = ("work", "counted")


def half_of(seed: int) -> str:
    return HALVES[hashlib.sha256(str(seed).encode()).digest()[0] % 2]
