"""What both programs give away and where it differs: whether a difference found somewhere matters, and whether what
differs in the end may be rounding after all."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from trueline.diagnose.finding import (
    BELIEVED_HALF,
    BELIEVED_SINGLE,
    LONG,
    LOOSE_HALF,
    LOOSE_SINGLE,
    SIBLINGS,
    SKETCH,
    TIGHT_HALF,
    TIGHT_SINGLE,
    Divergence,
    present,
)
from trueline.diagnose.footing import Footing
from trueline.diagnose.observables import Observable
from trueline.diagnose.updating import Updates
from trueline.records import Verdict
from trueline.store.columns import NONE


class Worth(Footing):
    """Answers whether a difference matters."""

    @cached_property
    def beyond(self) -> list[int]:
        """The observables that differ by more than a few roundings, or that one side alone has."""
        found = []
        for place, one in enumerate(self.observables.items):
            if one.kind in ("input", "begin of buffer"):
                continue
            if one.kind == "parameter" and one.step != min(self.table.steps):
                continue
            if not one.both:
                if self._is_lonely(one):
                    found.append(place)
            elif not self.tight(one):
                if (power := self._scale_undone(one)) is None:
                    found.append(place)
                else:
                    self.explained[place] = f"2**{power} times as large, which is undone before gradients are used"
        return found

    def _scale_undone(self, one: Observable) -> int | None:
        """By which power of two the candidate's loss alone is larger, where no rounding and no gradient shows it: mixed
        precision multiplies it by a scale, and divides the gradients by it before they are used."""
        power = self._power_of_two(self.observables.measured[one.place], self.observables.unit(one))
        if one.kind != "loss" or not power:
            return None
        gradients = [other for other in self.observables.items if other.kind == "gradient" and other.step == one.step]
        return power if gradients and all(other.both and self.tight(other) for other in gradients) else None

    def _power_of_two(self, row: Any, unit: float) -> int:
        """By which power of two the candidate's numbers are larger, and differ in nothing else; 0 where they do."""
        sizes = float(row["rms"]), float(row["candidate_rms"])
        if row["note"] or not all(0.0 < size < math.inf for size in sizes):
            return 0
        power = round(math.log2(sizes[1] / sizes[0]))
        scaled, allowed = 2.0**power, (TIGHT_HALF if unit > 1e-4 else TIGHT_SINGLE) * unit
        if abs(sizes[1] / (scaled * sizes[0]) - 1.0) > allowed:
            return 0
        off = abs(float(row["distance"]) - abs(scaled - 1.0))  # larger where signs differ, or places
        return 0 if off > max(allowed, SKETCH) * max(scaled, 1.0) else power

    def _is_lonely(self, one: Observable) -> bool:
        """Whether that only one side has it says something."""
        if one.kind not in ("gradient", "update", "parameter"):
            return False  # what only one side keeps in a buffer is no matter as long as all else agrees
        if self._renamed:
            return False
        side = 0 if one.reference != NONE else 1
        record = self.observables.record(side, one)
        if one.kind == "gradient" and record is not None and record.statistics is not None:
            return record.statistics.norm != 0.0  # a gradient of zeros, or none at all: the same
        if one.kind == "update":  # not updated, or by nothing: the same
            return not Updates(self.observables).stays(side, one)
        return True

    @cached_property
    def _renamed(self) -> bool:
        """Whether each side has parameters of its own, as many numbers in all as the other: then they hold the same
        under other names, or packed otherwise, and what becomes of them is seen in all else."""
        sizes = [0, 0]
        for one in self.observables.items:
            if one.kind == "parameter" and not one.both and one.step == min(self.table.steps):
                side = 0 if one.reference != NONE else 1
                record = self.observables.record(side, one)
                sizes[side] += 0 if record is None else math.prod(record.shape)
        return sizes[0] == sizes[1] > 0

    @cached_property
    def results(self) -> list[int]:
        """The leaves of what the two programs themselves compute and keep: metrics, averages, what is printed. What has
        a name among the observables is told by that."""
        if self.table.across:
            return []
        named = {self.observables.value(1, one) for one in self.observables.items if one.candidate != NONE}
        found = [self.joints.leaf_of(1, visit) for visit in self.joints.graphs[1].results().tolist()]
        paired = [leaf for leaf in found if leaf != NONE and self.table.pair[leaf] != NONE]
        return [leaf for leaf in paired if self.joints.values(leaf)[1] not in named]

    @cached_property
    def results_beyond(self) -> list[int]:
        """Those that differ by more than a few roundings."""
        powers = {power for one in self.observables.items if one.both and (power := self._scale_undone(one))}
        scales = {sign * power for power in powers for sign in (1, -1)}  # the scale itself, and what divides by it
        rows = {leaf: self.table.measured[int(self.table.pair[leaf])] for leaf in self.results}
        return [
            leaf
            for leaf in self.results
            if not self._is_tight(leaf)
            and not (powers and self._power_of_two(rows[leaf], self.table.tensor_at(leaf).roundoff) in scales)
        ]

    def _is_tight(self, leaf: int) -> bool:
        distance, unit = self.joints.distance(leaf), self.table.tensor_at(leaf).roundoff
        allowed = (TIGHT_HALF if unit > 1e-4 else TIGHT_SINGLE) * unit
        return distance != distance or distance <= (max(allowed, SKETCH) if unit else 0.0)

    @cached_property
    def _differs(self) -> bool:
        return bool(self.beyond) or not self.observables.items

    def tight(self, one: Observable) -> bool:
        """Whether two values are the same but for a few roundings."""
        distance, unit = self.observables.distance(one), self.observables.unit(one)
        if distance != distance:
            return True
        allowed = (TIGHT_HALF if unit > 1e-4 else TIGHT_SINGLE) * unit
        return distance <= (max(allowed, SKETCH) if unit else 0.0)

    def _matters(self, found: Divergence) -> bool:
        """Whether something that differs in what is given away was made from it."""
        if not self.observables.items:
            return True
        if not self.beyond and not self.results_beyond:
            told = f"a part of the candidate {found.headline}; what the programs give away agrees"
            if found.kind == "precision" and told not in self.notes:
                self.notes.append(told)
            return False
        if found.kind == "precision" or found.kind == "update" or found.items:
            return True
        if found.kind in ("state", "data") and found.known:
            return True
        calls: tuple[tuple[int, ...], ...] = (found.reference, found.candidate)
        if not any(calls):  # a value from another place: what takes it
            calls = present(self._positions(found.row))
        return any(position in self._relevant[side] for side in (0, 1) for position in calls[side])

    @cached_property
    def _relevant(self) -> tuple[set[int], set[int]]:
        """The calls of each side from which something that differs was made."""
        found = []
        for side, graph in enumerate(self.joints.graphs):
            values = [
                self.observables.value(side, one)
                for one in (self.observables.items[place] for place in self.beyond)
                if (one.candidate if side else one.reference) != NONE
            ]
            values += [self.joints.values(leaf)[side] for leaf in self.results_beyond]
            for place in self.beyond:
                one = self.observables.items[place]
                begin = self.observables.by_name.get(("parameter", one.model, one.name, one.step))
                if one.kind in ("gradient", "update") and begin is not None and begin.both:
                    values += [part for part, _ in graph.gradients_of(self.observables.value(side, begin), 1 << 60)]
            found.append(graph.all_behind(values))
        return found[0], found[1]

    @cached_property
    def _not_believed(self) -> list[Observable]:
        """What is given away and differs by more than rounding ever explains."""
        found = []
        for place in self.beyond:
            one = self.observables.items[place]
            if not one.both or place in self._by_parts or one.kind in ("update", "optimizer state", "parameter"):
                continue
            distance, unit = self.observables.distance(one), self._working_unit(one)
            believed = BELIEVED_HALF if unit > 1e-4 else BELIEVED_SINGLE
            if distance > believed and not self._is_noise(one, distance, unit):
                found.append(one)
        return found

    def _note_choice(self) -> None:
        if (told := self._choices.told()) not in self.notes:
            self.notes.append(told)

    def _follows_choice(self, one: Observable, distance: float) -> bool:
        """Whether what differs follows from a choice between what is level; where it has nothing in common any more,
        nobody can say whether something else is wrong as well."""
        here, there = self._parts_of(one)
        left, right = self.observables.values(one)
        if not self._choices.follows((here or [left], there or [right])):
            return False
        self._note_choice()
        self.explained[self.observables.items.index(one)] = "follows from a choice between what is level"
        if distance > BELIEVED_HALF:
            self.undecided = f"{self._choices.told()}, too much to say whether anything else is wrong"
        return True

    def _parts_of(self, one: Observable) -> tuple[list[int], list[int]]:
        """From which values of each side the gradient of a parameter was summed: those that left the calls which used
        it. Nothing for all else that is given away."""
        begin = self.observables.by_name.get(("parameter", one.model, one.name, one.step))
        found: tuple[list[int], list[int]] = ([], [])
        for side, graph in enumerate(self.joints.graphs):
            if one.kind == "gradient" and begin is not None and begin.both:
                found[side].extend(part for part, _ in graph.gradients_of(self.observables.value(side, begin), 1 << 60))
        return found

    def _is_noise(self, one: Observable, distance: float, unit: float) -> bool:
        """Whether what differs cancels, so that nothing but rounding is left of it."""
        if one.kind == "gradient" and self._cancels(one, distance, unit):
            return True
        return self._vanishes(one) or self._cancelled(one, unit) or self._follows_choice(one, distance)

    def _vanishes(self, one: Observable) -> bool:
        """Whether one call made it on both sides, was found right, and was given nearly the same: then it is the sum in
        that call that cancels. What the program changed in place afterwards, to clip it, is no matter."""
        left, right = (self._before_changes(side, value) for side, value in enumerate(self.observables.values(one)))
        leaf = self.joints.same_maker((left, right))
        if leaf == NONE:
            return False
        row = int(self.table.leaves.row[leaf])
        return self.table.input_distance[row] <= BELIEVED_SINGLE and self.table.verdict[row] == int(Verdict.PASS)

    def _before_changes(self, side: int, value: int) -> int:
        seen = {value}
        while (before := self.joints.graphs[side].before_change(value)) is not None and before not in seen:
            seen.add(value := before)
        return value

    def _working_unit(self, one: Observable) -> float:
        """The rounding that went into something that is given away: autocast returns losses and gradients in a finer
        type than it computes them in."""
        return max(self.observables.unit(one), self.table.precision.policy)

    def _cancelled(self, one: Observable, unit: float) -> bool:
        """Whether a single call, which was judged, made what differs so much of values that agree, on all ways by which
        it came here. Where it grew from call to call, none of them explains it."""
        believed = BELIEVED_HALF if unit > 1e-4 else BELIEVED_SINGLE
        loose = (LOOSE_HALF if unit > 1e-4 else LOOSE_SINGLE) * unit
        waiting, seen = [self.joints.same_maker(self.observables.values(one))], set[int]()
        while waiting:
            leaf = waiting.pop()
            row = NONE if leaf == NONE else int(self.table.leaves.row[leaf])
            if row == NONE or self.table.verdict[row] >= int(Verdict.FAIL) or len(seen) > LONG:
                return False
            if row in seen or self.table.input_distance[row] <= loose:
                continue
            seen.add(row)
            given = [
                other
                for other in range(int(self.table.first_leaf[row]), int(self.table.last_leaf[row]))
                if not self.table.leaves.output[other] and self.table.pair[other] != NONE
            ]
            apart = [other for other in given if self.joints.distance(other) > believed]
            if not apart:
                return False
            waiting += [self.joints.same_maker(self.joints.values(other)) for other in apart]
        return True

    def _cancels(self, one: Observable, distance: float, unit: float) -> bool:
        """Whether a gradient is so small beside those of its module, and of the one around it, that its difference is
        their rounding."""
        row = self.observables.measured[one.place]
        if not row["rms"] and not row["candidate_rms"]:
            return True
        off = distance * float(row["rms"] or row["candidate_rms"])
        largest = max(self._largest.get((one.model, name, one.step), 0.0) for name in _around(one.name))
        return off <= SIBLINGS * unit * largest

    @cached_property
    def _largest(self) -> dict[tuple[str, str, int], float]:
        found: dict[tuple[str, str, int], float] = {}
        for one in self.observables.items:
            if one.kind == "gradient" and one.both:
                size = float(self.observables.measured[one.place]["rms"])
                for name in _around(one.name):
                    key = (one.model, name, one.step)
                    found[key] = max(found.get(key, 0.0), size)
        return found

    def _loose_but_for_sizes(self) -> bool:
        """Whether all agrees that is given away and has the same size on both sides. What has not can neither be held
        against the candidate nor be called right."""
        beyond = [self.observables.items[place] for place in self.beyond]
        resized = [one for one in beyond if one.both and math.isinf(self.observables.distance(one))]
        resized = [one for one in resized if not self.observables.same_size(one)]
        given = [one for one in self.observables.given_away() if one.both and self.observables.same_size(one)]
        if not given or not self._agree_loosely(one for one in beyond if one not in resized):
            return False
        if resized:
            shapes = " and ".join(str(list(shape)) for shape in self.observables.shapes(resized[0]))
            self.undecided = (
                f"the two compute with tensors of other sizes: {len(resized)} of {len(given) + len(resized)} values "
                f"that they give away cannot be laid side by side ({resized[0].name}: {shapes}); the others agree"
            )
        return True

    @cached_property
    def _all_loose(self) -> bool:
        for leaf in self.results_beyond:
            unit = self.table.tensor_at(leaf).roundoff
            if self.joints.distance(leaf) > (LOOSE_HALF if unit > 1e-4 else LOOSE_SINGLE) * unit:
                return False
        return self._agree_loosely(self.observables.items[place] for place in self.beyond)

    def _agree_loosely(self, items: Iterable[Observable]) -> bool:
        """Whether all of these that are given away agree within what the whole of a program may add up to."""
        for one in items:
            if not one.both:
                return False
            if one.kind in ("update", "optimizer state"):
                continue
            distance, unit = self.observables.distance(one), self._working_unit(one)
            loose = (LOOSE_HALF if unit > 1e-4 else LOOSE_SINGLE) * unit
            if distance > loose and not self._is_noise(one, distance, unit):
                return False
        return bool(self.observables.items)

    @property
    def _ends_apart(self) -> bool:
        """Whether something that no later call takes up differs, or comes from calls that have no counterpart."""
        table, joints = self.table, self.joints
        for side, graph in enumerate(joints.graphs):
            for visit in graph.ends().tolist():
                leaf = joints.leaf_of(side, visit)
                if leaf == NONE:
                    return True
                if joints.distance(leaf) > LOOSE_SINGLE * max(table.tensor_at(leaf).roundoff, 2.0**-24):
                    return True
        return False


def _around(name: str) -> set[str]:
    """The module that a parameter belongs to, and the one around that, where it is not the whole model."""
    module = name.rpartition(".")[0]
    return {module, module.rpartition(".")[0]} - {""} or {""}
