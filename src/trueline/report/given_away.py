"""What both programs give away (losses, outputs, gradients, updates and the like): how much of it was compared, how
many values differ, and which one by most."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trueline.records import ObservableComparison, Verdict
from trueline.report.phrases import Phrase, Phrases, counted
from trueline.report.sentences import as_phrase
from trueline.report.subject import ComparisonView
from trueline.report.wording import number

MOST = 200
"""So many of those that differ stand on a page."""
_BEGINNINGS = ("input", "parameter", "begin of buffer")
"""What a program begins with: in the files too, but not counted among what it gives away."""
_ONE = {
    "loss": Phrase("loss"), "output": Phrase("output"), "gradient": Phrase("gradient"), "update": Phrase("update"),
    "optimizer state": Phrase("optimizer state"), "buffer": Phrase("buffer"),
    "parameter": Phrase("parameter at the start"), "result": Phrase("result outside of all modules"),
}  # fmt: skip
_MANY = {
    "loss": Phrase("losses"), "output": Phrase("outputs"), "gradient": Phrase("gradients"),
    "update": Phrase("updates"), "optimizer state": Phrase("optimizer states"), "buffer": Phrase("buffers"),
    "result": Phrase("results outside of all modules"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class GivenAway:
    """``compared`` values were laid side by side or stand on one side where they should not; ``wrong`` of them differ
    by more than honest arithmetic explains; of ``missed`` nothing can be said."""

    compared: int
    wrong: int
    missed: int
    kinds: dict[str, tuple[int, int]]
    """Kind -> how many were compared, and how many of them are wrong."""
    largest: ObservableComparison | None
    steps: int
    ranks: int

    def sentence(self) -> str:
        """All of it in one sentence; empty where nothing is known of it."""
        if not self.compared and not self.missed:
            return ""
        told = [self._agreement(), *self._largest(), *self._missed()]
        return Phrases("; ", told)

    def _agreement(self) -> str:
        if not self.compared:
            return Phrase("nothing that the programs give away was compared")
        kinds = Phrases(", ", list(self._kinds()))
        if self.wrong:
            return counted(
                self.compared,
                "{wrong} of {n} value that the programs give away differs ({kinds})",
                "{wrong} of {n} values that the programs give away differ ({kinds})",
                wrong=self.wrong,
                kinds=kinds,
            )
        return counted(
            self.compared,
            "{n} value that the programs give away agrees ({kinds})",
            "{n} values that the programs give away agree ({kinds})",
            kinds=kinds,
        )

    def _kinds(self) -> Sequence[str]:
        found = []
        for kind, (compared, wrong) in self.kinds.items():
            if not compared:
                continue
            word = (_ONE if compared == 1 else _MANY).get(kind, kind)
            found.append(
                Phrase("{some} of {n} {kind}", some=wrong, n=compared, kind=word)
                if self.wrong
                else Phrase("{n} {kind}", n=compared, kind=word)
            )
        return found

    def _largest(self) -> Sequence[str]:
        one = self.largest
        if one is None:
            return []
        if not one.distance:
            return [Phrase("all of them are equal")]
        what = name_of(one, steps=self.steps > 1, ranks=self.ranks > 1)
        return [Phrase("the largest difference is {distance} ({what})", distance=number(one.distance), what=what)]

    def _missed(self) -> Sequence[str]:
        if not self.missed:
            return []
        return [counted(self.missed, "{n} was not compared", "{n} were not compared")]


def given_away(comparison: ComparisonView) -> GivenAway:
    """The sums over all ranks and steps."""
    items = [one for one in comparison.observables if one.kind not in _BEGINNINGS]
    compared = [one for one in items if one.verdict is not Verdict.NOT_COMPARED]
    all_of, wrong = Counter(one.kind for one in compared), Counter(one.kind for one in compared if _is_wrong(one))
    kinds = [*(kind for kind in _MANY if kind in all_of), *sorted(all_of.keys() - _MANY.keys())]
    return GivenAway(
        len(compared),
        sum(wrong.values()),
        len(items) - len(compared),
        {kind: (all_of[kind], wrong[kind]) for kind in kinds},
        max(compared, key=_size, default=None) if any(one.distance is not None for one in compared) else None,
        len({one.step for one in items}),
        len({one.rank for one in items}),
    )


def name_of(one: ObservableComparison, *, steps: bool = False, ranks: bool = False) -> str:
    """``gradient of layers.0.weight, step 1``."""
    word = _ONE.get(one.kind, one.kind)
    plain = one.name.partition(".")[0] in (one.kind, f"{one.kind}s")
    if plain:
        what = word
    elif one.kind in ("gradient", "update"):
        what = Phrase("{kind} of {name}", kind=word, name=one.name)
    else:
        what = Phrase("{kind} {name}", kind=word, name=one.name)
    if ranks:
        return Phrase("{what}, step {step}, rank {rank}", what=what, step=one.step, rank=one.rank)
    return Phrase("{what}, step {step}", what=what, step=one.step) if steps else what


def worst_first(observables: Sequence[ObservableComparison]) -> list[ObservableComparison]:
    """Those that are not equal, the worst first: wrong ones, those of which nothing can be said, honest ones; each by
    their distance."""
    told = [one for one in observables if one.verdict is not Verdict.PASS or one.distance]
    return sorted(told, key=lambda one: (-int(one.verdict), -_size(one)))


def given_dict(comparison: ComparisonView) -> dict[str, Any]:
    """The sums for a file."""
    sums = given_away(comparison)
    return {
        "sentence": sums.sentence(),
        "compared": sums.compared,
        "differ": sums.wrong,
        "not_compared": sums.missed,
        "kinds": {kind: {"compared": every, "differ": wrong} for kind, (every, wrong) in sums.kinds.items()},
    }


def given_page(comparison: ComparisonView) -> dict[str, Any]:
    """The same for a page, with the rows of its table: kind, name, step, rank, distance, whether that is an estimate,
    verdict, reason."""
    rows = worst_first(comparison.observables)
    return {
        **given_dict(comparison),
        "rows": [
            [
                _ONE.get(one.kind, one.kind), one.name, one.step, one.rank, _distance(one), one.estimated,
                one.verdict.name, as_phrase(one.reason),
            ]
            for one in rows[:MOST]
        ],
        "more": max(0, len(rows) - MOST),
    }  # fmt: skip


def _distance(one: ObservableComparison) -> float | str | None:
    return one.distance if one.distance is None or math.isfinite(one.distance) else str(one.distance)


def _is_wrong(one: ObservableComparison) -> bool:
    return one.verdict >= Verdict.FAIL


def _size(one: ObservableComparison) -> float:
    return -1.0 if one.distance is None or math.isnan(one.distance) else one.distance
