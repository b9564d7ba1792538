"""What to keep in float32: every trained model is run once more under autocast, and the fewest operators are told that
must stay in float32 for its outputs to be as exact as was asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from trueline.pipeline.probe import KEEP_VARIABLE
from trueline.pipeline.rerun import NotRepeated, run_again
from trueline.pipeline.starting import Starter
from trueline.pipeline.which_op import ops_to_keep
from trueline.pipelines import (
    TO_KEEP,
    CheckKind,
    NumberFinding,
    StageKind,
    StageResult,
    StageRun,
    StageStatus,
)
from trueline.records import Verdict

_LOOKED_AT = (StageKind.EVAL, StageKind.TRAIN)
"""Which stage of a chain is run again: the evaluation, which is quick; a training where there is none."""


def keep_operators(
    results: Sequence[StageResult],
    seen: Callable[[str], StageRun | None],
    starter: Starter,
    folder: Path,
    limit: float,
) -> tuple[StageResult, ...]:
    """The results, with what was found added to a check of each chain. ``limit`` is the relative error of the outputs
    against float64 that is wanted."""
    places = {result.stage.chain: number for number, result in reversed([*enumerate(results)]) if _may_tell(result)}
    found = list(results)
    for chain, number in places.items():
        finding = _sought([one for one in results if one.stage.chain == chain], seen, starter, folder, limit)
        worse = finding.verdict >= Verdict.FAIL and finding.verdict > found[number].verdict
        told = replace(found[number], findings=(*found[number].findings, finding))
        found[number] = replace(told, verdict=finding.verdict, reason=finding.reason) if worse else told
    return tuple(found)


def _may_tell(result: StageResult) -> bool:
    """Whether this is a check of what a training or evaluation gave."""
    kinds = (CheckKind.PRECISION, CheckKind.NEIGHBOURS)
    return result.stage.check in kinds and result.status is StageStatus.DONE and bool(result.stage.trainer)


def _sought(
    results: Sequence[StageResult],
    seen: Callable[[str], StageRun | None],
    starter: Starter,
    folder: Path,
    limit: float,
) -> NumberFinding:
    done = {result.stage.kind: result for result in results if result.status is StageStatus.DONE}
    asked = next((done[kind] for kind in _LOOKED_AT if kind in done), None)
    run = None if asked is None else seen(asked.stage.name)
    if run is None:
        return NumberFinding(TO_KEEP, Verdict.NOT_COMPARED, "no evaluation and no training of this chain ended well")
    try:
        return ops_to_keep(run_again(run, starter, folder, {KEEP_VARIABLE: repr(limit)}))
    except NotRepeated as error:
        return NumberFinding(TO_KEEP, Verdict.NOT_COMPARED, str(error))
