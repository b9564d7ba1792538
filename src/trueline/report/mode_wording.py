"""The words of reports that depend on the mode of a check: what was done with the cases, and what it means to pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    """``done`` is what was done with cases, ``fine`` what is said where none is wrong, ``passed`` what became of one,
    ``missed`` what is said of those of which nothing is known; ``against`` whether the reference was asked."""

    done: str = "checked"
    fine: str = "none wrong"
    passed: str = "passed"
    missed: str = "could not be compared"
    unknown: str = "not compared"
    against: bool = True


_WORDS: Mapping[str, Words] = {
    "target-only": Words("run", "nothing was compared", "ran", "could not run", "not run", against=False),
    "stability": Words("run repeatedly", "each gave the same bits every time", "stable", "could not run", "not run"),
    "tolerance": Words("measured", "none was judged", "measured", "could not be measured", "not measured"),
}


def words_of(mode: str) -> Words:
    """The words for a mode, written as in ``CheckInfo.mode``: ``stability:5``."""
    return _WORDS.get(mode.partition(":")[0], Words())
