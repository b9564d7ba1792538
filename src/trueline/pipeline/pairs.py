"""A training in mixed precision beside the same one in float32: same seeds, same batches.

Pairing takes the noise of the seeds away, which is far larger than what precision does to a healthy training. Four
things are compared: where both begin, the gradients (a loss scale that was never taken away shows there, whatever the
optimizer makes of it), how far the weights have gone, and how the loss ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean, median

from trueline.pipeline.history import Step, finite, read_history, training_facts
from trueline.pipelines import NumberFinding, StageRun, StageStatus
from trueline.records import Verdict

BEGINS_ALIKE = 0.05
"""The relative difference of the first losses, and of the first weights, up to which two trainings are a pair."""
LOST, GREW = 0.9, 1.15
"""Healthy trainings go 0.99 to 1.01 times as far as in float32, those with all weights in bfloat16 0.95 to 1.05."""
STUCK = 0.9
"""The share of elements that do not move late in a training, beyond which it goes on without moving."""
GRADIENTS = 4.0
"""Times the gradients of float32 that no rounding explains."""
NEAR_SCALE = 2.0
"""A ratio of gradients within this factor of the loss scale is the loss scale."""
WORSE_FAIL, WORSE_WARN = 0.25, 0.1
"""How much of what the loss has gained in float32 may be missing."""
CURVE = 0.05
"""The mean relative difference of two loss curves below which they are alike, wherever they end."""
_LEAST_STEPS = 2
_LATE = 8
"""The last eighth of the steps is late."""


def judge_pair(single: StageRun, lowered: StageRun) -> list[NumberFinding]:
    """What the pair says; ``single`` is the training in float32."""
    for run in (single, lowered):
        if run.result.status is not StageStatus.DONE:
            reason = f"{run.stage.name} did not end well ({run.result.status})"
            return [NumberFinding("pair", Verdict.NOT_COMPARED, reason)]
    histories = [read_history(run.probe) for run in (single, lowered)]
    for run, history in zip((single, lowered), histories, strict=True):
        if len(history) < _LEAST_STEPS:
            reason = f"{run.stage.name} noted {len(history)} steps; call trueline.probe.step(…) after each"
            return [NumberFinding("pair", Verdict.NOT_COMPARED, reason)]
    steps = min(len(history) for history in histories)
    theirs, mine = (history[:steps] for history in histories)
    if reason := _other_start(single, lowered) or _not_a_pair(theirs, mine):
        return [NumberFinding("pair", Verdict.NOT_COMPARED, reason)]
    stage = lowered.stage.name
    return [*_gradients(theirs, mine, stage), *_updates(theirs, mine, stage), *_losses(theirs, mine, stage)] or [
        NumberFinding("pair", Verdict.NOT_COMPARED, "neither losses nor weights were told to trueline.probe.step(…)")
    ]


def _other_start(single: StageRun, lowered: StageRun) -> str:
    """Whether the two begin with other weights, as far as ``probe.start`` told."""
    theirs, mine = (training_facts(run.probe).get("start") or [] for run in (single, lowered))
    size = math.hypot(*theirs)
    if len(theirs) != len(mine) or not size:
        return ""
    apart = math.dist(theirs, mine) / size
    if apart <= BEGINS_ALIKE:
        return ""
    return f"they are no pair: they begin with weights that differ by {apart:.2g}; give both the same seed"


def _not_a_pair(theirs: Sequence[Step], mine: Sequence[Step]) -> str:
    """Why the two cannot be compared; empty where they begin alike."""
    first = theirs[0].loss, mine[0].loss
    if first[0] is None or first[1] is None:
        return ""
    if not math.isfinite(first[0]):
        return "the training in float32 has no finite loss to begin with"
    if not math.isfinite(first[1]) or abs(first[1] - first[0]) <= BEGINS_ALIKE * max(abs(first[0]), 1e-12):
        return ""
    return (
        f"they are no pair: their first losses are {first[0]:.6g} and {first[1]:.6g}; give both the same seed and "
        "the same batches"
    )


def _gradients(theirs: Sequence[Step], mine: Sequence[Step], stage: str) -> Iterator[NumberFinding]:
    ratios = _ratios([step.gradient_norm for step in theirs], [step.gradient_norm for step in mine])
    if not ratios:
        return
    ratio = ratios[0]  # later on they are no longer at the same place
    scales = finite([step.scale for step in mine])
    numbers = {"ratio": ratio, **({"scale": median(scales)} if scales else {})}
    if scales and median(scales) > GRADIENTS and _near(ratio, median(scales)):
        reason = f"gradients are {ratio:.4g} times those of float32, which is the loss scale: they were not unscaled"
        yield NumberFinding("gradients", Verdict.FAIL, reason, stage, numbers)
    elif ratio > GRADIENTS or ratio < 1.0 / GRADIENTS:
        power = math.log2(ratio)
        scaled = abs(power - round(power)) < 0.1 and ratio > GRADIENTS
        hint = f" (about 2**{round(power)}: a loss scale that was not taken away)" if scaled else ""
        reason = f"gradients are {ratio:.4g} times those of float32{hint}"
        yield NumberFinding("gradients", Verdict.FAIL, reason, stage, numbers)
    else:
        yield NumberFinding("gradients", Verdict.PASS, f"{ratio:.4g} times those of float32", numbers=numbers)


def _near(ratio: float, scale: float) -> bool:
    return scale / NEAR_SCALE <= ratio <= scale * NEAR_SCALE


def _updates(theirs: Sequence[Step], mine: Sequence[Step], stage: str) -> Iterator[NumberFinding]:
    """How far the weights have gone. Steps that a loss scaler skipped are counted out of it: of two trainings, one of
    which made fewer steps, the ratio of the updates of the steps that both made is taken."""
    what = "update norm"
    far = [step.distance for step in theirs], [step.distance for step in mine]
    ends = _ratios(far[0], far[1])
    if not ends:
        return
    pairs = [(one, other) for one, other in zip(theirs, mine, strict=True) if not one.skipped and not other.skipped]
    each = _ratios([one.update_norm for one, _ in pairs], [other.update_norm for _, other in pairs])
    skipped = sum(step.skipped for step in mine) - sum(step.skipped for step in theirs)
    ratio = median(each) if skipped > 0 and each else ends[-1]
    late, usual = _late_stuck(mine), _late_stuck(theirs)
    numbers = {"ratio": ratio, "each": median(each) if each else math.nan, "skipped": float(skipped)}
    numbers |= {} if late is None else {"stuck": late}
    told = "" if late is None else f", and in the end {100 * late:.0f} % of the elements with a gradient do not move"
    sticks = late is not None and usual is not None and late > STUCK > 4.0 * usual
    if ratio < LOST or sticks:
        reason = f"the weights went {ratio:.3g} times as far as in float32{told}: updates are lost to rounding"
        yield NumberFinding(what, Verdict.FAIL, reason, stage, numbers)
    elif ratio > GREW:
        reason = f"the weights went {ratio:.4g} times as far as in float32: gradients or updates are too large"
        yield NumberFinding(what, Verdict.FAIL, reason, stage, numbers)
    else:
        yield NumberFinding(what, Verdict.PASS, f"{ratio:.4g} times that of float32", numbers=numbers)


def _late_stuck(steps: Sequence[Step]) -> float | None:
    """The share of elements with a gradient that do not move in a step towards the end, where rates are small."""
    shares = finite([step.stuck for step in steps if not step.skipped])
    return median(shares[-max(len(shares) // _LATE, 1) :]) if shares else None


def _losses(theirs: Sequence[Step], mine: Sequence[Step], stage: str) -> Iterator[NumberFinding]:
    pairs = [(one.loss, other.loss) for one, other in zip(theirs, mine, strict=True)
             if one.loss is not None and other.loss is not None]  # fmt: skip
    if not pairs:
        return
    what = "loss curve"
    bad = [number for number, (one, other) in enumerate(pairs) if math.isfinite(one) and not math.isfinite(other)]
    if bad:
        reason = f"the loss is not finite from step {bad[0]} on, in float32 it is"
        yield NumberFinding(what, Verdict.FAIL, reason, stage, {"bad": float(len(bad))})
        return
    kept = [(one, other) for one, other in pairs if math.isfinite(one)]
    if not kept:
        yield NumberFinding(what, Verdict.NOT_COMPARED, "the training in float32 has no finite loss")
        return
    size = fmean(abs(one) for one, _ in kept)
    apart = fmean(abs(other - one) for one, other in kept) / size if size else 0.0
    last = kept[-max(len(kept) // 4, 1) :]
    ends = fmean(one for one, _ in last), fmean(other for _, other in last)
    gained = max(abs(kept[0][0] - ends[0]), CURVE * abs(kept[0][0]))
    worse = (ends[1] - ends[0]) / gained if gained else 0.0
    numbers = {"apart": apart, "worse": worse, "end": ends[1], "end in float32": ends[0]}
    told = f"{100 * apart:.2g} % apart in the mean; it ends at {ends[1]:.5g}, in float32 at {ends[0]:.5g}"
    if apart > CURVE and worse > WORSE_FAIL:
        yield NumberFinding(what, Verdict.FAIL, told, stage, numbers)
    elif apart > CURVE and worse > WORSE_WARN:
        yield NumberFinding(what, Verdict.WARN, told, stage, numbers)
    else:
        yield NumberFinding(what, Verdict.PASS, told, numbers=numbers)


def _ratios(below: Sequence[float | None], above: Sequence[float | None]) -> list[float]:
    """Of each step that has both; NaN and infinity are a matter of their own."""
    return [
        two / one
        for one, two in zip(below, above, strict=True)
        if one is not None and two is not None and one > 0.0 and math.isfinite(one) and math.isfinite(two)
    ]
