"""A profile as JSON: strict and streamed, one case a line.

    {"format": "trueline-profile", "version": 1, "verdict", "summary", "info": {...}, "counts": {PASS, ...},
     "totals": {forward, backward, seconds, launch, against, against_launch, lost, explained},   seconds of one step
     "cases": [{key, api, call, count, verdict, reason, findings: [{what, phase, verdict, reason}], total, lost,
                accuracy, accuracy_reason, calls, module, source, ratios: {phase: {value, low, high}},
                target: {outcome, notes, outputs, phases: {phase: {timing, memory, cost, share, bound}}}, against}]}

Times are in seconds, memory in bytes. A float that JSON cannot say is the string "nan", "inf" or "-inf".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TextIO

from trueline.profiles import CaseProfile, ProfileInfo, SideProfile, totals
from trueline.records import Verdict
from trueline.report.check_wording import call_words
from trueline.report.json import dumps, plain
from trueline.report.profile_wording import verdict_line

FORMAT = "trueline-profile"
VERSION = 1


def write_profile_json(info: ProfileInfo, results: Sequence[CaseProfile], verdict: Verdict, stream: TextIO) -> int:
    """Writes the whole profile; gives the number of cases."""
    stream.write(dumps(profile_head(info, results, verdict))[:-1] + ',\n"cases": [')
    for position, result in enumerate(results):
        stream.write(("\n" if position == 0 else ",\n") + dumps(case_dict(result)))
    stream.write("\n]}\n")
    return len(results)


def profile_head(info: ProfileInfo, results: Sequence[CaseProfile], verdict: Verdict) -> dict[str, Any]:
    """Everything about a profile but its cases."""
    found = totals(results, info)
    explained = found["seconds"] / info.step_seconds if info.step_seconds else None
    return {
        "format": FORMAT,
        "version": VERSION,
        "verdict": verdict.name,
        "summary": verdict_line(info, results),
        "info": plain(info),
        "counts": {one.name: sum(result.verdict is one for result in results) for one in Verdict},
        "totals": plain({**found, "explained": explained}),
    }


def case_dict(result: CaseProfile) -> dict[str, Any]:
    """One case with both its sides."""
    case, measured = result.case, result.measured
    return {
        "key": case.key,
        "api": case.api,
        "call": call_words(case),
        "count": case.count,
        "verdict": result.verdict.name,
        "reason": result.reason,
        "findings": [
            {"what": one.what, "phase": one.phase.value, "verdict": one.verdict.name, "reason": one.reason}
            for one in result.findings
        ],
        "total": plain(result.total),
        "lost": plain(result.lost),
        "accuracy": None if result.accuracy is None else result.accuracy.name,
        "accuracy_reason": result.accuracy_reason,
        "calls": list(case.calls),
        "module": case.module,
        "source": case.source,
        "ratios": {phase.value: plain(ratio) for phase, ratio in measured.ratios.items()},
        "target": _side(measured.target),
        "against": None if measured.against is None else _side(measured.against),
    }


def _side(side: SideProfile) -> dict[str, Any]:
    return {
        "outcome": plain(side.outcome),
        "notes": list(side.notes),
        "outputs": [plain(one) for one in side.outputs],
        "phases": {phase.value: plain(found) for phase, found in side.phases.items()},
    }
