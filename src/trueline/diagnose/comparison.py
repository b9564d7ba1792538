"""The result of comparing two Runs, as users hold it. Calls are made from columns when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np

from trueline.cases import Evidence
from trueline.compare import Match
from trueline.diagnose.outcome import Outcome
from trueline.diagnose.series import series_of
from trueline.diagnose.table import RankTable
from trueline.diagnose.values import both_sides, gold_of
from trueline.dtypes import DType
from trueline.judge import Standard, TensorEvidence
from trueline.records import (
    Call,
    CallComparison,
    ErrorRatio,
    ObservableComparison,
    Origin,
    Role,
    TensorComparison,
    TensorRecord,
    Verdict,
)
from trueline.store.columns import NONE
from trueline.store.reader import Run

Array = np.ndarray[Any, Any]


class Calls(Sequence[CallComparison]):
    """All rows, rank after rank, in the order of the traces."""

    def __init__(self, tables: Sequence[RankTable], standard: Standard) -> None:
        self._tables = tables
        self._standard = standard
        self._starts = np.cumsum([0] + [len(table) for table in tables])

    def __len__(self) -> int:
        return int(self._starts[-1])

    @overload
    def __getitem__(self, index: int) -> CallComparison: ...
    @overload
    def __getitem__(self, index: slice) -> list[CallComparison]: ...
    def __getitem__(self, index: int | slice) -> CallComparison | list[CallComparison]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"call {index} of {len(self)}")
        return call_comparison(*self.table_and_row(position), self._standard)

    def table_and_row(self, position: int) -> tuple[RankTable, int]:
        """Where the call at a position lies."""
        number = int(np.searchsorted(self._starts, position, side="right")) - 1
        return self._tables[number], position - int(self._starts[number])

    def __iter__(self) -> Iterator[CallComparison]:
        return (self[position] for position in range(len(self)))


class Comparison:
    """Two Runs, compared. ``first_divergence`` is the call in which they part, ``origin`` says why we say so."""

    def __init__(
        self,
        reference: Run,
        candidate: Run,
        standard: Standard,
        tables: Sequence[RankTable],
        *,
        mode: str,
        notes: list[str],
        missing_ranks: Mapping[str, tuple[int, ...]],
        baseline: Run | None = None,
    ) -> None:
        self.reference = reference
        self.candidate = candidate
        self.baseline = baseline
        """The peer of a three-way comparison, of which ``reference`` is the gold; else None."""
        self.standard = standard.name
        self.mode = mode
        self.notes = notes
        self.missing_ranks = missing_ranks
        self.origin: Origin | None = None
        self.outcomes: list[Outcome] | None = None
        """What each rank's programs give away, and its verdict; None for standards that look at calls alone."""
        self._tables = tables
        self.calls = Calls(tables, standard)

    @property
    def first_divergence(self) -> Call | None:
        """The first call that went wrong, as the candidate made it."""
        return None if self.origin is None else self.origin.comparison.call

    @cached_property
    def verdict(self) -> Verdict:
        """That of what the programs give away; for standards that look at calls alone the worst of all calls, without
        those that have nothing to compare on either side."""
        if self.outcomes is not None:
            return self._verdict_of_outcomes(self.outcomes)
        worst = Verdict.NOT_COMPARED if any(self.missing_ranks.values()) else Verdict.PASS
        measured = 0
        for table in self._tables:
            counted = ~table.idle
            measured += int((counted & (table.verdict != int(Verdict.NOT_COMPARED))).sum())
            if counted.any():
                worst = max(worst, Verdict(int(table.verdict[counted].max())))
        return worst if measured else max(worst, Verdict.NOT_COMPARED)

    def _verdict_of_outcomes(self, outcomes: Sequence[Outcome]) -> Verdict:
        worst = max((one.verdict for one in outcomes), default=Verdict.NOT_COMPARED)
        if any(self.missing_ranks.values()):
            worst = max(worst, Verdict.NOT_COMPARED)
        measured = sum(int((table.verdict != int(Verdict.NOT_COMPARED)).sum()) for table in self._tables)
        told = any(one.verdict is not Verdict.NOT_COMPARED for done in outcomes for one in done.observables)
        return worst if measured or told else max(worst, Verdict.NOT_COMPARED)

    @cached_property
    def observables(self) -> Sequence[ObservableComparison]:
        """What the programs give away, side by side, of all ranks."""
        return [one for done in self.outcomes or () for one in done.observables]

    @property
    def too_little(self) -> Sequence[str]:
        """Of which ranks it cannot be said whether something is wrong, and why, as in ``notes``."""
        told = [(table.rank, done.reason) for table, done in zip(self._tables, self.outcomes or (), strict=False)]
        return [f"rank {rank}: {reason}" if len(told) > 1 else reason for rank, reason in told if reason]

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """How many calls got each verdict."""
        verdicts = [table.verdict for table in self._tables]
        numbers = (
            np.bincount(np.concatenate(verdicts), minlength=len(Verdict)) if verdicts else np.zeros(len(Verdict), int)
        )
        return {verdict.name: int(numbers[int(verdict)]) for verdict in Verdict}

    @cached_property
    def unmatched(self) -> Mapping[str, Any]:
        """What could not be matched: numbers of calls by side, and by rank."""
        ranks = {
            table.rank: {
                "extra": int((table.alignment.match == int(Match.EXTRA)).sum()),
                "missing": int((table.alignment.match == int(Match.MISSING)).sum()),
            }
            for table in self._tables
        }
        return {
            "extra": sum(side["extra"] for side in ranks.values()),
            "missing": sum(side["missing"] for side in ranks.values()),
            "ranks": ranks,
        }

    @property
    def bytes_read(self) -> int:
        """Bytes of stored tensors that were compared, both sides together."""
        return sum(table.bytes_read for table in self._tables)

    def series(self) -> dict[str, np.ndarray[Any, Any]]:
        """Columns for plots, one entry for each call."""
        parts = [series_of(table) for table in self._tables]
        if not parts:
            return {}
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        columns["position"] = np.arange(len(self.calls))
        return columns

    def elements(self, position: int, place: int) -> tuple[Array, Array, DType] | str:
        """A tensor of the call at a position on both sides, in wide numbers and in the same shape, with the coarser of
        the two dtypes; or why that cannot be told."""
        return both_sides(*self.calls.table_and_row(position), place)

    def gold(self, position: int, place: int) -> Array | str:
        """The same tensor as the reference's call, replayed in float64 on its recorded inputs, gives it; or why there
        is none."""
        if self.baseline is not None:
            return "the reference is the gold of this comparison"
        return gold_of(*self.calls.table_and_row(position), place)

    def close(self) -> None:
        for run in (self.reference, self.candidate, self.baseline):
            if run is not None:
                run.close()

    def __enter__(self) -> Comparison:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def call_comparison(table: RankTable, row: int, standard: Standard) -> CallComparison:
    """One row, whole: both calls, all tensors, every metric there is."""
    left, right = int(table.alignment.reference[row]), int(table.alignment.candidate[row])
    calls = [
        None if position == NONE else trace.call(position)
        for trace, position in zip(table.traces, (left, right), strict=True)
    ]
    limit = float(table.limit[row])
    return CallComparison(
        reference=calls[0],
        candidate=calls[1],
        verdict=Verdict(int(table.verdict[row])),
        reason=table.reasons[int(table.reason[row])],
        tensors=_tensors(table, row, calls, standard),
        input_distance=float(table.input_distance[row]),
        output_distance=float(table.output_distance[row]),
        limit=None if np.isnan(limit) else limit,
        inherited=bool(table.inherited[row]),
    )


def error_ratios(evidence: Evidence) -> tuple[ErrorRatio, ...]:
    # Imported here: two-way comparisons of statistics do without it.
    from trueline.compare.elements import error_ratios as ratios

    return ratios(evidence)


def _tensors(table: RankTable, row: int, calls: list[Call | None], standard: Standard) -> tuple[TensorComparison, ...]:
    if calls[0] is None or calls[1] is None:
        return ()
    by_element = hasattr(standard, "judge_outputs")
    limits = [] if by_element else list(standard.judge(table.evidence(row)).limits)
    found = []
    output = 0
    for leaf in range(int(table.first_leaf[row]), int(table.last_leaf[row])):
        evidence = table.tensor_at(leaf, measurements=True)
        is_output = bool(table.leaves.output[leaf])
        limit = None
        if is_output:
            limit = limits[output] if output < len(limits) else None
            output += 1
        finding = table.findings.get(leaf)
        if finding is not None:
            evidence.measurement = finding.evidence.gold or evidence.measurement
        found.append(
            TensorComparison(
                role=Role.OUTPUT if is_output else Role.INPUT,
                path=evidence.path,
                reference=_record(table, 0, int(table.leaves.reference[leaf]), calls[0]),
                candidate=_record(table, 1, int(table.leaves.candidate[leaf]), calls[1]),
                verdict=finding.verdict
                if finding is not None
                else _tensor_verdict(table, row, evidence, is_output, limit, unseen=by_element and is_output),
                reason=finding.reason if finding is not None else _tensor_reason(table, leaf, evidence),
                distance=evidence.distance if evidence.measured else None,
                estimated=evidence.estimated,
                limit=limit,
                measurement=evidence.measurement,
                baseline=table.baselines.get(leaf),
                errors=() if leaf not in table.baselines or finding is None else error_ratios(finding.evidence),
                numbers={} if finding is None else finding.evidence.numbers,
            )
        )
    return tuple(found)


def _tensor_reason(table: RankTable, leaf: int, evidence: TensorEvidence) -> str:
    turned = table.turned.get(int(table.pair[leaf]))
    if turned is not None:
        order = f"in the order {turned.axes}" if turned.axes else "in another order, told by statistics"
        return f"compared with the axes of the reference {order}"
    return evidence.note or (f"only the {evidence.only} has it" if evidence.only else "")


def _tensor_verdict(
    table: RankTable, row: int, evidence: TensorEvidence, output: bool, limit: float | None, *, unseen: bool
) -> Verdict:
    """``unseen``: whether a standard that looks at elements had nothing to say of it."""
    if not evidence.measured or unseen:
        return Verdict.NOT_COMPARED
    if output and limit is not None and evidence.distance > limit:
        return Verdict(int(table.verdict[row]))
    return Verdict.PASS


def _record(table: RankTable, side: int, visit: int, call: Call) -> TensorRecord | None:
    if visit == NONE:
        return None
    if int(table.traces[side].visits[visit, 0]) != call.id:  # a gradient, laid beside the update that it leads to
        return table.record(side, visit)
    position = int(np.searchsorted(table.traces[side].visits[:, 0], call.id, side="left"))
    return call.tensors[visit - position]
