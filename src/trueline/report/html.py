"""A comparison as one HTML page that opens from disk, asks nothing of the network and can be mailed.

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
from trueline.report.page_data import page_data
from trueline.report.subject import ComparisonView
from trueline.report.wording import verdict_sentence


@dataclass(frozen=True, slots=True)
class Layout:
    """What a page is made of: the file of its body, what a row of it is, its programs and styles."""

    body: str
    noun: str
    scripts: tuple[str, ...]
    styles: tuple[str, ...]


FRAME = "frame.html"
COMPARISON = Layout(
    "page.html",
    "call",
    ("common.js", "data.js", "plot.js", "table.js", "modules.js", "errors.js", "details.js", "main.js"),
    ("page.css",),
)
_PLACE = re.compile(r"\{\{(\w+)\}\}")


def write_html(comparison: ComparisonView, stream: TextIO) -> None:
    """Writes the page."""
    write_page(stream, COMPARISON, title_of(comparison), page_data(comparison))


def title_of(comparison: ComparisonView) -> str:
    return f"{comparison.verdict.name.replace('_', ' ')}: {verdict_sentence(comparison)}"


def write_page(stream: TextIO, layout: Layout, title: str, data: dict[str, Any]) -> None:
    """Puts a page together from its layout and its data."""
    script, style = program(layout.scripts), styling(layout.styles)
    parts = {
        "policy": policy(script, style, served=bool(data.get("served"))),
        "title": html.escape(title),
        "style": style,
        "kind": layout.body.removesuffix(".html"),
        "noun": layout.noun,
        "body": asset(layout.body),
        "data": embedded(dumps(data)),
        "script": script,
    }
    frame = asset(FRAME)
    end = 0
    for match in _PLACE.finditer(frame):
        stream.write(frame[end : match.start()])
        stream.write(parts[match[1]])
        end = match.end()
    stream.write(frame[end:])


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
