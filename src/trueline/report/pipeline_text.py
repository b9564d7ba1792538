"""A pipeline for the terminal: the plan as commands, the result as a matrix, then what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trueline.pipelines import TO_KEEP, Change, PipelineReport, Plan, StageKind, StageResult
from trueline.records import Verdict
from trueline.report.blocks import BLANK, Block, Row, Table, line
from trueline.report.pipeline_wording import (
    Cell,
    blamed_of,
    matrix,
    memory_words,
    seconds_words,
    status_words,
    summary,
    variant_words,
    worst_number,
)

STYLES = {
    Verdict.PASS: "good",
    Verdict.WARN: "warn",
    Verdict.NOT_COMPARED: "dim",
    Verdict.FAIL: "bad",
    Verdict.ERROR: "bad",
}
_COLUMNS = ("stage", "trainer", "precision", "devices", "settings", "result", "time", "memory", "numbers")


def plan_lines(plan: Plan) -> Iterator[str]:
    """The exact commands, one a line, as the classic tester writes them down."""
    for command in plan.commands:
        yield command.text.strip()


def warning_blocks(plan: Plan) -> list[Block]:
    """What was repaired in the config."""
    return [line(f"{plan.config}, {warning}" if warning.line else str(warning), "warn") for warning in plan.warnings]


def pipeline_blocks(report: PipelineReport, *, rows: int = 60) -> list[Block]:
    """The whole report; of a long matrix what is wrong, then the rest, up to a number of rows."""
    plan = report.plan
    verdict = report.verdict
    blocks: list[Block] = [
        line(f"{verdict.name.replace('_', ' ')}: {summary(report)}", STYLES[verdict]),
        line(f"{plan.model}, {plan.mode}, {plan.config}", "dim"),
        BLANK,
        *_matrix_blocks(report, rows),
    ]
    if wrong := [result for result in report.results if result.verdict >= Verdict.FAIL]:
        blocks += [BLANK, line("wrong", "heading"), *_wrong_blocks(wrong)]
    warned = [result for result in report.results if result.verdict is Verdict.WARN]
    if warned:
        blocks += [
            BLANK,
            line("to look at", "heading"),
            *(line(f"{one.stage.name}: {one.reason}", indent=2) for one in warned),
        ]
    if kept := list(_kept(report.results)):
        blocks += [BLANK, line(TO_KEEP, "heading"), *kept]
    missing = [(one.reason, one) for one in report.results if one.verdict is Verdict.NOT_COMPARED]
    cold = [(one.not_warm, one) for one in report.results if one.not_warm]
    for title, told in (("not compared", missing), ("run as plain processes, not as copies of a warm one", cold)):
        if told:
            blocks += [BLANK, line(title, "heading"), *_by_reason(told)]
    if report.changes:
        blocks += [BLANK, line("since the last run", "heading"), _changes(report.changes)]
    if report.info is not None:
        blocks += [BLANK, line(f"{seconds_words(report.info.seconds)}; logs and reports: {report.info.folder}", "dim")]
    return blocks


def _matrix_blocks(report: PipelineReport, rows: int) -> list[Block]:
    cells = list(matrix(report))
    shown = cells
    if len(cells) > rows:
        ranked = sorted(range(len(cells)), key=lambda number: (-int(cells[number].verdict), number))[: max(rows, 0)]
        shown = [cells[number] for number in sorted(ranked)]
    table = Table(_COLUMNS, tuple(_row(cell) for cell in shown), frozenset(("time", "memory")))
    left = len(cells) - len(shown)
    return [table, line(f"and {left} more, in pipeline.html", "dim", indent=2)] if left else [table]


def _row(cell: Cell) -> Row:
    result = cell.result
    verdict = cell.verdict
    words = status_words(result)
    if cell.check is not None:
        words += f", numbers {status_words(cell.check)}"
    return Row(
        (
            cell.backend if result.stage.kind is not StageKind.INFER else f"infer {cell.backend}".strip(),
            cell.trainer,
            cell.precision if cell.trainer else "",
            cell.devices if cell.trainer else "",
            variant_words(result),
            words,
            seconds_words(result.seconds) if result.seconds else "",
            memory_words(result.peak_bytes),
            worst_number(cell.check) if cell.check is not None else "",
        ),
        STYLES[verdict] if verdict is not Verdict.PASS else "",
    )


def _wrong_blocks(wrong: Sequence[StageResult]) -> Iterator[Block]:
    for result in wrong:
        stage = result.stage
        if stage.command is not None:
            yield line(f"{stage.name} {result.status}: {result.reason}", "bad", indent=2)
            yield line(stage.command.text.strip(), "code", indent=4)
            yield line(f"output: {result.log}", "dim", indent=4)
            continue
        yield line(f"{blamed_of(result)}: {result.reason}", "bad", indent=2)
        for finding in result.findings:
            if finding.verdict >= Verdict.WARN and finding.reason != result.reason:
                yield line(f"{finding.verdict.name} {finding.what}: {finding.reason}", indent=4)


def _kept(results: Sequence[StageResult]) -> Iterator[Block]:
    """What a search for operators that need float32 has found, where it was asked for."""
    for result in results:
        for finding in result.findings:
            if finding.what == TO_KEEP and finding.verdict < Verdict.FAIL:
                yield line(f"{result.stage.chain}: {finding.reason}", indent=2)


def _by_reason(told: Sequence[tuple[str, StageResult]]) -> list[Block]:
    """Each reason once, with the first stage of which it is said and how many more there are."""
    reasons: dict[str, list[str]] = {}
    for reason, result in told:
        reasons.setdefault(reason, []).append(result.stage.name)
    return [
        line(f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {reason}", indent=2)
        for reason, names in reasons.items()
    ]


def _changes(changes: Sequence[Change]) -> Table:
    rows = [
        Row(
            (one.what, one.stage, one.before, one.now),
            "bad" if one.what == "new failure" else "good" if one.what == "fixed" else "",
        )
        for one in changes
    ]
    return Table(("what", "stage", "before", "now"), tuple(rows))
