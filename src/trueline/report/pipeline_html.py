"""A pipeline as one HTML page that opens from disk, asks nothing of the network and can be mailed (see ``html``).

The matrix model x trainer x precision x backend first, with the errors between stages; then the curves of the
trainings, what changed since the last run, and every stage with its command, time, memory and output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from trueline.pipelines import NumberFinding, PipelineReport, StageKind, StageResult
from trueline.records import Verdict
from trueline.report.html import Layout, write_page
from trueline.report.json import plain
from trueline.report.page_data import encode, said_once
from trueline.report.pipeline_log import log_link, log_tail
from trueline.report.pipeline_wording import Cell, matrix, status_words, summary, variant_words, worst_number
from trueline.report.wording import command

LAYOUT = Layout(
    "pipeline.html",
    "stage",
    (
        "chinese_numbers.js", "chinese_pipeline.js", "vendor/uPlot.js", "line_chart.js", "small_table.js",
        "pipeline_data.js", "table.js", "pipeline_matrix.js", "pipeline_curves.js", "pipeline_details.js",
        "pipeline_main.js",
    ),
    ("vendor/uPlot.css", "line_chart.css", "small_table.css", "pipeline.css"),
)  # fmt: skip
_KEPT_LOG = 6_000
"""Bytes of the output of a failed command that go with the page."""


def write_pipeline_html(report: PipelineReport, stream: TextIO, *, folder: Path | None = None) -> None:
    """Writes the page; the end of what failed commands wrote is in it. ``folder`` is where the report lies and the only
    place from which logs are read; without it the one that the report was written to, which only its own writer should
    believe. Open the file as UTF-8."""
    if folder is None and report.info is not None:
        folder = Path(report.info.folder)
    write_pipeline_page(pipeline_page_data(report, folder), stream)


def write_pipeline_page(data: dict[str, Any], stream: TextIO) -> None:
    """Writes the page of such data."""
    write_page(stream, LAYOUT, f"{data['head']['verdict'].replace('_', ' ')}: {data['head']['summary']}", data)


def pipeline_page_data(report: PipelineReport, folder: Path | None = None) -> dict[str, Any]:
    """Everything the page shows, as JSON values. ``folder`` is where the report and its logs lie now."""
    columns, names = _columns(report.results)
    failed = {id(result) for result in report.failures}
    details = {
        str(place): stage_details(report, result, folder, tail=_KEPT_LOG if id(result) in failed else 0)
        for place, result in enumerate(report.results)
    }
    return {
        "head": _head(report, folder),
        "count": len(report.results),
        "columns": columns,
        "names": names,
        "details": details,
    }


def stage_details(report: PipelineReport, result: StageResult, folder: Path | None, *, tail: int) -> dict[str, Any]:
    """One stage as the page's side panel shows it."""
    stage = result.stage
    ran = stage.command
    return {
        "command": "" if ran is None else ran.text.strip(),
        "environment": {} if ran is None else dict(ran.environment),
        "settings": dict(stage.settings),
        "after": list(stage.after),
        "exit_code": result.exit_code,
        "started": result.started,
        "reused": result.reused,
        "attempts": result.attempts,
        "not_warm": result.not_warm,
        "reference": stage.reference,
        "candidate": stage.candidate,
        "check": "" if stage.check is None else stage.check.value,
        "findings": [_finding(one) for one in sorted(result.findings, key=lambda one: -one.verdict)],
        "numbers": plain(result.numbers),
        "log": log_link(report, result),
        "tail": log_tail(report, result, folder, tail) if tail and folder is not None else None,
    }


def _finding(one: NumberFinding) -> dict[str, Any]:
    return {**plain(one), "verdict": int(one.verdict)}


def _head(report: PipelineReport, folder: Path | None) -> dict[str, Any]:
    verdict = report.verdict if report.results else Verdict.NOT_COMPARED
    plan, info = report.plan, report.info
    failures = [place for place, one in enumerate(report.results) if one.verdict >= Verdict.FAIL]
    return {
        "verdict": verdict.name,
        "summary": summary(report),
        "path": str(folder) if folder is not None else plan.folder,
        "model": plan.model,
        "mode": plan.mode,
        "config": plan.config,
        "warnings": [str(warning) for warning in plan.warnings],
        "info": plain(info),
        "counts": report.counts,
        "position": failures[0] if failures else None,
        "matrix": _matrix(report),
        "edges": _edges(report.results),
        "changes": plain(report.changes),
        "histories": [_history(report, name) for name in report.histories],
        "past": plain(report.past),
        "again": command("trueline", "pipeline", *plan.config.split(" + "), plan.mode),
        "planned": [ran.text.strip() for ran in plan.commands] if not report.results else [],
    }


def _matrix(report: PipelineReport) -> dict[str, Any]:
    """Rows: how a chain was trained; columns: what was done with it; cells: the rows of the table that are these."""
    places = {result.stage.name: place for place, result in enumerate(report.results)}
    cells = [cell for cell in matrix(report) if cell.result.stage.kind is not StageKind.PREPARE]
    columns = list(dict.fromkeys(_column(cell) for cell in cells))
    chains: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        chains.setdefault((cell.trainer, cell.precision, cell.devices), []).append(cell)
    rows = [
        {
            "trainer": trainer,
            "precision": precision,
            "devices": devices,
            "cells": [[_place(cell, places) for cell in members if _column(cell) == name] for name in columns],
        }
        for (trainer, precision, devices), members in chains.items()
    ]
    return {"columns": columns, "rows": rows}


def _place(cell: Cell, places: Mapping[str, int]) -> list[int | None]:
    """The row of a command, and that of the check of its numbers."""
    return [places[cell.result.stage.name], None if cell.check is None else places[cell.check.stage.name]]


def _column(cell: Cell) -> str:
    return f"infer {cell.backend}" if cell.result.stage.kind is StageKind.INFER else cell.backend


def _edges(results: Sequence[StageResult]) -> list[dict[str, Any]]:
    """Who was compared with whom, and how far they are apart where that was measured."""
    edges = []
    for place, result in enumerate(results):
        if result.stage.kind is StageKind.CHECK and result.stage.reference:
            errors = [one for one in result.findings if "error" in one.numbers]
            worst = max(errors, key=lambda one: (one.verdict, _share(one)), default=None)
            edges.append(
                {
                    "position": place,
                    "reference": result.stage.reference,
                    "candidate": result.stage.candidate,
                    "error": None if worst is None else plain(worst.numbers["error"]),
                    "limit": None if worst is None else plain(worst.numbers.get("limit")),
                }
            )
    return edges


def _share(finding: NumberFinding) -> float:
    return finding.numbers["error"] / (finding.numbers.get("limit") or 1.0)


def _history(report: PipelineReport, name: str) -> dict[str, Any]:
    stage = next((one for one in report.plan.stages if one.name == name), None)
    told = {} if stage is None else {"trainer": stage.trainer, "precision": stage.precision, "devices": stage.devices}
    return {"stage": name, **told, **plain(report.histories[name])}


def _columns(results: Sequence[StageResult]) -> tuple[dict[str, Any], dict[str, list[str]]]:
    texts = {
        "name": [result.stage.name for result in results],
        "kind": [result.stage.kind.value for result in results],
        "trainer": [result.stage.trainer for result in results],
        "precision": [result.stage.precision for result in results],
        "variant": [variant_words(result) for result in results],
        "status": [status_words(result) for result in results],
        "reason": [result.reason for result in results],
        "said": [worst_number(result) for result in results],
        "command": ["" if result.stage.command is None else result.stage.command.text for result in results],
    }
    columns: dict[str, Any] = {}
    names: dict[str, list[str]] = {}
    for name, values in texts.items():
        names[name], codes = said_once(np.array(values, dtype=object))
        columns[name] = encode(codes)
    columns["verdict"] = encode(np.array([int(result.verdict) for result in results], dtype=np.int64))
    columns["seconds"] = encode(np.array([result.seconds for result in results], dtype="<f4"))
    columns["peak"] = encode(np.array([result.peak_bytes for result in results], dtype="<f4"))
    return columns, names
