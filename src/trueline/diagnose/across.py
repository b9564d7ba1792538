"""The first place at which two programs of different frameworks part, of one rank.

Hardly a call of one framework has the name, the arguments and the place of one of the other. What both have are the
values: what the program began with and what it gave away, by name (``ported``), and what it computed between, by its
numbers (``recognition``). From what differs the way leads back to the last values that both have (``frontier``).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from trueline.compare.align import alike
from trueline.compare.parameters import common_name
from trueline.diagnose.allowances import DRIFT, Allowances
from trueline.diagnose.confirm import Trial
from trueline.diagnose.explain import argument_changes
from trueline.diagnose.finding import Divergence
from trueline.diagnose.frontier import Parted, Side, part
from trueline.diagnose.observables import Observable
from trueline.diagnose.recognition import Recognised
from trueline.diagnose.updating import PortedUpdates
from trueline.judge import Judgement
from trueline.ops.names import canonical
from trueline.records import Phase, Verdict
from trueline.store.columns import NONE, PHASES

_NEAR, _FAR = 2e-6, 3e-5
_SHARE = 1.0 / 30.0
"""Values on the way to what differs by so much are the same where they differ by less than this share of it."""
_EQUAL = 1e-5
_FREEDOM = 4.0
_BACKWARD = PHASES.index(Phase.BACKWARD)


class AcrossFrameworks(Allowances):
    """Looks for it in one rank of two Runs of different frameworks."""

    def first(self) -> Divergence | None:
        if not self.observables.items:
            return super().first()
        found = None
        for step in sorted(self.table.steps):
            found = self._of_step(step)
            if found is not None:
                break
        self._let_go_before(found)
        return None if found is None else self._tried(found)

    def _of_step(self, step: int) -> Divergence | None:
        """In the order of time: what a step begins with, what it computes, its gradients, what becomes of them."""
        if step == min(self.table.steps) and (found := self._begins(step)) is not None:
            return found
        for one in self._differing("output", "loss", step=step):
            found = self._given(step) or self._computed(one)
            if found is not None:
                return found
        for one in self.observables.of("output", "loss", step=step):
            if one.both and self._beyond_few(one) and (found := self._computed(one, sure=True)) is not None:
                return found
        for one in self._differing("gradient", step=step):
            if not one.both:
                return self._lonely(one)
        for one in self._differing("gradient", step=step):
            if self._differs_much(one) and (found := self._of_gradient(one)) is not None:
                return found
        for one in self._differing("buffer", step=step):
            return self._of_buffer(one)
        return self._updated(step)

    # What a step begins with.

    def _begins(self, step: int) -> Divergence | None:
        for one in self.observables.items:
            held = one.kind in ("parameter", "begin of buffer") and one.step == step and one.both
            if held and self.observables.unit(one) and self._beyond_few(one):
                return self._held_otherwise(one, self.observables.distance(one))
        return None

    def _held_otherwise(self, one: Observable, distance: float) -> Divergence:
        found = self._state_of(one, distance)
        others = [
            other.name
            for other in self.observables.items
            if other.kind in ("parameter", "begin of buffer") and other.step == one.step and other.both
            and self._beyond_few(other)
        ]
        found.names = tuple(dict.fromkeys([one.name, *others]))
        return found

    def _given(self, step: int) -> Divergence | None:
        """Data that differs, where what comes of it does."""
        for one in self.observables.of("input", step=step):
            if not one.both or not self.observables.unit(one) or not self._beyond_few(one):
                continue
            distance = self.observables.distance(one)
            return Divergence(
                "data",
                self._row_at(one.when),
                f"the input {one.name} differs by {distance:.2g}: the two are given other data",
                names=(one.name,),
                headline=f"the input {one.name} differs",
                distance=distance,
                step=step,
                items=(one,),
                certain=True,
            )
        return None

    # What is computed.

    def _computed(self, one: Observable, *, sure: bool = False) -> Divergence | None:
        """Where the two part on the way to an output. ``sure``: only what rounding that adds up does not explain."""
        ends = [self.observables.tensors(side, one) for side in (0, 1)]
        return self._parting(one, (ends[0], ends[1]), backward=False, sure=sure)

    def _of_gradient(self, one: Observable) -> Divergence | None:
        begin = self.observables.by_name.get(("parameter", one.model, one.name, one.step))
        if begin is None or not begin.both:
            return None
        ends = [
            [
                part
                for value in self.observables.tensors(side, begin)
                for part, _ in self.joints.graphs[side].gradients_of(value, 1 << 60)
            ]
            for side in (0, 1)
        ]
        apart = self.observables.parts_apart(one, ends[0], ends[1])
        if apart <= self._few(one):
            return self._summed_otherwise(one)
        return self._parting(one, (ends[0], ends[1]), backward=True)

    def _summed_otherwise(self, one: Observable) -> Divergence:
        """A gradient whose parts of this step agree: what it held before, or what was done to it, differs."""
        distance = self.observables.distance(one)
        names = tuple(other.name for other in self._differing("gradient", step=one.step))
        return Divergence(
            "state",
            self._row_at(one.when),
            f"the gradient of {one.name} differs by {distance:.2g}, where what the backward added agrees",
            names=names,
            headline=f"the gradient of {one.name} is summed up otherwise",
            distance=distance,
            step=one.step,
            items=(one,),
            certain=True,
        )

    def _parting(
        self, one: Observable, ends: tuple[Iterable[int], Iterable[int]], *, backward: bool, sure: bool = False
    ) -> Divergence | None:
        """Where the two part on the way to what differs: first by the strictest measure of what is the same, and by
        wider ones as long as what is found there is only rounding that adds up."""
        drift = DRIFT * self._drift(one.step)
        most = max(min(_SHARE * self.observables.distance(one), _FAR), _NEAR)
        within = _NEAR
        while True:
            sides = self._sides(one.step, within + drift, backward=backward)
            parted = part(sides, ends, lambda left, right: not self._changed(left, right))
            found = None if parted is None else self._told_of(one, parted)
            if found is None:
                return None
            if self._leaps(found, within + drift):
                kink = self._honest_leap(found)
                if kink is None:
                    return found
                self._kinks[one.step] = max(self._kinks.get(one.step, 0.0), kink)
                if not self._differs_much(one):
                    return None
                within = most = max(2.0 * within, _FREEDOM * kink)
            elif within >= most:
                return None if sure else found
            else:
                within = min(2.0 * within, most)

    def _sides(self, step: int, within: float, *, backward: bool) -> tuple[Side, Side]:
        values = [self._values(side, step, backward) for side in (0, 1)]
        found = Recognised(self.table.traces, (values[0], values[1]), within)
        named: tuple[dict[int, int], dict[int, int]] = ({}, {})
        for number, begin in enumerate(self.observables.of("parameter", "begin of buffer", step=step)):
            for side in (0, 1):
                for value in self.observables.tensors(side, begin) if begin.both else ():
                    named[side][value] = -1 - number
        sides = [
            Side(self.joints.graphs[side], found.tokens[side], found.telling[side], named[side], backward)
            for side in (0, 1)
        ]
        return sides[0], sides[1]

    def _values(self, side: int, step: int, backward: bool) -> list[int]:
        """All values of a step's forward or backward calls."""
        trace = self.table.traces[side]
        chosen = (trace.column("step") == step) & ((trace.column("phase") == _BACKWARD) == backward)
        visits = trace.visits[np.isin(trace.visits[:, 0], trace.column("id")[chosen])]
        return np.unique(visits[:, 3]).tolist()

    def _changed(self, left: int, right: int) -> list[str]:
        calls = [trace.call(at, statistics=False) for trace, at in zip(self.table.traces, (left, right), strict=True)]
        return list(argument_changes(*calls))

    def _told_of(self, one: Observable, parted: Parted) -> Divergence:
        left, right = parted.reference, parted.candidate
        distance = self.observables.distance(one)
        row = self._row_of(left, right)
        changes: list[str] = []
        if len(left) == len(right) == 1 and alike(self._api(0, left[0])) == alike(self._api(1, right[0])):
            changes = self._changed(left[0], right[0])
            kind = "argument" if changes else "call"
        else:
            kind = "region" if left and right else "missing" if left else "extra"
        return Divergence(
            kind,
            row,
            f"from here on the two have no value in common on the way to the {one.kind} {one.name}, which differs by "
            f"{distance:.2g}",
            left,
            right,
            headline="; ".join(changes[:3]) or ("" if kind == "call" else self._headline(left, right)),
            distance=distance,
            step=one.step,
            items=(one,),
            changes=tuple(changes),
            certain=True,
        )

    def _tried(self, found: Divergence) -> Divergence:
        """The same, with what a replay of both calls showed, where each side is one call; or the data that both were
        given from outside, where that differs."""
        alone = self._positions(found.row) == (*found.reference, *found.candidate)
        if alone and found.kind == "call" and (name := self._data_of(found.row)):
            found.kind, found.names, found.headline = "data", (name,), f"{name} differs"
            return found
        if self._court is None or not alone or found.kind not in ("call", "argument"):
            return found
        found.trial = self._court.try_row(found.row)
        if found.trial.guilty is False and found.changes:
            text = f"each side computed rightly what it was asked for, but was asked differently: {found.trial.reason}"
            found.trial = Trial(None, text, found.trial.evidence)
        elif found.trial.guilty is False:
            text = f"each side computed rightly from what it was given: {found.trial.reason}"
            found.trial = Trial(None, text, found.trial.evidence)
        return found

    def _data_of(self, row: int) -> str:
        """The parameter under which both calls of a row were given other values that no call made; empty for none."""
        table, makers = self.table, self.joints.makers
        for leaf in range(int(table.first_leaf[row]), int(table.last_leaf[row])):
            outside = not table.leaves.output[leaf] and makers[0][leaf] == makers[1][leaf] == NONE
            if outside and self.joints.distance(leaf) > _EQUAL and not table.requires_grad(leaf):
                return common_name(table.api(row), table.tensor_at(leaf).path)
        return ""

    def _row_of(self, left: tuple[int, ...], right: tuple[int, ...]) -> int:
        """The row of the last of some calls."""
        side, positions = (1, right) if right else (0, left)
        column = self.table.alignment.candidate if side else self.table.alignment.reference
        found = np.flatnonzero(column == positions[-1]) if positions else np.zeros(0, dtype=int)
        return int(found[0]) if len(found) else 0

    # Running statistics.

    def _of_buffer(self, one: Observable) -> Divergence:
        """The call that took the buffer up explains it where it was asked otherwise."""
        distance = self.observables.distance(one)
        begin = self.observables.by_name.get(("begin of buffer", one.model, one.name, one.step))
        users = [self._takers(side, self.observables.value(side, begin or one)) for side in (0, 1)]
        positions = [found[0] if found else NONE for found in users]
        changes = [] if NONE in positions else self._changed(positions[0], positions[1])
        left, right = (tuple(found[:1]) for found in users)
        return Divergence(
            "argument" if changes else "state",
            self._row_of(left, right),
            f"the buffer {one.name} differs by {distance:.2g} after the step",
            left,
            right,
            names=tuple(other.name for other in self._differing("buffer", step=one.step)),
            headline="; ".join(changes[:3]) or f"the buffer {one.name} is changed otherwise",
            distance=distance,
            step=one.step,
            items=(one,),
            changes=tuple(changes),
            certain=True,
        )

    def _takers(self, side: int, value: int) -> list[int]:
        trace = self.table.traces[side]
        calls = np.unique(trace.visits[trace.visits[:, 3] == value, 0])
        found = np.searchsorted(trace.column("id"), calls)
        return [int(at) for at in found.tolist() if trace.column("phase")[at] != _BACKWARD]

    # Updates.

    def _updated(self, step: int) -> Divergence | None:
        alone = [one for one in self.observables.of("update", step=step) if not one.both]
        if alone:
            return self._lonely(alone[0])
        return self._updates(step)

    def _of_updates(self, step: int) -> list[Any]:
        return [one for one in PortedUpdates(self.observables, self._steep).of_step(step) if not one.explained]

    def _optimizer_row(self, step: int) -> int | None:
        """The row of the call that gave the parameter whose update is farthest off."""
        found = self._of_updates(step)
        if not found:
            return None
        worst = max(found, key=lambda one: one.distance).item
        position = self.joints.graphs[1].maker(self.observables.value(1, worst))
        return super()._optimizer_row(step) if position == NONE else int(self.table.row_of_candidate[position])

    def _changes(self, row: int) -> list[str]:
        """Nothing of calls that do not do the same: frameworks write their optimizers otherwise."""
        left, right = self._positions(row)
        if NONE in (left, right) or alike(self._api(0, left)) != alike(self._api(1, right)):
            return []
        return self._changed(left, right)

    def _api(self, side: int, position: int) -> str:
        trace = self.table.traces[side]
        return trace.names.get(int(trace.column("api")[position]), "")

    @cached_property
    def _steep(self) -> bool:
        """Whether an optimizer of either side divides by the size of gradients."""
        optimizers = (
            trace.names[int(number)]
            for trace in self.table.traces
            for number in np.unique(trace.column("api")[np.isin(trace.column("context"), _contexts(trace))])
        )
        dividing = ("adam", "addcdiv", "rmsprop", "adagrad", "adadelta", "lamb", "nadam", "radam")
        return any(word in canonical(name).lower() for name in optimizers for word in dividing)

    # Rows.

    def _let_go_before(self, found: Divergence | None) -> None:
        """Rows that failed ahead of the origin, or though nothing is wrong: their calls were no counterparts."""
        table = self.table
        rows = np.flatnonzero(table.verdict >= int(Verdict.WARN))
        last = len(table) if found is None else found.row
        for row in rows[rows < last].tolist():
            text = "the two write this in other calls; what comes of it agrees"
            table.set_judgement(row, Judgement(Verdict.NOT_COMPARED, text, idle=True))


def _contexts(trace: Any) -> list[int]:
    return trace.numbers_of("optimizer")
