"""One rank of two Runs, laid side by side: columns of integers and floats, a row for each call.

The calls and tensors themselves are made from these columns on demand, so that a comparison of two Runs of hundreds
of thousands of calls stays small.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from trueline.cases import TensorFinding
from trueline.compare import MEASURED, Alignment, Match, Measurer, align_calls, carry_over, pair_leaves
from trueline.compare.measure import NOT_ALIKE, NOTES
from trueline.compare.turning import Turned
from trueline.compare.updates import match_updates
from trueline.diagnose.fillings import look_beside_fillings
from trueline.diagnose.orders import reordered
from trueline.diagnose.precision import Precision
from trueline.diagnose.turns import turn_pairs
from trueline.dtypes import DType, dtype_named
from trueline.errors import UsageError
from trueline.judge import CallEvidence, Judgement, TensorEvidence
from trueline.numerics.layout import to_measurement
from trueline.ops.facts import Kind, facts_of
from trueline.records import Measurement, Phase, TensorRecord, Verdict
from trueline.store.columns import CALL_COLUMNS, NONE, PHASES, Integers
from trueline.store.reader import RankReader
from trueline.store.trace import Trace

_COLUMN = {name: position for position, name in enumerate(CALL_COLUMNS)}
_NOTE = (MEASURED.names or ()).index("note")
_UNKNOWN = DType("unknown", -1, 0, "b", "|u1", None)

_VANISHING = 1e-5
"""Outputs this much smaller than what went in are what rounding left of a sum that vanishes."""

Floats = np.ndarray[Any, np.dtype[np.float64]]
Progress = Callable[[str, int, int], None]


class RankTable:
    """The calls of one rank: aligned (``alignment``), measured (``measured``), judged (``verdict`` and the rest)."""

    def __init__(self, readers: tuple[RankReader, RankReader], steps: tuple[int, ...]) -> None:
        self.readers = readers
        self.rank = readers[1].rank
        self.traces: tuple[Trace, Trace] = (readers[0].trace(), readers[1].trace())
        self.steps = steps
        called = [frameworks_of(trace) for trace in self.traces]
        self.across = all(called) and called[0].isdisjoint(called[1])
        """Whether the two sides are of different frameworks."""
        for trace in self.traces:
            carry_over(trace, updates=self.across)  # in one framework updates are told by parameter, by their names
        self.alignment, self.step = _align_steps(self.traces, steps, self.across)
        self.leaves = pair_leaves(self.alignment, *self.traces, across=self.across)
        if self.across:
            found = match_updates(self.alignment, self.leaves, *self.traces, self.step)
            self.alignment, self.leaves, self.step = found
        self.first_leaf, self.last_leaf = self.leaves.bounds(len(self.alignment))
        count = len(self.alignment)
        self.verdict = np.full(count, int(Verdict.NOT_COMPARED), dtype=np.int8)
        self.limit = np.full(count, np.nan)
        self.inherited = np.zeros(count, dtype=bool)
        self.idle = np.zeros(count, dtype=bool)
        self.input_distance = np.zeros(count)
        self.output_distance = np.zeros(count)
        self.other_size = np.zeros(count, dtype=bool)
        """Rows that give tensors which cannot be laid side by side, being of other sizes."""
        self.reason = np.zeros(count, dtype=np.int32)
        self.reasons: list[str] = [""]
        self._reason_numbers: dict[str, int] = {"": 0}
        self.measured = np.zeros(0, dtype=MEASURED)
        self.pair = np.zeros(0, dtype=np.int64)
        self._comparisons: Any = None
        self._exact = np.zeros(0, dtype=np.int64)
        self.bytes_read = 0
        self._digests = False
        self.findings: dict[int, TensorFinding] = {}
        """What a standard that looks at elements said of leaves, by their number."""
        self.baselines: dict[int, TensorRecord] = {}
        """The peer's tensor of leaves, where there is a peer."""
        self.turned: dict[int, Turned] = {}
        """Pairs of tensors that the two frameworks lay out differently."""
        self.precision = Precision(self)

    def __len__(self) -> int:
        return len(self.alignment)

    def measure(self, progress: Progress | None = None) -> None:
        """Measures every distinct pair of tensors once, and again where calls turn out to be made in another order."""
        self._measure_pairs(progress)
        found = None if self.across else reordered(self)
        if found is not None:
            self.alignment = found
            self.leaves = pair_leaves(found, *self.traces, across=False)
            self.first_leaf, self.last_leaf = self.leaves.bounds(len(found))
            for column in (self.input_distance, self.output_distance, self.other_size):
                column[:] = 0
            self._measure_pairs(progress)

    def _measure_pairs(self, progress: Progress | None) -> None:
        left, right = self.leaves.reference, self.leaves.candidate
        both = np.flatnonzero((left != NONE) & (right != NONE))
        visits = [trace.visits for trace in self.traces]
        columns = np.stack(
            [visits[0][left[both], 3], visits[0][left[both], 4], visits[1][right[both], 3], visits[1][right[both], 4]],
            axis=1,
        )
        pairs, inverse = _distinct_pairs(columns)
        measurer = Measurer(self.readers, self.traces)
        done = 0

        def advance(count: int) -> None:
            nonlocal done
            done += count
            if progress is not None:
                progress(f"rank {self.rank}: tensors", done, len(pairs))

        self.measured, self._comparisons, self._exact = measurer.measure(pairs, advance)
        self.bytes_read = measurer.bytes_read
        self._digests = measurer.digests
        self.pair = np.full(len(left), NONE, dtype=np.int64)
        self.pair[both] = inverse
        if self.across:
            turn_pairs(self, pairs)
        look_beside_fillings(self)
        self._summarize_distances()

    def _summarize_distances(self) -> None:
        distance = np.where(
            self.pair == NONE, np.nan, self.measured["distance"][self.pair] if len(self.measured) else np.nan
        )
        different_size = np.zeros(len(self.pair), dtype=bool)
        if len(self.measured):
            different_size = (self.pair != NONE) & np.isin(self.measured["note"][self.pair], NOT_ALIKE)
        distance = np.where(different_size, np.inf, distance)
        self.other_size[self.leaves.row[different_size & self.leaves.output]] = True
        known = ~np.isnan(distance)
        for column, chosen in (
            (self.output_distance, known & self.leaves.output),
            (self.input_distance, known & ~self.leaves.output),
        ):
            np.maximum.at(column, self.leaves.row[chosen], distance[chosen])

    @cached_property
    def drift(self) -> Floats:
        """For each row, the largest output distance of any row before it (calls of the same name only). Memory that
        nobody has written does not count: it differs from run to run. Across frameworks, where gradients are not laid
        side by side in optimizers, noise does not count either."""
        distance = self._telling_distance() if self.across else self.output_distance
        plain = np.where((self.alignment.match <= int(Match.MOVED)) & ~self._undefined(), distance, 0.0)
        before = np.concatenate([[0.0], np.maximum.accumulate(plain)[:-1]]) if len(plain) else plain
        return np.where(np.isfinite(before), before, np.inf)

    def _undefined(self) -> Any:
        """The rows that give memory as they found it."""
        trace, positions = self.traces[1], self.alignment.candidate
        numbers = [number for number, name in trace.names.items() if facts_of(name).kind is Kind.UNDEFINED]
        return (positions != NONE) & np.isin(trace.column("api")[positions], numbers)

    def _telling_distance(self) -> Floats:
        """The largest output distance of each row, but for outputs that vanish beside what they were made from: those
        are noise on both sides, however far apart."""
        worst = np.zeros(len(self))
        if not len(self.measured):
            return worst
        known = np.flatnonzero(self.pair != NONE)
        rms, rows = self.measured["rms"][self.pair[known]], self.leaves.row[known]
        output = self.leaves.output[known]
        given = np.zeros(len(self))
        np.maximum.at(given, rows[~output], rms[~output])
        telling = output & (rms > _VANISHING * given[rows])
        distance = self.measured["distance"][self.pair[known]]
        telling &= ~np.isnan(distance)
        np.maximum.at(worst, rows[telling], distance[telling])
        return worst

    def set_judgement(self, row: int, judgement: Judgement) -> None:
        self.verdict[row] = int(judgement.verdict)
        self.limit[row] = np.nan if judgement.limit is None else judgement.limit
        self.inherited[row] = judgement.inherited
        self.idle[row] = judgement.idle
        self.set_reason([row], judgement.reason)

    def set_reason(self, rows: Any, text: str) -> None:
        number = self._reason_numbers.setdefault(text, len(self.reasons))
        if number == len(self.reasons):
            self.reasons.append(text)
        self.reason[rows] = number

    def compared_outputs(self, row: int) -> bool:
        """Whether any output of a row was measured."""
        leaves = slice(int(self.first_leaf[row]), int(self.last_leaf[row]))
        pairs = self.pair[leaves][self.leaves.output[leaves]]
        return bool((pairs != NONE).any()) and bool((self.measured["note"][pairs[pairs != NONE]] == 0).any())

    def api(self, row: int) -> str:
        return self._texts(row, "api")

    def context(self, row: int) -> str:
        return self._texts(row, "context")

    def _texts(self, row: int, column: str) -> str:
        side, position = self.side_and_position(row)
        return self.traces[side].names.get(int(self.traces[side].columns[position, _COLUMN[column]]), "")

    def phase(self, row: int) -> Phase:
        side, position = self.side_and_position(row)
        return PHASES[int(self.traces[side].columns[position, _COLUMN["phase"]])]

    def side_and_position(self, row: int) -> tuple[int, int]:
        """The candidate's call, or the reference's where the candidate has none."""
        position = int(self.alignment.candidate[row])
        return (1, position) if position != NONE else (0, int(self.alignment.reference[row]))

    @cached_property
    def row_of_candidate(self) -> Integers:
        """The row of each call of the candidate, by its position; -1 where it is not compared."""
        rows = np.full(len(self.traces[1]), NONE, dtype=np.int64)
        present = self.alignment.candidate != NONE
        rows[self.alignment.candidate[present]] = np.flatnonzero(present)
        return rows

    @cached_property
    def in_optimizer(self) -> Any:
        """Whether the call of a row was made inside of an optimizer's step, on either side."""
        found = np.zeros(len(self), dtype=bool)
        for trace, positions in zip(self.traces, (self.alignment.reference, self.alignment.candidate), strict=True):
            numbers = trace.numbers_of("optimizer")
            found |= (positions != NONE) & np.isin(trace.column("context")[positions], numbers)
        return found

    def forward_row(self, row: int) -> int:
        """The row of the forward call that a backward call belongs to, or -1."""
        position = int(self.alignment.candidate[row])
        if position == NONE:
            return NONE
        trace = self.traces[1]
        forward = int(trace.columns[position, _COLUMN["forward"]])
        found = NONE if forward == NONE else self.position_of(1, forward)
        return NONE if found == NONE else int(self.row_of_candidate[found])

    def position_of(self, side: int, identity: int) -> int:
        """The position of a call in its trace by its number, or -1."""
        identities = self.traces[side].column("id")
        found = int(np.searchsorted(identities, identity))
        return found if found < len(identities) and identities[found] == identity else NONE

    def evidence(self, row: int) -> CallEvidence:
        """What a standard is shown of a row that both sides have."""
        inputs, outputs = self.tensors(row)
        phase = self.phase(row)
        saved: list[TensorEvidence] = []
        if phase is Phase.BACKWARD:
            forward = self.forward_row(row)
            if forward != NONE:
                given, returned = self.tensors(forward)
                saved = given + returned
            pooled = self.precision.pooled(row)
            outputs = [output for output in outputs if output.path not in pooled]
        positions = int(self.alignment.reference[row]), int(self.alignment.candidate[row])
        result = [
            None
            if outputs or phase is Phase.BACKWARD
            else trace.trees.get(int(trace.columns[position, _COLUMN["result"]]))
            for trace, position in zip(self.traces, positions, strict=True)
        ]
        return CallEvidence(
            facts=facts_of(self.api(row)),
            phase=phase,
            inputs=inputs,
            outputs=outputs,
            saved=saved,
            result=(result[0], result[1]),
            rewired=self.alignment.match[row] > int(Match.MOVED),
            reduced_precision=self.precision.on_different_devices(row),
            autocast=self.precision.autocast,
        )

    def tensors(self, row: int, measurements: bool = False) -> tuple[list[TensorEvidence], list[TensorEvidence]]:
        """Inputs and outputs of a row."""
        groups: tuple[list[TensorEvidence], list[TensorEvidence]] = ([], [])
        for leaf in range(int(self.first_leaf[row]), int(self.last_leaf[row])):
            groups[int(self.leaves.output[leaf])].append(self.tensor_at(leaf, measurements))
        return groups

    def tensor_at(self, leaf: int, measurements: bool = False) -> TensorEvidence:
        """What is known of a pair of tensors."""
        left, right = int(self.leaves.reference[leaf]), int(self.leaves.candidate[leaf])
        side = 1 if right != NONE else 0
        visit = right if side else left
        position = self.position_of(side, int(self.traces[side].visits[visit, 0]))
        path = self.traces[side].path_of(position, int(self.traces[side].visits[visit, 1]))
        dtypes = [self.layout(0, left), self.layout(1, right)]
        shape = dtypes[side][1]
        if left == NONE or right == NONE:
            only = "candidate" if side else "reference"
            nan = float("nan")
            return TensorEvidence(
                path, dtypes[side][0], dtypes[side][0], shape, 0, nan, nan, nan, False, False, only=only
            )
        values = list(self.measured[int(self.pair[leaf])].item())
        values[_NOTE] = NOTES[values[_NOTE]]
        found = TensorEvidence(path, dtypes[0][0], dtypes[1][0], shape, *values)
        found.same_shape = dtypes[0][1] == shape
        found.measurement = self.measurement(leaf) if measurements else None
        return found

    def record(self, side: int, visit: int) -> TensorRecord:
        """The record of one tensor of a call."""
        trace = self.traces[side]
        call = int(trace.visits[visit, 0])
        first = int(np.searchsorted(trace.visits[:, 0], call, side="left"))
        return trace.call(self.position_of(side, call)).tensors[visit - first]

    def requires_grad(self, leaf: int) -> bool:
        """Whether the candidate's tensor asks for a gradient: a parameter, or something made from one."""
        return self.traces[1].layouts[int(self.traces[1].visits[int(self.leaves.candidate[leaf]), 4])].requires_grad

    @property
    def mode(self) -> str:
        """The best data that both sides have: tensors, digest, stats or structure."""
        if all(trace.stored for trace in self.traces):
            return "tensors"
        if not len(self.measured) or not (self.measured["note"] == 0).any():
            return "structure"
        return "digest" if self._digests else "stats"

    def measurement(self, leaf: int) -> Measurement | None:
        """The exact metrics of one pair of tensors, where both sides kept them."""
        turned = self.turned.get(int(self.pair[leaf]))
        if turned is not None:
            return turned.measurement
        number = int(self._exact[int(self.pair[leaf])])
        return None if number == NONE else to_measurement(self._comparisons[number])

    def layout(self, side: int, visit: int) -> tuple[DType, tuple[int, ...]]:
        if visit == NONE:
            return _UNKNOWN, ()
        number = int(self.traces[side].visits[visit, 4])
        known = self._layouts[side].get(number)
        if known is None:
            layout = self.traces[side].layouts[number]
            known = self._layouts[side][number] = (_dtype(layout.dtype), layout.shape)
        return known

    @cached_property
    def _layouts(self) -> tuple[dict[int, tuple[DType, tuple[int, ...]]], dict[int, tuple[DType, tuple[int, ...]]]]:
        return {}, {}

    def units(self, side: int, layouts: Integers) -> Floats:
        """The unit roundoff of each of many layouts of one side."""
        distinct, inverse = np.unique(layouts, return_inverse=True)
        known = self.traces[side].layouts
        values = [_dtype(known[number].dtype).epsilon / 2 for number in distinct.tolist()]
        return np.array(values, dtype=np.float64)[inverse]


def frameworks_of(trace: Trace) -> frozenset[str]:
    """The frameworks whose functions a trace calls."""
    heads = {name.partition(".")[0] for name in trace.names.values()}
    return frozenset(heads & {"torch", "paddle"})


def _dtype(name: str) -> DType:
    try:
        return dtype_named(name)
    except UsageError:
        return _UNKNOWN


def _align_steps(traces: tuple[Trace, Trace], steps: tuple[int, ...], across: bool) -> tuple[Alignment, Integers]:
    columns = [trace.column("step") for trace in traces]
    parts = []
    numbers = []
    for step in steps:
        positions = [np.flatnonzero(column == step) for column in columns]
        part = align_calls(traces[0], positions[0], traces[1], positions[1], across=across)
        parts.append(part)
        numbers.append(np.full(len(part), step, dtype=np.int64))
    if not parts:
        none = np.empty(0, dtype=np.int64)
        return Alignment(none, none, none), none
    return (
        Alignment(
            np.concatenate([part.reference for part in parts]),
            np.concatenate([part.candidate for part in parts]),
            np.concatenate([part.match for part in parts]),
        ),
        np.concatenate(numbers),
    )


def _distinct_pairs(columns: Integers) -> tuple[Integers, Integers]:
    """Distinct (reference tensor, candidate tensor), in the order of the reference, and where each row went."""
    if not len(columns):
        return columns, np.empty(0, dtype=np.int64)
    key = columns[:, 0] * (int(columns[:, 2].max()) + 1) + columns[:, 2]
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    return columns[first], inverse.reshape(-1)
