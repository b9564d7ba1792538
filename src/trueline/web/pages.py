"""What all served pages share: the page itself, written once, and what it asks for afterwards. Each kind of page has a
module of its own beside this one."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from trueline.report.json import dumps
from trueline.web.server import Answer

_NO_FRAMES = "frame-ancestors 'none'"

Words = Mapping[str, str]
"""What a request says after the question mark."""


class Page:
    """A page that was written once, and what it asks for afterwards: by name, a function of the words of the request
    that gives None where there is no such thing."""

    def __init__(self, write: Callable[[TextIO], None], answers: Mapping[str, Callable[[Words], Any]]) -> None:
        self._page = paged(write)
        self._answers = answers
        self._lock = threading.Lock()  # a Run is read by one at a time

    def page(self) -> Answer:
        """The page."""
        return self._page

    def answer(self, name: str, words: Words) -> Answer | None:
        if name not in self._answers:
            return None
        with self._lock:
            found = self._answers[name](words)
        return None if found is None else answered(found)


def paged(write: Callable[[TextIO], None]) -> Answer:
    """A page; its own element says what it may run and load, the header only who may frame it."""
    stream = io.StringIO()
    write(stream)
    return Answer(stream.getvalue().encode("utf-8"), "text/html; charset=utf-8", _NO_FRAMES)


def answered(found: Any) -> Answer:
    """JSON values as an answer."""
    return Answer(dumps(found).encode("utf-8"))


def detail_of(rows: int, detail: Callable[[int], Any]) -> Callable[[Words], Any]:
    """Answers with the detail of the row that a request names."""

    def answer(words: Words) -> Any:
        position = number(words.get("position", ""), rows)
        return None if position is None else detail(position)

    return answer


def number(text: str, end: int) -> int | None:
    """A number below ``end``; None where the text is none."""
    if not (text.isascii() and text.isdecimal() and len(text) < 12):
        return None
    return int(text) if int(text) < end else None
