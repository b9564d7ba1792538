"""A pipeline as JSON, and back: strict, whole, one file.

    {"format": "trueline-pipeline", "version": 1, "verdict", "summary", "counts": {PASS, ...}, "executed",
     "plan": {config, form, model, mode, folder, warnings, options, stages: [...]},
     "info": {created, tool_version, seconds, jobs, host, python, versions, environment, folder},
     "results": [{stage, status, verdict, reason, exit_code, seconds, peak_bytes, folder, log, reused, started,
                  attempts, not_warm, findings: [{what, verdict, reason, blamed, numbers}], numbers}],
     "changes": [{stage, what, before, now}],
     "histories": {stage: {steps, loss, scale, gradient_norm, update_norm}},
     "past": [{created, verdict, seconds, executed}]}

Times are in seconds, memory in bytes; ``stage`` of a result is the name of one of the plan's.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from trueline.errors import UsageError
from trueline.pipelines import (
    Change,
    CheckKind,
    Command,
    NumberFinding,
    PastRun,
    PipelineInfo,
    PipelineReport,
    Plan,
    Remark,
    Stage,
    StageKind,
    StageResult,
    StageStatus,
    TrainingHistory,
)
from trueline.records import Verdict
from trueline.report.json import plain
from trueline.report.pipeline_wording import summary

FORMAT = "trueline-pipeline"
VERSION = 1


def write_pipeline_json(report: PipelineReport, stream: TextIO) -> None:
    """Writes the whole report."""
    json.dump(report_dict(report), stream, indent=1, allow_nan=False)
    stream.write("\n")


def report_dict(report: PipelineReport) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "verdict": report.verdict.name if report.results else None,
        "summary": summary(report),
        "counts": report.counts,
        "executed": report.executed,
        "plan": plain(report.plan),
        "info": plain(report.info),
        "results": [result_dict(result) for result in report.results],
        "changes": plain(report.changes),
        "histories": plain(report.histories),
        "past": plain(report.past),
    }


def result_dict(result: StageResult) -> dict[str, Any]:
    return {**plain(result), "stage": result.stage.name}


def read_pipeline_json(path: Path) -> PipelineReport:
    """Reads a report that was written before."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise KeyError("format")
        if data["version"] > VERSION:
            raise UsageError(f"{path} was written by a newer trueline (version {data['version']} of its format)")
        return _report(data)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{path} is no report of a pipeline") from None


def _report(data: Mapping[str, Any]) -> PipelineReport:
    plan = plan_of(data["plan"])
    stages = {stage.name: stage for stage in plan.stages}
    results = tuple(result_of(one, stages[one["stage"]]) for one in data["results"])
    info = None if data["info"] is None else PipelineInfo(**data["info"])
    changes = tuple(Change(**one) for one in data["changes"])
    histories = {name: history_of(one) for name, one in data.get("histories", {}).items()}
    return PipelineReport(
        plan, results, info, changes, histories, tuple(PastRun(**one) for one in data.get("past", ()))
    )


def history_of(data: Mapping[str, Any]) -> TrainingHistory:
    def column(name: str) -> tuple[float | None, ...]:
        return tuple(None if one is None else float(one) for one in data[name])

    steps = tuple(int(one) for one in data["steps"])
    return TrainingHistory(steps, *(column(name) for name in ("loss", "scale", "gradient_norm", "update_norm")))


def plan_of(data: Mapping[str, Any]) -> Plan:
    return Plan(
        **{
            **data,
            "stages": tuple(stage_of(one) for one in data["stages"]),
            "warnings": tuple(Remark(**one) for one in data["warnings"]),
        }
    )


def stage_of(data: Mapping[str, Any]) -> Stage:
    changed: dict[str, Any] = {
        "kind": StageKind(data["kind"]),
        "command": None if data["command"] is None else Command(**data["command"]),
        "check": None if data["check"] is None else CheckKind(data["check"]),
    }
    tuples = {name: tuple(data[name]) for name in ("after", "waits", "reads", "writes")}
    return Stage(**{**data, **changed, **tuples})


def result_of(data: Mapping[str, Any], stage: Stage) -> StageResult:
    return StageResult(
        **{
            **data,
            "stage": stage,
            "status": StageStatus(data["status"]),
            "verdict": Verdict[data["verdict"]],
            "findings": tuple(finding_of(one) for one in data["findings"]),
            "numbers": _numbers(data["numbers"]),
        }
    )


def finding_of(data: Mapping[str, Any]) -> NumberFinding:
    return NumberFinding(**{**data, "verdict": Verdict[data["verdict"]], "numbers": _numbers(data["numbers"])})


def _numbers(data: Mapping[str, Any]) -> dict[str, float]:
    return {name: math.nan if value is None else float(value) for name, value in data.items()}
