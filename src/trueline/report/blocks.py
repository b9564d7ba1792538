"""Text for a terminal as data: paragraphs and tables of styled spans. ``terminal.write`` prints them.

Styles are meanings, not colours: heading, strong, dim, good, warn, bad, code.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of text in one style."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """One line (or a few, where the text holds line breaks), indented."""

    spans: tuple[Span, ...] = ()
    indent: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table; ``style`` is that of the whole row."""

    cells: tuple[str, ...]
    style: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table. Columns whose name is in ``right`` are aligned to the right."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    right: frozenset[str] = frozenset()
    indent: int = 2


@dataclass(frozen=True, slots=True)
class Fields:
    """Names with their values, one under the other."""

    items: tuple[tuple[str, str], ...]
    indent: int = 2


Block = Paragraph | Table | Fields

BLANK = Paragraph()


def line(text: str, style: str = "", *, indent: int = 0) -> Paragraph:
    return Paragraph((Span(text, style),), indent)


def heading(text: str) -> Paragraph:
    return line(text, "heading")
