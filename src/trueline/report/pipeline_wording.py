"""What is said about a pipeline, in the same words everywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trueline.pipelines import NumberFinding, PipelineReport, StageKind, StageResult, StageStatus
from trueline.records import Verdict
from trueline.report.phrases import Phrase, Phrases, counted
from trueline.report.wording import size


def summary(report: PipelineReport) -> str:
    """One sentence."""
    if not report.results:
        planned = len(report.plan.commands)
        return counted(planned, "planned: {n} command, not run", "planned: {n} commands, none of them run")
    if not report.executed:
        return Phrase("no command was run: that is no clean bill")
    failed = [result for result in report.failures if result.stage.command is not None]
    wrong = [result for result in report.failures if result.stage.command is None]
    parts = [*_ran(report)]
    if failed:
        one, many = "{n} command failed, the first {stage} ({why})", "{n} commands failed, the first {stage} ({why})"
        parts.append(counted(len(failed), one, many, stage=failed[0].stage.name, why=failed[0].reason))
    if wrong:
        one = "the numbers are wrong in {n} check, the first at {stage}"
        many = "the numbers are wrong in {n} checks, the first at {stage}"
        parts.append(counted(len(wrong), one, many, stage=blamed_of(wrong[0])))
    if not failed and not wrong:
        parts.append(Phrase("all commands succeeded"))
    return Phrases("; ", [*parts, *_numbers_said(report, wrong)])


def _ran(report: PipelineReport) -> Iterator[str]:
    reused = sum(result.reused for result in report.results)
    told = counted(report.executed - reused, "{n} command run", "{n} commands run")
    yield Phrase("{ran}, {n} as before", ran=told, n=reused) if reused else told
    again = sum(result.attempts > 1 and result.status is StageStatus.DONE for result in report.results)
    if again:
        one, many = "{n} command succeeded only when run again", "{n} commands succeeded only when run again"
        yield counted(again, one, many)


def _numbers_said(report: PipelineReport, wrong: Sequence[StageResult]) -> Iterator[str]:
    checks = [result for result in report.results if result.stage.kind is StageKind.CHECK]
    compared = [result for result in checks if result.verdict in (Verdict.PASS, Verdict.WARN)]
    missing = [result for result in checks if result.verdict is Verdict.NOT_COMPARED]
    if checks and not compared and not wrong:
        yield Phrase("NO NUMBERS WERE COMPARED")
        return
    if compared:
        yield counted(len(compared), "numbers agree in {n} check", "numbers agree in {n} checks")
    if missing:
        yield Phrase("{n} not compared", n=len(missing))


def blamed_of(result: StageResult) -> str:
    """The stage that is wrong, by the worst finding of a check; the stage itself where there is none."""
    worst = max(result.findings, key=lambda finding: finding.verdict, default=None)
    return (worst.blamed if worst is not None else "") or result.stage.candidate or result.stage.name


_TELLING = ("outputs", "update norm", "low-precision ops", "loss curve")


def worst_number(result: StageResult) -> str:
    """The number that says most about a check: that of the worst finding, of the outputs where all is well."""
    numbered = [finding for finding in result.findings if finding.numbers]
    if not numbered:
        return ""

    def telling(finding: NumberFinding) -> tuple[int, int]:
        place = next((number for number, name in enumerate(_TELLING) if finding.what.startswith(name)), len(_TELLING))
        return (-int(finding.verdict) if finding.verdict >= Verdict.WARN else 0, place)

    finding = min(numbered, key=telling)
    name = next((name for name in ("error", "ratio") if name in finding.numbers), next(iter(finding.numbers)))
    limit = f" (limit {finding.numbers['limit']:.2g})" if "limit" in finding.numbers else ""
    return f"{finding.what.partition(' (')[0]} {name} {finding.numbers[name]:.3g}{limit}"


@dataclass(frozen=True, slots=True)
class Cell:
    """One place of the matrix: what was trained how, and inferred how."""

    model: str
    trainer: str
    precision: str
    devices: str
    backend: str
    result: StageResult
    check: StageResult | None

    @property
    def verdict(self) -> Verdict:
        return self.result.verdict if self.check is None else max(self.result.verdict, self.check.verdict)


def matrix(report: PipelineReport) -> Iterator[Cell]:
    """The matrix model x trainer x precision x backend: every command, with the check of its numbers beside it."""
    checks: dict[str, list[StageResult]] = {}
    for result in report.results:
        if result.stage.kind is StageKind.CHECK:
            checks.setdefault(result.stage.candidate, []).append(result)
    for result in report.results:
        stage = result.stage
        if stage.command is None:
            continue
        mine = max(checks.get(stage.name, []), key=lambda one: one.verdict, default=None)
        devices = "cpu" if stage.devices in ("", "-1") else f"gpu {stage.devices}"
        yield Cell(
            report.plan.model, stage.trainer, stage.precision, devices, stage.backend or stage.kind.value, result, mine
        )


def variant_words(result: StageResult) -> str:
    """What tells an inference from the others: ``batch_size 1, threads 6``."""
    hidden = ("device", "model_dir", "backend")
    return ", ".join(f"{name} {value}" for name, value in result.stage.settings.items() if name not in hidden)


def status_words(result: StageResult) -> str:
    if result.stage.kind is StageKind.CHECK:
        return result.verdict.name.replace("_", " ").lower()
    return "done before" if result.reused and result.status is StageStatus.DONE else result.status.value


def seconds_words(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def memory_words(count: int) -> str:
    return size(count) if count else ""
