"""One-pass statistics, digests and comparisons of tensors.

``layout`` holds the tables that kernels read and write, ``cpu`` the face of the CPU kernels, ``fallback`` the same in
numpy; device kernels are imported only by those who ask for them. Importing this package imports no framework.
"""

from __future__ import annotations

from trueline.numerics.cpu import compare, digest, statistics, widen
from trueline.numerics.layout import sketch_distance

__all__ = ["compare", "digest", "sketch_distance", "statistics", "widen"]
