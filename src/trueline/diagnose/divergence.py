"""The first place at which the two programs part, of one rank: walked in the order of time, from what they begin with
to what they give away.

What may part there: a call that computes something else from the same values, or was asked otherwise; a region, where
the two write the same in other calls, or do not; a value from outside (data, parameters, buffers); random numbers; an
update of a parameter that its gradient does not explain; something that only one side has. Whatever lies behind it is
explained by it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

import numpy as np

from trueline.compare import Match
from trueline.diagnose.adding import Added
from trueline.diagnose.confirm import Trial
from trueline.diagnose.finding import FREEDOM, LOOSE_HALF, LOOSE_SINGLE, SKETCH, Divergence, present, some
from trueline.diagnose.joints import Region
from trueline.diagnose.observables import Observable
from trueline.diagnose.recognition import FEWEST
from trueline.diagnose.retelling import Retelling
from trueline.diagnose.updating import Update, Updates, common_factor
from trueline.ops.facts import Kind
from trueline.records import Phase, Verdict
from trueline.store.columns import NONE

_JOINTS = 4000
"""So many joints are looked at; by then something has gone wrong."""
_EQUAL = 1e-5
_AGAIN = 32
"""So many places in a row at which the two do not agree again, and they have parted."""


class Divergences(Retelling):
    """Looks for it in one rank. ``court`` replays calls and regions; None where that is not possible or not wanted."""

    def first(self) -> Divergence | None:
        """The first divergence that what the programs give away depends on, else the first of all."""
        found = self._first()
        return None if found is None else self._of_forward(found) or found

    def _first(self) -> Divergence | None:
        spare: Divergence | None = None
        waiting = [(when, number, one) for when, number, one in self._suspicions()]
        heapq.heapify(waiting)
        self._number = len(waiting)
        pending: Divergence | None = None
        parted: Divergence | None = None
        met, proven = 0, False  # whether two that parted were shown never to agree again
        while waiting:
            _, _, suspicion = heapq.heappop(waiting)
            found = self._look(suspicion, again=self._partings.first)
            if found is None:
                continue
            if not self._matters(found):
                spare = spare or found
                continue
            way = self._way_to(found)
            if self._choices.explains(found, way):
                self._note_choice()
                for when, one in self._given_up(found):
                    self._number += 1
                    heapq.heappush(waiting, (when, self._number, one))
                continue
            self._partings.meet(found, way)
            met += 1
            if found.certain or self._partings.in_a_row > _AGAIN:
                pending = self._partings.first
                break
            followed = list(self._given_up(found))
            self._partings.in_a_row += bool(followed)  # where nobody follows, nobody can agree again
            proven |= not followed and self._proves_another(found)
            for when, one in followed:
                self._number += 1
                heapq.heappush(waiting, (when, self._number, one))
        else:
            parted = self._partings.first
        sizes = pending is not None and pending.other_size and self._partings.leaning is None
        if sizes and self._loose_but_for_sizes():
            parted, pending = None, None
        if pending is not None:
            return self._of_graphs(pending) or self._of_lonely(pending) or pending
        if parted is not None and (not self._all_loose if self.observables.items else self._ends_apart):
            return parted
        single = parted is not None and max(len(parted.reference), len(parted.candidate)) == 1
        single = single and parted is not None and parted.kind in ("call", "argument", "region")
        if parted is not None and not self._joined_again and (proven or (single and met > 1)):
            return parted  # never the same again: coarse rounding hides how far it goes
        if parted is not None and (leaning := self._partings.leaning) is not None:
            return leaning
        if self.undecided:
            return None
        if lost := self._not_believed:
            return spare or self._asked_otherwise(lost[0]) or self._nearest(lost[0])
        if self._by_parameter and (asked := self._asked_otherwise(None)) is not None:
            return asked
        return spare if self._differs and not self.observables.items else None

    def _proves_another(self, found: Divergence) -> bool:
        """Whether a replay showed other mathematics, and not two numbers that were laid side by side by chance."""
        if found.trial is None or not found.trial.proves_another:
            return False
        pair = NONE if found.leaf == NONE else int(self.table.pair[found.leaf])
        return pair == NONE or int(self.table.measured["count"][pair]) >= FEWEST

    def _way_to(self, found: Divergence) -> Region | None:
        """What lies behind a place at which the two part; behind the gradient of a parameter, what it was summed from.
        None where nobody knows."""
        if found.leaf != NONE:
            return self.joints.region(found.leaf)
        for one in found.items:
            if one.both:
                left, right = self._parts_of(one)
                here, there = self.observables.values(one)
                return self.joints.region_of_all((left or [here], right or [there]), self._row_at(one.when))
        return None

    def _given_up(self, found: Divergence) -> Iterator[tuple[float, Any]]:
        """Takes the calls of a row for no counterparts any more, and gives what is to be looked at for it: who takes
        what they gave. Where the two programs only write the same in another way, they soon agree again."""
        rows = [found.row, *self.joints.backward_rows(found.row)]
        for leaf in self.joints.give_up(rows, found.leaf).tolist():
            row = int(self.table.leaves.row[leaf])
            if not (self._by_parameter and self.table.in_optimizer[row]):
                yield self.when(row), ("joint", leaf)

    def _nearest(self, lost: Observable) -> Divergence:
        """Where nothing stands out, the call that makes the most of what arrives at it."""
        table = self.table
        arrives = np.maximum(table.input_distance, 1e-7)
        growth = np.where(np.isfinite(table.output_distance), table.output_distance / arrives, 0.0)
        growth[(table.alignment.match > int(Match.RENAMED)) | (self._times > lost.when)] = 0.0
        growth[self._kinds(Kind.UNDEFINED)] = 0.0
        row = int(np.argmax(growth)) if len(growth) else 0
        name = f"the {lost.kind} {lost.name}"
        return Divergence(
            "call",
            row,
            f"{name} differs by {self.observables.distance(lost):.2g}, more than rounding explains; this call makes "
            "the most of what arrives at it",
            *present(self._positions(row)),
            headline=f"{name} differs",
            step=lost.step,
            items=(lost,),
            certain=True,
        )

    def _suspicions(self) -> Iterator[tuple[float, int, Any]]:
        """What to look at: when, a number that keeps the order, and what."""
        table = self.table
        wrong = table.verdict >= int(Verdict.FAIL)
        wrong |= (table.verdict == int(Verdict.WARN)) & self._random
        # Equal values that became tensors of other sizes.
        wrong |= table.other_size & (table.input_distance <= _EQUAL)
        if self._by_parameter:
            wrong &= ~self.table.in_optimizer
        wrong &= table.alignment.match <= int(Match.FUSED)
        wrong &= ~self._kinds(Kind.UNDEFINED)  # memory that nobody has written explains nothing
        number = 0
        for row in np.flatnonzero(wrong).tolist():
            yield self.when(row) + 0.5, (number := number + 1), row
        for leaf in self.joints.leaves[:_JOINTS].tolist():
            if not (self._by_parameter and self.table.in_optimizer[int(table.leaves.row[leaf])]):
                yield self.when(int(table.leaves.row[leaf])), (number := number + 1), ("joint", leaf)
        for leaf in self.joints.sources.tolist():
            if self.joints.distance(leaf) > 0.0:
                yield self.when(int(table.leaves.row[leaf])) - 0.25, (number := number + 1), ("source", leaf)
        for leaf in self._coarser.tolist():
            yield self.when(int(table.leaves.row[leaf])) - 0.125, (number := number + 1), ("precision", leaf)
        for place in self.beyond:
            yield float(self.observables.items[place].when), (number := number + 1), ("observable", place)
        for step in sorted({one.step for one in self.observables.items if one.kind == "update"}):
            last = max(one.when for one in self.observables.items if one.kind == "update" and one.step == step)
            yield last - 0.125, (number := number + 1), ("updates", step)

    def _look(self, suspicion: Any, *, again: Divergence | None) -> Divergence | None:
        """``again``: where the two have parted before; they may agree again by now."""
        if isinstance(suspicion, int):
            return None if self.joints.given_up(suspicion) else self._call(suspicion)
        what, value = suspicion
        if what in ("joint", "source") and self.joints.given_up(int(self.table.leaves.row[value])):
            return None
        if what == "joint":
            return self._joint(value, again=again)
        looks = {
            "source": self._source,
            "precision": self._precision,
            "observable": self._observable,
            "updates": self._updates,
        }
        return looks[what](value)  # type: ignore[no-any-return,operator]

    def _call(self, row: int) -> Divergence | None:
        table = self.table
        positions = (int(table.alignment.reference[row]), int(table.alignment.candidate[row]))
        reason = table.reasons[int(table.reason[row])]
        changes = self._changes(row)
        trial = None
        resized = table.verdict[row] < int(Verdict.FAIL) and not self._random[row]
        if resized:
            reason = "it gives a tensor of another size, from equal values"
        if self._court is not None and not resized:
            trial = self._court.try_row(row)
            if trial.guilty is False and not changes and not self._shaped_otherwise(row):
                self.acquitted[row] = trial
                return None
            if trial.guilty is False:
                told = f"each side computed rightly what it was asked for, but was asked differently: {trial.reason}"
                trial = Trial(None, told, trial.evidence)
        if (trial is None or trial.guilty is None) and self._gives_the_same(row):
            return None
        kind = "argument" if changes else "call"
        if self._random[row] and not changes and table.phase(row) is Phase.FORWARD:
            kind = "randomness"
        return Divergence(
            kind,
            row,
            reason,
            *present(positions),
            headline="; ".join(changes[:3]),
            trial=trial,
            changes=tuple(changes),
            shift=float(table.output_distance[row]),
            certain=kind == "randomness" or (kind == "call" and trial is not None and bool(trial.guilty)),
        )

    def _gives_the_same(self, row: int) -> bool:
        """Whether a call was asked otherwise, and gave the same for all that: nothing comes of it."""
        table, compared = self.table, False
        for leaf in range(int(table.first_leaf[row]), int(table.last_leaf[row])):
            if not table.leaves.output[leaf]:
                continue
            visits = int(table.leaves.reference[leaf]), int(table.leaves.candidate[leaf])
            if table.pair[leaf] == NONE or table.layout(0, visits[0]) != table.layout(1, visits[1]):
                return False
            measured = table.measured[int(table.pair[leaf])]
            compared = bool(measured["equal"]) and not measured["note"]
            if not compared:
                return False
        return compared

    def _shaped_otherwise(self, row: int) -> bool:
        """Whether the two were given the same elements in other shapes."""
        table = self.table
        inputs, _ = table.tensors(row)
        return any(one.measured and not one.same_shape for one in inputs)

    def _observable(self, place: int) -> Divergence | None:
        one = self.observables.items[place]
        if not one.both:
            return self._lonely(one)
        if one.kind == "update" or one.kind == "optimizer state":
            return None  # by parameter, below
        distance, unit = self.observables.distance(one), self._working_unit(one)
        values = self.observables.values(one)
        if one.kind == "parameter":
            if distance <= max(4.0 * self.observables.unit(one), SKETCH):
                return None
            return self._state_of(one, distance)
        if self.joints.same_maker(values) != NONE:
            self.explained[place] = "the same call made both, and was judged"
            return None
        if one.kind == "gradient" and self._cancels(one, distance, unit):
            self.explained[place] = "it cancels: the difference is rounding beside the other gradients of its module"
            return None
        row = self._row_at(one.when)
        region = self.joints.region_of(values, row)
        made = [self.joints.graphs[side].maker(value) for side, value in enumerate(values)]
        if NONE in made and not any(side.calls for side in region.sides):
            found = self._unmade(one, place, distance, unit)
        elif (found := self._judge_region(region, values, distance, unit)) is not None:
            found.names, found.items, found.step, found.certain = (one.name,), (one,), one.step, True
        else:
            self.explained[place] = "both sides compute the same, and differ by rounding"
        return None if found is None or self._follows_choice(one, distance) else found

    def _unmade(self, one: Observable, place: int, distance: float, unit: float) -> Divergence | None:
        """Something given away that no recorded call made as it is: a gradient that was summed up, or changed where
        nobody saw it."""
        parts = self._gradients(one)
        loose = (LOOSE_HALF if unit > 1e-4 else LOOSE_SINGLE) * unit
        if parts is not None:
            loose = max(loose if parts else 0.0, FREEDOM * parts + 8.0 * unit)
        if distance <= max(loose, SKETCH):
            self.explained[place] = "what it was made from differs by rounding"
            if parts:
                self._by_parts.add(place)
            return None
        return Divergence(
            "state" if one.kind in ("buffer",) else "call",
            self._row_at(one.when),
            f"the {one.kind} {one.name} differs by {distance:.2g}, where what it was made from explains {loose:.2g}",
            names=(one.name,),
            headline=f"the {one.kind} of {one.name} differs",
            distance=distance,
            limit=loose,
            step=one.step,
            items=(one,),
            certain=True,
        )

    def _updates(self, step: int) -> Divergence | None:
        found, what = self._of_updates(step), "updated"
        if not found and not self.table.across:  # what the optimizer keeps for the next step
            states = Updates(self.observables).states_of_step(step)
            found, what = [one for one in states if not one.explained], "made"
            if not found:
                added = Added(self.observables, self.joints.graphs).of_step(step)
                found, what = [one for one in added if not one.explained], "updated"
        if not found:
            return None
        worst = max(found, key=lambda one: one.distance)
        names = tuple(dict.fromkeys(one.item.name for one in found))
        row = self._optimizer_row(step)
        changes = self._changes(row) if row is not None else []
        at = self._row_at(worst.item.when) if row is None else row
        return Divergence(
            "update",
            at,
            f"{some(names)} {'are' if len(names) > 1 else 'is'} {what} otherwise: by up to {worst.distance:.2g} "
            f"({worst.item.name}), where the gradients explain {worst.limit:.2g}",
            *present(self._positions(at)),
            names=names,
            headline="; ".join(changes[:3])
            or (common_factor(found, some(list(names))) if what == "updated" else f"{some(names)} differs"),
            distance=worst.distance,
            limit=worst.limit,
            step=step,
            items=tuple(one.item for one in found),
            changes=tuple(changes),
            certain=True,
        )

    def _asked_otherwise(self, lost: Observable | None) -> Divergence | None:
        """Optimizers that were asked for something else, where their updates drown in the rounding of the parameters:
        what is ``lost`` later may come of it. Where nothing is, other numbers must have moved the parameters at all."""
        for step in [one for one in self.table.steps if lost is None or one <= lost.step]:
            updates = [one for one in self.observables.items if one.kind == "update" and one.step == step and one.both]
            row = self._optimizer_row(step)
            changes = [] if row is None else self._changes(row)
            if lost is None:
                changes = [one for one in changes if _is_of_numbers(one)]
                if not any(self.observables.distance(one) > 0.0 for one in updates):
                    continue
            if row is None or not changes:
                continue
            behind = f"{lost.kind} {lost.name}" if lost is not None else "parameters"
            apart = [self.observables.distance(one) for one in ([lost] if lost is not None else updates)]
            return Divergence(
                "update",
                row,
                f"the optimizer is asked otherwise, and the {behind} differ by up to {max(apart):.2g}",
                *present(self._positions(row)),
                names=tuple(dict.fromkeys(one.name for one in updates)),
                headline="; ".join(changes[:3]),
                step=step,
                items=() if lost is None else (lost,),
                changes=tuple(changes),
                certain=True,
            )
        return None

    def _of_updates(self, step: int) -> list[Update]:
        return [one for one in Updates(self.observables).of_step(step) if not one.explained]

    def _optimizer_row(self, step: int) -> int | None:
        """The first row of an optimizer in which the two were asked differently, else the first that does something
        else, else its first row."""
        rows = np.flatnonzero(self.table.in_optimizer & (self.table.step == step))
        for row in rows[:2000].tolist():
            if self._changes(row):
                return row
        wrong = rows[self.table.verdict[rows] >= int(Verdict.FAIL)]
        return int(wrong[0]) if len(wrong) else int(rows[0]) if len(rows) else None


def _is_of_numbers(change: str) -> bool:
    """Whether an argument is another number, and not the same one but for rounding."""
    here, _, there = change.rpartition(": ")[2].partition(" -> ")
    try:
        one, other = float(here), float(there)
    except ValueError:
        return False
    return abs(one - other) > 1e-6 * max(abs(one), abs(other))
