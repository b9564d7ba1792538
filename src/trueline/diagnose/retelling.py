"""What was found, told by what explains it: gradients by the calls of the forward, a parameter's gradient that one side
alone has by the calls that use it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from trueline.compare import Match
from trueline.diagnose.finding import Divergence, some, this_many
from trueline.diagnose.observables import Observable
from trueline.diagnose.sources import Sources
from trueline.diagnose.tracked import parting_of_graphs
from trueline.store.columns import NONE


class Retelling(Sources):
    """Tells it."""

    def _of_forward(self, found: Divergence) -> Divergence | None:
        """Gradients that part where forward calls of one side have no counterparts: autograd follows the forward, so
        the two compute something else there, however near the values come. A function with a backward of its own may
        be wrong in that alone."""
        sides = (found.reference, found.candidate)
        if found.kind not in ("region", "missing", "extra") or found.items or not self._all_backward(sides):
            return None
        forward = [
            tuple(sorted({self.joints.graphs[side].forward_of(position) for position in positions}))
            for side, positions in enumerate(sides)
        ]
        if any(self._has_own_backward(side, one) for side, positions in enumerate(forward) for one in positions):
            return None
        alignment, rows = self.table.alignment, list[int]()
        for positions, column in zip(forward, (alignment.reference, alignment.candidate), strict=True):
            rows += np.flatnonzero(np.isin(column, positions)).tolist()
        if not (alignment.match[rows] >= int(Match.EXTRA)).any():
            return None
        headline = self._headline(*forward)
        return replace(
            found, row=max(rows), reference=forward[0], candidate=forward[1], headline=headline, leaf=NONE, trial=None,
            reason=f"the gradients that come out of it are {found.distance:.2g} apart",
        )  # fmt: skip

    def _all_backward(self, sides: tuple[tuple[int, ...], tuple[int, ...]]) -> bool:
        known = [self.joints.graphs[side].is_backward(one) for side, positions in enumerate(sides) for one in positions]
        return bool(known) and all(known)

    def _has_own_backward(self, side: int, position: int) -> bool:
        """Whether a forward call is not known, or brings a backward with it."""
        trace = self.table.traces[side]
        return position == NONE or trace.names.get(int(trace.column("api")[position]), "").endswith(".apply")

    def _of_graphs(self, found: Divergence) -> Divergence | None:
        """What differs from the backward on is told by the value of which one side alone keeps a graph, where there is
        one: there the two parted."""
        step = int(self.table.step[found.row])
        if self.when(found.row) < self._first_backward.get(step, math.inf) or self.table.across:
            return None
        parting = parting_of_graphs(self.joints, self.observables, step)
        if parting is None:
            return None
        here, there = parting.calls
        keeps = ("reference", "candidate")[parting.keeps]
        kind = "call" if here and there else "missing" if here else "extra"
        headline = f"{self._headline(here, there)}: from there on only the {keeps} follows gradients"
        found = replace(found, kind=kind, reference=here, candidate=there, headline=headline)
        return replace(found, names=(), changes=(), of_gradients=True)

    def _of_lonely(self, found: Divergence) -> Divergence | None:
        """What differs from the backward on is told by the parameters to which one side alone gives a gradient, where
        there are any."""
        step = int(self.table.step[found.row])
        behind = self.when(found.row) >= self._first_backward.get(step, math.inf)
        for place in self.beyond if behind else ():
            one = self.observables.items[place]
            if one.kind == "gradient" and one.step == step and not one.both:
                return self._lonely(one)
        return None

    def _users_alone(self, one: Observable) -> tuple[int, tuple[int, ...]]:
        """On which side alone a parameter gets a gradient, and the calls there that take it, with those around them in
        the same module, where the other side makes none of them."""
        side = 0 if one.reference != NONE else 1
        begin = self.observables.by_name.get(("parameter", one.model, one.name, one.step))
        row = NONE if begin is None else begin.candidate if side else begin.reference
        if begin is None or row == NONE:
            return side, ()
        graph, trace = self.joints.graphs[side], self.table.traces[side]
        users = [
            user
            for user in graph.users_of(self.observables.value(side, begin))
            if trace.names.get(int(trace.column("context")[user])) != "optimizer"
        ]
        if not users or any(self.joints.row_of(side, user) != NONE for user in users):
            return side, ()
        module, found = trace.column("module"), []
        position = users[0]
        while position >= 0 and module[position] == module[users[0]] and self.joints.row_of(side, position) == NONE:
            found.append(position)
            position -= 1
        return side, (*reversed(found), *users[1:])

    def _lonely(self, one: Observable) -> Divergence:
        side = "reference" if one.reference != NONE else "candidate"
        names = [
            other.name
            for other in self.observables.items
            if other.kind == one.kind
            and other.step == one.step
            and (other.reference == NONE) == (one.reference == NONE)
            and not other.both
            and self._is_lonely(other)
        ]
        what = {"gradient": "gets a gradient", "update": "is updated"}.get(one.kind, "is there")
        alone, users = self._users_alone(one) if one.kind == "gradient" and not self.table.across else (0, ())
        if users:
            calls: tuple[tuple[int, ...], tuple[int, ...]] = (users, ()) if alone == 0 else ((), users)
            column = (self.table.alignment.reference, self.table.alignment.candidate)[alone]
            return Divergence(
                ("missing", "extra")[alone],
                int(np.flatnonzero(column == users[-1])[0]),
                f"only the {side} makes {this_many(len(users))}, and so {one.name} {what} there alone",
                *calls,
                names=tuple(names),
                headline=self._headline(*calls),
                step=one.step,
                items=(one,),
                certain=True,
            )
        return Divergence(
            "update" if one.kind in ("gradient", "update") else "state",
            self._row_at(one.when),
            f"{one.name} {what} in the {side} alone",
            names=tuple(names),
            headline=f"{some(names)} {what} in the {side} alone",
            step=one.step,
            items=(one,),
            certain=True,
        )
