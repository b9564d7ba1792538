"""A check as JSON: strict and streamed, one case a line.

    {"format": "trueline-check", "version": 1, "verdict", "summary",
     "info": {sources, target, reference, standard, overrides, seed, created, tool_version, framework_version, mode,
              passed, draws, variants, strided},
     "calls": {total, checked, merged, skipped, left, skipped_because: {reason: calls}},
     "counts": {PASS, WARN, NOT_COMPARED, FAIL, ERROR},
     "endings": {ending: cases, and calls that became none},
     "not_compared": {reason: cases}, "simulated": {reason: cases},
     "next": [{why, command}],
     "cases": [{key, api, call, verdict, ending, reason, score, forward, backward, count, calls, module, source, seed,
                autocast, inputs: [{path, dtype, shape, strides}],
                candidate: {status, reason, seconds, peak_bytes, simulated}, reference: ... or null, skipped,
                tensors: [{part, path, dtype, shape, verdict, reason, score, worst_element: {position, candidate, gold}
                           or null, structure, note, exact,
                           gold, honest, direct: measurement or null, numbers}]}]}

A float that JSON cannot say is the string "nan", "inf" or "-inf". ``version`` grows when a field changes its meaning;
fields may be added without that.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from trueline.cases import CaseResult, CheckInfo, TensorFinding
from trueline.records import Verdict
from trueline.report.check_wording import (
    call_words,
    failures_of,
    next_commands,
    score_of,
    tally_of,
    verdict_line,
    worst_element,
)
from trueline.report.json import dumps, plain
from trueline.report.partial import partial_first, partial_paths

FORMAT = "trueline-check"
VERSION = 1


def write_check_json(
    info: CheckInfo, results: Sequence[CaseResult], stream: TextIO, *, folder: Path | None = None
) -> int:
    """Writes the whole check; gives the number of cases."""
    stream.write(dumps(check_head(info, results, folder=folder))[:-1] + ',\n"cases": [')
    for position, result in enumerate(results):
        stream.write(("\n" if position == 0 else ",\n") + dumps(case_dict(result)))
    stream.write("\n]}\n")
    return len(results)


def check_head(
    info: CheckInfo, results: Sequence[CaseResult], *, folder: Path | None = None, html_written: bool = False
) -> dict[str, Any]:
    """Everything about a check but its cases. Who reads it in a page need not be told how to make one."""
    tally, failures = tally_of(info, results), failures_of(results)
    about = plain(info)
    for moved in ("calls", "skipped"):
        about.pop(moved)
    content = {
        "format": FORMAT,
        "version": VERSION,
        "verdict": tally.verdict.name,
        "summary": verdict_line(tally, failures),
        "info": about,
        "calls": {
            "total": tally.calls,
            "checked": tally.checked,
            "merged": tally.merged,
            "skipped": tally.skipped,
            "left": tally.left,
            "skipped_because": dict(info.skipped),
        },
        "counts": {verdict.name: tally.of(verdict) for verdict in Verdict},
        "endings": {ending.value: count for ending, count in tally.endings.items()},
        "not_compared": dict(tally.not_compared),
        "simulated": dict(tally.simulated),
        "next": [
            {"why": why, "command": text}
            for why, text in next_commands(info, failures, folder, html_written=html_written)
        ],
    }
    return partial_first(partial_paths(info.sources), content)


def case_dict(result: CaseResult) -> dict[str, Any]:
    """One case with its tensors."""
    case, measured = result.case, result.measured
    forward, backward = result.forward, result.backward
    inputs = (*case.tensors, *case.gradients)
    return {
        "key": case.key,
        "api": case.api,
        "call": call_words(case),
        "verdict": result.verdict.name,
        "ending": result.ending.value,
        "reason": result.reason,
        "score": plain(score_of(result)),
        "forward": None if forward is None else forward.name,
        "backward": None if backward is None else backward.name,
        "count": case.count,
        "calls": list(case.calls),
        "module": case.module,
        "source": case.source,
        "seed": case.seed,
        "autocast": case.autocast,
        "inputs": [{"path": s.path, "dtype": s.dtype, "shape": list(s.shape), "strides": plain(s.strides)}
                   for s in inputs],
        "candidate": plain(measured.candidate),
        "reference": plain(measured.reference),
        "skipped": measured.skipped,
        "tensors": [tensor_dict(finding) for finding in result.findings],
    }  # fmt: skip


def tensor_dict(finding: TensorFinding) -> dict[str, Any]:
    """One output or gradient: what was measured and what is said of it."""
    evidence = finding.evidence
    worst = worst_element(evidence)
    return {
        "part": evidence.part,
        "path": evidence.path,
        "dtype": evidence.dtype,
        "shape": list(evidence.shape),
        "verdict": finding.verdict.name,
        "reason": finding.reason,
        "score": plain(finding.score),
        "worst_element": plain(worst),
        "structure": evidence.structure,
        "note": evidence.note,
        "exact": evidence.exact,
        "gold": plain(evidence.gold),
        "honest": plain(evidence.honest),
        "direct": plain(evidence.direct),
        "numbers": plain(evidence.numbers),
    }
