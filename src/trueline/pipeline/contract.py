"""The numeric contract of a pipeline: what its stages computed on the probe batch must agree.

``check_stage`` is called for every check of a plan. Two neighbours are compared in this order, and what fails first is
the cause of the rest: the stage by itself (in evaluation mode, repeatable, the same for every batch size, finite), its
inputs, its checkpoint and weights, the structure of its outputs, its outputs, labels and metrics.

Outputs that are equal to the last bit are well. Others are judged against the float64 gold, with eager's own error as
the yardstick (see ``gold``): the gold is the one that the nearest stage before it made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trueline.errors import UsageError
from trueline.pipeline.alone import judge_alone
from trueline.pipeline.answers import judge_answers, judge_metrics
from trueline.pipeline.explain import how_related
from trueline.pipeline.gold import Error, blind_error, error_of
from trueline.pipeline.lineage import judge_checkpoint, judge_parameters
from trueline.pipeline.pairs import judge_pair
from trueline.pipeline.power import power_of, why_blind
from trueline.pipeline.precision import prove_level
from trueline.pipeline.readers import judge_readings
from trueline.pipeline.recording import Point, doubles, points_in, readable
from trueline.pipeline.sides import Asked, Side, Yardstick, asked_alone, asked_of, side_of, yardstick_of
from trueline.pipelines import CheckKind, NumberFinding, Stage, StageKind, StageRun, StageStatus
from trueline.records import Verdict

_OUTCOMES = ("outputs", "labels", "shape")


def check_stage(
    stage: Stage, reference: StageRun | None, candidate: StageRun, options: Mapping[str, object]
) -> Sequence[NumberFinding]:
    """What one check of a plan finds; never nothing.

    ``options`` are those of the config, under ``numbers``: ``readers`` (see ``readers``), by kind of stage. The runner
    adds ``earlier``, all executed stages of the same chain before the candidate, in order, ``siblings``, those of the
    same kind in the whole plan, and ``followers``, the kinds of the stages that come after it.
    """
    if stage.check is CheckKind.PRECISION:
        return prove_level(candidate, reference)
    if stage.check is CheckKind.PAIR:
        if reference is None:
            return [NumberFinding("pair", Verdict.NOT_COMPARED, "there is no training in full precision beside it")]
        return judge_pair(reference, candidate)
    if stage.check is not CheckKind.NEIGHBOURS or reference is None:
        raise UsageError(f"{stage.name}: a check of neighbours needs two stages")
    return list(_neighbours(reference, candidate, options)) or [
        NumberFinding("outputs", Verdict.NOT_COMPARED, "nothing was there to compare")
    ]


def _neighbours(reference: StageRun, candidate: StageRun, options: Mapping[str, object]) -> Iterator[NumberFinding]:
    for run in (reference, candidate):
        if run.result.status is not StageStatus.DONE:
            reason = f"{run.stage.name} did not end well ({run.result.status}); there is nothing to compare"
            yield NumberFinding("outputs", Verdict.NOT_COMPARED, reason)
            return
    yield from judge_checkpoint(reference, candidate, _runs(options, "earlier"))
    readers = _readers(options)
    before, mine = _points(reference), _points(candidate)
    if readers and not (before and mine):
        yield from judge_readings(reference, candidate, readers, _runs(options, "earlier"), _kinds(options))
        return
    for run, points in ((reference, before), (candidate, mine)):
        if not points:
            yield _no_probe(run, _runs(options, "siblings"))
            return
    yield from _compared(reference, before, candidate, mine, _runs(options, "earlier"))


def _no_probe(run: StageRun, siblings: Sequence[StageRun]) -> NumberFinding:
    """A script that leaves a probe in one stage and none in another did not get as far as its model there."""
    stage = run.stage
    for other in siblings:
        alike = other.stage.kind is stage.kind and _script(other.stage) == _script(stage) != ""
        if alike and other.stage.name != stage.name and _points(other):
            reason = f"it left no probe, though the same script did in {other.stage.name}: it computed nothing"
            return NumberFinding("outputs", Verdict.FAIL, reason, stage.name)
    reason = f"{stage.name} left no probe; add trueline.probe(…) to its script, or a reader to the config"
    return NumberFinding("outputs", Verdict.NOT_COMPARED, reason)


def _script(stage: Stage) -> str:
    """The script that a command runs; empty where there is none to be seen."""
    words = stage.command.line.split() if stage.command is not None else []
    return next((word for word in words if word.endswith(".py")), "")


def _compared(
    reference: StageRun, before: list[Point], candidate: StageRun, mine: list[Point], earlier: Sequence[StageRun]
) -> Iterator[NumberFinding]:
    chain = [point for run in earlier if run.stage.name != candidate.stage.name for point in _points(run)]
    trusted = side_of(reference, before[-1])
    yardstick = yardstick_of([*chain, *before])
    if reference.stage.kind is StageKind.TRAIN or not any(run.stage.name != reference.stage.name for run in earlier):
        for point in before:
            side = side_of(reference, point)
            yield from judge_alone(side, asked_alone(side), yardstick_of([point]), None)
    for point in mine:
        side = side_of(candidate, point)
        unreadable = _unreadable(side)
        asked = asked_of(candidate.stage, None if _unreadable(trusted) else trusted)
        found = list(judge_alone(side, asked, yardstick, trusted))
        if not unreadable:
            found += _against(trusted, side, asked, yardstick, earlier)
        if any(finding.verdict >= Verdict.FAIL for finding in found):
            faults = _faults(trusted, yardstick)
            found = [_inherited(finding, trusted, faults) for finding in found]
        yield from found


def _faults(trusted: Side, yardstick: Yardstick | None) -> set[str]:
    """What is wrong with the stage before by itself: those who come after it cannot help having it too."""
    found = judge_alone(trusted, asked_alone(trusted), yardstick, None)
    return {_subject(finding) for finding in found if finding.verdict >= Verdict.FAIL}


def _inherited(finding: NumberFinding, trusted: Side, faults: set[str]) -> NumberFinding:
    """A failure that the stage before has already is its fault. Where its samples depend on each other, or on chance,
    nobody can agree with it."""
    subject = _subject(finding)
    unsteady = any(fault in ("repeated", "order") or fault.startswith("batch ") for fault in faults)
    if finding.verdict < Verdict.FAIL or not (subject in faults or (unsteady and subject in _OUTCOMES)):
        return finding
    reason = f"{finding.reason}; the fault is that of {trusted.name}: {', '.join(sorted(faults))}"
    return replace(finding, verdict=Verdict.WARN, reason=reason, blamed=trusted.stage)


def _subject(finding: NumberFinding) -> str:
    return finding.what.rpartition(" (")[0]


def _against(
    trusted: Side, side: Side, asked: Asked, yardstick: Yardstick | None, earlier: Sequence[StageRun]
) -> Iterator[NumberFinding]:
    if problem := _unreadable(trusted):
        yield NumberFinding(side.what("outputs"), Verdict.NOT_COMPARED, f"{trusted.name} cannot be read: {problem}")
        return
    inputs = _judge_inputs(trusted, side, asked)
    yield inputs
    yield from judge_parameters(trusted, side, asked, earlier)
    if inputs.verdict >= Verdict.FAIL:
        reason = "not looked at: the inputs differ already"
        yield NumberFinding(side.what("outputs"), Verdict.NOT_COMPARED, reason)
        return
    blind = _why_blind(trusted, asked, yardstick)
    for finding in _judge_outputs(trusted, side, asked, yardstick):
        if blind and finding.verdict < Verdict.NOT_COMPARED:
            reason = f"these outputs cannot tell: {blind}; {finding.reason}"
            finding = replace(finding, verdict=Verdict.NOT_COMPARED, reason=reason)
        yield finding
    yield from judge_answers(trusted, side, asked, yardstick)
    yield from judge_metrics(trusted, side, asked, yardstick)


def _why_blind(trusted: Side, asked: Asked, yardstick: Yardstick | None) -> str:
    """Why agreement with a stage would prove nothing: where not one of its outputs can tell."""
    power = None if yardstick is None else power_of(yardstick.point)
    reasons = []
    for path, leaf in trusted.outputs.items():
        reasons.append(why_blind(doubles(leaf)))
        if not reasons[-1] and power is not None and yardstick is not None and yardstick.error(path) is not None:
            reasons[-1] = power.why_blind(yardstick.allowed(path, asked).spread)
    return "" if not all(reasons) else next(iter(reasons), "")


def _judge_inputs(trusted: Side, side: Side, asked: Asked) -> NumberFinding:
    """The stage must prepare the same samples alike: whatever it is given differs, its outputs must."""
    what = side.what("inputs")
    pairs = _matched(trusted.inputs, side.inputs)
    if not pairs:
        reason = f"{side.name} and {trusted.name} were given other arguments; inputs cannot be compared"
        return NumberFinding(what, Verdict.NOT_COMPARED, reason, numbers={"compared": 0.0})
    worst = 0.0
    for path, mine, theirs in pairs:
        made, right = doubles(mine), doubles(theirs)
        count = min(len(made), len(right)) if made.ndim and right.ndim else 0
        if count:
            made, right = made[:count], right[:count]
        if made.shape != right.shape:
            hint = how_related(made, right)
            reason = f"{path} has shape {list(made.shape)}, in {trusted.name} {list(right.shape)}" + _because(hint)
            return NumberFinding(what, Verdict.FAIL, f"{reason}: it is prepared otherwise", side.stage)
        error = error_of(made, right)
        limit = 2.0 * asked.epsilon if asked.narrowed else 0.0
        if error.bad or error.spread > limit:
            reason = f"{path} differs from that of {trusted.name} by {_size(error)}{_because(how_related(made, right))}"
            return NumberFinding(what, Verdict.FAIL, f"{reason}: it is prepared otherwise", side.stage, _numbers(error))
        worst = max(worst, error.spread)
    text = "equal" if worst == 0.0 else f"equal but for rounding to {asked.dtype} ({worst:.2g})"
    return NumberFinding(what, Verdict.PASS, text, numbers={"error": worst})


def _judge_outputs(trusted: Side, side: Side, asked: Asked, yardstick: Yardstick | None) -> Iterator[NumberFinding]:
    what = side.what("outputs")
    if side.raised:
        yield NumberFinding(what, Verdict.FAIL, f"it raised {side.raised}", side.stage)
        return
    pairs = _matched(trusted.outputs, side.outputs)
    if len(side.outputs) != len(trusted.outputs) or not pairs:
        reason = f"{len(side.outputs)} outputs for {len(trusted.outputs)} of {trusted.name}"
        yield NumberFinding(what, Verdict.FAIL, reason, side.stage)
        return
    for path, mine, theirs in pairs:
        structure = _structure(path, side, trusted, asked, (mine, theirs))
        if structure is not None:
            yield structure
        if structure is None or structure.what.startswith("dtype"):
            yield _judge_output(path, trusted, side, asked, yardstick, (mine, theirs))


def _structure(path: str, side: Side, trusted: Side, asked: Asked, pair: tuple[Any, Any]) -> NumberFinding | None:
    mine, theirs = pair
    count = side.samples_in_common(trusted)
    shapes = [list(leaf.bits.shape) for leaf in pair]
    if (
        mine.bits.ndim != theirs.bits.ndim
        or shapes[0][1:] != shapes[1][1:]
        or (count and shapes[0] and shapes[0][0] != shapes[1][0] and side.samples == trusted.samples)
    ):
        hint = how_related(doubles(mine), doubles(theirs))
        reason = f"{path} has shape {shapes[0]}, in {trusted.name} {shapes[1]}{_because(hint)}"
        return NumberFinding(side.what("shape"), Verdict.FAIL, reason, side.stage)
    if not asked.permits(mine.dtype, theirs.dtype):
        reason = f"{path} is {mine.dtype}, in {trusted.name} {theirs.dtype}; {asked.dtype} was asked for"
        return NumberFinding(side.what("dtype"), Verdict.FAIL, reason, side.stage)
    return None


def _judge_output(
    path: str, trusted: Side, side: Side, asked: Asked, yardstick: Yardstick | None, pair: tuple[Any, Any]
) -> NumberFinding:
    what = side.what("outputs")
    made, right = (doubles(leaf) for leaf in pair)
    count = min(len(made), len(right)) if made.ndim and right.ndim else 0
    if count:
        made, right = made[:count], right[:count]
    if made.shape == right.shape and pair[0].dtype == pair[1].dtype and _same_bits(pair, count):
        return NumberFinding(what, Verdict.PASS, f"{path} is equal to that of {trusted.name}, to the last bit",
                             numbers={"error": 0.0, "equal": 1.0})  # fmt: skip
    if asked.dtype == "int8":
        error = error_of(made, right)
        reason = f"{path} differs from that of {trusted.name} by {_size(error)}; int8 has no yardstick, labels decide"
        return NumberFinding(what, Verdict.NOT_COMPARED, reason, numbers=_numbers(error))
    gold = None if yardstick is None else yardstick.gold_for(path, made.shape)
    error = error_of(made, right if gold is None else gold)
    allowed = blind_error(asked.coarsest(pair)) if yardstick is None or gold is None else yardstick.allowed(path, asked)
    against = f"that of {trusted.name}" if gold is None else "the float64 gold"
    numbers = {**_numbers(error), "limit": allowed.spread, "equal": 0.0}
    measured = f"{path} is off by {_size(error)} from {against}"
    limits = f"{allowed.why}, limit {allowed.spread:.2g}"
    if error.bad or error.spread > allowed.spread or error.peak > allowed.peak:
        hint = how_related(made, right) or _rounding_hint(error, yardstick, path, asked)
        return NumberFinding(what, Verdict.FAIL, f"{measured}; {limits}{_because(hint)}", side.stage, numbers)
    if side.exact_with(trusted):
        reason = f"{measured}, within the limit ({limits}), but not equal to {trusted.name}, as such a stage is"
        return NumberFinding(what, Verdict.WARN, reason, side.stage, numbers)
    return NumberFinding(what, Verdict.PASS, f"{measured}; {limits}", numbers=numbers)


def _rounding_hint(error: Error, yardstick: Yardstick | None, path: str, asked: Asked) -> str:
    """Whether errors are of the size that a narrower dtype makes."""
    if yardstick is None or error.bad:
        return ""
    for dtype in ("float16", "bfloat16"):
        allowed = yardstick.allowed(path, Asked(dtype))
        if dtype != asked.dtype and allowed.spread / 60.0 < error.spread <= allowed.spread:
            return f"errors of this size are those of {dtype} arithmetic"
    return ""


def _same_bits(pair: tuple[Any, Any], count: int) -> bool:
    mine, theirs = (leaf.bits[:count] if count else leaf.bits for leaf in pair)
    return bool(mine.tobytes() == theirs.tobytes())


def _matched(right: Mapping[str, Any], made: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Leaves of two sides: by path, or by place where paths differ (a predictor gives a list, a model one tensor)."""
    if right.keys() == made.keys():
        return [(path, made[path], right[path]) for path in right]
    if len(right) != len(made):
        return []
    return [(path, mine, theirs) for (path, mine), theirs in zip(made.items(), right.values(), strict=True)]


def _size(error: Error) -> str:
    if error.bad:
        return f"NaN or infinity in {error.bad} of {error.count} elements, the first at {error.worst}"
    if not math.isfinite(error.spread):
        return "everything: it should be zero"
    return f"{error.spread:.2g} (at worst {error.peak:.2g} of the largest, element {error.worst})"


def _numbers(error: Error) -> dict[str, float]:
    return {"error": math.inf if error.bad else error.spread, "peak": error.peak, "bad": float(error.bad)}


def _because(hint: str) -> str:
    return f"; {hint}" if hint else ""


def _points(run: StageRun) -> list[Point]:
    return points_in(run.probe)


def _unreadable(side: Side) -> str:
    return readable(side.point)


def _runs(options: Mapping[str, object], name: str) -> Sequence[StageRun]:
    found = options.get(name, ())
    return [run for run in found if isinstance(run, StageRun)] if isinstance(found, list | tuple) else []


def _kinds(options: Mapping[str, object]) -> list[str]:
    """The kinds of the stages that come after the candidate."""
    found = options.get("followers", ())
    return [str(kind) for kind in found] if isinstance(found, list | tuple) else []


def _readers(options: Mapping[str, object]) -> Mapping[str, Any]:
    found = options.get("readers", {})
    if not isinstance(found, Mapping):
        raise UsageError("numbers: readers: must be a table by kind of stage (train, eval, export, infer)")
    return found
