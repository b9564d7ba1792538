"""What the reports need of a comparison. ``diagnose.Comparison`` is one; tests bring their own.

Reports sit below the room that compares, so they say here what they read and import nothing from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from trueline.dtypes import DType
from trueline.events import Progress
from trueline.records import Call, CallComparison, ObservableComparison, Origin, Verdict
from trueline.store import Run

Array = np.ndarray[Any, Any]
Columns = Mapping[str, Array]


class ComparisonView(Protocol):
    """A finished comparison of two Runs, to be read and never changed."""

    @property
    def verdict(self) -> Verdict: ...
    @property
    def first_divergence(self) -> Call | None: ...
    @property
    def origin(self) -> Origin | None: ...
    @property
    def calls(self) -> Sequence[CallComparison]: ...
    @property
    def counts(self) -> Mapping[str, int]: ...
    @property
    def unmatched(self) -> Mapping[str, Any]:
        """``extra`` and ``missing``: numbers of calls that only the candidate or only the reference has; ``ranks``:
        the same by rank."""
        ...

    @property
    def missing_ranks(self) -> Mapping[str, Sequence[int]]:
        """Side -> the ranks that it lacks."""
        ...

    @property
    def reference(self) -> Run: ...
    @property
    def candidate(self) -> Run: ...
    @property
    def baseline(self) -> Run | None:
        """The peer of a three-way comparison, of which the reference is the gold; else None."""
        ...

    @property
    def standard(self) -> str: ...
    @property
    def mode(self) -> str: ...
    @property
    def notes(self) -> Sequence[str]: ...
    @property
    def observables(self) -> Sequence[ObservableComparison]:
        """What the programs give away, side by side, and the parameters that they begin with; empty where the Runs do
        not say or the standard does not ask."""
        ...

    @property
    def too_little(self) -> Sequence[str]:
        """Why it cannot be said that nothing is wrong, as in ``notes``; empty where it can."""
        ...

    def series(self) -> Columns:
        """One value per call and column: step, rank, phase, output_distance, input_distance, limit, verdict, api,
        module, inherited; where they are cheap to give also index, source, reference_module (the path of the module
        in the reference) and alone (1: only the candidate makes the call, 2: only the reference)."""
        ...

    def elements(self, position: int, place: int) -> tuple[Array, Array, DType] | str:
        """The tensor at ``place`` of the call at a position, of the reference and of the candidate: in float64 or
        complex128, in the same shape, with the coarser of their dtypes; or why that cannot be told."""
        ...

    def gold(self, position: int, place: int) -> Array | str:
        """The same tensor as the reference's call gives it when it is replayed in float64 on its recorded inputs; or
        why there is none. Takes its time."""
        ...


def each_call(comparison: ComparisonView, what: str, progress: Progress | None) -> Iterator[CallComparison]:
    """All calls one after another, with word of how far it has come."""
    total = len(comparison.calls)
    for position, pair in enumerate(comparison.calls):
        if progress is not None and position % 256 == 0:
            progress(what, position, total)
        yield pair


def same_pair(one: CallComparison, other: CallComparison) -> bool:
    first, second = one.call, other.call
    return (first.rank, first.id, one.candidate is None) == (second.rank, second.id, other.candidate is None)


def origin_position(comparison: ComparisonView, series: Columns) -> int | None:
    """Where in ``calls`` the call of the origin is."""
    origin = comparison.origin
    if origin is None:
        return None
    pair, call = origin.comparison, origin.comparison.call
    here = (np.asarray(series["api"]) == call.api) & (np.asarray(series["step"]) == call.step)
    here &= np.asarray(series["rank"]) == call.rank
    if "index" in series:
        here &= np.asarray(series["index"]) == call.index
    for position in np.flatnonzero(here):
        found = comparison.calls[int(position)]
        if same_pair(found, pair):
            return int(position)
    return None


def following(comparison: ComparisonView, series: Columns, position: int | None) -> Array:
    """Which calls follow from the origin: they come after it (on other ranks: not in an earlier step) and differ no
    more than their inputs explain. Where there is no origin, or no more than a warning, none does."""
    origin = comparison.origin
    count = len(series["verdict"])
    if origin is None or comparison.verdict < Verdict.FAIL:
        return np.zeros(count, dtype=bool)
    call = origin.comparison.call
    rank, step = np.asarray(series["rank"]), np.asarray(series["step"])
    after = step >= call.step
    if position is not None:
        after &= (rank != call.rank) | (np.arange(count) > position)
    after &= np.asarray(series["verdict"]).astype(np.int64) < Verdict.FAIL
    found: Array = np.asarray(series["inherited"]).astype(bool) & after
    return found
