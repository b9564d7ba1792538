"""A check as JUnit XML, for the systems that run tests: one test case for each case, in a suite for each API.

FAIL is a failure, ERROR an error, NOT_COMPARED skipped; a warning passes and says so in its output. Characters that XML
cannot hold are shown as escapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TextIO
from xml.sax.saxutils import escape, quoteattr

from trueline.cases import CaseResult, CheckInfo
from trueline.records import Verdict
from trueline.report.check_summary import by_api_of, tallies_of
from trueline.report.check_wording import call_words, simulated_words, subject, worst_element

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(info: CheckInfo, results: Sequence[CaseResult], stream: TextIO) -> int:
    """Writes the whole check; gives the number of test cases. Open the file as UTF-8."""
    name = f"trueline check {info.target} against {info.reference} ({info.standard})"
    stream.write('<?xml version="1.0" encoding="utf-8"?>\n')
    stream.write(f"<testsuites name={_attribute(name)} {_counts(results)}>\n")
    for api, members in by_api_of(results):
        stamp = _attribute(info.created[:19])
        stream.write(f"  <testsuite name={_attribute(api)} {_counts(members)} timestamp={stamp}>\n")
        for result in members:
            stream.writelines(_test_case(result))
        stream.write("  </testsuite>\n")
    stream.write("</testsuites>\n")
    return len(results)


def _counts(results: Sequence[CaseResult]) -> str:
    verdicts, seconds = tallies_of(results)
    return (
        f'tests="{sum(verdicts.values())}" failures="{verdicts[Verdict.FAIL]}" errors="{verdicts[Verdict.ERROR]}" '
        f'skipped="{verdicts[Verdict.NOT_COMPARED]}" time="{seconds:.6f}"'
    )


def _test_case(result: CaseResult) -> Iterable[str]:
    case = result.case
    name = f"{call_words(case, name=False)} {case.key}"
    seconds = result.measured.candidate.seconds
    opening = f'    <testcase classname={_attribute(case.api)} name={_attribute(name)} time="{seconds:.6f}"'
    content = _content(result)
    if not content:
        yield f"{opening}/>\n"
        return
    yield f"{opening}>\n"
    yield content
    yield "    </testcase>\n"


def _content(result: CaseResult) -> str:
    message = _attribute(result.reason)
    simulated = result.measured.candidate.simulated
    if result.verdict is Verdict.PASS and not simulated:
        return ""
    if result.verdict is Verdict.NOT_COMPARED:
        return f"      <skipped message={message}/>\n"
    text = escape(_clean(_details(result)))
    if result.verdict in (Verdict.PASS, Verdict.WARN):
        return f"      <system-out>{text}</system-out>\n"
    tag = "failure" if result.verdict is Verdict.FAIL else "error"
    kind = _attribute(result.measured.candidate.status.value if tag == "error" else "wrong numbers")
    return f"      <{tag} type={kind} message={message}>{text}</{tag}>\n"


def _details(result: CaseResult) -> str:
    """What a person reads who sees nothing but this text."""
    case = result.case
    rows = [call_words(case), f"{result.verdict.name}: {result.reason}"]
    if simulated := result.measured.candidate.simulated:
        rows.append(f"simulated {simulated_words(simulated)}")
    for finding in result.findings:
        score = "" if finding.score is None else f" (score {finding.score:.4g})"
        rows.append(f"  {finding.verdict.name} {subject(finding.evidence)}{score}: {finding.reason}")
        if finding.verdict >= Verdict.FAIL and (element := worst_element(finding.evidence)):
            rows.append(f"    worst element {element}")
    if case.module or case.source:
        rows.append("at " + ", ".join(part for part in (case.module, case.source) if part))
    if case.calls:
        rows.append(f"{case.count} calls, the first {case.calls[0]}")
    return "\n".join(rows)


def _attribute(text: str) -> str:
    return quoteattr(_clean(text))


def _clean(text: str) -> str:
    return _NOT_XML.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode("ascii"), text)
