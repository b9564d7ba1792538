"""The page of a comparison, with the details of any call, the error of any slice of its tensors, and their gold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trueline.report.comparison_html import LAYOUT, title_of
from trueline.report.html import write_page
from trueline.report.page_data import page_data
from trueline.report.pair_details import pair_details
from trueline.report.subject import ComparisonView
from trueline.report.tensor_error import tensor_error, with_gold
from trueline.web.pages import Page, Words, detail_of, number

DETAILED_CALLS = 100
"""Calls whose details come with the page: those that people look at first. All others are loaded when asked for."""
_MOST_AXES = 1 << 10


def comparison_page(comparison: ComparisonView) -> Page:
    """A comparison, which must stay open as long as the page is served."""
    data = page_data(comparison, most=DETAILED_CALLS) | {"served": True}
    calls = comparison.calls

    def of_tensor(answer: Callable[[int, int, Words], Any]) -> Callable[[Words], Any]:
        def found(words: Words) -> Any:
            position = number(words.get("position", ""), data["count"])
            if position is None:
                return None
            place = number(words.get("place", ""), len(calls[position].tensors))
            return None if place is None else answer(position, place, words)

        return found

    return Page(
        lambda stream: write_page(stream, LAYOUT, title_of(comparison), data),
        {
            "data/detail": detail_of(data["count"], lambda position: pair_details(comparison, calls[position])),
            "data/tensor": of_tensor(lambda position, place, words: _error(comparison, position, place, words)),
            "data/gold": of_tensor(lambda position, place, words: with_gold(comparison, position, place)),
        },
    )


def _error(comparison: ComparisonView, position: int, place: int, words: Words) -> dict[str, Any]:
    """The error in the slice that a request names; where it names none, in that of the worst element."""
    at, axes = (_numbers(words.get(name, ""), most) for name, most in (("at", 1 << 40), ("axes", _MOST_AXES)))
    return tensor_error(comparison, position, place, at, axes)


def _numbers(text: str, end: int) -> list[int] | None:
    """Numbers between commas; None where there are none."""
    return [number(one, end) or 0 for one in text.split(",")] if text else None
