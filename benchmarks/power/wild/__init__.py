"""Wrong and honest kernels that the tool was not made with: the set, its verification, and the count.

``work`` may be opened by whoever mends the tool; ``counted`` may not: it is only counted. The names decide which is
which (``benchmarks.odd_programs.halves``).
"""

from __future__ import annotations

import importlib
from pathlib import Path

from benchmarks.power.wild.declare import KERNELS, Kernel


def kernels(half: str = "") -> list[Kernel]:
    """All kernels, or those of one half, in the order of their names."""
    for name in (half,) if half else ("work", "counted"):
        for path in sorted((Path(__file__).parent / name).glob("[a-z]*.py")):
            importlib.import_module(f"benchmarks.power.wild.{name}.{path.stem}")
    return [KERNELS[name] for name in sorted(KERNELS) if not half or KERNELS[name].half == half]
