"""What every notebook has that stands in for the real one; see ``trueline.frameworks.base.Notebook``."""

from __future__ import annotations

import itertools

from trueline.frameworks.base import Tally


class Blank:
    """A notebook in which nothing is written yet."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.visits: list[int] = []
        self.missing: list[tuple[int, str]] = []
        self.step = 0
        self.tally = Tally()
        self.next_call = itertools.count().__next__
        self.next_tensor = itertools.count().__next__
