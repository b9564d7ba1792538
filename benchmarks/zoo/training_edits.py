"""Edits that the cases about training share."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.source import edit_function, imported
from benchmarks.zoo.spec import BeforeEdit, Setting, Where


def script(program: str, function: str, *changes: tuple[str, str], count: int = 1) -> BeforeEdit:
    """Texts of a function of the training script ``programs/training_{program}.py`` are replaced by others."""

    def edit(setting: Setting) -> None:
        edit_function(imported(f"benchmarks.zoo.programs.training_{program}"), function, *changes, count=count)

    return edit


def library(owner: str, function: str, *changes: tuple[str, str], count: int = 1) -> BeforeEdit:
    """Texts of a function of a library are replaced; ``owner``: ``module`` or ``module:Class``."""

    def edit(setting: Setting) -> None:
        module, _, name = owner.partition(":")
        held: Any = imported(module)
        edit_function(getattr(held, name) if name else held, function, *changes, count=count)

    return edit


def several(*edits: BeforeEdit) -> BeforeEdit:
    """All of the edits, one after another."""

    def edit(setting: Setting) -> None:
        for one in edits:
            one(setting)

    return edit


def kinds(*names: str, **where: Any) -> tuple[Where, ...]:
    """The same place under several kinds that are fair names of what happened there."""
    return tuple(Where(name, **where) for name in names)


def updated(*names: str, step: int = 0, apis: tuple[str, ...] = ()) -> tuple[Where, ...]:
    """The step of the optimizer leaves the parameters of these names wrong."""
    return tuple(Where("update", apis, names=names, step=step, phase=phase) for phase in ("forward", "backward"))
