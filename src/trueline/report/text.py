"""The short verdict for a terminal: what went wrong first, where, what the numbers say, and what to run next."""

from __future__ import annotations

import numpy as np

from trueline.records import CallComparison, Origin, Verdict
from trueline.report.blocks import BLANK, Block, Fields, Paragraph, Row, Span, Table, heading, line
from trueline.report.subject import ComparisonView
from trueline.report.wording import (
    confirmation,
    counts_sentence,
    module_of,
    next_commands,
    number,
    place,
    unmatched_lines,
    verdict_sentence,
    why,
)

VERDICT_STYLE = {
    Verdict.PASS: "good",
    Verdict.WARN: "warn",
    Verdict.NOT_COMPARED: "warn",
    Verdict.FAIL: "bad",
    Verdict.ERROR: "bad",
}
_MODE_WORDS = {
    "tensors": "from the tensors",
    "digest": "from statistics, sketches and digests",
    "stats": "from statistics and sketches",
    "structure": "from the structure alone",
}


def comparison_blocks(comparison: ComparisonView, *, rows: int = 12, html_written: bool = False) -> list[Block]:
    """The verdict of a comparison; ``rows`` bounds the table of calls that differ."""
    style = VERDICT_STYLE[comparison.verdict]
    word = comparison.verdict.name.replace("_", " ")
    sentence = Span(f"  {verdict_sentence(comparison)}", "strong")
    blocks: list[Block] = [Paragraph((Span(word, style), sentence)), BLANK]
    if comparison.origin is not None:
        blocks += [_origin_fields(comparison.origin, comparison.mode), BLANK]
    blocks.append(line(_scope_sentence(comparison), indent=2))
    blocks += [line(sentence, indent=2) for sentence in unmatched_lines(comparison)]
    blocks += [Paragraph((Span("note: ", "warn"), Span(note)), 2) for note in comparison.notes]
    blocks += _table_of_divergent(comparison, rows)
    blocks += _next_steps(comparison, html_written)
    return blocks


def divergent_positions(comparison: ComparisonView) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Positions in ``calls`` of those that failed, warn, or inherited an error, in order."""
    columns = comparison.series()
    verdict = np.asarray(columns["verdict"]).astype(np.int64)
    differs = np.isin(verdict, [Verdict.WARN, Verdict.FAIL, Verdict.ERROR])
    return np.flatnonzero(differs | np.asarray(columns["inherited"]).astype(bool))


def _origin_fields(origin: Origin, mode: str) -> Fields:
    call = origin.comparison.call
    items = [
        ("call", call.name),
        ("module", module_of(call)),
        ("source", call.source or "(no stack was kept: capture with --stacks)"),
        ("where", place(call)),
        ("why", why(origin)),
        ("proof", confirmation(origin, mode)),
    ]
    return Fields(tuple(items))


def _scope_sentence(comparison: ComparisonView) -> str:
    how = _MODE_WORDS.get(comparison.mode, comparison.mode)
    victims = int(np.asarray(comparison.series()["inherited"]).astype(bool).sum())
    inherited = f"; {victims:,} inherited an earlier error" if victims else ""
    return f"{counts_sentence(comparison.counts)}{inherited} ({how}, standard {comparison.standard})"


def _table_of_divergent(comparison: ComparisonView, rows: int) -> list[Block]:
    positions = divergent_positions(comparison)
    if not len(positions) or rows < 1:
        return []
    shown = [_divergent_row(comparison, int(position)) for position in positions[:rows]]
    table = Table(
        ("call", "step", "rank", "module", "inputs", "output", "limit", "verdict"),
        tuple(shown),
        frozenset({"step", "rank", "inputs", "output", "limit"}),
    )
    blocks: list[Block] = [BLANK, heading("First calls that differ"), table]
    if len(positions) > rows:
        blocks.append(line(f"and {len(positions) - rows:,} more", "dim", indent=2))
    return blocks


def _divergent_row(comparison: ComparisonView, position: int) -> Row:
    pair = comparison.calls[position]
    call = pair.call
    cells = (
        call.name,
        str(call.step),
        str(call.rank),
        call.module,
        number(pair.input_distance),
        number(pair.output_distance),
        number(pair.limit),
        verdict_word(pair, comparison.origin),
    )
    return Row(cells, "dim" if pair.inherited else VERDICT_STYLE[pair.verdict])


def verdict_word(pair: CallComparison, origin: Origin | None) -> str:
    """``FAIL, origin``, ``PASS, victim``: the verdict on a call with its part in the story."""
    word = pair.verdict.name.replace("_", " ")
    if origin is not None and same_pair(pair, origin.comparison):
        return f"{word}, origin"
    return f"{word}, victim" if pair.inherited else word


def same_pair(one: CallComparison, other: CallComparison) -> bool:
    first, second = one.call, other.call
    return (first.rank, first.id, one.candidate is None) == (second.rank, second.id, other.candidate is None)


def _next_steps(comparison: ComparisonView, html_written: bool) -> list[Block]:
    commands = next_commands(comparison, html_written=html_written)
    if not commands:
        return []
    items = [Paragraph((Span(f"# {why}\n", "dim"), Span(text, "code")), 2) for why, text in commands]
    return [BLANK, heading("Next"), *items]
