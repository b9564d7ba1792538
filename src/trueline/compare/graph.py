"""The values of one rank of one Run: which call made each of them, from which others, in both directions.

A value is a tensor with a number: the same memory with the same content, whatever its shape. Its maker is the call
that gave it when it was first seen; a value that was first seen as an input came from outside. In the backward, what
arrives at a call may be a sum that autograd made between two recorded calls: then it was made from the gradients that
left the calls which had used the same value in the forward. And where memory is written through a view of a part of it,
the whole is another value from then on, made from what it was and from what was written.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trueline.ops.facts import Kind, facts_of
from trueline.records import Phase, Role
from trueline.store.columns import NONE, PHASES, ROLES, Integers
from trueline.store.trace import Trace

_OUTPUT = ROLES.index(Role.OUTPUT)
_BACKWARD = PHASES.index(Phase.BACKWARD)

_DESTINATIONS = ("args.0", "kwargs.input", "kwargs.self")

LARGEST = 4096
"""Regions of more calls than this are not followed to their ends."""


@dataclass(slots=True)
class Behind:
    """What lies behind a value: the positions of the calls that made it, in the order of time, and the values that
    they began with. ``whole`` is False where there were too many."""

    calls: list[int]
    begins: list[int]
    whole: bool = True


class ValueGraph:
    """Answers for one Trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        visits = trace.visits
        self._position = np.searchsorted(trace.column("id"), visits[:, 0])
        self._output = visits[:, 2] == _OUTPUT
        self._backward = trace.column("phase") == _BACKWARD
        self._given: dict[int, list[int]] = {}

    @cached_property
    def first_sights(self) -> tuple[Integers, Integers]:
        """All values, by number, and for each the visit in which it was first seen."""
        tensors = self.trace.visits[:, 3]
        # The visits of a call lie together, what it was given before what it gave.
        order = np.lexsort((np.arange(len(tensors)), self._output, self._position))
        distinct, first = np.unique(tensors[order], return_index=True)
        return distinct, order[first]

    def makers(self, tensors: Integers) -> Integers:
        """The visit in which each of these values was made; -1 for those from outside."""
        distinct, first = self.first_sights
        if not len(distinct):
            return np.full(len(tensors), NONE, dtype=np.int64)
        place = np.minimum(np.searchsorted(distinct, tensors), len(distinct) - 1)
        known = (distinct[place] == tensors) & self._output[first[place]]
        return np.where(known, first[place], NONE)

    @cached_property
    def _makers(self) -> dict[int, int]:
        """Value -> the visit in which it was made; those from outside are left out."""
        distinct, first = self.first_sights
        made = self._output[first] if len(first) else np.zeros(0, dtype=bool)
        return dict(zip(distinct[made].tolist(), first[made].tolist(), strict=True))

    def made_in(self, tensor: int) -> int:
        """The visit in which a value was made, or -1."""
        return self._makers.get(tensor, NONE)

    def maker(self, tensor: int) -> int:
        """The position of the call that made a value, or -1."""
        visit = self._makers.get(tensor, NONE)
        return NONE if visit == NONE else int(self._position[visit])

    def layout_of(self, tensor: int) -> int:
        """The number of the layout in which a value was first seen."""
        distinct, first = self.first_sights
        return int(self.trace.visits[first[int(np.searchsorted(distinct, tensor))], 4])

    def position(self, visit: int) -> int:
        return int(self._position[visit])

    @cached_property
    def _arrivals(self) -> dict[int, int]:
        """Values that arrived at backward calls and that no call made: value -> the visit of its arrival."""
        chosen = np.flatnonzero(self._backward[self._position] & ~self._output)
        tensors = self.trace.visits[chosen, 3]
        outside = self.makers(tensors) == NONE
        return dict(zip(tensors[outside].tolist()[::-1], chosen[outside].tolist()[::-1], strict=True))

    @cached_property
    def _users(self) -> dict[int, list[int]]:
        """Forward value -> positions of the forward calls that used it."""
        chosen = ~self._output & ~self._backward[self._position]
        found: dict[int, list[int]] = defaultdict(list)
        tensors, positions = self.trace.visits[chosen, 3], self._position[chosen]
        for tensor, position in zip(tensors.tolist(), positions.tolist(), strict=True):
            if found[tensor][-1:] != [position]:  # a call that takes a value twice is one user
                found[tensor].append(position)
        return found

    def users_of(self, tensor: int) -> list[int]:
        """The forward calls that use a value."""
        return self._users.get(tensor, [])

    @cached_property
    def _backwards(self) -> dict[int, list[int]]:
        """Number of a forward call -> positions of its backward calls."""
        found: dict[int, list[int]] = defaultdict(list)
        forward = self.trace.column("forward")
        for position in np.flatnonzero(self._backward).tolist():
            found[int(forward[position])].append(position)
        return found

    def backwards_of(self, position: int) -> list[int]:
        """The backward calls of a forward call."""
        return self._backwards.get(int(self.trace.column("id")[position]), [])

    def forward_of(self, position: int) -> int:
        """The position of the forward call of a backward one, or -1."""
        number = int(self.trace.column("forward")[position])
        if number == NONE:
            return NONE
        numbers = self.trace.column("id")
        found = int(np.searchsorted(numbers, number))
        return found if found < len(numbers) and numbers[found] == number else NONE

    @cached_property
    def _overwriting(self) -> frozenset[int]:
        """The numbers of the operators that leave nothing of their first argument."""
        return frozenset(number for number, name in self.trace.names.items() if facts_of(name).overwrites)

    def given(self, position: int) -> list[int]:
        """The values from which a call made something; for a backward call also what its forward call had."""
        if position not in self._given:  # a walk asks for the same calls many times
            self._given[position] = self._given_to(position)
        return self._given[position]

    def _given_to(self, position: int) -> list[int]:
        visits = self.trace.visits_of(position)
        visits = visits[visits[:, 2] != _OUTPUT]
        if int(self.trace.columns[position, 3]) in self._overwriting and not self._backward[position]:
            visits = visits[[self.trace.path_of(position, int(leaf)) not in _DESTINATIONS for leaf in visits[:, 1]]]
        found = visits[:, 3].tolist()
        if self._backward[position]:
            forward = self.forward_of(position)
            if forward != NONE:
                found += self.trace.visits_of(forward)[:, 3].tolist()
        return found

    def gave(self, position: int) -> list[int]:
        visits = self.trace.visits_of(position)
        return visits[visits[:, 2] == _OUTPUT, 3].tolist()

    def gradients_of(self, tensor: int, before: int) -> list[tuple[int, int]]:
        """The gradients of a forward value that left the calls which used it: (value, position), of backward calls
        ahead of a position."""
        found = []
        for user in self._users.get(tensor, ()):
            forward = {
                self.trace.path_of(user, visit[1])
                for visit in self.trace.visits_of(user).tolist()
                if visit[2] != _OUTPUT and visit[3] == tensor
            }
            for backward in self.backwards_of(user):
                if backward >= before:
                    continue
                for _, leaf, role, value, _ in self.trace.visits_of(backward).tolist():
                    if role == _OUTPUT and self.trace.path_of(backward, leaf) in forward:
                        found.append((value, backward))
        return found

    def summed(self, tensor: int) -> list[tuple[int, int]]:
        """What a gradient was summed from that autograd made by itself: (value, position of the call it left)."""
        visit = self._arrivals.get(tensor)
        if visit is None:
            return []
        position = self.position(visit)
        forward = self.forward_of(position)
        if forward == NONE:
            return []
        path = self.trace.path_of(position, int(self.trace.visits[visit, 1]))
        for _, leaf, role, value, _ in self.trace.visits_of(forward).tolist():
            if role == _OUTPUT and self.trace.path_of(forward, leaf) == path:
                return [one for one in self.gradients_of(value, position) if one[0] != tensor]
        return []

    def before_change(self, tensor: int) -> int | None:
        """What a value was before the call that made it changed it in place; None where none did."""
        position = self.maker(tensor)
        if position == NONE:
            return None
        visits = self.trace.visits_of(position).tolist()
        leaf = next(leaf for _, leaf, role, value, _ in visits if role == _OUTPUT and value == tensor)
        path = self.trace.path_of(position, leaf)
        if path.startswith("out"):
            api = self.trace.names.get(int(self.trace.columns[position, 3]), "")
            path = "args.0" + path.removeprefix("out") if api.endswith("_") and not api.endswith("__") else ""
        for _, leaf, role, value, _ in visits:
            if role != _OUTPUT and path and self.trace.path_of(position, leaf) == path:
                return int(value)
        return None

    @cached_property
    def _rewritten(self) -> dict[int, list[int]]:
        """Values that no call gave as they are, because a part of their memory was written through a view: value ->
        what that memory held before, and what was written into it. What it held before is no matter where nobody had
        written it, and all of it was written since."""
        writes = self._writes_through_views
        if not writes:
            return {}
        _, first = self.first_sights
        strange = first[~self._output[first]]
        found: dict[int, list[int]] = {}
        for visit in strange[np.argsort(self._position[strange], kind="stable")].tolist():
            value, layout = self.trace.visits[visit, 3:].tolist()
            known = [one for one in writes.get(self._place_of(layout), ()) if one[0] < self._position[visit]]
            if not known:
                continue
            base = known[-1][1]
            written = [made for _, whole, made in known if whole == base]
            found[value] = [base, *written]
            if self._is_unwritten(base):
                pieces = [*self._pieces.get(base, []), *written]
                self._pieces[value] = pieces
                if sum(self._count(one) for one in pieces) >= self._count(value):
                    found[value] = pieces
                else:
                    self._unwritten.add(value)
        return found

    @cached_property
    def _pieces(self) -> dict[int, list[int]]:
        """What was written so far into memory that nobody had written before."""
        return {}

    @cached_property
    def _unwritten(self) -> set[int]:
        """Values of which nobody wrote a part."""
        return set()

    def _is_unwritten(self, value: int) -> bool:
        position = self.maker(value)
        name = "" if position == NONE else self.trace.names.get(int(self.trace.columns[position, 3]), "")
        return value in self._unwritten or (bool(name) and facts_of(name).kind is Kind.UNDEFINED)

    def unwritten(self, value: int) -> bool:
        """Whether nobody wrote a part of the memory that holds a value."""
        return bool(self._rewritten is not None and self._is_unwritten(value))

    def _count(self, value: int) -> int:
        return math.prod(self.trace.layouts[self.layout_of(value)].shape)

    def _place_of(self, layout: int) -> tuple[object, ...]:
        """How memory is laid out, whether or not gradients are followed there."""
        known = self.trace.layouts[layout]
        return known.dtype, tuple(known.shape), tuple(known.strides), known.device

    @property
    def rewritten(self) -> list[int]:
        return list(self._rewritten)

    @cached_property
    def _writes_through_views(self) -> dict[tuple[object, ...], list[tuple[int, int, int]]]:
        """By how what a view was taken of is laid out: when it was written through the view, what was viewed, and what
        was written."""
        found: dict[tuple[object, ...], list[tuple[int, int, int]]] = defaultdict(list)
        trace = self.trace
        changing = [number for number, name in trace.names.items() if facts_of(name).in_place]
        chosen = np.isin(trace.column("api"), changing) & ~self._backward
        chosen &= ~np.isin(trace.column("context"), trace.numbers_of("optimizer"))
        for position in np.flatnonzero(chosen).tolist():
            for made in self.gave(position):
                viewed = self.before_change(made)
                while viewed is not None and (maker := self.maker(viewed)) != NONE and self._moves(maker):
                    viewed = next(iter(self.given(maker)), None)
                    if viewed is not None:
                        found[self._place_of(self.layout_of(viewed))].append((position, viewed, made))
        return found

    def _moves(self, position: int) -> bool:
        """Whether a forward call only moves what it is given."""
        name = self.trace.names.get(int(self.trace.columns[position, 3]), "")
        return not self._backward[position] and facts_of(name).moves and not facts_of(name).in_place

    def parts_of(self, tensor: int) -> list[int]:
        """From which values one was made that no call gave as it is: summed by autograd, or written through views."""
        return [part for part, _ in self.summed(tensor)] or self._rewritten.get(tensor, [])

    def ends(self) -> Integers:
        """The visits in which values were given that no later call takes up."""
        taken = np.unique(self.trace.visits[~self._output, 3])
        return np.flatnonzero(self._output & ~np.isin(self.trace.visits[:, 3], taken))

    def results(self) -> Integers:
        """The visits in which forward calls outside of all modules and optimizers gave values that the program keeps to
        itself: no later call makes another tensor of them."""
        visits, trace = self.trace.visits, self.trace
        giving = np.isin(visits[:, 0], np.unique(visits[self._output, 0]))
        ends = self._output & ~np.isin(visits[:, 3], np.unique(visits[~self._output & giving, 3]))
        outside = [number for number, (path, _) in trace.modules.items() if not path]
        plain = [number for number, name in trace.names.items() if not name]
        free = np.isin(trace.column("module"), [*outside, NONE]) & np.isin(trace.column("context"), [*plain, NONE])
        return np.flatnonzero(ends & (free & ~self._backward)[self._position])

    def is_backward(self, position: int) -> bool:
        return bool(self._backward[position])

    def all_behind(
        self, values: Iterable[int], *, but: Iterable[int] = (), through: Container[int] | None = None
    ) -> set[int]:
        """The positions of all calls from which some values were made; ``but`` are values that are not followed, and
        ``through`` says which calls alone are followed further."""
        waiting, seen, calls = list(values), set(but), set[int]()
        while waiting:
            value = waiting.pop()
            if value in seen:
                continue
            seen.add(value)
            position = self.maker(value)
            if position == NONE:
                waiting += self.parts_of(value)
            elif position not in calls:
                calls.add(position)
                if through is None or position in through:
                    waiting += self.given(position)
        return calls

    def behind(self, values: Iterable[int], stops: Callable[[int, int], bool]) -> Behind:
        """Follows values back to those at which ``stops(value, position of its maker or -1)`` says so."""
        waiting, seen = list(values), set[int]()
        calls, begins, whole = set[int](), [], True
        while waiting:
            value = waiting.pop()
            if value in seen:
                continue
            seen.add(value)
            position = self.maker(value)
            if stops(value, position):
                begins.append(value)
                continue
            if position == NONE:
                parts = self.parts_of(value)
                if not parts:
                    begins.append(value)
                waiting += parts
                continue
            if position in calls:
                continue
            if len(calls) >= LARGEST:
                whole = False
                begins.append(value)
                continue
            calls.add(position)
            waiting += self.given(position)
        return Behind(sorted(calls), begins, whole)
