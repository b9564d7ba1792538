"""Which operator: where two stages disagree, both are run once more with their calls captured, and the first call that
went wrong is named.

Only the first disagreement of each chain is looked at: what follows from it disagrees as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from trueline.pipeline.checking import answers_in, request_of
from trueline.pipeline.probe import CAPTURE_VARIABLE
from trueline.pipeline.rerun import NotRepeated, run_again, wait_for
from trueline.pipeline.starting import Starter
from trueline.pipelines import CheckKind, NumberFinding, StageResult, StageRun
from trueline.records import Verdict

_OUTPUTS = "outputs"


def name_operators(
    results: Sequence[StageResult], seen: Callable[[str], StageRun | None], starter: Starter, folder: Path
) -> tuple[StageResult, ...]:
    """The results, with the first operator that went wrong added to what the checks found."""
    named: set[str] = set()
    found = []
    for result in results:
        chain = result.stage.chain
        if chain not in named and _disagrees(result):
            named.add(chain)
            result = replace(result, findings=(*result.findings, _name(result, seen, starter, folder)))
        found.append(result)
    return tuple(found)


def _disagrees(result: StageResult) -> bool:
    return result.stage.check is CheckKind.NEIGHBOURS and any(
        finding.what.startswith(_OUTPUTS) and finding.verdict >= Verdict.FAIL for finding in result.findings
    )


def _name(result: StageResult, seen: Callable[[str], StageRun | None], starter: Starter, folder: Path) -> NumberFinding:
    runs = []
    for name in (result.stage.reference, result.stage.candidate):
        side = seen(name)
        if side is None:
            return NumberFinding("first operator", Verdict.NOT_COMPARED, "one of the stages is of another run")
        try:
            runs.append(run_again(side, starter, folder, {CAPTURE_VARIABLE: "1"}))
        except NotRepeated as error:
            return NumberFinding("first operator", Verdict.NOT_COMPARED, str(error))
    return _asked(result, runs, starter, folder)


def _asked(result: StageResult, runs: Sequence[StageRun], starter: Starter, folder: Path) -> NumberFinding:
    request = {**request_of(result.stage, runs[0], runs[1], (), (), {}), "operator": True}
    place = folder / result.stage.name
    starter.empty(place)
    running, answers = starter.checks([request], place, result.stage)
    wait_for(running)
    findings = answers_in(answers).get(result.stage.name)
    return findings[0] if findings else NumberFinding("first operator", Verdict.ERROR, "the comparison did not answer")
