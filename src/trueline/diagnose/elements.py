"""Judges a table element by element: two Runs, or three with a peer whose errors are the yardstick."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from trueline.cases import Evidence
from trueline.compare import Match
from trueline.compare.elements import Elements, three_way, two_way
from trueline.diagnose.judging import judge_raised, name_simulated, name_unmatched
from trueline.diagnose.table import Progress, RankTable
from trueline.dtypes import DTYPES, dtype_named
from trueline.judge import Judgement
from trueline.judge.by_element import ByElement, Outputs
from trueline.judge.sensitivity import limit_of
from trueline.records import Phase
from trueline.store.columns import NONE
from trueline.store.reader import RankReader

_NOT_KEPT = "the {side} did not keep this tensor: capture with data='tensors', or use trueline exec"


@dataclass(frozen=True)
class Peers:
    """The tensors of a peer, by those of the gold: the same gold, aligned with the peer's Run."""

    table: RankTable

    @classmethod
    def of(cls, gold: RankReader, peer: RankReader, steps: tuple[int, ...]) -> Peers:
        return cls(RankTable((gold, peer), steps))

    @cached_property
    def visits(self) -> dict[int, int]:
        """The peer's row of ``Trace.visits`` by that of the gold."""
        leaves = self.table.leaves
        both = (leaves.reference != NONE) & (leaves.candidate != NONE)
        return dict(zip(leaves.reference[both].tolist(), leaves.candidate[both].tolist(), strict=True))

    @cached_property
    def raised(self) -> dict[int, str]:
        """Why a call of the peer did not return, by the position of the gold's call."""
        trace = self.table.traces[1]
        numbers = trace.column("raised")
        pairs = zip(self.table.alignment.reference.tolist(), self.table.alignment.candidate.tolist(), strict=True)
        return {
            left: trace.names.get(int(numbers[right]), "")
            for left, right in pairs
            if left != NONE and right != NONE and int(numbers[right]) != NONE
        }


def judge_elements(
    table: RankTable, standard: ByElement, peers: Peers | None = None, progress: Progress | None = None
) -> None:
    """Judges every row of a table by the elements of its outputs; with ``peers`` the reference is the gold."""
    name_unmatched(table)
    rows = np.flatnonzero(table.alignment.match < int(Match.EXTRA)).tolist()
    for number, row in enumerate(rows):
        view = _Row(table, row, peers)
        leaves, outputs = view.outputs()
        answer = standard.judge_outputs(outputs)
        table.set_judgement(row, Judgement(answer.verdict, answer.reason, idle=answer.idle))
        table.findings.update(zip(leaves, answer.findings, strict=False))
        if progress is not None and number % 256 == 0:
            progress(f"rank {table.rank}: calls", number, len(rows))
    judge_raised(table)
    name_simulated(table)


class _Row:
    """The outputs of one row as evidence."""

    def __init__(self, table: RankTable, row: int, peers: Peers | None) -> None:
        self._table = table
        self._row = row
        self._peers = peers
        self._part = "gradient" if table.phase(row) is Phase.BACKWARD else "output"

    def outputs(self) -> tuple[list[int], Outputs]:
        """The leaves that both sides have, and what was measured of them."""
        leaves, lonely = [], []
        for leaf in self._leaves():
            sides = int(self._table.leaves.reference[leaf]), int(self._table.leaves.candidate[leaf])
            if NONE in sides:
                lonely.append((self._path(leaf), "candidate" if sides[0] == NONE else "reference"))
            else:
                leaves.append(leaf)
        evidence = [self._evidence(leaf) for leaf in leaves]
        return leaves, Outputs(self._table.api(self._row), evidence, lonely)

    def _leaves(self) -> Iterator[int]:
        first, last = int(self._table.first_leaf[self._row]), int(self._table.last_leaf[self._row])
        return (leaf for leaf in range(first, last) if self._table.leaves.output[leaf])

    def _path(self, leaf: int) -> str:
        return self._table.tensor_at(leaf).path

    def _evidence(self, leaf: int) -> Evidence:
        table, path = self._table, self._path(leaf)
        gold_visit, visit = int(table.leaves.reference[leaf]), int(table.leaves.candidate[leaf])
        sides = [elements(table, side, one) for side, one in ((0, gold_visit), (1, visit))]
        dtype, shape = table.layout(1, visit)
        for name, side in zip(("reference", "candidate"), sides, strict=True):
            if side is None:
                return Evidence(self._part, path, dtype.name, shape, note=_NOT_KEPT.format(side=name))
        reference, candidate = sides
        assert reference is not None and candidate is not None
        if self._peers is None:
            return two_way(self._part, path, reference, candidate)
        peer = self._peer(leaf, gold_visit)
        if isinstance(peer, str):
            return Evidence(self._part, path, dtype.name, shape, note=peer)
        found = three_way(self._part, path, reference, candidate, peer)
        explained = limit_of(table.evidence(self._row), table.tensor_at(leaf)).total
        return replace(found, numbers={**found.numbers, "rounding_limit": explained})

    def _peer(self, leaf: int, gold_visit: int) -> Elements | str:
        """The peer's tensor, or why there is none."""
        assert self._peers is not None
        visit = self._peers.visits.get(gold_visit)
        if visit is None:
            raised = self._peers.raised.get(int(self._table.alignment.reference[self._row]))
            return f"the baseline did not return: {raised}" if raised else "the baseline has no such tensor"
        found = elements(self._peers.table, 1, visit)
        if found is None:
            return _NOT_KEPT.format(side="baseline")
        self._table.baselines[leaf] = self._peers.table.record(1, visit)
        return found


def elements(table: RankTable, side: int, visit: int) -> Elements | None:
    """The bits of a tensor that was kept; None where it was not."""
    trace = table.traces[side]
    tensor, layout = int(trace.visits[visit, 3]), trace.layouts[int(trace.visits[visit, 4])]
    if tensor not in trace.stored or layout.dtype.rpartition(".")[2] not in DTYPES:
        return None
    dtype = dtype_named(layout.dtype)
    return Elements(table.readers[side].tensor_bits(tensor, layout.dtype, layout.shape), dtype)
