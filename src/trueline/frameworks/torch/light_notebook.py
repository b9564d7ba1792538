"""What a light watch defines, each once: the part of a Notebook and of Traits that it needs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from trueline.frameworks.base import Tally
from trueline.frameworks.torch.modes import Traits
from trueline.frameworks.torch.names import Trait
from trueline.store.interrupts import from_handler

SCALER = "torch._amp_foreach_non_finite_check_and_unscale_"
"""By this call a loss scaler looks at the gradients; it notes what it found in the second argument."""


class LightNotebook:
    """What a light watch defines, each once; the part of a Notebook that needs no writer."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.trouble_texts: dict[str, int] = {}
        self.tables: dict[str, list[Any]] = {}
        self._numbers: dict[str, dict[Any, int]] = {}
        self.next_call = itertools.count().__next__
        self.step = 0
        self.events: list[dict[str, Any]] = []
        """Graphs of compiled regions: they are few, and compiled once."""

    def define(self, table: str, key: Any, row: Callable[[], list[Any]]) -> int:
        numbers = self._numbers.setdefault(table, {})
        number = numbers.get(key)
        if number is None:
            rows = self.tables.setdefault(table, [])
            rows.append(row())
            number = numbers[key] = len(rows) - 1
        return number

    def evidence(self, event: dict[str, Any]) -> None:
        self.events.append(event)

    def trouble(self, error: BaseException) -> None:
        """Notes a fault of ours; what the handler of a signal has raised is none, and goes on to the program."""
        if from_handler(error):
            raise error
        text = f"internal fault: {type(error).__name__}: {error}"
        self.trouble_texts[text] = self.trouble_texts.get(text, 0) + 1


class LightTraits(Traits):
    """Knows the call of a loss scaler when it sees it."""

    def enter(self, trait: Trait) -> Trait:
        entered = super().enter(trait)
        if trait.name == SCALER:
            self._watch.scaler = entered  # type: ignore[attr-defined]
        return entered
