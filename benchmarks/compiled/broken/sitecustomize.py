"""An installation whose compiler is broken: with this folder on ``PYTHONPATH`` and ``BROKEN_COMPILER`` set to the name
of a fault, every Python process that imports torch compiles with that fault. So may whoever looks inside of a recorded
region compile it again and meet the fault."""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
from typing import Any


class _Finder(importlib.abc.MetaPathFinder):
    """Plants when the compiler is imported, by a part of it that every compilation needs."""

    trigger = "torch._inductor.compile_fx"

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self.trigger:
            return None
        sys.meta_path.remove(self)
        found = importlib.util.find_spec(name)
        if found is None or found.loader is None:
            return found
        honest = found.loader.exec_module

        def run(module: Any) -> None:
            honest(module)
            from benchmarks.compiled.side import plant_for_all

            plant_for_all(os.environ["BROKEN_COMPILER"])

        found.loader.exec_module = run  # type: ignore[method-assign]
        return found


if os.environ.get("BROKEN_COMPILER"):
    sys.meta_path.insert(0, _Finder())
