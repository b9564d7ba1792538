"""A check for a terminal: the verdict, counts that add up, the worst failures with their numbers, what to run next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trueline.cases import CaseResult, CheckInfo
from trueline.records import Measurement, Verdict
from trueline.report.blocks import BLANK, Block, Fields, Paragraph, Row, Span, Table, heading, line
from trueline.report.check_wording import (
    Tally,
    call_words,
    calls_line,
    cases_line,
    endings_line,
    failures_of,
    next_commands,
    score_key,
    score_of,
    script_of,
    simulated_line,
    simulated_words,
    subject,
    tally_of,
    verdict_line,
    word_of,
    worst_element,
    worst_of,
)
from trueline.report.partial import partial_blocks, partial_paths
from trueline.report.reading import WIDTH, cut, reason_blocks, wrapped
from trueline.report.text import VERDICT_STYLE
from trueline.report.wording import number, plural

_API_ROWS = 12
_MOST_LOOKED_AT = 5_000
"""Of more failures than this, those beyond are counted, not told."""


def check_blocks(
    info: CheckInfo,
    results: Sequence[CaseResult],
    *,
    rows: int = 8,
    folder: Path | None = None,
    html_written: bool = False,
) -> list[Block]:
    """The verdict of a check; ``rows`` bounds the failures that are told in detail, each for all that are like it."""
    tally = tally_of(info, results)
    failures = failures_of(results)[:_MOST_LOOKED_AT]
    verdict = tally.verdict
    word = word_of(verdict, info)
    sentence = wrapped(verdict_line(tally, failures), WIDTH - len(word) - 2)
    blocks = partial_blocks(partial_paths(info.sources))
    blocks += [
        Paragraph((Span(word, VERDICT_STYLE[verdict]), Span(f"  {sentence}", "strong"))),
        BLANK,
        _head(info, tally),
    ]
    groups = _alike(failures)
    blocks += _failure_blocks(groups[: max(rows, 0)], folder)
    blocks += _api_table(failures if len(groups) > rows else [])
    if tally.wrong > len(failures):
        blocks.append(line(f"of the worst {len(failures):,} failures; there are {tally.wrong:,}", "dim", indent=2))
    blocks += reason_blocks("To look at", tally.warnings)
    blocks += reason_blocks("Simulated", tally.simulated)
    blocks += reason_blocks(tally.words.unknown.capitalize(), tally.not_compared)
    blocks += reason_blocks("Skipped", info.skipped)
    commands = next_commands(info, failures, folder, html_written=html_written)
    if commands:
        blocks += [BLANK, heading("Next")]
        blocks += [Paragraph((Span(f"# {why}\n", "dim"), Span(text, "code")), 2) for why, text in commands]
    return blocks


def _head(info: CheckInfo, tally: Tally) -> Fields:
    mode = "" if info.mode == "accuracy" else f", mode {info.mode}"
    against = f" against {info.reference}" if tally.words.against else ""
    items = [
        ("target", f"{info.target}{against}, standard {info.standard}{mode}"),
        ("source", ", ".join(info.sources) or "-"),
        *(("override", f"{api} = {place}") for api, place in info.overrides.items()),
        ("calls", calls_line(tally)),
        ("cases", cases_line(tally)),
        ("endings", endings_line(tally)),
        *((("simulated", simulated_line(tally)),) if tally.simulated else ()),
    ]
    return Fields(tuple((name, wrapped(value, WIDTH - 12)) for name, value in items))


def _alike(failures: Sequence[CaseResult]) -> list[list[CaseResult]]:
    """Failures in groups that say the same thing: the same API, ended the same way, wrong in the same part."""
    groups: dict[tuple[str, ...], list[CaseResult]] = {}
    for result in failures:
        finding = worst_of(result)
        part = "" if finding is None else finding.evidence.part
        groups.setdefault((result.case.api, result.measured.candidate.status.value, part), []).append(result)
    return list(groups.values())


def _failure_blocks(groups: Sequence[Sequence[CaseResult]], folder: Path | None) -> list[Block]:
    """The worst of each group."""
    if not groups:
        return []
    blocks: list[Block] = [BLANK, heading("Worst failures" if len(groups) > 1 else "Failure")]
    for place, group in enumerate(groups):
        blocks += [BLANK] * bool(place)
        blocks += _one_failure(group, folder)
    return blocks


def _one_failure(group: Sequence[CaseResult], folder: Path | None) -> list[Block]:
    result = group[0]
    case, score = result.case, score_of(result)
    beyond = f"  {_times(score)}" if score is not None and not score <= 1 and result.verdict is Verdict.FAIL else ""
    title = Paragraph((Span(word_of(result.verdict), "bad"), Span(f"  {case.api}", "strong"), Span(beyond, "dim")), 2)
    items = [("call", call_words(case, name=False))]
    if simulated := result.measured.candidate.simulated:
        items.append(("simulated", simulated_words(simulated)))
    finding = worst_of(result)
    if finding is None:
        items.append(("why", result.reason))
    else:
        evidence = finding.evidence
        items.append(("wrong", f"{subject(evidence)} ({evidence.dtype}): {finding.reason}"))
        if (found := evidence.gold or evidence.direct) is not None:
            items.append(("numbers", _numbers(found, evidence.honest)))
        element = worst_element(evidence)
        if element is not None and str(list(element.position)) not in finding.reason:
            items.append(("worst", str(element)))
        others = sum(other.verdict >= Verdict.FAIL for other in result.findings) - 1
        if others > 0:
            items.append(("besides", f"{plural(others, 'other tensor')} of this case failed too"))
    if len(group) > 1:
        items.append(("also", f"{plural(len(group) - 1, 'more case')} of this API, wrong in the same way"))
    if case.module or case.source:
        items.append(("where", ", ".join(part for part in (case.module, case.source) if part)))
    if case.calls:
        items.append(("calls", f"{case.calls[0]}" + (f" and {case.count - 1:,} more" if case.count > 1 else "")))
    if (script := script_of(result, folder)) is not None:
        items.append(("repro", ", but ".join(filter(None, (script.command, script.fault)))))
    return [title, Fields(tuple((name, wrapped(value, WIDTH - 15)) for name, value in items), indent=4)]


def _numbers(found: Measurement, honest: Measurement | None) -> str:
    own = "" if honest is None else f", honest {number(honest.rmse)}"
    largest = f"largest error {number(found.max_abs)}, {found.max_ulp:.4g} ULP"
    return (
        f"RMSE {number(found.rmse)}{own}; {largest}; {found.count - found.equal:,} of {found.count:,} elements differ"
    )


def _api_table(failures: Sequence[CaseResult]) -> list[Block]:
    """One row for each API with failures, for those of which not all was told."""
    if not failures:
        return []
    by_api: dict[str, list[CaseResult]] = {}
    for result in failures:
        by_api.setdefault(result.case.api, []).append(result)
    ordered = sorted(by_api.items(), key=lambda item: -len(item[1]))
    shown = [_api_row(api, wrong) for api, wrong in ordered[:_API_ROWS]]
    table = Table(("API", "wrong cases", "worst score"), tuple(shown), frozenset({"wrong cases", "worst score"}))
    blocks: list[Block] = [BLANK, heading("Failures by API"), table]
    if len(ordered) > _API_ROWS:
        blocks.append(line(f"and {len(ordered) - _API_ROWS:,} more APIs", "dim", indent=2))
    return blocks


def _api_row(api: str, wrong: Sequence[CaseResult]) -> Row:
    worst = max((score_of(result) for result in wrong), key=score_key)
    return Row((cut(api, 64), f"{len(wrong):,}", "-" if worst is None else _times(worst)))


def _times(score: float) -> str:
    """A score in words: how many times the limit."""
    return f"{score:.3g} times the limit" if score < 1e300 else "beyond any limit"
