"""The checks of numbers, in a process of their own: they may import a framework, take long, or die.

Run as ``python -m trueline.pipeline.checking REQUEST ANSWERS``. The request is a JSON list of checks, each with its
stage and the stages that it looks at; one line of JSON is answered for each as it ends. Where a check has ``operator``
set, its stages kept their calls, and the first operator that went wrong is asked for.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trueline.errors import TruelineError
from trueline.pipelines import NumberFinding, Stage, StageRun
from trueline.records import Verdict
from trueline.report.json import plain
from trueline.report.pipeline_json import finding_of, result_dict, result_of, stage_of


def request_of(
    stage: Stage,
    reference: StageRun | None,
    candidate: StageRun,
    earlier: Sequence[StageRun],
    siblings: Sequence[StageRun],
    options: Mapping[str, object],
) -> dict[str, Any]:
    """One check as JSON."""
    return {
        "stage": plain(stage),
        "reference": None if reference is None else _run_dict(reference),
        "candidate": _run_dict(candidate),
        "earlier": [_run_dict(run) for run in earlier],
        "siblings": [_run_dict(run) for run in siblings],
        "options": plain(options),
    }


def _run_dict(run: StageRun) -> dict[str, Any]:
    return {"stage": plain(run.stage), "result": result_dict(run.result), "probe": str(run.probe)}


def _run_of(data: Mapping[str, Any]) -> StageRun:
    stage = stage_of(data["stage"])
    return StageRun(stage, result_of(data["result"], stage), Path(data["probe"]))


def answers_in(path: Path) -> dict[str, tuple[NumberFinding, ...]]:
    """The findings that were answered, by the name of the check."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            data = json.loads(line)
        except ValueError:  # the process died in the middle of it
            break
        found[str(data["stage"])] = tuple(finding_of(one) for one in data["findings"])
    return found


def _findings(data: Mapping[str, Any]) -> Sequence[NumberFinding]:
    from trueline.pipeline.contract import check_stage
    from trueline.pipeline.which_op import name_first_op

    reference = None if data["reference"] is None else _run_of(data["reference"])
    more = {name: tuple(_run_of(run) for run in data[name]) for name in ("earlier", "siblings")}
    options = {**data["options"], **more}
    try:
        if data.get("operator") and reference is not None:
            return [name_first_op(reference, _run_of(data["candidate"]))]
        return check_stage(stage_of(data["stage"]), reference, _run_of(data["candidate"]), options)
    except TruelineError as error:
        return [NumberFinding("check", Verdict.ERROR, str(error))]
    except Exception as error:
        traceback.print_exc()
        return [NumberFinding("check", Verdict.ERROR, f"the check itself failed: {type(error).__name__}: {error}")]


def main(arguments: Sequence[str]) -> None:
    request, answers = arguments
    with open(answers, "a", encoding="utf-8") as file:
        for data in json.loads(Path(request).read_text(encoding="utf-8")):
            row = {"stage": data["stage"]["name"], "findings": plain(list(_findings(data)))}
            file.write(json.dumps(row) + "\n")
            file.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
