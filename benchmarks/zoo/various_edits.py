"""Edits that several cases share."""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.zoo.source import edit_function
from benchmarks.zoo.spec import Built


def edit_step(built: Built, *changes: tuple[str, str]) -> None:
    """Replaces texts in the source of the program's step."""
    module = sys.modules[built.step.__module__]
    edit_function(module, built.step.__name__, *changes)
    built.step = getattr(module, built.step.__name__)


def edit_one(module: Any, name: str, *changes: tuple[str, str], count: int = 1) -> None:
    """Replaces texts in the source of a method of this one module (or other object), not of the others of its
    class."""
    kind = type(module)
    own = type(kind.__name__, (kind,), {"__module__": kind.__module__, "__qualname__": kind.__qualname__})
    edit_function(own, name, *changes, count=count)
    module.__class__ = own


def lower(module: Any) -> None:
    """Lets this one module compute in bfloat16, as under an autocast that was left on, and give back what it took."""
    import torch

    forward = module.forward

    def lowered(value: Any, *more: Any) -> Any:
        with torch.autocast(value.device.type, dtype=torch.bfloat16):
            return forward(value, *more).to(value.dtype)

    module.forward = lowered
