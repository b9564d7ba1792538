"""How cases end, by name: one of ``Ending`` each, never two, so that the counts of a campaign add up to its cases."""

from __future__ import annotations

from collections.abc import Iterable

from trueline.cases import CaseResult, Ending
from trueline.errors import UsageError

ALL = "all"


def ending_of(result: CaseResult) -> Ending:
    """The one ending of a case that was judged; see ``CaseResult.ending``."""
    return result.ending


def endings_named(text: str) -> tuple[Ending, ...]:
    """Reads ``crashed,timed_out``; ``all`` are all of them. Spaces, underscores and hyphens are alike."""
    words = [word.strip().lower().replace("_", " ").replace("-", " ") for word in text.split(",")]
    known = {ending.value: ending for ending in Ending}
    if words == [ALL]:
        return tuple(Ending)
    unknown = next((word for word in words if word not in known), None)
    if unknown is not None:
        raise UsageError(f"no case ends in {unknown!r}; there are {', '.join(map(word_of, Ending))}, and {ALL}")
    return tuple(dict.fromkeys(known[word] for word in words))


def word_of(ending: Ending) -> str:
    """An ending as one word, for a command line: ``timed_out``."""
    return ending.value.replace(" ", "_")


def counted(endings: Iterable[tuple[str, int]]) -> dict[Ending, int]:
    """Counts by the text of an ending, as all endings in their order."""
    found = dict(endings)
    return {ending: found.get(ending.value, 0) for ending in Ending}
