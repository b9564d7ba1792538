"""Where the numbers of one rank stopped being numbers, and what became of it.

Every tensor of a Run has a number and statistics, so what is bad and where it went is known without the tensors: a
call with clean inputs and a bad output is a **Start**; so is one that makes NaN of infinities. Everything else that is
bad carries the marks of the starts from which it came. What no later call takes up is an **End**.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

import numpy as np

from trueline.dtypes import DTYPES
from trueline.ops.facts import Kind, facts_of
from trueline.overflows import Counts
from trueline.records import Phase, Role
from trueline.store.columns import CALL_COLUMNS, NONE, PHASES, ROLES
from trueline.store.trace import Trace

_COLUMN = {name: position for position, name in enumerate(CALL_COLUMNS)}
_OUTPUT = ROLES.index(Role.OUTPUT)
BACKWARD = PHASES.index(Phase.BACKWARD)
_READERS = frozenset({"item", "tolist", "numpy", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like",
                      "empty_like", "new_zeros", "new_ones", "new_full", "new_empty", "repr", "format"})  # fmt: skip
"""Look at a tensor, or at its shape alone: what they are given is not used up by them."""
_BY_ELEMENT = frozenset({Kind.SUM, Kind.PRODUCT, Kind.SINGULAR, Kind.SMOOTH, Kind.EXPONENTIAL})
_EXPONENTIALS = frozenset({"exp", "exp2", "expm1"})
_MOST_MARKS = 16
"""A tensor carries the marks of so many starts at most; the earliest are kept."""


class Manner(Enum):
    """How a start came about."""

    BORN = "of clean inputs"
    TURNED = "NaN of infinities"
    ARRIVED = "it was there before"
    SUMMED = "between two calls, where gradients are summed"
    RECEIVED = "in a collective, of clean inputs here"
    UNWRITTEN = "from memory that nobody had written"
    UNSEEN = "of an input that nobody could look at"


@dataclass(frozen=True, slots=True)
class Start:
    """One start: ``position`` of the call in the Trace, ``tensor`` in which it shows, ``visit`` its row in
    ``Trace.visits``. ``parents`` are the starts of the infinities of which a ``TURNED`` one made NaN."""

    position: int
    tensor: int
    visit: int
    manner: Manner
    parents: frozenset[int] = frozenset()


@dataclass(slots=True)
class Fate:
    """What became of a start."""

    ends: list[int] = field(default_factory=list)
    """Tensors that no later call took up."""
    absorbed: list[int] = field(default_factory=list)
    """Positions of calls that made numbers of it."""
    victims: int = 0


class Births:
    """The starts of one rank with their fates, in the order of time."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.starts: list[Start] = []
        self._nan_marks: dict[int, frozenset[int]] = {}
        self._infinite_marks: dict[int, frozenset[int]] = {}
        self._came: dict[int, tuple[int, int | None]] = {}
        """Bad tensor -> the call that made it and the bad tensor that this call was given."""
        self._gradients: defaultdict[tuple[int, ...], list[tuple[int, int]]] = defaultdict(list)
        """Shape -> the backward calls that made bad gradients of it, in the order of time, with those gradients."""
        self._taken: set[int] = set()
        self._absorbers: dict[int, list[int]] = {}
        self._victims: dict[int, int] = {}
        self.positions = {int(number): place for place, number in enumerate(trace.column("id"))}
        if self.bad:
            for position in self._touched():
                self._follow(position)
        self.fates = self._fates()

    @cached_property
    def bad(self) -> Mapping[int, Counts]:
        """Tensors that hold NaN or infinity."""
        rows = self.trace.extremes
        found = rows[(rows["nan"] > 0) | (rows["positive_infinity"] > 0) | (rows["negative_infinity"] > 0)]
        return {
            int(row["tensor"]): Counts(
                int(row["nan"]), int(row["positive_infinity"]), int(row["negative_infinity"]), int(row["count"])
            )
            for row in found
        }

    @cached_property
    def makers(self) -> Mapping[int, int]:
        """Tensor -> position of the call that made it; tensors that were there before have none."""
        visits = self.trace.visits
        first = np.unique(visits[:, 3], return_index=True)[1]
        made = first[visits[first, 2] == _OUTPUT]
        return {int(visits[row, 3]): self.positions[int(visits[row, 0])] for row in made}

    def api(self, position: int) -> str:
        return self.trace.names.get(int(self.trace.columns[position, _COLUMN["api"]]), "?")

    def is_backward(self, position: int) -> bool:
        return int(self.trace.columns[position, _COLUMN["phase"]]) == BACKWARD

    def step(self, position: int) -> int:
        return int(self.trace.columns[position, _COLUMN["step"]])

    def context(self, position: int) -> str:
        return self.trace.names.get(int(self.trace.columns[position, _COLUMN["context"]]), "")

    def forward_of(self, position: int) -> int | None:
        """The position of the forward call of a backward one."""
        number = int(self.trace.columns[position, _COLUMN["forward"]])
        return None if number == NONE else self.positions.get(number)

    def marks(self, tensor: int) -> frozenset[int]:
        """The starts from which a bad tensor came."""
        return self._nan_marks.get(tensor, frozenset()) | self._infinite_marks.get(tensor, frozenset())

    def chain(self, start: int, end: int) -> list[int]:
        """The positions of the calls that carried a start to an end."""
        found: list[int] = []
        tensor: int | None = end
        while tensor is not None and tensor in self._came and start in self.marks(tensor):
            position, tensor = self._came[tensor]
            found.append(position)
        if self.starts[start].position not in found[-1:]:
            found.append(self.starts[start].position)
        return found[::-1]

    def _touched(self) -> Iterator[int]:
        """The calls that saw something bad, in the order of time."""
        numbers = np.fromiter(self.bad, dtype=np.int64)
        seen = np.isin(self.trace.visits[:, 3], numbers)
        calls = np.unique(self.trace.visits[seen, 0])
        yield from sorted(self.positions[int(number)] for number in calls)

    def _leaves(self, position: int, *, outputs: bool) -> list[int]:
        """Rows of ``visits`` of one call."""
        first, last = self.trace.visit_range(position)
        roles = self.trace.visits[first:last, 2]
        chosen = roles == _OUTPUT if outputs else roles != _OUTPUT
        found: list[int] = (first + np.flatnonzero(chosen)).tolist()
        return found

    def _tensor(self, visit: int) -> int:
        return int(self.trace.visits[visit, 3])

    def _follow(self, position: int) -> None:
        """One call: marks its bad outputs with where they come from."""
        given = [visit for visit in self._leaves(position, outputs=False) if self._tensor(visit) in self.bad]
        for visit in given:
            if self._tensor(visit) not in self._nan_marks:
                self._arrive(position, visit)
        sources = {self._tensor(visit): None for visit in given}
        if self.is_backward(position):
            sources |= dict.fromkeys(self._bad_of_forward(position))
        made = [
            visit
            for visit in self._leaves(position, outputs=True)
            if self._tensor(visit) in self.bad and self._tensor(visit) not in sources
        ]
        facts = facts_of(self.api(position))
        if facts.kind is Kind.UNDEFINED:
            return
        reads = facts.kind is Kind.DISCRETE or facts.name in _READERS
        if not reads:
            self._take(position, [self._tensor(visit) for visit in given], bool(made))
        if made:
            self._mark(position, made, list(sources))

    def _take(self, position: int, tensors: list[int], goes_on: bool) -> None:
        for tensor in tensors:
            self._taken.add(tensor)
            if not goes_on:
                for start in self.marks(tensor):
                    self._absorbers.setdefault(start, []).append(position)

    def _mark(self, position: int, made: list[int], sources: list[int]) -> None:
        """NaN comes from NaN where there was some, infinity from infinity; what neither explains is a start."""
        nan_before, infinite_before = self._nan_of(sources), self._infinite_of(sources)
        born = None
        if not sources:
            born = self._begin(position, made[0])
        elif not nan_before and (fresh := self._fresh(position, made, sources)) is not None:
            born = self._add(Start(position, self._tensor(fresh), fresh, Manner.BORN))
        turned = None
        for visit in made:
            tensor = self._tensor(visit)
            if born is not None:
                marks = (frozenset({born}), frozenset({born}))
            elif self.bad[tensor].nan and not nan_before:
                if turned is None:
                    turned = self._add(Start(position, tensor, visit, Manner.TURNED, infinite_before))
                marks = (frozenset({turned}), infinite_before)
            else:
                marks = (nan_before, infinite_before or nan_before)
                for start in nan_before | infinite_before:
                    self._victims[start] = self._victims.get(start, 0) + 1
            self._put(tensor, *marks)
            self._came[tensor] = (position, sources[0] if sources else None)
            if self.is_backward(position):
                self._gradients[self._shape(visit)].append((position, tensor))

    def _put(self, tensor: int, nan: frozenset[int], infinite: frozenset[int]) -> None:
        """Gives a tensor the marks of what it holds."""
        counts = self.bad[tensor]
        self._nan_marks[tensor] = frozenset(sorted(nan)[:_MOST_MARKS]) if counts.nan else frozenset()
        self._infinite_marks[tensor] = frozenset(sorted(infinite)[:_MOST_MARKS]) if counts.infinite else frozenset()

    def _nan_of(self, tensors: Iterable[int]) -> frozenset[int]:
        return frozenset().union(*(self._nan_marks.get(tensor, frozenset()) for tensor in tensors))

    def _infinite_of(self, tensors: Iterable[int]) -> frozenset[int]:
        return frozenset().union(*(self._infinite_marks.get(tensor, frozenset()) for tensor in tensors))

    def _fresh(self, position: int, made: list[int], sources: list[int]) -> int | None:
        """An output with infinities that those of the inputs do not explain: more of them than an operator that works
        element by element can make of what it was given, or exponentials, which make zeros of -inf."""
        facts = facts_of(self.api(position))
        if self.is_backward(position) or facts.kind not in _BY_ELEMENT:
            return None
        given = [self.bad[tensor] for tensor in sources]
        for visit in made:
            counts = self.bad[self._tensor(visit)]
            if counts.nan:
                continue
            if facts.name in _EXPONENTIALS and not any(one.positive_infinity for one in given):
                return visit
            most = sum(one.infinite * max(counts.of // max(one.of, 1), 1) for one in given)
            if counts.infinite > most:
                return visit
        return None

    def _begin(self, position: int, visit: int) -> int:
        """A call made something bad of clean inputs."""
        unwritten = self._unwritten(position)
        if unwritten is not None:
            return self._add(Start(unwritten, self._tensor(visit), visit, Manner.UNWRITTEN))
        received = facts_of(self.api(position)).kind is Kind.COLLECTIVE
        manner = Manner.RECEIVED if received else Manner.UNSEEN if self._unseen(position) else Manner.BORN
        return self._add(Start(position, self._tensor(visit), visit, manner))

    def _unseen(self, position: int) -> bool:
        """Whether an input that may have been bad has no statistics, because it was changed before it was read."""
        unread = [visit for visit in self._leaves(position, outputs=False) if self._tensor(visit) in self.trace.missing]
        kinds = [DTYPES.get(self.trace.layouts[int(self.trace.visits[visit, 4])].dtype) for visit in unread]
        return any(kind is None or not kind.is_exact for kind in kinds)

    def _unwritten(self, position: int) -> int | None:
        """The call that handed out memory which this one reads though nobody wrote it."""
        if facts_of(self.api(position)).in_place:
            return None
        for visit in self._leaves(position, outputs=False):
            maker = self.makers.get(self._tensor(visit))
            if maker is not None and facts_of(self.api(maker)).kind is Kind.UNDEFINED:
                return maker
        return None

    def _arrive(self, position: int, visit: int) -> None:
        """A bad tensor that no recorded call made: a sum of gradients of which one was bad, or a start of its own."""
        tensor = self._tensor(visit)
        maker = self.makers.get(tensor)
        if maker is not None:
            if facts_of(self.api(maker)).kind is Kind.UNDEFINED and not _overwrites(self.api(position)):
                own = frozenset({self._add(Start(maker, tensor, visit, Manner.UNWRITTEN))})
                self._put(tensor, own, own)
                self._came[tensor] = (maker, None)
            return
        parent = self._bad_gradient_like(position, visit)
        if parent is not None:
            marks = self.marks(parent)
            self._put(tensor, self._nan_of([parent]) or marks, self._infinite_of([parent]) or marks)
            self._came[tensor] = (self._came[parent][0], parent) if parent in self._came else (position, None)
            self._taken.add(parent)
            return
        summed = self.is_backward(position)
        own = frozenset({self._add(Start(position, tensor, visit, Manner.SUMMED if summed else Manner.ARRIVED))})
        self._put(tensor, own, own)
        self._came[tensor] = (position, None)

    def _bad_gradient_like(self, position: int, visit: int) -> int | None:
        """The last bad gradient of this shape that left a backward call: what the engine, or ``.grad``, added up."""
        left = reversed(self._gradients.get(self._shape(visit), []))
        return next((tensor for maker, tensor in left if maker < position), None)

    def _shape(self, visit: int) -> tuple[int, ...]:
        return self.trace.layouts[int(self.trace.visits[visit, 4])].shape

    def _bad_of_forward(self, position: int) -> list[int]:
        """Bad inputs of the forward call of a backward one, which its gradient may depend on."""
        forward = self.forward_of(position)
        if forward is None:
            return []
        tensors = [self._tensor(visit) for visit in self._leaves(forward, outputs=False)]
        return [tensor for tensor in tensors if tensor in self.bad]

    def _add(self, start: Start) -> int:
        self.starts.append(start)
        return len(self.starts) - 1

    def _fates(self) -> list[Fate]:
        fates = [Fate(victims=self._victims.get(number, 0)) for number in range(len(self.starts))]
        for tensor in self._nan_marks:
            if tensor not in self._taken:
                for start in self.marks(tensor):
                    fates[start].ends.append(tensor)
        for start, positions in self._absorbers.items():
            fates[start].absorbed = positions
        return fates


def _overwrites(api: str) -> bool:
    """Whether a call writes all of what it is given, whatever was there."""
    return facts_of(api).in_place and facts_of(api).kind in (Kind.MOVE, Kind.RANDOM)
