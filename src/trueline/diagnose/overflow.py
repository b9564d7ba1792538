"""``overflow``: where NaN and infinity were born in a Run, whether they had to be, and what will overflow next.

    report = overflow("runs/a")
    report.origin          # the first call that is to blame, or None
    report.births          # all of them, the meant ones too
    report.forecasts       # calls whose numbers grow towards the limit

What is bad and where it went is read from the statistics; the elements, and whether the exact result would have fitted,
need the tensors (a watch keeps them; else capture with ``data="tensors"``).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from trueline.diagnose.births import Births, Fate, Manner, Start
from trueline.diagnose.blame import across_ranks, is_mask
from trueline.diagnose.headroom import forecasts_in, forecasts_of
from trueline.diagnose.nature import nature_of
from trueline.diagnose.operands import failure_of, first_bad, is_float
from trueline.diagnose.scaling import Scaling
from trueline.diagnose.watched import saturation_notes, watched_of
from trueline.dtypes import dtype_named
from trueline.ops.facts import Kind, facts_of
from trueline.ops.overflows import ADVICE, explain, fills
from trueline.overflows import Birth, Counts, Forecast, Nature, OverflowKind, OverflowReport, Skipped
from trueline.records import Call, Phase, Role, TensorRecord
from trueline.store import open_run
from trueline.store.reader import RankReader
from trueline.store.watch_log import WatchHistory, watched_ranks

_MOST_BIRTHS = 200
"""Of one rank; what follows is nearly always of the same cause."""
_MOST_NAMED = 50
_MOST_CLIPPED = 5
_SCALED = frozenset({OverflowKind.ACCUMULATION, OverflowKind.PRODUCT, OverflowKind.CAST, OverflowKind.EXPONENTIAL})
"""What a smaller loss scale would cure."""
_RANGE = frozenset({OverflowKind.ACCUMULATION, OverflowKind.PRODUCT, OverflowKind.CAST})
_POWERS = frozenset({"pow", "square", "float_power"})
"""What grows without being an exponential, of which infinity below a fraction is the right answer."""
_DIVIDES = frozenset({"div", "reciprocal", "rsqrt"})
"""Who divides by something that overflowed gives zero: numbers again, but wrong ones."""


def overflow(
    path: str | os.PathLike[str], *, replay: bool = True, forecast: bool = True, ranks: Sequence[int] | None = None
) -> OverflowReport:
    """Finds where the numbers of a Run stopped being numbers. ``replay`` executes each such call again, in float64 and
    in its own precision, on the CPU; ``forecast`` looks for calls that come near the limit of their dtype. ``ranks``
    are those to look at, all by default."""
    with open_run(path) as run:
        chosen = run.ranks if ranks is None else tuple(ranks)
        found = [RankOverflows(run.rank(rank), replay=replay) for rank in chosen]
        births = across_ranks(found)
        skipped = [one for rank in found for one in rank.scaling.skipped()]
        logs = watched_ranks((rank, run.rank(rank).folder) for rank in chosen)
        incomplete = run.incomplete(chosen)
        return OverflowReport(
            str(path),
            tuple(births),
            tuple(_foreseen(found, logs) if forecast else ()),
            tuple(skipped),
            sum(len(rank.births.trace) for rank in found),
            sum(len(rank.births.trace.extremes) for rank in found),
            chosen,
            (
                *([f"the Run is {incomplete}"] if incomplete else []),
                *_notes(found, skipped, logs),
                *saturation_notes(logs),
            ),
            tuple(watched_of(rank, log) for rank, log in logs.items()),
        )


def _foreseen(ranks: Sequence[RankOverflows], logs: Mapping[int, WatchHistory]) -> list[Forecast]:
    """What is coming, by the log where there is one: it holds many more steps than the calls that a watch keeps."""
    return [
        one
        for rank in ranks
        for one in (forecasts_in(logs[rank.rank], rank.rank) if rank.rank in logs else forecasts_of(rank.births.trace))
    ]


class RankOverflows:
    """The births of one rank, explained."""

    def __init__(self, reader: RankReader, *, replay: bool) -> None:
        self._reader = reader
        self._replay = replay
        self.births = Births(reader.trace())
        self.scaling = Scaling(self.births)
        self.found: list[tuple[Start, Birth]] = []
        self.natures: list[Nature] = []
        """What each would be if it were not meant."""
        for number, start in enumerate(self.births.starts[:_MOST_BIRTHS]):
            self.found.append((start, self._birth(start, self.births.fates[number], number)))

    @property
    def rank(self) -> int:
        return self.births.trace.rank

    def when(self, start: Start) -> tuple[int, int, float]:
        """Order across ranks: the step, how many collectives came before, how far the rank had come."""
        trace = self.births.trace
        return (
            self.births.step(start.position),
            int(np.searchsorted(self.collectives, start.position)),
            start.position / max(len(trace), 1),
        )

    @cached_property
    def collectives(self) -> Sequence[int]:
        trace = self.births.trace
        numbers = [number for number, name in trace.names.items() if facts_of(name).kind is Kind.COLLECTIVE]
        found: list[int] = np.flatnonzero(np.isin(trace.column("api"), numbers)).tolist()
        return found

    def marks_given(self, position: int) -> frozenset[int]:
        """The starts of what a call was given."""
        call = self.births.trace.call(position, statistics=False)
        return frozenset().union(*(self.births.marks(record.tensor_id) for record in call.inputs))

    def _birth(self, start: Start, fate: Fate, number: int) -> Birth:
        call = self.births.trace.call(start.position)
        record, owner = self._record(start, call)
        kind, why, element, operands = self._explained(start, call, record)
        nature, said = self._nature(start, call, record, kind)
        self.natures.append(nature)
        end, ends = self._end(fate)
        birth = Birth(
            call,
            record.path,
            record.dtype,
            record.shape,
            self.births.bad.get(start.tensor, Counts()),
            kind,
            nature,
            f"{why}; {said}" if said else why,
            bool(fate.ends),
            element,
            operands,
            self._chain(number, end),
            fate.victims,
            ends,
            ADVICE[kind],
        )
        return self._meant(start, self._scaled(start, birth, owner), fate)

    def _record(self, start: Start, call: Call) -> tuple[TensorRecord, Call]:
        """The tensor in which a start shows, and the call that shows it."""
        owner = call
        seen = self.births.trace.visits[start.visit]
        if int(seen[0]) != call.id:
            owner = self.births.trace.call(self.births.positions[int(seen[0])])
        place = start.visit - self.births.trace.visit_range(self.births.positions[owner.id])[0]
        return owner.tensors[place], owner

    def _explained(
        self, start: Start, call: Call, record: TensorRecord
    ) -> tuple[OverflowKind, str, tuple[int, ...] | None, dict[str, float]]:
        element = first_bad(record, self._reader.tensor)
        if start.manner is Manner.UNWRITTEN:
            why = f"{call.api} hands out memory that nobody wrote before it was read"
            return OverflowKind.UNINITIALISED, why, element, {}
        if start.manner is Manner.ARRIVED:
            return *_arrived(call, record), element, {}
        if start.manner is Manner.SUMMED:
            why = "gradients that were finite one by one were summed before they arrived here"
            return OverflowKind.ACCUMULATION, why, element, {}
        if start.manner is Manner.UNSEEN:
            why = f"an input of {call.api} was changed before it could be read, and may have been bad already"
            return OverflowKind.UNKNOWN, why, element, {}
        if start.manner is Manner.RECEIVED:
            return OverflowKind.RECEIVED, "what other ranks sent is not finite", element, {}
        if fills(call.api, call.arguments):
            return OverflowKind.FILLED, "the program writes infinity here", element, {}
        forward = self._forward(call)
        if forward is None:
            return OverflowKind.UNKNOWN, "its forward call was not recorded", element, {}
        failure = failure_of(call, forward, record, element, self._reader.tensor)
        kind, why = explain(failure)
        given = [*failure.operands, *([failure.gradient] if failure.gradient is not None else [])]
        names = [*(one.path for one in failure.operands), *(["gradient"] if failure.gradient is not None else [])]
        values = {name: one.at for name, one in zip(names, given, strict=True) if one.at is not None}
        return kind, why, element, values

    def _forward(self, call: Call) -> Call | None:
        if call.phase is Phase.FORWARD:
            return call
        position = self.births.forward_of(self.births.positions[call.id])
        return None if position is None else self.births.trace.call(position)

    def _nature(self, start: Start, call: Call, record: TensorRecord, kind: OverflowKind) -> tuple[Nature, str]:
        if start.manner is Manner.ARRIVED:
            return Nature.INHERITED, ""
        if start.manner is Manner.UNWRITTEN or kind is OverflowKind.FILLED:
            return Nature.EXPECTED, ""
        if start.manner in (Manner.RECEIVED, Manner.SUMMED, Manner.UNSEEN):
            return Nature.UNKNOWN, ""
        if not self._replay:
            return Nature.UNKNOWN, "not replayed"
        return nature_of(call, self._forward(call), record, self._reader.tensor)

    def _scaled(self, start: Start, birth: Birth, owner: Call) -> Birth:
        """A gradient that would fit without the loss scale was scaled too far."""
        backward = owner.phase is Phase.BACKWARD
        if birth.kind not in _SCALED or birth.nature is Nature.ABNORMAL or start.manner is Manner.TURNED:
            return birth
        if not backward and not self.scaling.is_scaling(birth.call):
            return birth
        scale = self.scaling.scale_at(start.position)
        if scale is None or scale < 2:
            return birth
        why = f"the loss was scaled by {scale:g}; {birth.why}"
        return replace(birth, kind=OverflowKind.GRADIENT_SCALED, why=why, advice=ADVICE[OverflowKind.GRADIENT_SCALED])

    def _meant(self, start: Start, birth: Birth, fate: Fate) -> Birth:
        """What the program asked for, what came to nothing, and what the loss scaler takes care of."""
        scaled = birth.kind is OverflowKind.GRADIENT_SCALED or self.scaling.is_look(start.position)
        if scaled and self.scaling.will_be_skipped(start.position):
            why = f"the loss scaler saw it and skipped the step; {birth.why}"
            return replace(birth, nature=Nature.MEANT, alarm=False, why=why)
        if not fate.ends:
            absorber = self.births.trace.call(fate.absorbed[0], statistics=False) if fate.absorbed else None
            grew = birth.kind in _RANGE or facts_of(birth.call.api).name in _POWERS
            if absorber is not None and grew and facts_of(absorber.api).name in _DIVIDES:
                return replace(birth, alarm=True, ends=f"zeros: {absorber.name} divides by it", chain=(absorber.name,))
            absorbed = "" if absorber is None else f"{absorber.name} makes numbers of it; "
            return replace(birth, nature=Nature.MEANT, alarm=False, why=f"{absorbed}{birth.why}", ends="nothing")
        if (birth.kind is OverflowKind.FILLED or is_mask(birth)) and self._only_moved(fate):
            return replace(birth, nature=Nature.MEANT, alarm=False)
        return birth

    def _only_moved(self, fate: Fate) -> bool:
        """Whether a filled value lies where it was put, moved at most, never computed with but by those that are to
        blame themselves for what they made of it."""
        for tensor in fate.ends:
            maker = self.births.makers.get(tensor)
            if maker is None or facts_of(self.births.api(maker)).kind is not Kind.MOVE:
                return False
        return True

    def _end(self, fate: Fate) -> tuple[int | None, str]:
        """The end that matters most, and in words what it is."""
        best: tuple[int, int, str] | None = None
        for tensor in fate.ends:
            weight, words = self._worth(tensor)
            if best is None or weight > best[0]:
                best = (weight, tensor, words)
        return (None, "") if best is None else (best[1], best[2])

    def _worth(self, tensor: int) -> tuple[int, str]:
        maker = self.births.makers.get(tensor)
        if maker is None:
            return 0, "a tensor that was there before"
        call = self.births.trace.call(maker, statistics=False)
        record = next((one for one in call.outputs if one.tensor_id == tensor), None)
        path = "" if record is None else record.path
        where = f" of {call.module}" if call.module else ""
        if call.context == "optimizer":
            return 4, "a parameter or a state of the optimizer"
        if call.phase is Phase.BACKWARD:
            return 2, f"the gradient of {path} of {call.api}.{call.index}{where}"
        if record is not None and record.shape == () and record.requires_grad:
            return 3, f"the loss ({call.name})"
        return 1, f"the output of {call.name}{where}"

    def _chain(self, number: int, end: int | None) -> tuple[str, ...]:
        if end is None:
            return ()
        positions = self.births.chain(number, end)
        return tuple(self.births.trace.call(one, statistics=False).name for one in positions[:_MOST_NAMED])


def _arrived(call: Call, record: TensorRecord) -> tuple[OverflowKind, str]:
    held = record.role is Role.PARAMETER or record.requires_grad or call.context == "optimizer"
    if held or "running_" in record.path or _is_statistic(call, record):
        return OverflowKind.PARAMETER, f"{record.path} of {call.api} was bad before the first recorded call"
    return OverflowKind.INPUT, f"{record.path} of {call.api} came in like this: no recorded call made it"


def _is_statistic(call: Call, record: TensorRecord) -> bool:
    """The running statistics of a batch norm, by their place."""
    return facts_of(call.api).name == "batch_norm" and record.path in ("args.1", "args.2")


def clipped(births: Births) -> list[str]:
    """Casts whose input does not fit and which give the largest number of the dtype instead, call by call."""
    trace = births.trace
    casts = [number for number, name in trace.names.items() if facts_of(name).name == "to"]
    found: Counter[tuple[str, str]] = Counter()
    for position in np.flatnonzero(np.isin(trace.column("api"), casts)).tolist():
        call = trace.call(position)
        sizes = [_magnitude(record) for record in call.inputs]
        for record in call.outputs:
            if not is_float(record.dtype):
                continue
            limit = dtype_named(record.dtype).largest
            if _magnitude(record) == limit and max(sizes, default=0.0) > limit:
                found[call.name.rpartition(".")[0], record.dtype] += 1
    return [
        f"rank {trace.rank}: {api} clips to the largest {dtype} in {count:,} steps: what it was given does not fit"
        for (api, dtype), count in found.most_common(_MOST_CLIPPED)
    ]


def _magnitude(record: TensorRecord) -> float:
    found = record.statistics
    if found is None or not is_float(record.dtype):
        return 0.0
    sizes = [abs(one) for one in (found.minimum, found.maximum) if np.isfinite(one)]
    return max(sizes, default=0.0)


def _notes(ranks: Sequence[RankOverflows], skipped: Sequence[Skipped], logs: Mapping[int, WatchHistory]) -> list[str]:
    notes = []
    for rank in ranks:
        left = len(rank.births.starts) - len(rank.found)
        if left > 0:
            notes.append(f"rank {rank.rank}: {left:,} more births were not looked at; the first are what counts")
        notes += clipped(rank.births)
        if not len(rank.births.trace.extremes) and rank.rank not in logs:
            notes.append(f"rank {rank.rank} holds no statistics: captured with data=structure, or ended too early")
    if skipped:
        scales = sorted({one.scale for one in skipped}, reverse=True)
        told = ", ".join(f"{scale:g}" for scale in scales[:4])
        notes.append(f"the loss scaler skipped {len(skipped)} steps, at scales {told}")
    return notes
