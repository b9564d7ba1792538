"""Knows when a program is inside an optimizer's step; the same for every framework."""

from __future__ import annotations

from typing import Any

from trueline.frameworks.base import Notebook
from trueline.frameworks.selection import Selection
from trueline.store.columns import NONE


class OptimizerScope:
    """The part of a watch that hears of optimizers: what is called meanwhile belongs to a module of their name."""

    notebook: Notebook
    selection: Selection
    state: Any
    _contexts: dict[str, int]

    def enter_optimizer(self, optimizer: Any) -> None:
        """An optimizer's step begins."""
        state = self.state
        state.optimizer = self._contexts["optimizer"]
        kind = type(optimizer).__qualname__
        number = self.notebook.define("modules", ("optimizer", kind), lambda: ["optimizer", kind])
        self.selection.module(number, "optimizer")
        state.modules.append((number, NONE, None))

    def leave_optimizer(self) -> None:
        """It ended."""
        state = self.state
        state.optimizer = NONE
        if state.modules and state.modules[-1][2] is None:
            state.modules.pop()
