"""Sentences that know what they are made of, so that a page can say them in another language.

A ``Phrase`` is its English text; beside it it keeps the template and the values that were put in, which a page gets in
place of the text (``as_data``). Templates are written where they are used, as literals: the pages hold their Chinese.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_PLACE = re.compile(r"\{(\w+)\}")


class Phrase(str):
    """``Phrase("{call} went wrong first", call="torch.relu.3.forward")``: a text in English, and how it was made."""

    template: str
    values: Mapping[str, str]

    def __new__(cls, template: str, /, **values: object) -> Phrase:
        texts = {name: value if isinstance(value, str) else _written(value) for name, value in values.items()}
        made = super().__new__(cls, _PLACE.sub(lambda match: texts[match[1]], template))
        made.template, made.values = template, texts
        return made

    def data(self) -> dict[str, Any]:
        """What a page gets."""
        return {"say": self.template, "with": {name: as_data(value) for name, value in self.values.items()}}


class Phrases(str):
    """Several phrases one after another as one text."""

    separator: str
    parts: Sequence[str]

    def __new__(cls, separator: str, parts: Sequence[str]) -> Phrases:
        made = super().__new__(cls, separator.join(parts))
        made.separator, made.parts = separator, tuple(parts)
        return made

    def data(self) -> dict[str, Any]:
        return {"join": self.separator, "parts": [as_data(part) for part in self.parts]}


def counted(count: int, one: str, many: str, **values: object) -> Phrase:
    """``counted(3, "{n} call differs", "{n} calls differ")``."""
    return Phrase(one if count == 1 else many, n=count, **values)


def as_data(value: Any) -> Any:
    """JSON values in which every phrase stands with its template and values."""
    if isinstance(value, Phrase | Phrases):
        return value.data()
    if isinstance(value, Mapping):
        return {key: as_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_data(item) for item in value]
    return value


def _written(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
