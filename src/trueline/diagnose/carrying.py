"""How far rounding takes a value from exact arithmetic along the calls of one side that lead to it.

From statistics alone: each call spreads what arrives and adds its own rounding (``judge.sensitivity``). What begins a
chain may be off already, by as much as the two sides are apart there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from trueline.compare.graph import ValueGraph
from trueline.compare.measure import MEASURED, describe
from trueline.diagnose.fillings import fills, is_filling
from trueline.dtypes import DType, dtype_named
from trueline.errors import UsageError
from trueline.judge import CallEvidence, TensorEvidence
from trueline.judge.sensitivity import carried
from trueline.numerics.layout import STATISTICS
from trueline.ops.facts import facts_of
from trueline.records import Phase, Role
from trueline.store.columns import NONE, PHASES, ROLES
from trueline.store.trace import Trace

_OUTPUT = ROLES.index(Role.OUTPUT)
_BACKWARD = PHASES.index(Phase.BACKWARD)
_BOOL = dtype_named("bool")


class Carrying:
    """Answers for one side."""

    def __init__(self, graph: ValueGraph) -> None:
        self._graph = graph
        self._trace: Trace = graph.trace
        self._facts: dict[int, TensorEvidence] = {}

    def off(self, calls: Sequence[int], begins: Mapping[int, float], value: int) -> float:
        """By how much, relative to itself, a value may be off that these calls made from these values."""
        known = {tensor: (0.0 if distance != distance else distance) for tensor, distance in begins.items()}
        self._learn(calls)
        for position in calls:
            self._through(position, known)
        return self._at(value, known)

    def _at(self, value: int, known: dict[int, float]) -> float:
        if value in known:
            return known[value]
        parts = self._graph.parts_of(value)
        if not parts:
            return 0.0
        return math.sqrt(sum(self._at(part, known) ** 2 for part in parts))

    def _through(self, position: int, known: dict[int, float]) -> None:
        trace = self._trace
        visits = trace.visits_of(position).tolist()
        backward = int(trace.columns[position, 2]) == _BACKWARD
        inputs = [self._evidence(position, visit, known) for visit in visits if visit[2] != _OUTPUT]
        if not backward and self._looks_beside(position, visits, inputs, known):
            return
        saved: list[TensorEvidence] = []
        if backward:
            forward = self._graph.forward_of(position)
            if forward != NONE:
                saved = [self._evidence(forward, visit, known) for visit in trace.visits_of(forward).tolist()]
        for visit in visits:
            if visit[2] != _OUTPUT:
                continue
            output = self._evidence(position, visit, {})
            evidence = CallEvidence(
                facts_of(trace.names.get(int(trace.columns[position, 3]), "")),
                Phase.BACKWARD if backward else Phase.FORWARD,
                inputs,
                [output],
                saved,
            )
            known[visit[3]] = max(known.get(visit[3], 0.0), carried(evidence, output))

    def _looks_beside(
        self, position: int, visits: Sequence[Sequence[int]], inputs: Sequence[TensorEvidence], known: dict[int, float]
    ) -> bool:
        """Whether a call puts numbers that stand for infinity beside others: then the others are what counts, and they
        are as far off as they were."""
        name = self._trace.names.get(int(self._trace.columns[position, 3]), "")
        floats = [one for one in inputs if not one.reference_dtype.is_exact and one.largest > 0.0]
        if not floats or not (is_filling(name) or facts_of(name).moves):
            return False
        beside = min(floats, key=lambda one: one.largest)
        rest = [one for one in floats if one is not beside]
        for visit in visits:
            if visit[2] != _OUTPUT:
                continue
            learned = self._facts[visit[3]]
            if learned.count != beside.count or not fills(learned.largest, beside.largest):
                return False
            if any(not fills(one.smallest, beside.largest) for one in rest):
                return False
            fields = {name: getattr(beside, name) for name in ("rms", "mean", "smallest", "largest", "candidate_rms")}
            self._facts[visit[3]] = replace(learned, **fields)
            known[visit[3]] = max(known.get(visit[3], 0.0), beside.distance + learned.roundoff)
        return True

    def _learn(self, calls: Sequence[int]) -> None:
        """Reads the statistics of all tensors of these calls at once."""
        wanted: dict[int, int] = {}
        for position in calls:
            rows = self._trace.visits_of(position).tolist()
            forward = self._graph.forward_of(position)
            if forward != NONE:
                rows += self._trace.visits_of(forward).tolist()
            wanted.update((visit[3], visit[4]) for visit in rows if visit[3] not in self._facts)
        found = self._trace.statistics_rows(list(wanted))
        packed = np.zeros(len(wanted), dtype=STATISTICS)
        for index, tensor in enumerate(wanted):
            if tensor in found:
                packed[index] = found[tensor]
        rows_of = np.zeros(len(wanted), dtype=MEASURED)
        describe(packed, rows_of)
        for index, (tensor, layout_number) in enumerate(wanted.items()):
            layout, row = self._trace.layouts[layout_number], rows_of[index]
            kind = _dtype(layout.dtype)
            self._facts[tensor] = TensorEvidence(
                "", kind, kind, layout.shape, math.prod(layout.shape), 0.0, 0.0, 1.0, True, False,
                rms=float(row["rms"]), mean=float(row["mean"]), smallest=float(row["smallest"]),
                largest=float(row["largest"]), candidate_rms=float(row["rms"]),
            )  # fmt: skip

    def _evidence(self, position: int, visit: Sequence[int], known: Mapping[int, float]) -> TensorEvidence:
        """A tensor as a call saw it, with how far it may be off."""
        learned, layout = self._facts[visit[3]], self._trace.layouts[visit[4]]
        kind = _dtype(layout.dtype)
        distance = known.get(visit[3], 0.0)
        return TensorEvidence(
            self._trace.path_of(position, visit[1]), kind, kind, layout.shape, learned.count, distance, distance, 1.0,
            distance == 0.0, False, rms=learned.rms, mean=learned.mean, smallest=learned.smallest,
            largest=learned.largest, candidate_rms=learned.rms,
        )  # fmt: skip


def _dtype(name: str) -> DType:
    try:
        return dtype_named(name)
    except UsageError:
        return _BOOL
