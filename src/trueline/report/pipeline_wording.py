"""What is said about a pipeline, in the same words everywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trueline.pipelines import NumberFinding, PipelineReport, StageKind, StageResult, StageStatus
from trueline.records import Verdict
from trueline.report.wording import size


def summary(report: PipelineReport) -> str:
    """One sentence."""
    if not report.results:
        return f"planned: {_count(len(report.plan.commands), 'command')}, none of them run"
    if not report.executed:
        return "no command was run: that is no clean bill"
    failed = [result for result in report.failures if result.stage.command is not None]
    wrong = [result for result in report.failures if result.stage.command is None]
    parts = [_ran(report)]
    if failed:
        parts.append(f"{_count(len(failed), 'command')} failed, the first {failed[0].stage.name} ({failed[0].reason})")
    if wrong:
        blamed = blamed_of(wrong[0])
        parts.append(f"the numbers are wrong in {_count(len(wrong), 'check')}, the first at {blamed}")
    if not failed and not wrong:
        parts.append("all commands succeeded")
    parts += _numbers_said(report, wrong)
    return "; ".join(parts)


def _ran(report: PipelineReport) -> str:
    reused = sum(result.reused for result in report.results)
    told = _count(report.executed - reused, "command") + " run"
    return told + (f", {reused} as before" if reused else "")


def _numbers_said(report: PipelineReport, wrong: Sequence[StageResult]) -> list[str]:
    checks = [result for result in report.results if result.stage.kind is StageKind.CHECK]
    compared = [result for result in checks if result.verdict in (Verdict.PASS, Verdict.WARN)]
    missing = [result for result in checks if result.verdict is Verdict.NOT_COMPARED]
    if checks and not compared and not wrong:
        return ["NO NUMBERS WERE COMPARED"]
    said = [f"numbers agree in {_count(len(compared), 'check')}"] if compared else []
    return said + ([f"{len(missing)} not compared"] if missing else [])


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


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
