"""A check as one HTML page that opens from disk, asks nothing of the network and can be mailed (see ``html``).

All cases are in it as compact columns; of more than ``LISTED_CASES`` those that did not simply pass. Details are kept
of the cases that are not right, then of others, up to a fixed amount.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from trueline.cases import CaseResult, CheckInfo, Evidence, Outcome, TensorFinding
from trueline.records import Measurement, Verdict
from trueline.report.check_json import check_head
from trueline.report.check_summary import not_right_of
from trueline.report.check_wording import (
    call_words,
    calls_line,
    check_command,
    failures_of,
    next_commands,
    repro_command,
    score_of,
    simulated_words,
    tally_of,
    word_of,
    worst_element,
)
from trueline.report.html import Layout, write_page
from trueline.report.json import dumps, plain
from trueline.report.page_data import encode, said_once
from trueline.report.wording import size

LAYOUT = Layout(
    "check.html",
    "case",
    (
        "common.js", "check_data.js", "check_plot.js", "table.js", "check_apis.js", "check_details.js", "check_main.js",
    ),
    ("page.css", "check.css"),
)  # fmt: skip
LISTED_CASES = 20_000
DETAILED_CASES = 3_000
DETAILED_BYTES = 20_000_000
_CALLS_SHOWN = 8
_NO_VERDICT = 255

Vector = np.ndarray[Any, Any]


def write_check_html(
    info: CheckInfo, results: Sequence[CaseResult], stream: TextIO, *, folder: Path | None = None
) -> None:
    """Writes the page. Open the file as UTF-8."""
    write_check_page(check_page_data(info, results, folder=folder), stream)


def write_check_page(data: dict[str, Any], stream: TextIO) -> None:
    """Writes the page of such data."""
    title = f"{data['head']['verdict'].replace('_', ' ')}: {data['head']['summary']}"
    write_page(stream, LAYOUT, title, data)


def check_page_data(info: CheckInfo, results: Sequence[CaseResult], *, folder: Path | None = None) -> dict[str, Any]:
    """Everything the page shows, as JSON values."""
    shown = shown_cases(results)
    columns, names = _columns(shown)
    return {
        "head": _head(info, results, shown, folder),
        "count": len(shown),
        "columns": columns,
        "names": names,
        "details": _details(shown, folder),
    }


def shown_cases(results: Sequence[CaseResult]) -> Sequence[CaseResult]:
    """The cases that a page lists: all of them or, where they are too many to open, the worst that did not pass."""
    if len(results) <= LISTED_CASES:
        return list(results)
    return not_right_of(results)[:LISTED_CASES]


def _head(
    info: CheckInfo, results: Sequence[CaseResult], shown: Sequence[CaseResult], folder: Path | None
) -> dict[str, Any]:
    head = check_head(info, results, folder=folder)
    tally, failures = tally_of(info, results), failures_of(shown)
    positions = {id(result): position for position, result in enumerate(shown)}
    listed = "" if len(shown) == tally.checked else f"; of them this page lists {len(shown):,} that did not simply pass"
    commands = next_commands(info, failures, folder, html_written=True)
    return head | {
        "next": [{"why": why, "command": text} for why, text in commands],
        "calls_line": calls_line(tally) + listed,
        "command": check_command(info, *(("--out", folder) if folder is not None else ())),
        "folder": "" if folder is None else str(folder),
        "position": positions[id(failures[0])] if failures else None,
        "seconds": tally.seconds,
    }


def _columns(results: Sequence[CaseResult]) -> tuple[dict[str, Any], dict[str, list[str]]]:
    texts = {
        "api": [result.case.api for result in results],
        "call": [call_words(result.case, name=False) for result in results],
        "module": [result.case.module for result in results],
        "source": [result.case.source for result in results],
        "reason": [result.reason for result in results],
        "dtype": [_dtype(result) for result in results],
    }
    columns: dict[str, Any] = {}
    names: dict[str, list[str]] = {}
    for name, values in texts.items():
        names[name], codes = said_once(np.array(values, dtype=object))
        columns[name] = encode(codes)
    columns["verdict"] = encode(np.array([int(result.verdict) for result in results], dtype=np.int64))
    columns["calls"] = encode(np.array([result.case.count for result in results], dtype=np.int64))
    for name, part in (("forward", "output"), ("backward", "gradient")):
        columns[name] = encode(_scores(results, part))
        verdicts = [getattr(result, name) for result in results]
        numbers = [_NO_VERDICT if verdict is None else int(verdict) for verdict in verdicts]
        columns[f"{name}_verdict"] = encode(np.array(numbers, dtype=np.int64))
    return columns, names


def _scores(results: Sequence[CaseResult], part: str) -> Vector:
    """One score a case, NaN where there is none; a score that is itself NaN is beyond any limit."""
    found = (score_of(result, part) for result in results)
    values = np.array([np.nan if one is None else np.inf if np.isnan(one) else one for one in found], dtype=np.float64)
    with np.errstate(over="ignore"):
        return np.asarray(values.astype("<f4"))


def _dtype(result: CaseResult) -> str:
    """The dtype of a case for people who filter: that of its first float tensor, else of its first tensor."""
    dtypes = [one.evidence.dtype for one in result.findings] or [spec.dtype for spec in result.case.tensors]
    floats = [dtype for dtype in dtypes if "float" in dtype or "complex" in dtype]
    return (floats or dtypes or ["no tensor"])[0]


def _details(results: Sequence[CaseResult], folder: Path | None) -> dict[str, Any]:
    details: dict[str, Any] = {}
    budget = DETAILED_BYTES
    for position in _worth_details(results):
        if len(details) >= DETAILED_CASES or budget < 0:
            break
        detail = case_details(results[position], folder)
        budget -= len(dumps(detail))
        details[str(position)] = detail
    return details


def _worth_details(results: Sequence[CaseResult]) -> Iterator[int]:
    """Positions, the most telling ones first: what is wrong, what warns, what was not compared, then the rest."""
    yield from sorted(range(len(results)), key=lambda position: -results[position].verdict)


def case_details(result: CaseResult, folder: Path | None = None) -> dict[str, Any]:
    """One case as the page's side panel shows it."""
    case = result.case
    return {
        "key": case.key,
        "seed": str(case.seed),
        "repro": repro_command(result, folder),
        "calls": list(case.calls[:_CALLS_SHOWN]),
        "candidate": _outcome(result.measured.candidate),
        "reference": None if result.measured.reference is None else _outcome(result.measured.reference),
        "inputs": [
            f"{spec.path}  {spec.dtype} {list(spec.shape)}"
            + (f" strides {list(spec.strides)}" if spec.strides else "")
            + (f", {spec.domain}" if spec.domain else "")
            for spec in (*case.tensors, *case.gradients)
        ],
        "tensors": [_tensor(finding) for finding in result.findings],
    }


def _outcome(outcome: Outcome) -> str:
    told = f"{outcome.status.value}: {outcome.reason}" if outcome.reason else outcome.status.value
    if outcome.simulated:
        told += f", simulated {simulated_words(outcome.simulated)}"
    memory = f", {size(outcome.peak_bytes)}" if outcome.peak_bytes else ""
    return f"{told} ({1000 * outcome.seconds:.3g} ms{memory})"


def _tensor(finding: TensorFinding) -> dict[str, Any]:
    evidence = finding.evidence
    sides = (
        ("candidate to gold", evidence.gold),
        ("honest to gold", evidence.honest),
        ("candidate to honest", evidence.direct),
    )
    content: dict[str, Any] = {
        "part": evidence.part,
        "path": evidence.path,
        "dtype": evidence.dtype,
        "shape": list(evidence.shape),
        "verdict": int(finding.verdict),
        "word": word_of(finding.verdict).lower(),
        "reason": finding.reason,
        "score": plain(finding.score),
        "worst": _worst(evidence),
        "measured": [[label, *_numbers(found)] for label, found in sides if found is not None and found.count],
    }
    if finding.verdict is not Verdict.PASS:
        content["numbers"] = plain(evidence.numbers)
    return content


def _worst(evidence: Evidence) -> list[Any] | None:
    worst = worst_element(evidence)
    return None if worst is None else [list(worst.position), plain(worst.candidate), plain(worst.gold)]


def _numbers(found: Measurement) -> list[Any]:
    unlike = found.nan_mismatch + found.infinity_mismatch
    values = (found.rmse, found.max_abs, found.max_ulp, found.mean_ulp, found.bias, 1.0 - found.cosine, unlike)
    return [plain(value) for value in values]
