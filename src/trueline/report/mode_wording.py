"""The words of reports that depend on the mode of a check: what was done with the cases, and what it means to pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trueline.report.phrases import Phrase


@dataclass(frozen=True, slots=True)
class Words:
    """``done`` is what was done with cases, ``fine`` what is said where none is wrong, ``passed`` what became of one,
    ``missed`` what is said of those of which nothing is known, ``none`` the same where that is all of them; ``against``
    whether the reference was asked."""

    done: str = Phrase("checked")
    fine: str = Phrase("none wrong")
    passed: str = Phrase("passed")
    missed: str = Phrase("could not be compared")
    none: str = Phrase("could be compared")
    unknown: str = Phrase("not compared")
    against: bool = True


_WORDS: Mapping[str, Words] = {
    "target-only": Words(
        Phrase("run"), Phrase("nothing was compared"), Phrase("ran"), Phrase("could not run"), Phrase("could run"),
        Phrase("not run"), against=False,
    ),
    "stability": Words(
        Phrase("run repeatedly"), Phrase("each gave the same bits every time"), Phrase("stable"),
        Phrase("could not run"), Phrase("could run"), Phrase("not run"),
    ),
    "tolerance": Words(
        Phrase("measured"), Phrase("none was judged"), Phrase("measured"), Phrase("could not be measured"),
        Phrase("could be measured"), Phrase("not measured"),
    ),
}  # fmt: skip


def words_of(mode: str) -> Words:
    """The words for a mode, written as in ``CheckInfo.mode``: ``stability:5``."""
    return _WORDS.get(mode.partition(":")[0], Words())
