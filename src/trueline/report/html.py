"""Pages that open from disk, ask nothing of the network and can be mailed: what all of them are made of.

Data and program are apart: the data is a block of JSON in which no character can end the block, the program is written
by us and allowed by its hash in the page's own security policy, and puts every text in as text. So a name with HTML in
it shows as a name.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, TextIO

from trueline.report.json import dumps
from trueline.report.partial import WORDS
from trueline.report.phrases import as_data


@dataclass(frozen=True, slots=True)
class Layout:
    """What a page is made of besides the frame: the file of its body, what a row of it is, its programs and styles."""

    body: str
    noun: str
    scripts: tuple[str, ...]
    styles: tuple[str, ...] = ()

    @property
    def all_scripts(self) -> tuple[str, ...]:
        """All programs in their order: the words of the other language first, since the frame says them at once."""
        scripts = (*_FRAME_SCRIPTS, *self.scripts)
        return tuple(sorted(scripts, key=lambda name: not name.startswith(_WORDS)))

    @property
    def all_styles(self) -> tuple[str, ...]:
        return (*_FRAME_STYLES, *self.styles)

    @property
    def files(self) -> tuple[str, ...]:
        """Every file of the page, the frame's among them."""
        return (FRAME, self.body, *self.all_scripts, *self.all_styles)


FRAME = "frame.html"
_FRAME_SCRIPTS = ("chinese.js", "chinese_sentences.js", "common.js", "address.js")
_WORDS = "chinese"
_FRAME_STYLES = ("page.css",)
_PLACE = re.compile(r"\{\{(\w+)\}\}")


def write_page(stream: TextIO, layout: Layout, title: str, data: dict[str, Any]) -> None:
    """Puts a page together from its layout and its data."""
    partial = partial_of_page(data)
    script, style = program(layout.all_scripts), styling(layout.all_styles)
    parts = {
        "policy": policy(script, style, served=bool(data.get("served"))),
        "title": html.escape(f"{partial} {title}".strip()),
        "partial": f'<p class="lead partial">{html.escape(partial)}</p>' if partial else "",
        "style": style,
        "kind": layout.body.removesuffix(".html"),
        "noun": layout.noun,
        "body": asset(layout.body),
        "data": embedded(dumps(data | {"head": as_data(data["head"])})),
        "script": script,
    }
    frame = asset(FRAME)
    end = 0
    for match in _PLACE.finditer(frame):
        stream.write(frame[end : match.start()])
        stream.write(parts[match[1]])
        end = match.end()
    stream.write(frame[end:])


def partial_of_page(data: dict[str, Any]) -> str:
    """What a page says first of Runs that are only a part of what was asked for."""
    texts = data["head"].get("partial") if isinstance(data["head"], dict) else None
    return f"{WORDS}: {'; '.join(texts)}." if texts else ""


def program(scripts: Sequence[str]) -> str:
    """The scripts of a page as one, whose names nobody else sees."""
    return '"use strict";\n(() => {\n' + "\n".join(asset(name) for name in scripts) + "\n})();\n"


def styling(styles: Sequence[str]) -> str:
    return "\n".join(asset(name) for name in styles)


def asset(name: str) -> str:
    """A file that ships inside the package."""
    return (resources.files("trueline.report") / "assets" / name).read_text(encoding="utf-8")


def embedded(text: str) -> str:
    """JSON that can stand inside a script element: no ``<``, so nothing in it can close the element or open a
    comment. The line separators are legal JSON but end a line for older browsers."""
    return (
        text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
        .replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    )  # fmt: skip


def policy(script: str, style: str, *, served: bool) -> str:
    """What the page may run and load: its own program and style; where it was served, also what its server answers."""
    rule = f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; base-uri 'none'"
    return rule + ("; connect-src 'self'" if served else "")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
