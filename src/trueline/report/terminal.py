"""Prints blocks: with rich on a terminal, as plain text anywhere else.

What is printed may come from a Run that somebody else made, so characters that steer a terminal are shown, not sent.
rich is imported only when it is used: a piped command does not wait for it, and it may be missing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

from trueline.report.blocks import Block, Fields, Paragraph, Table

if TYPE_CHECKING:
    from rich.console import Console

_STEERING = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_STYLES = {
    "": "",
    "heading": "bold",
    "strong": "bold",
    "dim": "dim",
    "good": "bold green",
    "warn": "bold yellow",
    "bad": "bold red",
    "code": "cyan",
}


def visible(text: str) -> str:
    """Shows control characters as escapes (an escape sequence in an API's name must not reach the terminal)."""
    return _STEERING.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def write(blocks: Iterable[Block], stream: TextIO | None = None) -> None:
    """Prints blocks to a stream, standard output if none is given."""
    target = sys.stdout if stream is None else stream
    console = _console(target)
    if console is None:
        target.write(plain(blocks, encoding=getattr(target, "encoding", None)))
    else:
        _write_rich(blocks, console)
    target.flush()


def plain(blocks: Iterable[Block], *, encoding: str | None = None) -> str:
    """The blocks as plain text, in characters that the encoding knows."""
    text = "".join(f"{row}\n".replace(" \n", "\n") for block in blocks for row in _plain_lines(block))
    return text.encode(encoding, "backslashreplace").decode(encoding) if encoding else text


def _plain_lines(block: Block) -> Iterable[str]:
    margin = " " * block.indent
    if isinstance(block, Paragraph):
        text = visible("".join(span.text for span in block.spans))
        return [margin + part if part else "" for part in text.split("\n")]
    if isinstance(block, Fields):
        width = max((len(name) for name, _ in block.items), default=0)
        continued = "\n" + margin + " " * (width + 2)
        return [f"{margin}{name:<{width}}  {visible(value).replace(chr(10), continued)}" for name, value in block.items]
    return _plain_table(block, margin)


def _plain_table(table: Table, margin: str) -> Iterable[str]:
    cells = [table.columns, *([visible(cell).replace("\n", " ") for cell in row.cells] for row in table.rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(table.columns))]
    right = [name in table.right for name in table.columns]
    for row in cells:
        padded = (
            cell.rjust(width) if end else cell.ljust(width) for cell, width, end in zip(row, widths, right, strict=True)
        )
        yield margin + "  ".join(padded).rstrip()


def _console(stream: TextIO) -> Console | None:
    if not (hasattr(stream, "isatty") and stream.isatty()):
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(file=stream, highlight=False, soft_wrap=False)


def _write_rich(blocks: Iterable[Block], console: Console) -> None:
    from rich.padding import Padding
    from rich.text import Text

    for block in blocks:
        if isinstance(block, Paragraph):
            text = Text()
            for span in block.spans:
                text.append(visible(span.text), _STYLES[span.style])
            console.print(Padding(text, (0, 0, 0, block.indent)))
        elif isinstance(block, Fields):
            _print_grid(console, block)
        else:
            _print_table(console, block)


def _print_grid(console: Console, fields: Fields) -> None:
    from rich.padding import Padding
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in fields.items:
        grid.add_row(name, Text(visible(value)))
    console.print(Padding(grid, (0, 0, 0, fields.indent)))


def _print_table(console: Console, table: Table) -> None:
    from rich.padding import Padding
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    for name in table.columns:
        end = name in table.right
        grid.add_column(name, justify="right" if end else "left", no_wrap=end, overflow="fold")
    for row in table.rows:
        grid.add_row(*(Text(visible(cell)) for cell in row.cells), style=_STYLES[row.style])
    console.print(Padding(grid, (0, 0, 0, table.indent)))
