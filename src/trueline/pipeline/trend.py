"""A run of a pipeline against the last one of the same configs: what fails now, what got slower, larger, less exact."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from trueline.errors import UsageError
from trueline.pipelines import Change, PipelineReport, Plan, StageResult, StageStatus
from trueline.records import Verdict
from trueline.report.pipeline_json import read_pipeline_json
from trueline.report.pipeline_wording import memory_words, seconds_words

HISTORY_FILE = "history.jsonl"
_SLOWER, _SLOWER_SECONDS = 1.5, 2.0
_LARGER, _LARGER_BYTES = 1.3, 128 << 20
_LESS_EXACT = 3.0


def last_report(folder: Path, plan: Plan) -> PipelineReport | None:
    """The report of the last whole run of the same configs in a folder, where there is one that can be read."""
    path = folder / kept_name(plan)
    try:
        return read_pipeline_json(path) if path.exists() else None
    except UsageError:
        return None


def kept_name(plan: Plan) -> str:
    """Where the last report of a plan is kept. Other configs of the same model may share its folder."""
    stems = "+".join(Path(config).stem for config in plan.config.split(" + "))
    mark = hashlib.sha256(f"{plan.config} {plan.mode}".encode()).hexdigest()[:8]
    return f"last/{stems[:80]}-{mark}.json"


def begin(folder: Path, plan: Plan) -> bool:
    """Says whether the last run of a plan was whole and clean, and writes down that there is one now that is not."""
    kept, unfinished = folder / kept_name(plan), folder / f"{kept_name(plan)}.unfinished"
    kept.parent.mkdir(parents=True, exist_ok=True)
    clean = kept.exists() and not unfinished.exists()
    unfinished.touch()
    return clean


def end(folder: Path, report: PipelineReport) -> None:
    """Writes down that a run is whole; one with failures stays unfinished business."""
    if report.verdict < Verdict.FAIL:
        (folder / f"{kept_name(report.plan)}.unfinished").unlink(missing_ok=True)


def changes(old: PipelineReport | None, new: PipelineReport) -> tuple[Change, ...]:
    """What is different from the last run; nothing where that was of other configs."""
    if old is None or old.plan.config != new.plan.config or old.plan.mode != new.plan.mode:
        return ()
    return tuple(_changes(old, new))


def _changes(old: PipelineReport, new: PipelineReport) -> Iterator[Change]:
    before = {result.stage.name: result for result in old.results}
    now = {result.stage.name: result for result in new.results}
    for name, result in now.items():
        if name not in before:
            yield Change(name, "new", "", result.verdict.name)
        else:
            yield from _change(before[name], result)
    for name, result in before.items():
        if name not in now:
            yield Change(name, "gone", result.verdict.name, "")


def _change(old: StageResult, new: StageResult) -> Iterator[Change]:
    name = new.stage.name
    if (old.verdict >= Verdict.FAIL) != (new.verdict >= Verdict.FAIL):
        what = "new failure" if new.verdict >= Verdict.FAIL else "fixed"
        yield Change(name, what, _said(old), _said(new))
        return
    if new.reused or old.status is not StageStatus.DONE or new.status is not StageStatus.DONE:
        return
    if new.stage.command is not None:
        if new.seconds > _SLOWER * old.seconds + _SLOWER_SECONDS:
            yield Change(name, "slower", seconds_words(old.seconds), seconds_words(new.seconds))
        if old.peak_bytes and new.peak_bytes > _LARGER * old.peak_bytes + _LARGER_BYTES:
            yield Change(name, "larger", memory_words(old.peak_bytes), memory_words(new.peak_bytes))
    yield from _errors(old, new)


def _errors(old: StageResult, new: StageResult) -> Iterator[Change]:
    """Errors that grew though they are still within their limits."""
    before = {finding.what: finding.numbers for finding in old.findings}
    for finding in new.findings:
        was, now = before.get(finding.what, {}).get("error"), finding.numbers.get("error")
        if was is not None and now is not None and now > _LESS_EXACT * was and now > 0:
            yield Change(new.stage.name, "less exact", f"{finding.what} error {was:.3g}", f"{now:.3g}")


def _said(result: StageResult) -> str:
    return f"{result.verdict.name}: {result.reason}" if result.reason else result.verdict.name


def remember(folder: Path, report: PipelineReport) -> None:
    """Appends one line about a run to the history in its folder."""
    assert report.info is not None, "a run has a head"
    row = {
        "created": report.info.created,
        "config": report.plan.config,
        "verdict": report.verdict.name,
        "seconds": round(report.info.seconds, 3),
        "executed": report.executed,
        "counts": report.counts,
    }
    with open(folder / HISTORY_FILE, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
