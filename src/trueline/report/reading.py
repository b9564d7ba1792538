"""Pieces that the texts for a terminal have in common: lines of a width, and lists of reasons."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from trueline.report.blocks import BLANK, Block, Fields, heading, line
from trueline.report.wording import plural

WIDTH = 100
REASONS = 6
"""So many reasons are told one by one."""


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def wrapped(text: str, width: int) -> str:
    """The text in lines of at most ``width``; its own line breaks stay."""
    lines = [part for row in text.split("\n") for part in textwrap.wrap(row, width, break_on_hyphens=False) or [""]]
    return "\n".join(lines)


def reason_blocks(title: str, reasons: Mapping[str, int]) -> list[Block]:
    """Reasons with how often each was given, the most frequent first."""
    if not reasons:
        return []
    ordered = sorted(reasons.items(), key=lambda item: -item[1])
    items = tuple((f"{amount:,}", wrapped(reason, WIDTH - 12)) for reason, amount in ordered[:REASONS])
    blocks: list[Block] = [BLANK, heading(title), Fields(items)]
    if len(ordered) > REASONS:
        rest = sum(amount for _, amount in ordered[REASONS:])
        blocks.append(line(f"and {rest:,} for {plural(len(ordered) - REASONS, 'other reason')}", "dim", indent=2))
    return blocks
