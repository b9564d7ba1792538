"""Tolerance statistics for a terminal: what was measured, the largest errors, and what would be recommended."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from trueline.report.blocks import BLANK, Block, Fields, Paragraph, Row, Span, Table, heading, line
from trueline.report.tolerance_rows import FORWARD, Spread, ToleranceRow, Tolerances, Worst
from trueline.report.wording import plural

WIDTH = 100
_REASONS = 5
_COLUMNS = ("API", "dtype", "of", "tensors", "p50", "p99", "max", "rtol", "atol", "covers")
_RIGHT = frozenset(_COLUMNS[3:])
_NAME = 34


def tolerance_blocks(found: Tolerances, *, rows: int = 20, folder: Path | None = None) -> list[Block]:
    """The rows with the largest errors, in eps of the scale of the result."""
    apis = len({row.api for row in found.rows})
    if not found.tensors:
        said = f"Nothing was measured in {plural(found.cases, 'case')}"
    else:
        said = f"Errors of {plural(found.tensors, 'tensor')} of {plural(found.measured, 'case')}, {plural(apis, 'API')}"
    blocks: list[Block] = [Paragraph((Span(said, "strong"),)), BLANK, _head(found)]
    if found.rows:
        shown = found.rows[: max(rows, 0)]
        blocks += [BLANK, heading("Largest errors, in eps of the scale of the result")]
        blocks.append(Table(_COLUMNS, tuple(_row(row) for row in shown), _RIGHT))
        if len(found.rows) > len(shown):
            blocks.append(line(f"and {len(found.rows) - len(shown):,} more rows", "dim", indent=2))
        blocks += _worst_blocks(shown[:3])
    if found.unmeasured:
        ordered = list(found.unmeasured.items())[:_REASONS]
        items = tuple((f"{count:,}", textwrap.fill(reason, WIDTH - 12)) for reason, count in ordered)
        blocks += [BLANK, heading("Not measured"), Fields(items)]
        if len(found.unmeasured) > _REASONS:
            blocks.append(line(f"and {plural(len(found.unmeasured) - _REASONS, 'other reason')}", "dim", indent=2))
    if folder is not None:
        blocks += [BLANK, line(f"written: {folder}/tolerances.csv, tolerances.json, tol.csv, tol_full.csv, "
                               "tol_stat.csv, tol_stat_api.csv", "dim")]  # fmt: skip
    return blocks


def _head(found: Tolerances) -> Fields:
    wrong = sum(row.wrong for row in found.rows)
    odd = sum(row.nan_tensors for row in found.rows), sum(row.infinity_tensors for row in found.rows)
    items = [
        ("check", f"{found.source}: {found.target} against {found.reference}"),
        ("rtol, atol", f"{found.margin:g} times what was seen; they cover at least so many of all such tensors, with "
                       f"{100 * found.confidence:g} % confidence"),
    ]  # fmt: skip
    if wrong:
        said = f"{plural(wrong, 'tensor')} beyond what honest arithmetic explains; they recommend nothing"
        items.append(("wrong", said))
    if any(odd):
        said = f"{plural(odd[0], 'tensor')} with NaN, {odd[1]:,} with infinities on one side only"
        items.append(("not finite", said))
    return Fields(tuple((name, textwrap.fill(text, WIDTH - 14)) for name, text in items))


def _row(row: ToleranceRow) -> Row:
    of = row.path if row.direction == FORWARD else f"grad {row.path}"
    eps, one = row.spreads.get("eps"), row.recommended
    tolerances = ("-",) * 3 if one is None else (f"{one.rtol:g}", f"{one.atol:g}", f"{100 * one.coverage:.3g} %")
    cells = (_short(row.api), row.dtype, of, f"{row.tensors:,}", _quantile(eps, 0), _quantile(eps, 2), _largest(eps))
    return Row((*cells, *tolerances), "warn" if row.wrong else "")


def _short(api: str) -> str:
    return api if len(api) <= _NAME else f"…{api[1 - _NAME :]}"


def _quantile(spread: Spread | None, place: int) -> str:
    return "-" if spread is None or not spread.count else f"{spread.quantiles[place].value:.3g}"


def _largest(spread: Spread | None) -> str:
    return "-" if spread is None or not spread.count else f"{spread.maximum:.3g}"


def _values(worst: Worst) -> str:
    """Both values, in as many digits as it takes to tell them apart."""
    short = f"{worst.actual:.9g}", f"{worst.expected:.9g}"
    actual, expected = short if short[0] != short[1] else (f"{worst.actual:.17g}", f"{worst.expected:.17g}")
    return f"{actual} for {expected}"


def _worst_blocks(rows: Sequence[ToleranceRow]) -> list[Block]:
    items = []
    for row in rows:
        if row.worst is not None and (row.spreads.get("absolute") or Spread(0, (), 0.0)).maximum > 0.0:
            worst = row.worst
            place = list(worst.element)
            text = f"{_values(worst)} at {place} of {row.path}: {worst.config}"
            items.append((row.api.rpartition(".")[2], textwrap.fill(text, WIDTH - 20)))
    return [BLANK, heading("Worst elements"), Fields(tuple(items))] if items else []
