"""A profile as CSV: a table of ours with a row for each direction of each case, and the tables of PaddleAPEX.

``prof_checking_result.csv`` and ``memory_checking_result.csv`` have the columns that its ``prof_cmp`` and ``mem_cmp``
write, ``prof_summary.csv`` those of its ``summary_generator``, which adds the accuracy; "Bench" is the other side,
"Device" the target. What is not there is ``None`` in the first two and ``N/A`` in the third, as it is written there.
Open all files as UTF-8 with ``newline=""``.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import TextIO

from trueline.cases import TensorSpec
from trueline.profiles import CaseProfile, OutputSpec, PhaseProfile, Ratio
from trueline.records import Phase, Verdict
from trueline.report.check_wording import call_words
from trueline.report.csv import NOTHING, safe
from trueline.report.profile_wording import phase_of

COLUMNS = (
    "Case", "API", "Call", "Phase", "Verdict", "Reason", "Calls",
    "Seconds", "Seconds P10", "Seconds P90", "Seconds Min", "Launch", "Laps", "Timed Calls", "Peak Bytes",
    "Retained Bytes", "FLOPs", "Bytes", "Roofline Share", "Bound",
    "Against Seconds", "Against P10", "Against P90", "Against Min", "Against Launch", "Against Peak Bytes",
    "Against Retained Bytes", "Ratio", "Ratio Low", "Ratio High", "Lost Seconds",
    "Accuracy", "Accuracy Reason", "First Call", "Module", "Source",
)  # fmt: skip

PROF_COLUMNS = (
    "API Name", "dtype", "input shape", "output shape", "direction", "Bench Time(us)", "Device Time(us)",
    "Device/Bench Time Ratio",
)  # fmt: skip
MEMORY_COLUMNS = ("API Name", "Bench Memory Usage (B)", "Device Memory Usage (B)", "Memory Difference")
SUMMARY_COLUMNS = (*PROF_COLUMNS, "Acc_status")

PROF_FILE = "prof_checking_result.csv"
MEMORY_FILE = "memory_checking_result.csv"
SUMMARY_FILE = "prof_summary.csv"

_NONE = "None"
_STATUS = {
    Verdict.PASS: "pass", Verdict.WARN: "warning", Verdict.NOT_COMPARED: "SKIP", Verdict.FAIL: "error",
    Verdict.ERROR: "error",
}  # fmt: skip


def write_profile_csv(results: Sequence[CaseProfile], stream: TextIO) -> int:
    """Writes one row for each direction, one for a case that was not timed; gives the number of rows."""
    table = ProfileTable(stream)
    return sum(table.add(result) for result in results)


class ProfileTable:
    """The same, a case as it comes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._writer = csv.writer(stream)
        self._writer.writerow(COLUMNS)

    def add(self, result: CaseProfile) -> int:
        """Writes the rows of a case, for good; gives their number."""
        phases = tuple(result.measured.target.phases) or (None,)
        self._writer.writerows(_row(result, phase) for phase in phases)
        self._stream.flush()
        return len(phases)


def write_prof_csv(results: Sequence[CaseProfile], stream: TextIO) -> None:
    """PaddleAPEX's ``prof_checking_result.csv``."""
    writer = csv.writer(stream)
    writer.writerow(PROF_COLUMNS)
    for _, row in _prof_rows(results):
        writer.writerow(row)


def write_summary_csv(results: Sequence[CaseProfile], stream: TextIO) -> None:
    """PaddleAPEX's ``prof_summary.csv``: the same with the accuracy of the call."""
    writer = csv.writer(stream)
    writer.writerow(SUMMARY_COLUMNS)
    for result, row in _prof_rows(results):
        writer.writerow([*row, NOTHING if result.accuracy is None else _STATUS[result.accuracy]])


def write_memory_csv(results: Sequence[CaseProfile], stream: TextIO) -> None:
    """PaddleAPEX's ``memory_checking_result.csv``. As there, memory is what the call holds when it has returned."""
    writer = csv.writer(stream)
    writer.writerow(MEMORY_COLUMNS)
    for result in results:
        for phase in result.measured.target.phases:
            ours, theirs = _held(result, phase, ours=True), _held(result, phase, ours=False)
            difference = _NONE if ours is None or theirs is None else str(ours - theirs)
            name = f"{_name(result)}*{_dtype(result)}.{phase.value}"
            writer.writerow([safe(name), _said(theirs), _said(ours), difference])


def _prof_rows(results: Sequence[CaseProfile]) -> Iterator[tuple[CaseProfile, list[str]]]:
    for result in results:
        case, outputs = result.case, result.measured.target.outputs
        for phase, ours in result.measured.target.phases.items():
            theirs = phase_of(result.measured.against, phase)
            bench = None if theirs is None else theirs.timing.median * 1e6
            device = ours.timing.median * 1e6
            ratio = _NONE if not bench else str(device / bench)
            yield result, [
                safe(f"{_name(result)}.{phase.value}"), _dtype(result), _shapes(case.tensors),
                _shapes(outputs), phase.value, _said(bench), str(device), ratio,
            ]  # fmt: skip


def _name(result: CaseProfile) -> str:
    """``paddle.add*3``: the number of its first call, as PaddleAPEX counts them."""
    case = result.case
    parts = case.calls[0].split(".") if case.calls else []
    number = parts[-2] if len(parts) > 1 and parts[-2].isdecimal() else "0"
    return f"{case.api}*{number}"


def _dtype(result: CaseProfile) -> str:
    names = [one.dtype for one in result.measured.target.outputs] + [one.dtype for one in result.case.tensors]
    return names[0].upper() if names else _NONE


def _shapes(tensors: Sequence[TensorSpec | OutputSpec]) -> str:
    return str([list(one.shape) for one in tensors])


def _held(result: CaseProfile, phase: Phase, *, ours: bool) -> int | None:
    found = phase_of(result.measured.target if ours else result.measured.against, phase)
    return None if found is None or found.memory is None else found.memory.retained


def _said(value: float | int | None) -> str:
    return _NONE if value is None else str(value)


def _row(result: CaseProfile, phase: Phase | None) -> list[str]:
    case, measured = result.case, result.measured
    ours = None if phase is None else phase_of(measured.target, phase)
    theirs = None if phase is None else phase_of(measured.against, phase)
    ratio = None if phase is None else measured.ratios.get(phase)
    lost = None if ours is None or theirs is None else case.count * (ours.timing.median - theirs.timing.median)
    verdict, reason = result.verdict, result.reason
    of_phase = [finding for finding in result.findings if finding.phase is phase]
    if of_phase:
        worst = max(of_phase, key=lambda finding: finding.verdict)
        verdict, reason = worst.verdict, worst.reason
    return [
        case.key, safe(case.api), safe(call_words(case, name=False)), NOTHING if phase is None else phase.value,
        verdict.name, safe(reason), str(case.count), *_times(ours), *_amounts(ours), *_memory(ours),
        *_roofline(ours), *_times(theirs), *_memory(theirs), *map(_cell, _parts(ratio)), _cell(lost),
        NOTHING if result.accuracy is None else result.accuracy.name, safe(result.accuracy_reason),
        safe(case.calls[0]) if case.calls else NOTHING, safe(case.module), safe(case.source),
    ]  # fmt: skip


def _times(found: PhaseProfile | None) -> list[str]:
    if found is None:
        return [NOTHING] * 5
    timing = found.timing
    return [_cell(one) for one in (timing.median, timing.low, timing.high, timing.smallest, timing.launch)]


def _amounts(found: PhaseProfile | None) -> list[str]:
    return [NOTHING] * 2 if found is None else [str(found.timing.laps), str(found.timing.calls)]


def _roofline(found: PhaseProfile | None) -> list[str]:
    if found is None:
        return [NOTHING] * 4
    return [_cell(found.cost.flops), _cell(found.cost.bytes), _cell(found.share), found.bound or NOTHING]


def _memory(found: PhaseProfile | None) -> list[str]:
    if found is None or found.memory is None:
        return [NOTHING] * 2
    return [str(found.memory.peak), str(found.memory.retained)]


def _parts(ratio: Ratio | None) -> tuple[float | None, ...]:
    return (None,) * 3 if ratio is None else (ratio.value, ratio.low, ratio.high)


def _cell(value: float | int | None) -> str:
    return NOTHING if value is None else repr(value)
