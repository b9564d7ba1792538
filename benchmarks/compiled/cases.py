"""All cases by name."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from benchmarks.compiled.spec import CASES, Case, Clean, Fault
from benchmarks.odd_programs.halves import HALVES, half_of

__all__ = ["Clean", "Fault", "chosen", "half_of", "load"]


def load() -> dict[str, Case]:
    """Imports every file of both halves and the clean pairs."""
    import benchmarks.compiled.clean  # noqa: F401  (declares its pairs)

    for half in HALVES:
        for module in pkgutil.iter_modules([str(Path(__file__).parent / half)]):
            importlib.import_module(f"{__package__}.{half}.{module.name}")
    return CASES


def chosen(half: str | None, names: list[str]) -> list[Case]:
    """The cases of a half, or of both, or those that are named."""
    cases = load()
    unknown = [name for name in names if name not in cases]
    if unknown:
        raise SystemExit(f"no case is called {', '.join(unknown)}; there are {', '.join(sorted(cases))}")
    if names:
        return [cases[name] for name in names]
    return [case for name, case in sorted(cases.items()) if half is None or half_of(name) == half]
