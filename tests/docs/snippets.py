"""The blocks of a page of the documentation that can be run, in order.

``sh`` blocks are run command by command, ``python`` blocks as programs, and a block with a caption is the content of
the file that the caption names. Whatever else is fenced is shown, not run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_CAPTION = re.compile(r"^:caption: (?P<name>\S+)\n\n?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """One block: ``kind`` is ``sh``, ``python`` or ``file``, whose name is ``name``."""

    kind: str
    text: str
    name: str = ""

    @property
    def commands(self) -> list[str]:
        """The commands of an ``sh`` block; a backslash at the end of a line joins it to the next."""
        return [line for line in self.text.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]


def blocks(page: Path) -> Iterator[Block]:
    for match in _FENCE.finditer(page.read_text(encoding="utf-8")):
        info, text = match["info"].strip(), match["text"]
        caption = _CAPTION.match(text) if info.startswith("{code-block}") else None
        if caption is not None:
            yield Block("file", text[caption.end() :], caption["name"])
        elif info in ("sh", "python"):
            yield Block(info, text)


def fenced(page: Path) -> list[tuple[str, str]]:
    """Everything that is fenced on a page, run or only shown: what follows the fence, and the text."""
    return [(match["info"].strip(), match["text"]) for match in _FENCE.finditer(page.read_text(encoding="utf-8"))]
