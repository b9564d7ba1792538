"""A pipeline as JUnit XML: one test case for each stage, in a suite for each training.

FAIL is a failure, ERROR an error, NOT_COMPARED skipped; a warning passes and says so in its output.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TextIO
from xml.sax.saxutils import escape, quoteattr

from trueline.pipelines import PipelineReport, StageResult
from trueline.records import Verdict

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_pipeline_junit(report: PipelineReport, stream: TextIO) -> int:
    """Writes the whole report; gives the number of test cases. Open the file as UTF-8."""
    name = f"trueline pipeline {report.plan.model} {report.plan.mode}"
    stream.write('<?xml version="1.0" encoding="utf-8"?>\n')
    stream.write(f"<testsuites name={_attribute(name)} {_counts(report.results)}>\n")
    stamp = f" timestamp={_attribute(report.info.created[:19])}" if report.info is not None else ""
    for chain in dict.fromkeys(result.stage.chain for result in report.results):
        members = [result for result in report.results if result.stage.chain == chain]
        stream.write(f"  <testsuite name={_attribute(chain or report.plan.model)} {_counts(members)}{stamp}>\n")
        for result in members:
            stream.writelines(_test_case(result))
        stream.write("  </testsuite>\n")
    stream.write("</testsuites>\n")
    return len(report.results)


def _counts(results: Sequence[StageResult]) -> str:
    tally = {verdict: sum(result.verdict is verdict for result in results) for verdict in Verdict}
    seconds = sum(result.seconds for result in results)
    return (
        f'tests="{len(results)}" failures="{tally[Verdict.FAIL]}" errors="{tally[Verdict.ERROR]}" '
        f'skipped="{tally[Verdict.NOT_COMPARED]}" time="{seconds:.3f}"'
    )


def _test_case(result: StageResult) -> Iterable[str]:
    stage = result.stage
    where = f"classname={_attribute(stage.chain or stage.kind.value)} name={_attribute(stage.name.rpartition('/')[2])}"
    yield f'    <testcase {where} time="{result.seconds:.3f}">\n'
    message = _attribute(result.reason)
    if result.verdict is Verdict.NOT_COMPARED:
        yield f"      <skipped message={message}/>\n"
    elif result.verdict >= Verdict.FAIL:
        tag = "failure" if result.verdict is Verdict.FAIL else "error"
        kind = _attribute("wrong numbers" if stage.command is None else result.status.value)
        yield f"      <{tag} type={kind} message={message}>{escape(_clean(_details(result)))}</{tag}>\n"
    elif result.verdict is Verdict.WARN:
        yield f"      <system-out>{escape(_clean(_details(result)))}</system-out>\n"
    yield "    </testcase>\n"


def _details(result: StageResult) -> str:
    """What a person reads who sees nothing but this text."""
    rows = [f"{result.verdict.name}: {result.reason}"]
    if result.stage.command is not None:
        rows.append(f"command: {result.stage.command.text}")
    if result.log:
        rows.append(f"output: {result.log}")
    for finding in result.findings:
        numbers = ", ".join(f"{name} {value:.4g}" for name, value in finding.numbers.items())
        blamed = f" (at {finding.blamed})" if finding.blamed else ""
        rows.append(
            f"  {finding.verdict.name} {finding.what}{blamed}: {finding.reason}" + (f" [{numbers}]" if numbers else "")
        )
    return "\n".join(rows)


def _attribute(text: str) -> str:
    return quoteattr(_clean(text))


def _clean(text: str) -> str:
    return _NOT_XML.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode("ascii"), text)
