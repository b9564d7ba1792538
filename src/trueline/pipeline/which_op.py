"""Which operator: the first call in which two stages part, and the fewest to be kept in float32.

The first is told by two captures of the same probe batch and our own comparison of Runs. The second is a search by
halves over what autocast lowered: operators are put back into it as long as the outputs stay within the limit, so that
of those which are left none can be spared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from trueline.diagnose import Comparison, compare_runs
from trueline.errors import TruelineError
from trueline.ops.facts import Kind, facts_of
from trueline.pipeline.recording import CALLS_SUFFIX, KERNELS_SUFFIX, points_in
from trueline.pipelines import TO_KEEP, NumberFinding, StageRun
from trueline.records import Call, CallComparison, Role, Verdict
from trueline.store.reader import open_run

MOST_TRIALS = 200

_WHAT = "first operator"
_NOISE = 1e-4
"""Relative differences up to which calls are taken to agree where no standard says otherwise."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a search for operators to keep in float32 found. ``enough`` is False where keeping all of them does not
    bring the outputs within the limit: something else is wrong."""

    names: tuple[str, ...]
    enough: bool
    error_before: float
    error_after: float
    limit: float
    trials: int
    reason: str = ""


def fewest_to_keep(error_with: Callable[[frozenset[str]], float], names: Sequence[str], limit: float) -> Kept:
    """The fewest of ``names`` that must be kept in float32 so that the error is within ``limit``; ``error_with`` runs
    the model with some of them kept. None of those that are found can be left out (there may be another set of the same
    or a smaller size: not all are tried)."""
    search = _Search(error_with, limit)
    before = search.error(frozenset())
    if before <= limit:
        return Kept((), True, before, before, limit, search.trials, "nothing needs to be kept")
    everything = frozenset(names)
    if not everything or search.error(everything) > limit:
        after = search.error(everything)
        reason = "keeping every operator in float32 does not bring it within the limit: precision is not the cause"
        return Kept(tuple(sorted(everything)), False, before, after, limit, search.trials, reason)
    kept = search.reduced(sorted(everything))
    stopped = f"stopped after {MOST_TRIALS} trials" if search.trials >= MOST_TRIALS else ""
    return Kept(tuple(kept), True, before, search.error(frozenset(kept)), limit, search.trials, stopped)


class _Search:
    """Delta debugging: leaves out ever smaller parts as long as what is left is enough."""

    def __init__(self, error_with: Callable[[frozenset[str]], float], limit: float) -> None:
        self._error_with = error_with
        self._limit = limit
        self._known: dict[frozenset[str], float] = {}

    @property
    def trials(self) -> int:
        return len(self._known)

    def error(self, names: frozenset[str]) -> float:
        if names not in self._known:
            self._known[names] = self._error_with(names)
        return self._known[names]

    def reduced(self, names: list[str]) -> list[str]:
        parts = 2
        while names and self.trials < MOST_TRIALS:
            smaller = self._smaller(names, min(parts, len(names)))
            if smaller is not None:
                names, parts = smaller, max(parts - 1, 2)
            elif parts >= len(names):
                break
            else:
                parts = min(2 * parts, len(names))
        return names

    def _smaller(self, names: list[str], parts: int) -> list[str] | None:
        """The first part that is enough alone, or the rest without the first part that can be spared."""
        pieces = [names[number * len(names) // parts : (number + 1) * len(names) // parts] for number in range(parts)]
        rests = [[name for name in names if name not in piece] for piece in pieces]
        for candidate in (*(pieces if parts > 1 else ()), *rests):
            if len(candidate) < len(names) and self.error(frozenset(candidate)) <= self._limit:
                return candidate
        return None


def name_first_op(reference: StageRun, candidate: StageRun) -> NumberFinding:
    """Compares the calls of two stages on the probe batch and names the first that parts. Both must have run with
    ``TRUELINE_PROBE_CAPTURE=1``. Where their calls have no counterparts, as those of an exported model, or the first is
    one that holds others, as that of a script, the kernels below them are compared."""
    found = [_compared(reference, candidate, suffix) for suffix in (CALLS_SUFFIX, KERNELS_SUFFIX)]
    failing = [one for one in found if one[0].verdict is Verdict.FAIL] or found
    return max(failing, key=lambda one: one[1])[0]


def ops_to_keep(stage: StageRun) -> NumberFinding:
    """The operators that a stage found must be kept in float32. It must have run with ``TRUELINE_PROBE_KEEP``, the
    relative error of the outputs that is wanted."""
    facts = [point.facts for point in points_in(stage.probe)]
    sought = [one["keep"] for one in facts if one.get("keep")]
    if not sought:
        why = next((one["not kept"] for one in facts if one.get("not kept")), "it left no probe, or was not asked to")
        return NumberFinding(TO_KEEP, Verdict.NOT_COMPARED, f"{stage.stage.name} searched for none: {why}")
    found = sought[-1]
    errors = f"the error is {found['error_before']:.2g} with none of them, {found['error_after']:.2g} with these"
    reason = f"{', '.join(found['names']) or 'none'}; {errors}, limit {found['limit']:.2g}"
    if found["reason"]:
        reason += f"; {found['reason']}"
    numbers = {"count": float(len(found["names"])), "error": found["error_after"], "trials": float(found["trials"])}
    if found["enough"]:
        return NumberFinding(TO_KEEP, Verdict.PASS, reason, numbers=numbers)
    return NumberFinding(TO_KEEP, Verdict.FAIL, reason, stage.stage.name, numbers)


def _compared(reference: StageRun, candidate: StageRun, suffix: str) -> tuple[NumberFinding, bool]:
    """What one kind of calls says, and whether that needs no second opinion."""
    runs = []
    for stage in (reference, candidate):
        run = _calls_of(stage.probe, suffix)
        if run is None:
            reason = f"{stage.stage.name} left no calls of its probe: what it runs shows none, or it has no hook"
            return NumberFinding(_WHAT, Verdict.NOT_COMPARED, reason), False
        runs.append(run)
    try:
        with compare_runs(runs[0], runs[1]) as comparison:
            finding = _named(comparison, candidate.stage.name)
            return finding, _is_certain(comparison)
    except TruelineError as error:
        return NumberFinding(_WHAT, Verdict.NOT_COMPARED, str(error)), False


def _is_certain(comparison: Comparison) -> bool:
    """Whether a comparison needs no second opinion: nothing differs, or what does is an operator that is known, or was
    shown to be wrong by a replay."""
    origin = comparison.origin
    if origin is None:
        return comparison.verdict is Verdict.PASS
    return origin.confirmed is not None or facts_of(origin.comparison.call.api).kind is not Kind.OTHER


def _named(comparison: Comparison, blamed: str) -> NumberFinding:
    origin = comparison.origin
    if origin is not None:
        return NumberFinding(_WHAT, Verdict.FAIL, origin.explanation, blamed, _distances(origin.comparison))
    before: CallComparison | None = None
    for row in comparison.calls:
        if row.output_distance > _NOISE:
            return NumberFinding(_WHAT, Verdict.FAIL, _given_otherwise(row, before), blamed, _distances(row))
        before = row
    if comparison.verdict is Verdict.PASS:
        reason = f"all {len(comparison.calls)} calls on the probe batch agree: what differs is what they are given"
        return NumberFinding(_WHAT, Verdict.PASS, reason)
    counts = comparison.unmatched
    reason = (
        f"no call could be named; {counts['extra']} calls of the candidate and {counts['missing']} of the reference"
    )
    return NumberFinding(_WHAT, Verdict.NOT_COMPARED, f"{reason} have no counterpart")


def _given_otherwise(row: CallComparison, before: CallComparison | None) -> str:
    """The first call that gives something else, and does so because it is given something else: by a call before it
    that has no counterpart, or by weights that are not the same."""
    if before is not None and (before.reference is None or before.candidate is None):
        return f"{_place(before.call)}, which has no counterpart: {_place(row.call)} after it is given something else"
    other = max((one for one in row.tensors if one.role is not Role.OUTPUT and one.distance),
                key=lambda one: one.distance or 0.0, default=None)  # fmt: skip
    if other is None:
        return f"{_place(row.call)}: its result differs by {row.output_distance:.2g}"
    given = f"is given another {other.path}, which differs by {other.distance:.2g}"
    return f"{_place(row.call)} {given}: its weights, or what the program computes outside of the framework"


def _place(call: Call) -> str:
    module = f" in {call.module}" if call.module else ""
    source = f" at {call.source}" if call.source else ""
    return f"{call.api} (call {call.index}{module}{source})"


def _distances(row: CallComparison) -> dict[str, float]:
    return {"input distance": row.input_distance, "output distance": row.output_distance}


def _calls_of(folder: Path, suffix: str) -> Path | None:
    """The calls that a stage kept last; None where it kept none."""
    found = [path for path in folder.glob(f"*{suffix}") if (path / "run.json").exists()]
    last = max(found, key=lambda path: path.stat().st_mtime_ns, default=None)
    if last is None:
        return None
    with open_run(last) as run:
        return last if any(run.rank(rank).call_count for rank in run.ranks) else None
