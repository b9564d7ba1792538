"""What a report keeps of the course of things: the steps of its trainings, and the runs that came before it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from trueline.pipeline.history import Step, read_history
from trueline.pipeline.starting import PROBE_FOLDER
from trueline.pipeline.trend import HISTORY_FILE
from trueline.pipelines import PastRun, Plan, StageKind, StageResult, TrainingHistory

_MOST_STEPS = 512
"""Of a training; a longer one is thinned out."""
_MOST_RUNS = 50


def histories_of(results: Iterable[StageResult]) -> dict[str, TrainingHistory]:
    """The histories of the trainings that told any, by the names of their stages."""
    trained = [result for result in results if result.stage.kind is StageKind.TRAIN and result.folder]
    steps = {result.stage.name: read_history(Path(result.folder) / PROBE_FOLDER) for result in trained}
    return {name: _columns(_thinned(found)) for name, found in steps.items() if found}


def past_runs(folder: Path, plan: Plan) -> tuple[PastRun, ...]:
    """The runs of the same configs that the history of a folder tells of, the oldest first."""
    try:
        lines = (folder / HISTORY_FILE).read_text(encoding="utf-8").splitlines()
    except OSError:
        return ()
    found = [run for line in lines if (run := _past_run(line, plan.config)) is not None]
    return tuple(found[-_MOST_RUNS:])


def _past_run(line: str, config: str) -> PastRun | None:
    """A line of the history; None where it is of other configs, or cannot be read."""
    try:
        row = json.loads(line)
        if row["config"] != config:
            return None
        return PastRun(str(row["created"]), str(row["verdict"]), float(row["seconds"]), int(row["executed"]))
    except (ValueError, KeyError, TypeError):
        return None


def _thinned(steps: list[Step]) -> list[Step]:
    """At most so many steps, evenly; the first and the last are among them."""
    if len(steps) <= _MOST_STEPS:
        return steps
    return [steps[round(place * (len(steps) - 1) / (_MOST_STEPS - 1))] for place in range(_MOST_STEPS)]


def _columns(steps: list[Step]) -> TrainingHistory:
    return TrainingHistory(
        steps=tuple(one.step for one in steps),
        loss=tuple(one.loss for one in steps),
        scale=tuple(one.scale for one in steps),
        gradient_norm=tuple(one.gradient_norm for one in steps),
        update_norm=tuple(one.update_norm for one in steps),
    )
