"""A pipeline as one HTML page that opens from disk, asks nothing of the network and runs no program.

The matrix model x trainer x precision x backend first; below it every stage with its command, time, memory, errors and
a link to its output, which lies beside the page.
"""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from trueline.pipelines import NumberFinding, PipelineReport, StageKind, StageResult
from trueline.records import Verdict
from trueline.report.pipeline_wording import (
    Cell,
    matrix,
    memory_words,
    seconds_words,
    status_words,
    summary,
    variant_words,
    worst_number,
)

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --good: #2e8b57; --warn: #b8860b; --bad: #c0392b; --dim: #888; }
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1500px; padding: 0 1rem; }
h1 { font-size: 1.25rem; margin: 0; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
table { border-collapse: collapse; width: 100%; } th { text-align: left; color: var(--dim); font-weight: normal; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number { text-align: right; white-space: nowrap; } code { font-size: .85em; overflow-wrap: anywhere; }
.pass { color: var(--good); } .warn { color: var(--warn); } .fail, .error { color: var(--bad); font-weight: 600; }
.not_compared { color: var(--dim); } .dim { color: var(--dim); } ul { margin: .2rem 0; padding-left: 1.2rem; }
td.cell { white-space: nowrap; } details { margin: .2rem 0; }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def write_pipeline_html(report: PipelineReport, stream: TextIO) -> None:
    """Writes the page. Open the file as UTF-8."""
    stream.writelines(f"{row}\n" for row in _page(report))


def _page(report: PipelineReport) -> Iterator[str]:
    verdict = report.verdict if report.results else Verdict.NOT_COMPARED
    title = f"{verdict.name.replace('_', ' ')}: {summary(report)}"
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield f"<title>{_text(title)}</title><style>{_STYLE}</style></head><body>"
    yield f"<h1 class={_class(verdict)}>{_text(title)}</h1>"
    yield f"<p class=dim>{_text(f'{report.plan.model}, {report.plan.mode}, {report.plan.config}')}</p>"
    yield from _matrix(report)
    yield from _changes(report)
    yield from _stages(report)
    yield from _checks(report)
    yield from _head(report)
    yield "</body></html>"


def _matrix(report: PipelineReport) -> Iterator[str]:
    cells = [cell for cell in matrix(report) if cell.result.stage.kind is not StageKind.PREPARE]
    columns = list(dict.fromkeys(_column(cell) for cell in cells))
    chains: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        chains.setdefault((cell.trainer, cell.precision, cell.devices), []).append(cell)
    yield "<h2>matrix</h2><table><tr><th>model<th>trainer<th>precision<th>devices"
    yield "".join(f"<th>{_text(name)}" for name in columns) + "</tr>"
    for (trainer, precision, devices), members in chains.items():
        yield f"<tr><td>{_text(report.plan.model)}<td>{_text(trainer)}<td>{_text(precision)}<td>{_text(devices)}"
        for name in columns:
            yield _cell([cell for cell in members if _column(cell) == name])
        yield "</tr>"
    yield "</table>"


def _column(cell: Cell) -> str:
    return f"infer {cell.backend}" if cell.result.stage.kind is StageKind.INFER else cell.backend


def _cell(cells: Sequence[Cell]) -> str:
    if not cells:
        return "<td class='cell dim'>"
    worst = max(cell.verdict for cell in cells)
    good = sum(cell.verdict <= Verdict.WARN for cell in cells)
    tally = "" if len(cells) == 1 else f" {good}/{len(cells)}"
    seconds = seconds_words(sum(cell.result.seconds for cell in cells))
    memory = memory_words(max(cell.result.peak_bytes for cell in cells))
    verdict = f"<span class={_class(worst)}>{_text(_word(worst) + tally)}</span>"
    return f"<td class=cell>{verdict}<br><span class=dim>{_text(f'{seconds} {memory}')}</span>"


def _stages(report: PipelineReport) -> Iterator[str]:
    yield "<h2>stages</h2><table><tr><th>stage<th>result<th>time<th>memory<th>errors<th>command and output</tr>"
    for cell in matrix(report):
        result = cell.result
        command = result.stage.command
        assert command is not None, "the matrix holds commands"
        numbers = _numbers(cell.check) if cell.check is not None else ""
        reason = f"<br><span class=dim>{_text(result.reason)}</span>" if result.reason else ""
        link = _link(report, result)
        yield (
            f"<tr><td>{_text(result.stage.name)}<br><span class=dim>{_text(variant_words(result))}</span>"
            f"<td><span class={_class(result.verdict)}>{_text(status_words(result))}</span>{reason}"
            f"<td class=number>{_text(seconds_words(result.seconds))}"
            f"<td class=number>{_text(memory_words(result.peak_bytes))}"
            f"<td>{numbers}<td><code>{_text(command.text.strip())}</code>{link}</tr>"
        )
    yield "</table>"


def _numbers(check: StageResult) -> str:
    return f"<span class={_class(check.verdict)}>{_text(_word(check.verdict))}</span><br>{_text(worst_number(check))}"


def _link(report: PipelineReport, result: StageResult) -> str:
    if not result.log or report.info is None:
        return ""
    place = os.path.relpath(result.log, report.info.folder)
    return f'<br><a href="{html.escape(place, quote=True)}">output</a>'


def _checks(report: PipelineReport) -> Iterator[str]:
    checks = [result for result in report.results if result.stage.kind is StageKind.CHECK]
    if not checks:
        return
    yield "<h2>numbers</h2><table><tr><th>check<th>of<th>against<th>verdict<th>findings</tr>"
    for result in checks:
        stage = result.stage
        findings = _findings(result)
        yield (
            f"<tr><td>{_text(str(stage.check))}<td>{_text(stage.candidate)}<td>{_text(stage.reference)}"
            f"<td class={_class(result.verdict)}>{_text(_word(result.verdict))}"
            f"<td>{findings or _text(result.reason)}</tr>"
        )
    yield "</table>"


def _findings(result: StageResult) -> str:
    """What is not simply right; the rest can be unfolded."""
    loud = _list(_finding(one) for one in result.findings if one.verdict is not Verdict.PASS)
    quiet = [_finding(one) for one in result.findings if one.verdict is Verdict.PASS]
    folded = f"<details><summary class=dim>{len(quiet)} right</summary>{_list(quiet)}</details>" if quiet else ""
    return loud + folded


def _finding(finding: NumberFinding) -> str:
    numbers = ", ".join(f"{name} {value:.3g}" for name, value in finding.numbers.items())
    parts = (f"at {finding.blamed}" if finding.blamed else "", f"[{numbers}]" if numbers else "")
    more = " ".join(part for part in parts if part)
    word = f"<span class={_class(finding.verdict)}>{_text(_word(finding.verdict))}</span>"
    return f"{word} {_text(f'{finding.what}: {finding.reason}')} <span class=dim>{_text(more)}</span>"


def _changes(report: PipelineReport) -> Iterator[str]:
    if not report.changes:
        return
    yield "<h2>since the last run</h2><table><tr><th>what<th>stage<th>before<th>now</tr>"
    for one in report.changes:
        yield f"<tr><td>{_text(one.what)}<td>{_text(one.stage)}<td>{_text(one.before)}<td>{_text(one.now)}</tr>"
    yield "</table>"


def _head(report: PipelineReport) -> Iterator[str]:
    if report.plan.warnings:
        yield "<h2>config</h2>" + _list(_text(str(warning)) for warning in report.plan.warnings)
    if report.info is None:
        return
    info = report.info
    made = f"{info.created}, {seconds_words(info.seconds)}, {info.jobs} at a time, on {info.host}"
    facts = [f"{made}, trueline {info.tool_version}"]
    facts += [f"{name} {version}" for name, version in info.versions.items()]
    facts += [f"{name}={value}" for name, value in info.environment.items()]
    yield "<h2>made with</h2>" + _list(_text(fact) for fact in facts)


def _list(items: Iterable[str]) -> str:
    rows = "".join(f"<li>{item}" for item in items)
    return f"<ul>{rows}</ul>" if rows else ""


def _word(verdict: Verdict) -> str:
    return verdict.name.replace("_", " ").lower()


def _class(verdict: Verdict) -> str:
    return verdict.name.lower()


def _text(text: str) -> str:
    return html.escape(text)
