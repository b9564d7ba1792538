"""``-mode pro`` and ``-mode mem``, ``prof_cmp`` and ``mem_cmp``: times and memory of two replays, held together.

A replay leaves ``profile_analyze.log`` and ``memory_analyze.log`` as they have always been, and ``timed.json`` with the
spread of each time, without which no difference can be told from noise; of the old tool's replays the logs are read.
The result files have their old columns, and two of ours: Verdict and Reason.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from trueline.cases import Case, Outcome, Status, TensorSpec
from trueline.compat.alike import calls_alike
from trueline.compat.beside import VERDICT_COLUMNS
from trueline.compat.command import Parser, exit_code, run_command
from trueline.compat.paddleapex.old_logs import NO_SPREAD, read_memory, read_times
from trueline.compat.paddleapex.sides import add_sides, sides_of
from trueline.errors import UsageError
from trueline.judge.speed import judge_speed
from trueline.profiles import (
    CaseProfile,
    CaseTimed,
    Footprint,
    Limits,
    OutputSpec,
    PhaseProfile,
    Ratio,
    SideProfile,
    Timing,
)
from trueline.records import Phase, Verdict
from trueline.report.csv import safe
from trueline.report.profile_csv import MEMORY_FILE, PROF_FILE, write_memory_csv, write_prof_csv

TIMED = "timed.json"
_SIDES = ("Bench ", "Device ")
"""How the columns of the two sides begin."""
PROFILE_LOG, MEMORY_LOG = "profile_analyze.log", "memory_analyze.log"


def write_logs(source: Path, results: Sequence[CaseProfile], folder: Path, modes: Sequence[str]) -> None:
    """The two logs, a line for each call and direction, and ``timed.json``."""
    alike = calls_alike(source, [result.case for result in results])
    rows = [_row(result, name) for result in results for name in alike[result.case.calls[0]]]
    (folder / TIMED).write_text(json.dumps(rows) + "\n", encoding="utf-8")
    if "pro" in modes:
        (folder / PROFILE_LOG).write_text("".join(_profile_lines(rows)), encoding="utf-8")
    if "mem" in modes:
        (folder / MEMORY_LOG).write_text("".join(_memory_lines(rows)), encoding="utf-8")


def _row(result: CaseProfile, call: str) -> dict[str, Any]:
    side = result.measured.target
    return {
        "api": result.case.api,
        "call": call,
        "status": side.outcome.status.value,
        "reason": side.outcome.reason,
        "inputs": [[spec.dtype, list(spec.shape)] for spec in result.case.tensors],
        "outputs": [[one.dtype, list(one.shape)] for one in side.outputs],
        "phases": {phase.value: _phase(profile) for phase, profile in side.phases.items()},
    }


def _phase(profile: PhaseProfile) -> dict[str, Any]:
    timing, memory = profile.timing, profile.memory
    return {
        "seconds": [timing.median, timing.low, timing.high, timing.smallest],
        "laps": [timing.laps, timing.calls],
        "bytes": None if memory is None else [memory.peak, memory.retained],
    }


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['api']}*{row['call'].split('.')[-2]}"


def _dtype(row: Mapping[str, Any]) -> str:
    return str((row["outputs"] or row["inputs"] or [["none"]])[0][0]).upper()


def _profile_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = []
    for row in rows:
        shapes = [str([shape for _, shape in row[part]]) for part in ("inputs", "outputs")]
        for phase, found in row["phases"].items():
            words = (f"{_name(row)}.{phase}", "dtype", _dtype(row), "input shape", shapes[0], "output shape", shapes[1],
                     phase, f"{1e6 * found['seconds'][0]:.4f}")  # fmt: skip
            lines.append("\t".join(words) + "\n")
    return lines


def _memory_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        f"{_name(row)}*{_dtype(row)}.{phase}:\t{found['bytes'][1]}\n"
        for row in rows
        for phase, found in row["phases"].items()
        if found["bytes"] is not None
    ]


def parser(command: str, what: str) -> Parser:
    options = Parser(
        command, f"Holds {what} of two replays together.", f"{command} -gpu gpu_repo -npu npu_repo -o result"
    )
    add_sides(options)
    return options


def main_time(words: Sequence[str] | None = None) -> int:
    options = parser("prof_cmp", "the times")
    return run_command(options, lambda given: run(given, PROF_FILE, write_prof_csv, "time"), words)


def main_memory(words: Sequence[str] | None = None) -> int:
    options = parser("mem_cmp", "the memory")
    return run_command(options, lambda given: run(given, MEMORY_FILE, write_memory_csv, "memory"), words)


def run(
    options: argparse.Namespace, name: str, write: Callable[[Sequence[CaseProfile], TextIO], None], what: str
) -> int:
    bench, device = sides_of(options)
    results = held_together(_read(bench, what), _read(device, what))
    folder = Path(options.out_path)
    folder.mkdir(parents=True, exist_ok=True)
    verdicts = _write(results, folder / name, write, what)
    compared = [one for one in verdicts if one is not Verdict.NOT_COMPARED]
    worst = max(verdicts, default=Verdict.NOT_COMPARED)
    code = exit_code(worst, len(compared))
    print(f"{len(results)} calls, {len(compared)} directions compared; {folder / name}")
    print(f"PaddleAPEX judges no {what}; trueline's verdict: {worst.name}; exit code {code}")
    return code


def _read(folder: Path, what: str) -> dict[str, dict[str, Any]]:
    path = folder / TIMED
    log = folder / (PROFILE_LOG if what == "time" else MEMORY_LOG)
    if not path.exists() and log.exists():
        return read_times(log) if what == "time" else read_memory(log)
    if not path.exists():
        raise UsageError(f"{folder} has no {TIMED}: run run_paddle there with -mode pro,mem first")
    try:
        return {str(row["call"]): row for row in json.loads(path.read_text(encoding="utf-8"))}
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is damaged: {error}") from None


def held_together(bench: Mapping[str, Any], device: Mapping[str, Any]) -> list[CaseProfile]:
    """Every call of either replay, judged; the device is the target."""
    found = []
    for call in dict.fromkeys((*device, *bench)):
        row = device.get(call) or bench[call]
        tensors = tuple(
            TensorSpec(f"args.{place}", dtype, tuple(shape)) for place, (dtype, shape) in enumerate(row["inputs"])
        )
        sides = [one for one in (device.get(call), bench.get(call)) if one is not None]
        target, against = _side(device.get(call)), _side(bench.get(call))
        common = [phase for phase in target.phases if phase in against.phases]
        ratios = {phase: _ratio(target.phases[phase].timing, against.phases[phase].timing) for phase in common}
        timed = CaseTimed(Case(row["api"], None, tensors, calls=(call,)), target, against, ratios)
        judged = judge_speed(timed, Limits())
        if not all(one.get("spread", True) for one in sides):
            judged = Verdict.NOT_COMPARED, NO_SPREAD, ()
        found.append(CaseProfile(timed, *judged))
    return found


def _side(row: Mapping[str, Any] | None) -> SideProfile:
    if row is None:
        return SideProfile(Outcome(Status.UNSUPPORTED, "this replay does not have the call"))
    outputs = tuple(OutputSpec(f"out.{place}", one[0], tuple(one[1])) for place, one in enumerate(row["outputs"]))
    phases = {}
    for phase, found in row["phases"].items():
        timing = Timing(*found["seconds"], *found["laps"])
        memory = None if found["bytes"] is None else Footprint(*found["bytes"])
        phases[Phase(phase)] = PhaseProfile(timing, memory)
    return SideProfile(Outcome(Status(row["status"]), row["reason"]), phases, outputs)


def _ratio(ours: Timing, theirs: Timing) -> Ratio:
    """Two replays were not timed in turns, so their spreads are held against each other whole."""
    return Ratio(_over(ours.median, theirs.median), _over(ours.low, theirs.high), _over(ours.high, theirs.low))


def _over(ours: float, theirs: float) -> float:
    return ours / theirs if theirs > 0.0 else 1.0 if ours == theirs else float("inf")


def _write(
    results: Sequence[CaseProfile], path: Path, write: Callable[[Sequence[CaseProfile], TextIO], None], what: str
) -> list[Verdict]:
    """The old table with our columns behind; gives the verdict of each row."""
    verdicts = []
    with open(path, "w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        for number, result in enumerate(results):
            head, *rows = _table(result, write)
            if number == 0:
                writer.writerow([*head, *VERDICT_COLUMNS])
            phases = result.measured.target.phases
            if not phases and result.measured.against is not None:  # the bench alone has it
                phases = result.measured.against.phases
                rows = _of_the_bench(result, write)
            for row, phase in zip(rows, phases, strict=True):
                verdict, reason = _verdict(result, phase, what)
                verdicts.append(verdict)
                writer.writerow([*row, verdict.name, safe(reason)])
    return verdicts


def _table(result: CaseProfile, write: Callable[[Sequence[CaseProfile], TextIO], None]) -> list[list[str]]:
    text = io.StringIO()
    write([result], text)
    return list(csv.reader(io.StringIO(text.getvalue())))


def _of_the_bench(result: CaseProfile, write: Callable[[Sequence[CaseProfile], TextIO], None]) -> list[list[str]]:
    """The rows of a call that the device does not have: written as if it were the device, with the two exchanged."""
    assert result.measured.against is not None, "the caller looks"
    turned = replace(result, measured=replace(result.measured, target=result.measured.against, against=None))
    head, *rows = _table(turned, write)
    bench, device = (next(place for place, name in enumerate(head) if name.startswith(word)) for word in _SIDES)
    for row in rows:
        row[bench], row[device] = row[device], row[bench]
    return rows


def _verdict(result: CaseProfile, phase: Phase, what: str) -> tuple[Verdict, str]:
    found = next((one for one in result.findings if (one.phase, one.what) == (phase, what)), None)
    return (Verdict.NOT_COMPARED, result.reason) if found is None else (found.verdict, found.reason)
