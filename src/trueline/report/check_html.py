"""A check as one HTML page that opens from disk, asks nothing of the network and can be mailed (see ``html``).

The matrix of APIs and dtypes and all counts are of all cases. The cases themselves are in it as compact columns; of
more than ``LISTED_CASES`` those that did not simply pass. Details are kept of the cases that are not right, then of
others, up to a fixed amount. Where the page is served and its cases are very many, or a check is still running, it
holds none of them: it asks for the rows that are looked at (``windowed``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from trueline.cases import CaseResult, CheckInfo
from trueline.report.check_case import case_details, case_row
from trueline.report.check_cells import Dtypes, Overview, matrix_data, overview_of
from trueline.report.check_changes import Changes, changes_data
from trueline.report.check_groups import groups_data
from trueline.report.check_json import check_head
from trueline.report.check_summary import not_right_of, summary_of
from trueline.report.check_wording import calls_line, check_command, failures_of, tally_of
from trueline.report.html import Layout, write_page
from trueline.report.json import dumps
from trueline.report.page_data import encode, said_once
from trueline.report.phrases import Phrase

LAYOUT = Layout(
    "check.html",
    "case",
    (
        "chinese_check.js", "check_data.js", "check_plot.js", "check_scores.js", "table.js", "check_rows.js",
        "check_matrix.js", "check_groups.js", "check_changes.js", "check_progress.js", "check_details.js",
        "check_main.js",
    ),
    ("check.css",),
)  # fmt: skip
LISTED_CASES = 20_000
DETAILED_CASES = 3_000
DETAILED_BYTES = 20_000_000
SLOWEST = 10
_NO_VERDICT = 255
_TEXTS = ("api", "call", "module", "source", "reason", "dtype", "ending")
_SCORES = ("forward", "backward")

Vector = np.ndarray[Any, Any]


def write_check_html(
    info: CheckInfo, results: Sequence[CaseResult], stream: TextIO, *, folder: Path | None = None,
    against: tuple[str, Changes] | None = None,
) -> None:  # fmt: skip
    """Writes the page. ``against`` is an earlier check, by name, and what changed since. Open the file as UTF-8."""
    write_check_page(check_page_data(info, results, folder=folder, against=against), stream)


def write_check_page(data: dict[str, Any], stream: TextIO) -> None:
    """Writes the page of such data."""
    title = f"{data['head']['verdict'].replace('_', ' ')}: {data['head']['summary']}"
    write_page(stream, LAYOUT, title, data)


def check_page_data(
    info: CheckInfo, results: Sequence[CaseResult], *, folder: Path | None = None,
    against: tuple[str, Changes] | None = None, windowed: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Everything the page shows, as JSON values."""
    shown = [] if windowed else shown_cases(results)
    columns, names = _columns(shown, Dtypes(info))
    data = {
        "head": page_head(info, results, shown, folder, windowed=windowed),
        "count": summary_of(results).cases if windowed else len(shown),
        "columns": columns,
        "names": names,
        "details": _details(shown, folder),
        "windowed": windowed,
        **summary_data(info, results, folder),
        "changes": None if against is None else changes_data(*against),
    }
    return data | {"rows": {} if windowed else _rows_of(keys_in(data), shown)}


def summary_data(info: CheckInfo, results: Sequence[CaseResult], folder: Path | None) -> dict[str, Any]:
    """What the page shows of all cases together."""
    overview, dtypes = overview_of(results), Dtypes(info)
    return {
        "matrix": matrix_data(overview.cells(), dtypes),
        "groups": groups_data(folder, overview.failing(), dtypes),
        "slowest": _slowest(overview),
    }


def _slowest(overview: Overview) -> list[dict[str, Any]]:
    return [{"key": one.key, "api": one.api, "seconds": one.seconds} for one in overview.slowest(SLOWEST)]


def shown_cases(results: Sequence[CaseResult]) -> Sequence[CaseResult]:
    """The cases that a page lists: all of them or, where they are too many to open, the worst that did not pass."""
    if len(results) <= LISTED_CASES:
        return list(results)
    return not_right_of(results)[:LISTED_CASES]


def keys_in(data: Mapping[str, Any]) -> set[str]:
    """The cases that groups, changes and lists of a page name by their keys."""
    groups = (member for group in data["groups"]["groups"] for member in group["members"])
    changes = (data.get("changes") or {}).get("cases", ())
    return {one["key"] for one in (*groups, *changes, *data["slowest"])}


def _rows_of(keys: set[str], shown: Sequence[CaseResult]) -> dict[str, int]:
    """In which row of the page a case is, of those that something names."""
    if not keys:
        return {}
    return {key: row for row, result in enumerate(shown) if (key := result.case.key) in keys}


def page_head(
    info: CheckInfo, results: Sequence[CaseResult], shown: Sequence[CaseResult], folder: Path | None, *, windowed: bool
) -> dict[str, Any]:
    """What is said of the whole check; ``position`` is the row of the worst case, where the page has rows."""
    head = check_head(info, results, folder=folder, html_written=True)
    tally, failures = tally_of(info, results), failures_of(results if windowed else shown)
    positions = {id(result): position for position, result in enumerate(shown)}
    line = calls_line(tally)
    if not windowed and len(shown) != tally.checked:
        line = Phrase("{calls}; of them this page lists {n} that did not simply pass", calls=line, n=len(shown))
    worst = failures[0] if failures else None
    return head | {
        "calls_line": line,
        "command": check_command(info, *(("--out", folder) if folder is not None else ())),
        "folder": "" if folder is None else str(folder),
        "position": None if worst is None or windowed else positions[id(worst)],
        "reason": "" if worst is None else worst.reason,
        "key": "" if worst is None else worst.case.key,
        "seconds": tally.seconds,
    }


def _columns(results: Sequence[CaseResult], dtypes: Dtypes) -> tuple[dict[str, Any], dict[str, list[str]]]:
    rows = [case_row(result, dtypes) for result in results]
    columns: dict[str, Any] = {}
    names: dict[str, list[str]] = {}
    for name in _TEXTS:
        names[name], codes = said_once(np.array([row[name] for row in rows], dtype=object))
        columns[name] = encode(codes)
    for name in ("verdict", "calls"):
        columns[name] = encode(np.array([row[name] for row in rows], dtype=np.int64))
    for name in (*_SCORES, "seconds"):
        columns[name] = encode(_floats(row[name] for row in rows))
    for name in (f"{part}_verdict" for part in _SCORES):
        told = [_NO_VERDICT if row[name] is None else row[name] for row in rows]
        columns[name] = encode(np.array(told, dtype=np.int64))
    return columns, names


def _floats(values: Iterable[float | None]) -> Vector:
    """Numbers of a column, NaN where there is none."""
    with np.errstate(over="ignore"):
        found = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
        return np.asarray(found.astype("<f4"))


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
