"""The short verdict for a terminal: what went wrong first, where, what the numbers say, and what to run next."""

from __future__ import annotations

import numpy as np

from trueline.records import CallComparison, Origin, TensorComparison, Verdict
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
_COLUMNS = ("call", "step", "rank", "module", "inputs", "output", "limit", "verdict")
_RATIOS = ("RMSE", "max relative error", "mean relative error")
_THREE_WAY = (
    "call", "step", "module", "tensor", "error", "baseline's", "x RMSE", "x max rel", "x mean rel", "verdict"
)  # fmt: skip
"""The last columns but one are ratios: the candidate's error in units of the baseline's."""
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
        blocks += [_origin_fields(comparison), BLANK]
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


def _origin_fields(comparison: ComparisonView) -> Fields:
    origin = comparison.origin
    assert origin is not None
    call = origin.comparison.call
    items = [
        ("call", call.name),
        ("module", module_of(call)),
        ("source", call.source or "(no stack was kept: capture with --stacks)"),
        ("where", place(call)),
        ("why", why(origin)),
        ("proof", confirmation(origin, comparison.mode, baseline=comparison.baseline is not None)),
    ]
    return Fields(tuple(items))


def _scope_sentence(comparison: ComparisonView) -> str:
    how = _MODE_WORDS.get(comparison.mode, comparison.mode)
    victims = int(np.asarray(comparison.series()["inherited"]).astype(bool).sum())
    inherited = f"; {victims:,} inherited an earlier error" if victims else ""
    peer = f", by the errors of the baseline {comparison.baseline.path}" if comparison.baseline is not None else ""
    return f"{counts_sentence(comparison.counts)}{inherited} ({how}, standard {comparison.standard}{peer})"


def _table_of_divergent(comparison: ComparisonView, rows: int) -> list[Block]:
    positions = divergent_positions(comparison)
    if not len(positions) or rows < 1:
        return []
    describe, columns = (_divergent_row, _COLUMNS) if comparison.baseline is None else (_three_way_row, _THREE_WAY)
    shown = [describe(comparison, int(position)) for position in positions[:rows]]
    table = Table(columns, tuple(shown), frozenset(columns) - {"call", "module", "verdict", "tensor"})
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


def _three_way_row(comparison: ComparisonView, position: int) -> Row:
    """The tensor of a call that stands worst beside the baseline's."""
    pair = comparison.calls[position]
    call = pair.call
    tensors = [tensor for tensor in pair.tensors if tensor.errors]
    worst = max(tensors, key=lambda tensor: (int(tensor.verdict), _ratio(tensor, "distance")), default=None)
    cells = [call.name, str(call.step), call.module, worst.path if worst is not None else "-"]
    errors = {error.metric: error for error in worst.errors} if worst is not None else {}
    distance = errors.get("distance") or errors.get("unequal elements")
    cells += ["-", "-"] if distance is None else [number(distance.candidate), number(distance.baseline)]
    cells += [f"{errors[name].ratio:.3g}" if name in errors else "-" for name in _RATIOS]
    return Row((*cells, verdict_word(pair, comparison.origin)), VERDICT_STYLE[pair.verdict])


def _ratio(tensor: TensorComparison, metric: str) -> float:
    return next((error.ratio for error in tensor.errors if error.metric == metric), 0.0)


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
