"""What every notebook has that stands in for the real one; see ``trueline.frameworks.base.Notebook``."""

from __future__ import annotations

import itertools

import numpy as np

from trueline.frameworks.base import Source, Tally


class Blank:
    """A notebook in which nothing is written yet."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.visits: list[int] = []
        self.sources: list[Source] = []
        self.missing: list[tuple[int, str]] = []
        self.step = 0
        self.tally = Tally()
        self.next_call = itertools.count().__next__
        self.next_tensor = itertools.count().__next__

    def collect(self) -> None:
        """Takes over what the sources hold."""
        for source in self.sources:
            calls, visits = source()
            self.calls += np.frombuffer(calls, dtype=np.int64).tolist()
            self.visits += np.frombuffer(visits, dtype=np.int64).tolist()

    def wait_for_room(self) -> None:
        """There is always room."""

    def model_enters(self, *, trains: bool) -> None:
        """Nothing ends here."""
