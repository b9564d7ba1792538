"""A profile for a terminal: the verdict, sums that add up, the calls that cost most, what is beyond the limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from trueline.profiles import CaseProfile, ProfileInfo
from trueline.records import Phase, Verdict
from trueline.report.blocks import BLANK, Block, Fields, Paragraph, Row, Span, Table, heading, line
from trueline.report.check_wording import call_words, word_of
from trueline.report.partial import partial_blocks, partial_paths
from trueline.report.profile_wording import (
    against_line,
    calls_line,
    duration,
    explained_line,
    peak_of,
    phase_of,
    ratio_of,
    roofline_line,
    share_words,
    sum_line,
    verdict_line,
)
from trueline.report.reading import WIDTH, cut, reason_blocks, wrapped
from trueline.report.text import VERDICT_STYLE
from trueline.report.wording import plural, size

_ROW_STYLE = {Verdict.FAIL: "bad", Verdict.ERROR: "bad", Verdict.WARN: "warn"}


def profile_blocks(
    info: ProfileInfo, results: Sequence[CaseProfile], verdict: Verdict, *, rows: int = 20
) -> list[Block]:
    """The whole profile; ``rows`` bounds the calls in the table and the findings told in detail."""
    compared = bool(info.against)
    word = word_of(verdict) if compared else "TIMED"
    style = VERDICT_STYLE[verdict] if compared else "strong"
    sentence = wrapped(verdict_line(info, results), WIDTH - len(word) - 2)
    blocks: list[Block] = partial_blocks(partial_paths(info.sources))
    blocks += [Paragraph((Span(word, style), Span(f"  {sentence}", "strong"))), BLANK, _head(info, results)]
    blocks += _table(info, results, rows)
    blocks += _finding_blocks(results, rows)
    blocks += reason_blocks("Not compared" if compared else "Not timed", _missing(results, compared))
    blocks += reason_blocks("Skipped", info.skipped)
    return blocks


def _head(info: ProfileInfo, results: Sequence[CaseProfile]) -> Fields:
    versions = ", ".join(f"{name} {version}" for name, version in info.versions.items())
    where = f"{info.target} against {info.against}" if info.against else info.target
    explained = explained_line(info, results)
    items = [
        ("target", f"{where}; {plural(info.threads, 'thread')}; {versions}"),
        ("source", ", ".join(info.sources) or "-"),
        *(("override", f"{api} = {place}") for api, place in info.overrides.items()),
        ("calls", calls_line(info, results)),
        ("a step" if info.steps > 1 else "all", sum_line(info, results)),
        *([("against", against_line(info, results))] if info.against else []),
        *([("explains", explained)] if explained else []),
        *(("device", f"{target}: {roofline_line(found)}") for target, found in info.rooflines.items()),
        *([("limits", f"{info.limits.time:g} times the time, {info.limits.memory:g} times the memory")]
          if info.against else []),
        *([("accuracy", info.check)] if info.check else []),
    ]  # fmt: skip
    return Fields(tuple((name, wrapped(value, WIDTH - 12)) for name, value in items))


def _table(info: ProfileInfo, results: Sequence[CaseProfile], rows: int) -> list[Block]:
    timed = [one for one in results if one.measured.target.phases]
    if not timed or rows < 1:
        return []
    columns = ["verdict", "API", "calls", "forward", "backward", "total"]
    columns += ["ratio", "lost"] * bool(info.against) + ["peak"] + ["against "] * bool(info.against) + ["roofline"]
    columns += ["accuracy"] * bool(info.check)
    right = frozenset(columns[2:]) - {"roofline", "accuracy"}
    cells = tuple(Row(tuple(_cells(info, one)), _ROW_STYLE.get(one.verdict, "")) for one in timed[:rows])
    order = "the most lost time first" if info.against else "the most time first"
    title = f"Calls, {order}" if not info.against else f"Calls, {order} (times of {info.target}, for one call)"
    blocks: list[Block] = [BLANK, heading(title), Table(tuple(columns), cells, right)]
    if len(timed) > rows:
        rest = timed[rows:]
        seconds = sum(one.total for one in rest) / info.steps
        blocks.append(line(f"and {len(rest):,} more cases, together {duration(seconds)} a step", "dim", indent=2))
    return blocks


def _cells(info: ProfileInfo, result: CaseProfile) -> list[str]:
    measured = result.measured
    cells = [word_of(result.verdict) if info.against else "-", cut(result.case.api, 44), f"{result.case.count:,}"]
    for phase in Phase:
        found = phase_of(measured.target, phase)
        cells.append("-" if found is None else duration(found.timing.median))
    cells.append(duration(result.total / info.steps))
    if info.against:
        ratio = ratio_of(result)
        cells += ["-" if ratio is None else f"{ratio:.2f}", duration(result.lost / info.steps)]
    peak = peak_of(measured.target)
    cells.append("-" if peak is None else size(peak))
    if info.against:
        other = peak_of(measured.against)
        cells.append("-" if other is None else size(other))
    cells.append(share_words(measured.target))
    if info.check:
        cells.append("-" if result.accuracy is None else word_of(result.accuracy))
    return cells


def _finding_blocks(results: Sequence[CaseProfile], rows: int) -> list[Block]:
    bad = [one for one in results if one.verdict in (Verdict.FAIL, Verdict.ERROR, Verdict.WARN)]
    bad.sort(key=lambda one: (-one.verdict, -one.lost))
    if not bad:
        return []
    blocks: list[Block] = [BLANK, heading("Beyond the limits" if bad[0].verdict >= Verdict.FAIL else "To look at")]
    for result in bad[: max(rows, 0)]:
        case = result.case
        title = (Span(word_of(result.verdict), _ROW_STYLE[result.verdict]), Span(f"  {case.api}", "strong"))
        said = [one.reason for one in result.findings if one.verdict not in (Verdict.PASS, Verdict.NOT_COMPARED)]
        items = [("call", call_words(case, name=False)), *(("why", reason) for reason in said)]
        if case.module or case.source:
            items.append(("where", ", ".join(part for part in (case.module, case.source) if part)))
        if case.calls:
            items.append(("calls", case.calls[0] + (f" and {case.count - 1:,} more" if case.count > 1 else "")))
        blocks += [Paragraph(title, 2), Fields(tuple((n, wrapped(v, WIDTH - 15)) for n, v in items), indent=4)]
    if len(bad) > rows:
        blocks.append(line(f"and {len(bad) - rows:,} more", "dim", indent=2))
    return blocks


def _missing(results: Sequence[CaseProfile], compared: bool) -> Mapping[str, int]:
    left = [one for one in results if one.verdict is Verdict.NOT_COMPARED]
    if not compared:
        left = [one for one in left if not one.measured.target.phases]
    return Counter(f"{one.case.api}: {one.reason}" for one in left)
