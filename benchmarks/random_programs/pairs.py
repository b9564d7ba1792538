"""One pair: a program and its edit, run, captured, compared, and the verdict held against what was measured."""

from __future__ import annotations

import difflib
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import trueline
from benchmarks.random_programs.edits import edited
from benchmarks.random_programs.programs import Program, draw_program, source_of
from benchmarks.random_programs.truth import Truth, execute, truth_of
from trueline.cli.options import exit_code
from trueline.records import Verdict
from trueline.report.given_away import given_away
from trueline.report.wording import measured


@dataclass
class Pair:
    """A seed's pair. ``truth`` is measured without the tool."""

    seed: int
    edit: str
    reference: Program
    candidate: Program
    truth: Truth

    def difference(self) -> str:
        """The programs as a list of lines, those of one side alone marked."""
        texts = [source_of(one).splitlines() for one in (self.reference, self.candidate)]
        return "\n".join(line for line in difflib.ndiff(*texts) if not line.startswith("?"))

    def edited_lines(self) -> tuple[set[int], set[int]]:
        """The numbers of the lines that differ, of both sides."""
        texts = [source_of(one).splitlines() for one in (self.reference, self.candidate)]
        found: tuple[set[int], set[int]] = (set(), set())
        for tag, a, b, c, d in difflib.SequenceMatcher(None, *texts, autojunk=False).get_opcodes():
            if tag != "equal":
                found[0].update(range(a + 1, b + 1))
                found[1].update(range(c + 1, d + 1))
        return found


@dataclass
class Answer:
    """What the comparison of a pair said. ``wrong``: what is not right about it, empty where all is."""

    verdict: str
    exit: int
    kind: str = ""
    told: str = ""
    at_edit: bool | None = None
    """Whether it named a line that was edited; None where no line of a call was or none was named."""
    wrong: list[str] = field(default_factory=list)


def draw_pair(seed: int) -> Pair:
    reference = draw_program(seed)
    edit, candidate = edited(reference, seed)
    try:
        truth = truth_of(reference, candidate)
    except RuntimeError as error:  # a loss that is detached, an operand that does not fit any more
        truth = Truth("does not run", 0.0, str(error)[:100])
    return Pair(seed, edit, reference, candidate, truth)


def ask(pair: Pair, data: str, folder: Path) -> Answer:
    """Records both, compares them and judges the answer."""
    paths = [folder / name for name in ("reference", "candidate")]
    for path, program in zip(paths, (pair.reference, pair.candidate), strict=True):
        with trueline.capture(path, data=data) as capture:
            execute(
                program,
                getattr(torch, program.dtype),
                see=lambda *_: None,
                end=lambda _, capture=capture: capture.step(),
                autocast=program.autocast,
            )
    with trueline.compare(*paths) as comparison:
        compared = measured(comparison.counts) + given_away(comparison).compared
        answer = Answer(comparison.verdict.name, exit_code(comparison.verdict, compared, partial=False))
        _told(answer, comparison, pair)
    return answer


def asked(pair: Pair, data: str) -> Answer:
    """``ask`` in a folder of its own; what is raised is an answer, too."""
    with tempfile.TemporaryDirectory(prefix="random-programs-") as folder:
        try:
            answer = ask(pair, data, Path(folder))
        except Exception as error:
            return Answer("RAISED", 2, wrong=[f"raised {type(error).__name__}: {error}"])
    answer.wrong += _against(pair.truth, answer)
    return answer


def _told(answer: Answer, comparison: Any, pair: Pair) -> None:
    """Takes over what was said, and checks that it does not contradict what was measured."""
    origin = comparison.origin
    if origin is None:
        if comparison.verdict >= Verdict.FAIL:
            answer.wrong.append("FAIL without an origin")
        apart = [one.name for one in comparison.observables if one.verdict >= Verdict.FAIL]
        if apart and comparison.verdict < Verdict.NOT_COMPARED:
            answer.wrong.append(f"{comparison.verdict.name}, though {', '.join(apart)} differ")
        return
    answer.kind, answer.told = origin.kind, origin.headline or origin.comparison.reason
    if comparison.verdict < Verdict.FAIL:
        answer.wrong.append(f"an origin under {comparison.verdict.name}")
    if not origin.explanation:
        answer.wrong.append("an origin without a word")
    answer.wrong += _unfounded(origin)
    lines = pair.edited_lines()
    calls = [*origin.reference_calls, *origin.candidate_calls] or [origin.comparison.call]
    named = {frame.line for call in calls for frame in call.stack if frame.file.endswith("program.py")}
    answer.at_edit = bool(named & (lines[0] | lines[1])) if named else None


def _unfounded(origin: Any) -> list[str]:
    """Sentences that say something else than was measured: distances and limits, and calls of one side alone."""
    found = []
    one = origin.comparison
    known = [one.output_distance, one.input_distance, one.limit, *origin.evidence.values()]
    for text in re.findall(r"values are ([0-9.e+-]+) apart|differs by ([0-9.e+-]+\d)", one.reason):
        told = float(next(part for part in text if part).rstrip(",."))
        if origin.kind != "update" and not any(
            value is not None and abs(value - told) <= 0.06 * max(abs(value), 1e-300) for value in known
        ):
            found.append(f"says {told:g}, which was not measured: {one.reason}")
    sides = {"missing": (True, False), "extra": (False, True)}.get(origin.kind)
    if sides is not None and sides != (bool(origin.reference_calls), bool(origin.candidate_calls)):
        found.append(f"{origin.kind}, but the calls are of other sides")
    return found


def _against(truth: Truth, answer: Answer) -> list[str]:
    if truth.kind == "changes" and answer.exit == 0:
        return [f"exit 0 ({answer.verdict}), though {truth.where} changes by {truth.effect:.3g} roundings"]
    if truth.kind == "keeps" and answer.verdict in ("FAIL", "ERROR"):
        return [f"{answer.verdict}, though nothing changes ({truth.effect:.2g} roundings)"]
    return []
