"""What is asked of a stage by itself: that its probe is of this run, that it is in evaluation mode and repeats itself,
that samples do not depend on the size and the order of their batch, and that its outputs are numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

import numpy as np

from trueline.frameworks.probing import Leaf
from trueline.pipeline.gold import Allowed, Error, blind_error, error_of, sane_error
from trueline.pipeline.power import MOVED, power_of
from trueline.pipeline.recording import Section, doubles, readable
from trueline.pipeline.sides import Asked, Side, Yardstick
from trueline.pipelines import NumberFinding
from trueline.records import Verdict

_TWICE = 2.0
"""Two executions, each with an error of its own."""


def judge_alone(side: Side, asked: Asked, yardstick: Yardstick | None, trusted: Side | None) -> Iterator[NumberFinding]:
    """The stage by itself. ``yardstick`` is that of its chain, ``trusted`` the stage before it, where there is one."""
    stale = _stale(side)
    if stale:
        yield NumberFinding(side.what("file"), Verdict.FAIL, stale, side.stage)
        return
    if problem := readable(side.point):
        yield NumberFinding(side.what("probe"), Verdict.NOT_COMPARED, problem)
        return
    if side.raised:
        if trusted is None:
            yield NumberFinding(side.what("outputs"), Verdict.FAIL, f"it raised {side.raised}", side.stage)
        return
    judge = _Alone(side, asked, yardstick)
    changes = [judge.again(), *judge.sizes(), judge.order(), judge.eager()]
    yield from (found for found in (judge.finite(trusted), *changes, judge.power()) if found is not None)
    if side.point.facts.get("training"):
        harm = any(found is not None and found.verdict >= Verdict.FAIL for found in changes)
        reason = "the model is in training mode; call .eval() before it is used"
        verdict = Verdict.FAIL if harm else Verdict.WARN
        yield NumberFinding(side.what("mode"), verdict, reason, side.stage)


def _stale(side: Side) -> str:
    """Why a probe is not of this run; empty where it is."""
    facts = side.point.facts
    stage, created = str(facts.get("stage") or ""), str(facts.get("created") or "")
    if stage and stage != side.stage:
        return f"the probe in its folder was left by {stage}"
    try:
        if side.started and created and datetime.fromisoformat(created) < datetime.fromisoformat(side.started):
            return f"its probe is stale: written {created}, before the stage began ({side.started})"
    except (ValueError, TypeError):
        return ""
    return ""


class _Alone:
    def __init__(self, side: Side, asked: Asked, yardstick: Yardstick | None) -> None:
        self._side = side
        self._asked = asked
        self._yardstick = yardstick
        self._first = side.batches[0]

    def again(self) -> NumberFinding | None:
        section = self._side.point.first("again")
        if section is None:
            return self._repeated_in_reverse()
        found = self._compared("repeated", section, None)
        if found.verdict >= Verdict.FAIL:
            reason = f"the same batch once more gives something else: {found.reason}; is a dropout still active?"
            return NumberFinding(found.what, found.verdict, reason, found.blamed, found.numbers)
        return found

    def _repeated_in_reverse(self) -> NumberFinding | None:
        """A probe does not ask for the same batch again where its reverse gave the same bits."""
        found = self.order()
        if found is None or found.verdict is not Verdict.PASS or found.numbers.get("error") != 0.0:
            return None
        return NumberFinding(self._side.what("repeated"), Verdict.PASS, "equal, in reverse", numbers=found.numbers)

    def sizes(self) -> Iterator[NumberFinding | None]:
        for name, sections in self._side.point.sections.items():
            if name.startswith("size "):
                count = int(name.removeprefix("size "))
                yield self._compared(f"batch {count}", sections[0], range(count))

    def order(self) -> NumberFinding | None:
        section = self._side.point.first("order")
        count = self._count()
        return None if section is None else self._compared("order", section, range(count - 1, -1, -1))

    def finite(self, trusted: Side | None) -> NumberFinding:
        what = self._side.what("finite")
        bad = _bad(self._side.outputs)
        if not bad:
            return NumberFinding(what, Verdict.PASS, "all outputs are finite")
        reason = f"{bad} elements of its outputs are NaN or infinite"
        if trusted is not None and not readable(trusted.point) and _bad(trusted.outputs) == bad:
            return NumberFinding(what, Verdict.WARN, f"{reason}, as in {trusted.name}", trusted.stage)
        return NumberFinding(what, Verdict.FAIL, reason, self._side.stage, {"bad": float(bad)})

    def eager(self) -> NumberFinding | None:
        """A model against itself in float64: whatever is not rounding is not precision."""
        point = self._side.point
        if point.facts.get("gold") != "" or point.first("gold") is None:
            return None
        own = Yardstick(point)
        worst = None
        for path in self._side.outputs:
            error = own.error(path)
            if error is not None and (worst is None or error.spread > worst.spread):
                worst = error
        if worst is None:
            return None
        limit = sane_error(own.dtype)
        numbers = {"error": worst.spread, "limit": limit}
        what = self._side.what("against float64")
        if worst.bad or worst.spread > limit:
            reason = (
                f"it is off by {worst.spread:.2g} from the same model in float64 and evaluation mode, which rounding"
            )
            return NumberFinding(what, Verdict.FAIL, f"{reason} does not explain (limit {limit:.2g})",
                                 self._side.stage, numbers)  # fmt: skip
        return NumberFinding(what, Verdict.PASS, f"off by {worst.spread:.2g}", numbers=numbers)

    def power(self) -> NumberFinding | None:
        """How many layers, moved by a tenth, show in the outputs."""
        power = power_of(self._side.point)
        if power is None:
            return None
        own = Yardstick(self._side.point)
        limits = [own.allowed(path, self._asked).spread for path in self._side.outputs if own.error(path) is not None]
        limit = max(limits, default=0.0)
        seen, what = len(power.layers) - len(power.unseen(limit)), self._side.what("power")
        numbers = {"seen": float(seen), "layers": float(len(power.layers)), "inputs": power.inputs or 0.0}
        text = f"{seen} of {len(power.layers)} layers show in its outputs when they are moved by {MOVED:.0%}"
        if blind := power.why_blind(limit):
            return NumberFinding(what, Verdict.NOT_COMPARED, f"its outputs cannot tell: {blind}", numbers=numbers)
        return NumberFinding(what, Verdict.PASS, text, numbers=numbers)

    def _count(self) -> int:
        first = next(iter(self._first.inputs.values()), None)
        return int(first.bits.shape[0]) if first is not None and first.bits.ndim else 0

    def _compared(self, subject: str, section: Section, rows: range | None) -> NumberFinding:
        """Another execution of the first batch, or of some of its samples."""
        what = self._side.what(subject)
        if section.raised:
            reason = f"it takes the whole batch but raises here: {section.raised}; is a shape built in?"
            return NumberFinding(what, Verdict.FAIL, reason, self._side.stage)
        worst: tuple[float, Error, str, Allowed] | None = None
        for path, leaf in self._first.outputs.items():
            other = section.outputs.get(path)
            right = doubles(leaf)
            if rows is not None:
                if not right.ndim or len(right) != self._count():
                    continue  # a sum over the batch, boxes that were found, …: it has no row for each sample
                right = right[list(rows)]
            if other is None or other.bits.shape != right.shape:
                shape = "missing" if other is None else f"of shape {list(other.bits.shape)}"
                reason = f"{path} is {shape} where {list(right.shape)} is expected: is the batch its first axis?"
                return NumberFinding(what, Verdict.FAIL, reason, self._side.stage)
            error, allowed = error_of(doubles(other), right), self._allowed(path, leaf)
            share = float("inf") if error.bad else error.spread / (_TWICE * allowed.spread)
            if worst is None or share > worst[0]:
                worst = (share, error, path, allowed)
        if worst is None:
            return NumberFinding(what, Verdict.NOT_COMPARED, "no output has a row for each sample")
        return self._judged(what, *worst)

    def _judged(self, what: str, share: float, error: Error, path: str, allowed: Allowed) -> NumberFinding:
        if share == 0.0:
            return NumberFinding(what, Verdict.PASS, "equal", numbers={"error": 0.0})
        limit = _TWICE * allowed.spread
        reason = f"{path} changes by {error.spread:.2g} (limit {limit:.2g}: {allowed.why})"
        if error.bad:
            reason = f"{path} changes: NaN or infinity in {error.bad} elements"
        numbers = {"error": error.spread, "limit": limit}
        if share > 1.0:
            return NumberFinding(what, Verdict.FAIL, reason, self._side.stage, numbers)
        return NumberFinding(what, Verdict.PASS, reason, numbers=numbers)

    def _allowed(self, path: str, leaf: Leaf) -> Allowed:
        if self._yardstick is not None and self._yardstick.error(path) is not None:
            return self._yardstick.allowed(path, self._asked)
        return blind_error(self._asked.coarsest([leaf]))


def _bad(leaves: Mapping[str, Leaf]) -> int:
    return sum(int(np.count_nonzero(~np.isfinite(doubles(leaf)))) for leaf in leaves.values())
