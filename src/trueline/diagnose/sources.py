"""Values that came from outside of all recorded calls: data, parameters, buffers, sums of gradients."""

from __future__ import annotations

import math

from trueline.diagnose.finding import SKETCH, TIGHT_HALF, TIGHT_SINGLE, Divergence, present
from trueline.diagnose.observables import Observable
from trueline.diagnose.regions import Regions
from trueline.ops.facts import Kind, facts_of
from trueline.records import Phase

_DATA_DRIFT, _STATE_DRIFT = 1e-3, 0.02
"""How far values without a name may have drifted apart before a recording that does not start with the program."""


class Sources(Regions):
    """Judges them."""

    def _source(self, leaf: int) -> Divergence | None:
        table = self.table
        row = int(table.leaves.row[leaf])
        if facts_of(table.api(row)).kind in (Kind.COLLECTIVE, Kind.UNDEFINED):
            return None
        if self._by_parameter and self.table.in_optimizer[row]:
            return None
        values, distance = self.joints.values(leaf), self.joints.distance(leaf)
        if table.phase(row) is Phase.BACKWARD:
            return self._sum(leaf, values, distance)
        evidence = table.tensor_at(leaf)
        unit = evidence.roundoff
        known = self.observables.names[1].get(values[1]) or self.observables.names[0].get(values[0])
        roundings = 4.0 if known is None else TIGHT_HALF if unit > 1e-4 else TIGHT_SINGLE
        if unit and distance <= max(roundings * unit, SKETCH if evidence.estimated else 0.0):
            return None
        step = int(table.step[row])
        if known is None and unit and self._is_gradient(leaf):
            if any(self._gradient_names):
                return self._raw_gradient(leaf, distance)
            if distance <= self._gradients_like(leaf, unit):
                return None
        kind, name = self._named(leaf, known)
        if kind == "state" and self._had_parted(known, step, distance):
            return None
        if known is None and self._may_have_drifted(leaf, distance):
            return None
        what = {"data": "the two are given other data", "state": "the two hold other values"}[kind]
        since = ""
        if kind == "state" and step > 0 and step == min(table.steps):
            since = f"; they had parted before step {step}: record from the start"
        return Divergence(
            kind,
            row,
            f"{name} differs by {distance:.2g} where no recorded call made it: {what}{since}",
            *present(self._positions(row)),
            names=self._others_like(kind, name, known, step),
            headline=f"{name} differs" + (f" before step {step}" if since else ""),
            distance=distance,
            step=step,
            certain=math.isfinite(distance),
            known=known is not None,
            other_size=math.isinf(distance),
        )

    def _named(self, leaf: int, known: Observable | None) -> tuple[str, str]:
        """Whether a value from outside is data or state, and its name."""
        if known is not None:
            return ("data" if known.kind == "input" else "state"), known.name
        from trueline.compare.parameters import common_name

        table = self.table
        row = int(table.leaves.row[leaf])
        state = table.requires_grad(leaf) or table.context(row) == "optimizer"
        path = table.tensor_at(leaf).path
        return ("state" if state else "data"), common_name(table.api(row), path)

    def _others_like(self, kind: str, name: str, known: Observable | None, step: int) -> tuple[str, ...]:
        """The names of all values of the same sort that differ at the same time, the first one first."""
        names = [name]
        if known is not None:
            for one in self.observables.items:
                if one.kind == known.kind and one.step == step and one.both and not self.tight(one):
                    names.append(one.name)
        return tuple(dict.fromkeys(names))

    def _had_parted(self, known: Observable | None, step: int, distance: float) -> bool:
        """Whether a parameter or buffer differed as much already when the step before ended."""
        if known is None or step == min(self.table.steps):
            return False
        kinds = ("update", "buffer") if known.kind == "parameter" else ("buffer",)
        earlier = [
            one
            for kind in kinds
            if (one := self.observables.by_name.get((kind, known.model, known.name, step - 1))) is not None
        ]
        if not earlier:
            last = self.observables.by_name.get((known.kind, known.model, known.name, step - 1))
            earlier = [last] if last is not None else []
        return any(one.both and distance <= 2.0 * self.observables.distance(one) + 1e-6 for one in earlier)

    def _may_have_drifted(self, leaf: int, distance: float) -> bool:
        """Whether a value without a name, in a later step, may be what became of one that honest rounding changed, or
        was changed so before the recording began."""
        row = int(self.table.leaves.row[leaf])
        if int(self.table.step[row]) != min(self.table.steps):
            return distance <= 16.0 * float(self.table.drift[row]) + 1e-6
        exact = self.table.tensor_at(leaf).reference_dtype.is_exact
        if int(self.table.step[row]) == 0 or self.observables.items or exact:
            return False
        return distance <= (_STATE_DRIFT if self.table.requires_grad(leaf) else _DATA_DRIFT)

    def _sum(self, leaf: int, values: tuple[int, int], distance: float) -> Divergence | None:
        """A gradient that autograd summed between calls: the parts on both sides say what explains it."""
        unit = self.table.tensor_at(leaf).roundoff
        if distance <= max(4.0 * unit, SKETCH):
            return None
        region = self.joints.region_of(values, int(self.table.leaves.row[leaf]), leaf)
        if not any(graph.summed(value) for graph, value in zip(self.joints.graphs, values, strict=True)):
            return None  # what the program itself began a backward with, or an engine's own
        return self._judge_region(region, values, distance, unit)

    def _state_of(self, one: Observable, distance: float) -> Divergence:
        names = [
            other.name
            for other in self.observables.items
            if other.kind == "parameter" and other.step == one.step and other.both and not self.tight(other)
        ]
        since = f"the Runs had parted before step {one.step}: record from the start" if one.step else ""
        text = f"{one.name} differs by {distance:.2g} before anything was computed"
        return Divergence(
            "state",
            self._row_at(one.when) if self._row_at(one.when) else 0,
            f"{text}; {since}" if since else text,
            names=tuple(dict.fromkeys([one.name, *names])),
            headline=since or f"{one.name} differs from the start",
            distance=distance,
            step=one.step,
            items=(one,),
            certain=True,
        )
