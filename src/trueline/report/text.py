"""The short verdict for a terminal: what went wrong first, where, what the numbers say, and what to run next."""

from __future__ import annotations

from typing import Any

import numpy as np

from trueline.records import CallComparison, Origin, TensorComparison, Verdict
from trueline.report.blocks import BLANK, Block, Paragraph, Row, Span, Table, heading, line
from trueline.report.given_away import given_away
from trueline.report.origin_text import is_of_origin, origin_fields, region_blocks
from trueline.report.partial import partial_blocks, partial_runs
from trueline.report.subject import Columns, ComparisonView, following, origin_position
from trueline.report.verdict_wording import next_commands, notes_of, unmatched_lines, verdict_sentence
from trueline.report.wording import counts_sentence, number

Flags = np.ndarray[Any, np.dtype[np.bool_]]
Positions = np.ndarray[tuple[int], np.dtype[np.intp]]
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


def comparison_blocks(
    comparison: ComparisonView, *, rows: int = 12, html_written: bool = False, partial: bool = False
) -> list[Block]:
    """The verdict of a comparison; ``rows`` bounds the table of calls that differ. ``partial``: whether a part was said
    to be enough."""
    style = VERDICT_STYLE[comparison.verdict]
    word = comparison.verdict.name.replace("_", " ")
    sentence = Span(f"  {verdict_sentence(comparison)}", "strong")
    series = comparison.series()
    follows = following(comparison, series, origin_position(comparison, series))
    blocks = partial_blocks(partial_runs((comparison.reference, comparison.candidate, comparison.baseline)))
    blocks += [Paragraph((Span(word, style), sentence)), BLANK]
    if comparison.origin is not None:
        blocks += [origin_fields(comparison, comparison.origin), BLANK, *region_blocks(comparison.origin)]
    if told := given_away(comparison).sentence():
        blocks.append(line(told, indent=2))
    blocks.append(line(_scope_sentence(comparison, int(follows.sum())), indent=2))
    blocks += [line(sentence, indent=2) for sentence in unmatched_lines(comparison)]
    blocks += [Paragraph((Span("note: ", "warn"), Span(note)), 2) for note in notes_of(comparison)]
    blocks += _table_of_divergent(comparison, rows, _divergent(series, follows), follows)
    blocks += _next_steps(comparison, html_written, partial)
    return blocks


def divergent_positions(comparison: ComparisonView) -> Positions:
    """Positions in ``calls`` of those that failed, warn, or follow from the origin, in order."""
    series = comparison.series()
    return _divergent(series, following(comparison, series, origin_position(comparison, series)))


def _divergent(series: Columns, follows: Flags) -> Positions:
    verdict = np.asarray(series["verdict"]).astype(np.int64)
    return np.flatnonzero(np.isin(verdict, [Verdict.WARN, Verdict.FAIL, Verdict.ERROR]) | follows)


def _scope_sentence(comparison: ComparisonView, follow: int) -> str:
    how = _MODE_WORDS.get(comparison.mode, comparison.mode)
    later = f"; {follow:,} {'follows' if follow == 1 else 'follow'} from the origin" if follow else ""
    peer = f", by the errors of the baseline {comparison.baseline.path}" if comparison.baseline is not None else ""
    return f"{counts_sentence(comparison.counts)}{later} ({how}, standard {comparison.standard}{peer})"


def _table_of_divergent(comparison: ComparisonView, rows: int, positions: Positions, follows: Flags) -> list[Block]:
    if not len(positions) or rows < 1:
        return []
    describe, columns = (_divergent_row, _COLUMNS) if comparison.baseline is None else (_three_way_row, _THREE_WAY)
    shown = [describe(comparison, int(position), bool(follows[position])) for position in positions[:rows]]
    table = Table(columns, tuple(shown), frozenset(columns) - {"call", "module", "verdict", "tensor"})
    blocks: list[Block] = [BLANK, heading("First calls that differ"), table]
    if len(positions) > rows:
        blocks.append(line(f"and {len(positions) - rows:,} more", "dim", indent=2))
    return blocks


def _divergent_row(comparison: ComparisonView, position: int, follows: bool) -> Row:
    pair = comparison.calls[position]
    call = pair.call
    alone = pair.reference is None or pair.candidate is None
    cells = (
        call.name,
        str(call.step),
        str(call.rank),
        call.module,
        "-" if alone else number(pair.input_distance),
        "-" if alone else number(pair.output_distance),
        number(pair.limit),
        verdict_word(pair, comparison.origin, follows=follows),
    )
    return Row(cells, "dim" if follows else VERDICT_STYLE[pair.verdict])


def _three_way_row(comparison: ComparisonView, position: int, follows: bool) -> Row:
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
    return Row((*cells, verdict_word(pair, comparison.origin, follows=follows)), VERDICT_STYLE[pair.verdict])


def _ratio(tensor: TensorComparison, metric: str) -> float:
    return next((error.ratio for error in tensor.errors if error.metric == metric), 0.0)


def verdict_word(pair: CallComparison, origin: Origin | None, *, follows: bool) -> str:
    """``FAIL, origin``, ``PASS, follows``: the verdict on a call with its part in the story."""
    word = pair.verdict.name.replace("_", " ")
    if origin is not None and is_of_origin(pair, origin):
        return f"{word}, origin"
    return f"{word}, follows" if follows else word


def _next_steps(comparison: ComparisonView, html_written: bool, partial: bool) -> list[Block]:
    commands = next_commands(comparison, html_written=html_written, partial=partial)
    if not commands:
        return []
    items = [Paragraph((Span(f"# {why}\n", "dim"), Span(text, "code")), 2) for why, text in commands]
    return [BLANK, heading("Next"), *items]
