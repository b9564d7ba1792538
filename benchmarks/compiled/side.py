"""One side of one case, in this process: ``python -m benchmarks.compiled.side NAME reference|candidate``."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from benchmarks.compiled.cases import Fault, load
from benchmarks.compiled.spec import Case


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("side", choices=("reference", "candidate"))
    asked = parser.parse_args()
    case = load()[asked.name]
    start = time.perf_counter()
    given = run_side(case, asked.side)
    print(f"{asked.name} {asked.side}: {time.perf_counter() - start:.1f} s")
    for name, value in given.items():
        print(f"  {name}: {value.float().norm().item():.6g}")


def run_side(case: Case, side: str) -> Mapping[str, Any]:
    """A fault is planted here unless the whole installation has it already."""
    if side == "candidate" and isinstance(case, Fault) and os.environ.get("BROKEN_COMPILER") == case.name:
        return case.unplanted()
    return case.reference() if side == "reference" else case.candidate()


def plant_for_all(name: str) -> None:
    """Breaks the compiler of this process for good, as a broken installation would be."""
    case = load()[name]
    if isinstance(case, Fault):
        _broken.enter_context(case.plant())


_broken = ExitStack()

if __name__ == "__main__":
    main()
