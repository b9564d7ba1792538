"""A profile as JSON: strict and streamed, one case a line.

    {"format": "trueline-profile", "version": 1, "verdict", "summary", "info": {...}, "counts": {PASS, ...},
     "totals": {forward, backward, seconds, launch, against, against_launch, lost, explained},   seconds of one step
     "told": {calls, step, against, explained, devices: {target: sentence}},   the same in words
     "cases": [{key, api, call, count, verdict, reason, findings: [{what, phase, verdict, reason}], total, lost,
                accuracy, accuracy_reason, calls, module, source, ratios: {phase: {value, low, high}},
                target: {outcome, notes, outputs, phases: {phase: {timing, memory, cost, share, bound}}}, against}]}

Times are in seconds, memory in bytes. A float that JSON cannot say is the string "nan", "inf" or "-inf".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from trueline.errors import UsageError
from trueline.profiles import CaseProfile, ProfileInfo, SideProfile, totals
from trueline.records import Verdict
from trueline.report.check_wording import call_words
from trueline.report.json import dumps, plain
from trueline.report.profile_wording import (
    against_line,
    calls_line,
    explained_line,
    roofline_line,
    sum_line,
    verdict_line,
)

FORMAT = "trueline-profile"
VERSION = 1
FILE = "profile.json"
"""Its name in the folder of a profile that was kept."""


def write_profile_json(info: ProfileInfo, results: Sequence[CaseProfile], verdict: Verdict, stream: TextIO) -> int:
    """Writes the whole profile; gives the number of cases."""
    stream.write(dumps(profile_head(info, results, verdict))[:-1] + ',\n"cases": [')
    for position, result in enumerate(results):
        stream.write(("\n" if position == 0 else ",\n") + dumps(case_dict(result)))
    stream.write("\n]}\n")
    return len(results)


def profile_dict(info: ProfileInfo, results: Sequence[CaseProfile], verdict: Verdict) -> dict[str, Any]:
    """The whole profile, as the file has it."""
    return {**profile_head(info, results, verdict), "cases": [case_dict(result) for result in results]}


def read_profile_json(path: Path) -> Mapping[str, Any]:
    """A profile that was written before: its file, or its folder. What its cases hold is not looked into."""
    file = path / FILE if path.is_dir() else path
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None
    except ValueError:
        raise UsageError(f"{file} is no profile: it is not JSON") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT or not isinstance(content.get("cases"), list):
        raise UsageError(f"{file} is no profile; trueline profile --out FOLDER writes one")
    if not isinstance(content.get("version"), int) or content["version"] > VERSION:
        raise UsageError(f"{file} was written by a newer trueline (version {content.get('version')} of its format)")
    return content


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
        "told": {
            "calls": calls_line(info, results),
            "step": sum_line(info, results),
            "against": against_line(info, results) if info.against else "",
            "explained": explained_line(info, results),
            "devices": {target: roofline_line(line) for target, line in info.rooflines.items()},
        },
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
