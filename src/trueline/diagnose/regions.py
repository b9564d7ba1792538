"""Judges what lies behind a pair of values that the two sides made in different ways: by what rounding explains, by a
replay, and by the precision that it passes through."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from trueline.diagnose.confirm import Trial
from trueline.diagnose.finding import (
    BELIEVED_HALF,
    BELIEVED_SINGLE,
    FREEDOM,
    LONG,
    LOOSE_HALF,
    LOOSE_SINGLE,
    SIBLINGS,
    SKETCH,
    TIGHT_HALF,
    TIGHT_SINGLE,
    Divergence,
)
from trueline.diagnose.gradients import Gradients
from trueline.diagnose.joints import Region
from trueline.diagnose.narrowing import narrowed
from trueline.diagnose.recognition import FEWEST
from trueline.ops.facts import Kind, facts_of
from trueline.ops.names import canonical
from trueline.records import Phase
from trueline.store.columns import NONE

_POLICY = 0.6
"""The share of all values that both runs hold in the same precision where they work by the same policy."""
_ROUNDED = 0.25
"""No dtype is so coarse that rounding to it once takes a value so far: what is further apart is another value."""
_NEARER = 16.0
"""By what factor they must be nearer to each other then than where they parted."""
_AGREE_SINGLE, _AGREE_HALF = 64.0, 6.0
"""Roundings within which two programs that parted agree again."""


class Regions(Gradients):
    """Judges joints."""

    def _joint(self, leaf: int, *, again: Divergence | None) -> Divergence | None:
        found = self._at_joint(leaf, again)
        if found is None:
            self.joints.join(leaf)
        return found

    def _at_joint(self, leaf: int, again: Divergence | None) -> Divergence | None:
        measured = self.table.measured[int(self.table.pair[leaf])]
        distance = self.joints.distance(leaf)
        if (measured["equal"] and not measured["estimated"]) or distance == 0.0 or distance != distance:
            if again is not None and distance == 0.0:
                self._equal_again(leaf)
            return None
        units = [
            self.table.layout(side, int(visits[leaf]))[0].epsilon / 2
            for side, visits in enumerate((self.table.leaves.reference, self.table.leaves.candidate))
        ]
        unit = max(units)
        near = bool(unit) and distance <= max(2.0 * unit, SKETCH if measured["estimated"] else 0.0)
        if near and again is None:
            return None
        if self._is_gradient(leaf):
            return None if near else self._raw_gradient(leaf, distance)
        region = self.joints.region(leaf)
        if not near and (coarser := self._narrowed(region, distance)) is not None:
            return coarser
        if again is None or not any(self.joints.touches_given_up(side, region) for side in (0, 1)):
            return None if near else self._judge_region(region, self.joints.values(leaf), distance, unit)
        first, shift = self._partings.behind(region)
        again, shift = (again, again.shift) if first is None else (first, shift)
        return self._joins_again(again, shift, region, distance, unit, estimated=bool(measured["estimated"]))

    def _equal_again(self, leaf: int) -> None:
        """Notes where two that parted hold the same again, to the last bit. A few numbers may be alike by chance, or be
        made of nothing but a shape."""
        measured = self.table.measured[int(self.table.pair[leaf])]
        if measured["count"] < FEWEST or not measured["rms"] or not self.table.tensor_at(leaf).roundoff:
            return
        region = self.joints.region(leaf)
        if any(self.joints.touches_given_up(side, region) for side in (0, 1)):
            self._joined_again += 1
            self._partings.agree(region)

    def _joins_again(
        self, again: Divergence, shift: float, region: Region, distance: float, unit: float, *, estimated: bool
    ) -> Divergence | None:
        """Whether the two agree again behind a place where they parted, and were so far apart at least; None where they
        do, or where rounding may hide that they do not."""
        allowed = (_AGREE_HALF if unit > 1e-4 else _AGREE_SINGLE) * unit + FREEDOM * region.arrives
        allowed = max(allowed, SKETCH if estimated else 0.0)
        if math.isfinite(again.shift):
            allowed = min(allowed, max(again.shift / _NEARER, 2.0 * unit))
        trial = self._tried_again(region, region.leaf, distance, unit)
        if trial is None and distance <= allowed and again.changes and self._region_court is not None:
            # What was asked otherwise may drown in coarse rounding: exact arithmetic says whether it comes to the same.
            trial = self._region_court.try_region(region, self.joints.values(region.leaf))
            if trial.guilty:
                return replace(self._as_divergence(region, distance, allowed, trial), certain=True)
            trial = None
        leans = self._is_one_sided(region, distance, unit)
        agrees = distance <= allowed and not leans and not self._drowns(region.leaf, distance)
        if agrees and trial is None and distance > shift / _NEARER:
            return None  # nothing shows that it is gone: what they differed by may lie below this rounding
        if (agrees and trial is None) or (trial is not None and not trial.guilty):
            self._joined_again += 1
            # What arrives may differ for the same reason: being nearer than that shows nothing.
            near = self._near(region, unit)
            if trial is not None or distance <= near:
                self._partings.agree(region, near if distance > near else None)
            return None
        return replace(self._as_divergence(region, distance, allowed, trial), leans=leans)

    def _drowns(self, leaf: int, distance: float) -> bool:
        """Whether two values are near each other only because something large was added on both sides: what the two
        summands differed by is still there."""
        table, values = self.table, self.joints.values(leaf)
        made = [self.joints.graphs[side].maker(value) for side, value in enumerate(values)]
        row = NONE if made[1] == NONE else int(table.row_of_candidate[made[1]])
        if row == NONE or int(table.alignment.reference[row]) != made[0]:
            return False
        if facts_of(table.api(row)).kind is not Kind.SUM or table.phase(row) is not Phase.FORWARD:
            return False
        size = float(table.measured[int(table.pair[leaf])]["rms"])
        unit = table.tensor_at(leaf).roundoff
        allowed = (_AGREE_HALF if unit > 1e-4 else _AGREE_SINGLE) * unit
        summands = [
            self.joints.distance(one) * float(table.measured[int(table.pair[one])]["rms"])
            for one in range(int(table.first_leaf[row]), int(table.last_leaf[row]))
            if not table.leaves.output[one] and table.pair[one] != NONE and self.joints.distance(one) > allowed
        ]
        known = [one for one in summands if math.isfinite(one)]
        return distance * size >= max(known, default=math.inf) / 2.0

    def _tried_again(self, region: Region, leaf: int, distance: float, unit: float) -> Trial | None:
        """Whether two that parted agree again, by replaying all between; None where that shows nothing."""
        begins = region.apart[1].values()
        rounding = (TIGHT_HALF if unit > 1e-4 else TIGHT_SINGLE) * unit
        if self._region_court is None or distance <= rounding or any(apart != apart for apart in begins):
            return None
        trial = self._region_court.try_region(region, self.joints.values(leaf))
        return None if trial.guilty is None else trial

    def _judge_region(self, region: Region, values: tuple[int, int], distance: float, unit: float) -> Divergence | None:
        if self.joints.undefined(region) and not any(behind.calls for behind in region.sides):
            return None
        if all(graph.unwritten(value) for graph, value in zip(self.joints.graphs, values, strict=True)):
            return None
        limit = self.limit(region, values, unit)
        trial = None
        rounding = (TIGHT_HALF if unit > 1e-4 else TIGHT_SINGLE) * unit
        if self._region_court is not None and distance > rounding and any(side.calls for side in region.sides):
            trial = self._region_court.try_region(region, values)
            if trial.guilty is False:
                return None
        unproven = trial is None or trial.guilty is None
        one_sided = unproven and self._is_one_sided(region, distance, unit)
        if distance <= limit and not one_sided and not (trial is not None and trial.guilty):
            return None
        return replace(self._as_divergence(region, distance, limit, trial), leans=one_sided)

    def _is_one_sided(self, region: Region, distance: float, unit: float) -> bool:
        """Whether the candidate's value as a whole is larger or smaller by more than rounding explains. Roundings go in
        both directions, and leave hardly anything in a sum over many elements: so a difference that hides below the
        rounding of single elements is seen there."""
        calls = self._roundings(region)
        if unit <= 1e-4 or region.leaf == NONE or not calls or not distance <= BELIEVED_HALF:
            return False  # what is further apart has nothing in common
        pair = int(self.table.pair[region.leaf])
        lean, count = self.joints.lean_of(pair), int(self.table.measured["count"][pair])
        given = max((self.joints.lean(side, one) for side in (0, 1) for one in region.sides[side].begins), default=0.0)
        noise = (distance + region.arrives) / math.sqrt(max(count, 1))
        # At worst a call rounds one number by which all elements are multiplied, or all of them in one direction, near
        # where its function saturates: the norm is then off by an error anywhere within one unit roundoff, of variance
        # unit² / 3. Those of several calls are independent; four standard deviations of their sum are allowed, and
        # never more than all of them in one direction.
        worst = min(float(calls), FREEDOM * math.sqrt(calls / 3.0)) * unit
        return lean > worst + FREEDOM * (noise + given)

    def _roundings(self, region: Region) -> int:
        """How many calls of both sides of a region round at all; moving and choosing elements does not."""
        trace, found = self.table.traces, 0
        for side, behind in enumerate(region.sides):
            names = (trace[side].names.get(int(trace[side].column("api")[one]), "") for one in behind.calls)
            found += sum(not facts_of(name).exact or canonical(name) == "to" for name in names)
        return found

    def _near(self, region: Region, unit: float) -> float:
        """How far apart two values may be that are the same for sure. In half precision each call rounds its result
        once, by unit / √3 at most in the root mean square, and independently of the others: four standard deviations
        of all roundings of both sides, one each at least. In single precision sums in another order differ by more."""
        if unit <= 1e-4:
            return max(TIGHT_SINGLE * unit, SKETCH)
        return max(FREEDOM * math.sqrt(max(self._roundings(region), 2) / 3.0) * unit, SKETCH)

    def limit(self, region: Region, values: tuple[int, int], unit: float) -> float:
        """How far apart rounding along both sides of a region may take its two values."""
        sizes = [len(side.calls) for side in region.sides]
        off = [
            carrying.off(behind.calls, apart, value)
            for carrying, behind, apart, value in zip(self._carrying, region.sides, region.apart, values, strict=True)
        ]
        limit = FREEDOM * (sum(off) + 2.0 * unit)
        if not unit:
            limit = 0.0 if region.arrives == 0.0 else math.inf
        if max(sizes) > LONG or not region.whole:
            loose = (LOOSE_HALF if unit > 1e-4 else LOOSE_SINGLE) * unit + FREEDOM * region.arrives
            limit = min(limit, loose)
        believed = (BELIEVED_HALF if unit > 1e-4 else BELIEVED_SINGLE) if unit else math.inf
        return max(min(limit, believed + FREEDOM * region.arrives), self._left_over(region, values, unit), SKETCH)

    def _left_over(self, region: Region, values: tuple[int, int], unit: float) -> float:
        """How far apart two gradients may be in which everything cancels: what rounding leaves of the gradients that
        they were made from, beside their own size."""
        if self.table.phase(region.row) is not Phase.BACKWARD:
            return 0.0
        size = self.joints.size(0, values[0])
        given = [
            self.joints.size(side, value)
            for side, behind in enumerate(region.sides)
            for value in behind.begins
            if (maker := self.joints.graphs[side].maker(value)) != NONE and self.joints.graphs[side].is_backward(maker)
        ]
        return SIBLINGS * unit * max(given, default=0.0) / size if size > 0.0 else 0.0

    def _as_divergence(self, region: Region, distance: float, limit: float, trial: Trial | None) -> Divergence:
        backward = self.table.phase(region.row) is Phase.BACKWARD
        calls = []
        for side, (graph, behind) in enumerate(zip(self.joints.graphs, region.sides, strict=True)):
            chosen = [p for p in self.joints.main_way(side, region) if not backward or graph.is_backward(p)]
            calls.append(tuple(chosen or behind.calls))
        row = region.row
        kind, reason = self._told(calls[0], calls[1], distance, limit)
        return Divergence(
            kind,
            row,
            reason,
            calls[0],
            calls[1],
            headline=self._headline(calls[0], calls[1]),
            trial=trial,
            distance=distance,
            arrives=region.arrives,
            limit=limit,
            other_size=math.isinf(distance),
            leaf=region.leaf,
            shift=distance,
        )

    @cached_property
    def _floats(self) -> tuple[Any, tuple[Any, Any]]:
        """The leaves that hold floats on both sides, and their unit roundoffs."""
        table, leaves = self.table, self.table.leaves
        both = np.flatnonzero((leaves.reference != NONE) & (leaves.candidate != NONE))
        units = [
            table.units(side, table.traces[side].visits[visits[both], 4])
            for side, visits in enumerate((leaves.reference, leaves.candidate))
        ]
        floats = (units[0] > 0.0) & (units[1] > 0.0)
        return both[floats], (units[0][floats], units[1][floats])

    @cached_property
    def _coarser(self) -> Any:
        """The leaves at which the candidate works in less precision than the reference, where the two runs as a whole
        work in the same."""
        both, units = self._floats
        if not self._same_policy:
            return both[:0]
        found = both[units[1] > units[0]]
        apart = self.table.measured["distance"][self.table.pair[found]]
        return found[~self.table.other_size[self.table.leaves.row[found]] & ~(apart > _ROUNDED)]

    @cached_property
    def _same_policy(self) -> bool:
        """Whether the two runs as a whole work in the same precision."""
        precision = self.table.precision
        alike = precision.share_alike >= _POLICY and precision.policies[0] == precision.policies[1]
        return alike and not self.table.across

    def _narrowed(self, region: Region, distance: float) -> Divergence | None:
        """A region in which the candidate alone goes through a type of less precision: no rounding of the reference's
        answers for that."""
        if not self._same_policy or not math.isfinite(distance) or not region.candidate.calls:
            return None
        kinds = narrowed(self.joints, region)
        if kinds is None or kinds[1].epsilon / 2 <= self.table.precision.policy:
            return None  # what autocast computes in is no less than the run works in anyway
        found = self._as_divergence(region, distance, 0.0, None)
        found.kind, found.certain, found.limit = "precision", True, None
        found.headline = f"works in {kinds[1].name} where the reference works in {kinds[0].name}"
        found.reason = f"its output is {distance:.2g} off for that"
        return found

    def _precision(self, leaf: int) -> Divergence | None:
        table = self.table
        row = int(table.leaves.row[leaf])
        if self._by_parameter and self.table.in_optimizer[row]:
            return None
        kinds = [
            table.layout(side, int(visits[leaf]))[0].name
            for side, visits in enumerate((table.leaves.reference, table.leaves.candidate))
        ]
        region = self.joints.region(leaf)
        own = self._positions(row)
        calls = [
            tuple(sorted({*(p for p in behind.calls if len(behind.calls) <= 4), position}))
            for behind, position in zip(region.sides, own, strict=True)
        ]
        distance = float(table.output_distance[row])
        return Divergence(
            "precision",
            row,
            f"its output is {distance:.2g} off for that",
            calls[0],
            calls[1],
            headline=f"works in {kinds[1]} where the reference works in {kinds[0]}",
            distance=distance,
            arrives=float(table.input_distance[row]),
            certain=True,
        )
