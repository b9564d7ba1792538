"""Proof of precision: that a training asked for mixed precision really had it.

Three things are looked at: the operators that ran in a step of the training, the dtypes of the parameters, and whether
the checkpoint differs from that of the same training in float32. Where a device lowers nothing, as Paddle does on the
CPU, mixed precision did not take place: that is no pass, and a failure only where the program never asked for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from trueline.dtypes import DTYPES
from trueline.pipeline.history import finite, read_history, training_facts
from trueline.pipeline.recording import CHECKPOINT_FILE, Point, points_in, read_lines, readable
from trueline.pipelines import NumberFinding, StageRun, StageStatus
from trueline.records import Verdict

NO_LEVEL = ("", "fp32", "float32", "O0")
_STUCK_FAIL, _STUCK_WARN = 0.95, 0.5
"""Shares of the elements with a gradient that do not move in a step of the middle."""
_SKIPPED_FAIL, _SKIPPED_WARN = 0.5, 0.2
_LEAST_SCALE = 1.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What a stage told of the precision in which it worked."""

    low: Mapping[str, int]
    other: Mapping[str, int]
    parameters: Mapping[str, int]
    asked: bool | None
    """Whether the program was inside autocast; None where nobody could see that."""
    unsupported: str
    masters: bool = False


def prove_level(candidate: StageRun, reference: StageRun | None = None) -> list[NumberFinding]:
    """Whether a training worked in the precision that its stage asks for. ``reference`` is the same training in
    float32, where there is one."""
    level, stage = candidate.stage.precision, candidate.stage.name
    if candidate.result.status is not StageStatus.DONE:
        reason = f"{stage} did not end well ({candidate.result.status})"
        return [NumberFinding("precision", Verdict.NOT_COMPARED, reason)]
    seen = _seen(candidate.probe)
    if seen is None:
        reason = (
            f"{stage} asks for {level} and gives no proof: call trueline.probe.step(…) in at least two of its steps"
        )
        return [NumberFinding("precision", Verdict.NOT_COMPARED, reason)]
    found = [_operators(seen, level, stage), *_parameters(seen, level, stage)]
    if reference is not None and level not in NO_LEVEL:
        found += _checkpoints(candidate, reference, seen)
    return [*found, *_health(candidate)]


def _seen(folder: Path) -> Seen | None:
    """What the counted step of the training says; without one, what its evaluation says."""
    points = [point for point in points_in(folder) if not readable(point)]
    parameters = dict(points[-1].facts.get("parameters") or {}) if points else {}
    facts = training_facts(folder)
    if "low" in facts:
        counts = dict(facts.get("parameters") or parameters)
        asked = bool((facts.get("autocast") or {}).get("asked")) if facts.get("parameters") else None
        return Seen(facts["low"], facts.get("other") or {}, counts, asked, str(facts.get("unsupported") or ""),
                    bool(facts.get("masters")))  # fmt: skip
    if not points or not (points[-1].facts.get("low") or points[-1].facts.get("other")):
        return None
    last = points[-1].facts
    asked = bool((last.get("autocast") or {}).get("asked")) or None
    return Seen(last.get("low") or {}, last.get("other") or {}, parameters, asked, str(last.get("unsupported") or ""))


def _operators(seen: Seen, level: str, stage: str) -> NumberFinding:
    what = "low-precision ops"
    low, other = sum(seen.low.values()), sum(seen.other.values())
    numbers = {"low": float(low), "other": float(other)}
    if level in NO_LEVEL:
        if not low:
            return NumberFinding(what, Verdict.PASS, f"none of {other} operators ran in low precision", numbers=numbers)
        reason = f"{low} operators ran in low precision ({_some(seen.low)}), though float32 was asked for"
        return NumberFinding(what, Verdict.FAIL, reason, stage, numbers)
    if low:
        reason = f"{low} of {low + other} operators ran in low precision ({_some(seen.low)})"
        return NumberFinding(what, Verdict.PASS, reason, numbers=numbers)
    if not other:
        return NumberFinding(what, Verdict.NOT_COMPARED, "no operator was counted in the step that was watched")
    missing = f"{level} did not take place: none of {other} operators ran in low precision"
    if seen.unsupported and seen.asked is not False:
        return NumberFinding(what, Verdict.NOT_COMPARED, f"UNSUPPORTED: {missing}; {seen.unsupported}", numbers=numbers)
    cause = "the program never entered autocast" if seen.asked is False else "autocast lowered nothing"
    return NumberFinding(what, Verdict.FAIL, f"{missing}; {cause}", stage, numbers)


def _parameters(seen: Seen, level: str, stage: str) -> Iterator[NumberFinding]:
    counts = {name: count for name, count in seen.parameters.items() if name in DTYPES and DTYPES[name].is_float}
    if not counts:
        return
    what = "parameter dtypes"
    narrow = sum(count for name, count in counts.items() if DTYPES[name].itemsize < 4)
    told = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    numbers = {"narrow": float(narrow), "count": float(sum(counts.values())), "masters": float(seen.masters)}
    if level == "O2" and not narrow:
        if seen.unsupported and seen.asked is not False:
            yield NumberFinding(what, Verdict.NOT_COMPARED, f"{told}; {seen.unsupported}", numbers=numbers)
        else:
            reason = f"O2 casts parameters, but they are {told}: the model was not decorated"
            yield NumberFinding(what, Verdict.FAIL, reason, stage, numbers)
    elif level in (*NO_LEVEL, "O1") and narrow:
        reason = f"{level or 'float32'} keeps parameters in float32, but they are {told}"
        yield NumberFinding(what, Verdict.FAIL, reason, stage, numbers)
    else:
        yield NumberFinding(what, Verdict.PASS, told, numbers=numbers)


def _checkpoints(candidate: StageRun, reference: StageRun, seen: Seen) -> Iterator[NumberFinding]:
    """A training in another precision that ends in the very same weights did not work in another precision."""
    same = _same_files(candidate.probe, reference.probe)
    if same is None:
        same = _same_weights(candidate.probe, reference.probe)
    if same is None:
        return
    what = "checkpoint"
    if not same:
        yield NumberFinding(what, Verdict.PASS, f"differs from that of {reference.stage.name}")
    elif seen.unsupported and seen.asked is not False:
        reason = f"identical to that of {reference.stage.name}, as mixed precision did not take place"
        yield NumberFinding(what, Verdict.NOT_COMPARED, reason)
    else:
        reason = f"identical to that of {reference.stage.name}: mixed precision had no effect"
        yield NumberFinding(what, Verdict.FAIL, reason, candidate.stage.name)


def _same_files(mine: Path, theirs: Path) -> bool | None:
    last = [{Path(str(line.get("path"))).name: line.get("sha256") for line in read_lines(folder / CHECKPOINT_FILE)}
            for folder in (mine, theirs)]  # fmt: skip
    common = last[0].keys() & last[1].keys()
    return any(last[0][name] == last[1][name] for name in common) if common else None


def _same_weights(mine: Path, theirs: Path) -> bool | None:
    both: list[Point] = []
    for folder in (mine, theirs):
        readable_ones = [point for point in points_in(folder) if not readable(point) and point.parameters]
        both += readable_ones[-1:]
    if len(both) < 2:
        return None
    digests = [{name: (one.dtype, one.digest) for name, one in point.parameters.items()} for point in both]
    return digests[0] == digests[1]


def _health(run: StageRun) -> Iterator[NumberFinding]:
    """What the history of a training shows without another one beside it."""
    history = read_history(run.probe)
    stage = run.stage.name
    losses = [step.loss for step in history if step.loss is not None]
    if losses and not math.isfinite(losses[-1]):
        first = next(number for number, loss in enumerate(losses) if not math.isfinite(loss))
        yield NumberFinding("loss", Verdict.FAIL, f"the loss is not finite from step {first} on", stage)
    if not history:
        return
    yield from _skips(run)
    stuck = finite([step.stuck for step in history if not step.skipped])
    if stuck and median(stuck) > _STUCK_WARN:
        share = median(stuck)
        reason = (
            f"{100 * share:.0f} % of the elements with a gradient do not move in a step: updates are lost to rounding"
        )
        verdict = Verdict.FAIL if share > _STUCK_FAIL else Verdict.WARN
        yield NumberFinding("lost updates", verdict, reason, stage, {"stuck": share})


def _skips(run: StageRun) -> Iterator[NumberFinding]:
    history = read_history(run.probe)
    scales = finite([step.scale for step in history])
    skipped = sum(step.skipped for step in history)
    if not scales and not skipped:
        return
    share = skipped / len(history)
    numbers = {"skipped": float(skipped), "steps": float(len(history))}
    if scales:
        numbers |= {"first scale": scales[0], "last scale": scales[-1]}
    told = f"{skipped} of {len(history)} steps were skipped" + (
        f"; the loss scale went from {scales[0]:g} to {scales[-1]:g}" if scales else ""
    )
    if share > _SKIPPED_FAIL or (scales and scales[-1] < _LEAST_SCALE):
        yield NumberFinding("loss scale", Verdict.FAIL, told, run.stage.name, numbers)
    elif share > _SKIPPED_WARN:
        yield NumberFinding("loss scale", Verdict.WARN, told, run.stage.name, numbers)
    else:
        yield NumberFinding("loss scale", Verdict.PASS, told, numbers=numbers)


def _some(counts: Mapping[str, int]) -> str:
    names = sorted(counts, key=lambda name: -counts[name])
    return ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
