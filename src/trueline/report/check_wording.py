"""What all reports of a check say in the same words: its verdict, its counts, a case and its worst tensor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trueline.cases import Case, CaseResult, CheckInfo, Ending, Evidence, TensorFinding, TensorSpec
from trueline.records import Verdict
from trueline.report.check_summary import summary_of, wrong_of
from trueline.report.kept_scripts import KeptScript, kept_script
from trueline.report.mode_wording import Words, words_of
from trueline.report.phrases import Phrase, Phrases, counted
from trueline.report.wording import command, plural
from trueline.tree import render

_SCRIPTS_LOOKED_FOR = 200
_OPS = "ops "
"""How a source begins that is a pattern of operators, not a folder."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of all calls of the sources: ``calls == checked + merged + skipped + left``.

    ``checked`` cases stand for themselves, ``merged`` calls are the same as one of them, ``skipped`` became no case,
    ``left`` are calls of cases that were not executed (a limit, or a check that was stopped).
    """

    calls: int
    checked: int
    merged: int
    skipped: int
    left: int
    verdicts: Mapping[Verdict, int] = field(default_factory=dict)
    not_compared: Mapping[str, int] = field(default_factory=dict)
    """Reason -> cases."""
    simulated: Mapping[str, int] = field(default_factory=dict)
    """Why the dtype of the target was simulated -> cases."""
    endings: Mapping[Ending, int] = field(default_factory=dict)
    """How the cases ended, what was skipped among them; all of them together are ``checked + skipped``."""
    warnings: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    words: Words = field(default_factory=Words)
    """Those of the mode."""

    @property
    def verdict(self) -> Verdict:
        """The worst of all cases; NOT_COMPARED where there are none."""
        return max((verdict for verdict, count in self.verdicts.items() if count), default=Verdict.NOT_COMPARED)

    def of(self, verdict: Verdict) -> int:
        return self.verdicts.get(verdict, 0)

    @property
    def wrong(self) -> int:
        return self.of(Verdict.FAIL) + self.of(Verdict.ERROR)

    @property
    def compared(self) -> int:
        return self.checked - self.of(Verdict.NOT_COMPARED)


def tally_of(info: CheckInfo, results: Sequence[CaseResult]) -> Tally:
    found = summary_of(results)
    skipped = sum(info.skipped.values())
    return Tally(
        calls=max(info.calls, found.calls + skipped),
        checked=found.cases,
        merged=found.calls - found.cases,
        skipped=skipped,
        left=max(0, info.calls - found.calls - skipped),
        verdicts=found.verdicts,
        endings={**found.endings, Ending.SKIPPED: found.endings[Ending.SKIPPED] + skipped},
        not_compared=found.not_compared,
        simulated=found.simulated,
        warnings=found.warnings,
        seconds=found.seconds,
        words=words_of(info.mode),
    )


def word_of(verdict: Verdict, info: CheckInfo | None = None) -> str:
    """A verdict in capitals; that of a whole check in the word of its mode."""
    if info is not None and info.passed and verdict is Verdict.PASS:
        return info.passed
    return verdict.name.replace("_", " ")


def verdict_line(tally: Tally, failures: Sequence[CaseResult]) -> str:
    """The whole check in one sentence; ``failures`` are the wrong cases, the worst first."""
    if not tally.checked:
        return Phrase("No case was executed")
    cases = counted(tally.checked, "{n} case", "{n} cases")
    if failures:
        worst = failures[0].case
        which = Phrase("{call} in {module}", call=worst.api, module=worst.module) if worst.module else worst.api
        one, many = "{n} of {cases} is wrong; {worst}", "{n} of {cases} are wrong; the worst: {worst}"
        return counted(tally.wrong, one, many, cases=cases, worst=which)
    if not tally.compared:
        return Phrase("None of {cases} {could}", cases=cases, could=tally.words.none)
    compared = counted(tally.compared, "{n} case", "{n} cases")
    said: list[str] = [Phrase("{cases} {done}, {fine}", cases=compared, done=tally.words.done, fine=tally.words.fine)]
    if warned := tally.of(Verdict.WARN):
        said.append(Phrase("{n} to look at", n=warned))
    if missed := tally.of(Verdict.NOT_COMPARED):
        said.append(Phrase("{n} {missed}", n=missed, missed=tally.words.missed))
    return Phrases("; ", said)


def calls_line(tally: Tally) -> str:
    """``836 = 102 checked + 4 not compared + 712 the same as these + 18 skipped``."""
    words = (
        (tally.of(Verdict.NOT_COMPARED), tally.words.unknown),
        (tally.merged, Phrase("the same as these")),
        (tally.skipped, Phrase("skipped")),
        (tally.left, Phrase("not executed")),
    )
    amounts = [(tally.compared, tally.words.done), *((amount, what) for amount, what in words if amount)]
    parts = Phrases(" + ", [Phrase("{n} {what}", n=amount, what=what) for amount, what in amounts])
    return Phrase("{all} = {parts}", all=tally.calls, parts=parts)


def cases_line(tally: Tally) -> str:
    words = (
        (Verdict.PASS, tally.words.passed),
        (Verdict.WARN, "to look at"),
        (Verdict.FAIL, "failed"),
        (Verdict.ERROR, "with errors"),
        (Verdict.NOT_COMPARED, tally.words.unknown),
    )
    parts = [f"{tally.of(verdict):,} {word}" for verdict, word in words if tally.of(verdict)]
    return f"{tally.checked:,} = {' + '.join(parts)}" if parts else "none"


def endings_line(tally: Tally) -> str:
    """``3,000 = 2,871 pass + 64 mismatch + 65 skipped``: cases, and calls that became none."""
    parts = [f"{count:,} {ending.value}" for ending, count in tally.endings.items() if count]
    return f"{sum(tally.endings.values()):,} = {' + '.join(parts)}" if parts else "none"


def simulated_line(tally: Tally) -> str:
    """How many cases were simulated, and what that means."""
    amount = plural(sum(tally.simulated.values()), "case")
    return f"{amount} without a kernel in the dtype of the target: computed in float32 from rounded inputs, and rounded"


def simulated_words(reason: str) -> str:
    """Of one case."""
    return f"in float32, rounded: {reason}"


def failures_of(results: Sequence[CaseResult]) -> Sequence[CaseResult]:
    """The wrong cases, the worst first: errors, then by score."""
    return wrong_of(results)


def score_of(result: CaseResult, part: str = "") -> float | None:
    """The worst score of a case, or of its outputs or gradients."""
    scores = [f.score for f in result.findings if f.score is not None and part in ("", f.evidence.part)]
    return max(scores, key=score_key, default=None)


def score_key(score: float | None) -> float:
    """Scores in order: what cannot be said first, NaN last."""
    return -1.0 if score is None else math.inf if math.isnan(score) else score


def worst_of(result: CaseResult) -> TensorFinding | None:
    """The tensor that decides the verdict of a case."""
    if not result.findings:
        return None
    return max(result.findings, key=lambda finding: (finding.verdict, score_key(finding.score)))


def subject(evidence: Evidence) -> str:
    return f"gradient of {evidence.path}" if evidence.part == "gradient" else f"output {evidence.path}"


def spec_words(spec: TensorSpec) -> str:
    """``float32[8, 32]``."""
    return f"{spec.dtype}[{', '.join(str(size) for size in spec.shape)}]"


def call_words(case: Case, *, name: bool = True) -> str:
    """The call as it would be written, tensors by dtype and shape: ``gelu(float32[8, 32], approximate='none')``."""
    leaves = {number: spec_words(spec) for number, spec in enumerate(case.tensors)}
    tree = case.arguments
    if isinstance(tree, dict) and tree.keys() <= {"args", "kwargs"}:
        positional = tree.get("args", [])
        if isinstance(positional, dict) and "$tuple" in positional:
            positional = positional["$tuple"]
        named = tree.get("kwargs", {})
        inside = [render(item, leaves) for item in positional] if isinstance(positional, list) else []
        inside += [f"{key}={render(value, leaves)}" for key, value in named.items()] if isinstance(named, dict) else []
        text = ", ".join(inside)
    else:
        text = render(tree, leaves)
    suffix = f" under autocast {case.autocast}" if case.autocast else ""
    return f"{case.api if name else ''}({text}){suffix}"


@dataclass(frozen=True, slots=True)
class Element:
    """The element where a tensor is worst; without values where only its place is known."""

    position: tuple[int, ...]
    candidate: float | None = None
    gold: float | None = None

    def __str__(self) -> str:
        if self.candidate is None or self.gold is None:
            return f"{list(self.position)}: NaN or Inf where it must not be, or none where it must"
        return f"{list(self.position)}: {self.candidate:.8g} instead of {self.gold:.8g}"


def worst_element(evidence: Evidence) -> Element | None:
    """The first NaN or Inf that is wrong; else the element that is furthest from what arithmetic explains, or has the
    largest error where that was not taken. None where nothing differs."""
    numbers, found = evidence.numbers, evidence.gold or evidence.direct
    if numbers.get("nan_wrong", 0.0) + numbers.get("infinity_wrong", 0.0) > 0 and "not_finite_at" in numbers:
        return Element(position_of(int(numbers["not_finite_at"]), evidence.shape))
    if found is None or found.worst < 0 or found.max_abs == 0:
        return None
    explained = numbers.get("peak", 0.0) > 0 and not evidence.dtype.startswith("complex")
    if explained and {"peak_at", "peak_candidate", "peak_gold"} <= numbers.keys():
        place = position_of(int(numbers["peak_at"]), evidence.shape)
        return Element(place, numbers["peak_candidate"], numbers["peak_gold"])
    return Element(position_of(found.worst, evidence.shape), found.worst_candidate, found.worst_reference)


def position_of(flat: int, shape: Sequence[int]) -> tuple[int, ...]:
    """The index of an element by its place in the flat order."""
    position: list[int] = []
    for size in reversed(shape):
        flat, rest = divmod(flat, max(size, 1))
        position.append(rest)
    return tuple(reversed(position))


def script_of(result: CaseResult, folder: Path | None) -> KeptScript | None:
    """The kept script of a failure; None where none was kept."""
    return None if folder is None else kept_script(folder / "failures" / result.case.key, folder)


def repro_command(result: CaseResult, folder: Path | None) -> str:
    """What runs the kept script of a failure; empty where none was kept, or where it is not there any more."""
    script = script_of(result, folder)
    return "" if script is None else script.command


def check_command(info: CheckInfo, *more: object) -> str:
    """The command that makes this check again."""
    patterns = [source.removeprefix(_OPS) for source in info.sources if source.startswith(_OPS)]
    words: list[object] = ["trueline", "check", *(source for source in info.sources if not source.startswith(_OPS))]
    for pattern in patterns:
        words += ["--ops", pattern]
    words += ["--target", info.target, "--reference", info.reference]
    if info.standard != "calibrated":
        words += ["--standard", info.standard]
    if info.seed:
        words += ["--seed", info.seed]
    if info.mode != "accuracy":
        words += ["--mode", info.mode]
    if info.draws != 1:
        words += ["--draws", info.draws]
    if info.variants:
        words += ["--variants", ",".join(info.variants)]
    if info.strided:
        words += ["--strided"]
    for api, place in info.overrides.items():
        words += ["--override", f"{api}={place}"]
    return command(*words, *more)


def next_commands(
    info: CheckInfo, failures: Sequence[CaseResult], folder: Path | None, *, html_written: bool = False
) -> list[tuple[str, str]]:
    """What to run next, as (why, command)."""
    commands: list[tuple[str, str]] = []
    scripts = [text for result in failures[:_SCRIPTS_LOOKED_FOR] if (text := repro_command(result, folder))]
    if scripts:
        commands.append((Phrase("see the worst failure by itself, in plain torch"), scripts[0]))
    elif failures:
        target = folder if folder is not None else Path("check")
        again = check_command(info, "--out", target, "--save-failures")
        commands.append((Phrase("keep inputs, outputs and a script for each failure"), again))
    if folder is not None and not html_written:
        commands.append((Phrase("see all cases"), command("trueline", "report", folder, "--html", "check.html")))
    return commands
