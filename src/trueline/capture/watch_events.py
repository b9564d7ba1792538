"""What a watch found, in words, and who explains it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from trueline.frameworks.light import LooksArray, Sink, StepLooks, is_bad
from trueline.overflows import Birth, Forecast, WatchEvent
from trueline.store.watch_log import WatchLog


@dataclass(frozen=True, slots=True)
class Explained:
    """What an Analyst makes of an overflow: the call to blame, if one is found; ``meant`` where nobody is."""

    message: str
    birth: Birth | None = None
    meant: bool = False


class Analyst(Protocol):
    """Understands overflows. It works on what is on disk, and needs no framework."""

    def explain(self, run: Path, rank: int, step: int) -> Explained:
        """What happened in a step whose calls were written into a Run that is still open."""

    def foresee(self, log: WatchLog, rank: int) -> Sequence[tuple[Forecast, str]]:
        """Calls that will overflow, each with a sentence; every call is told once."""

    def put_down(self, run: Path, rank: int, events: Sequence[WatchEvent]) -> Path:
        """Writes the report of a rank so that it is on the disk when this returns; gives the file to read."""


def worst_of(looks: StepLooks) -> str:
    """The first bad thing that came out of a step, in words."""
    bad = _bad_sinks(looks)
    if not len(bad):
        return "something in it is no number"
    row = bad[0]
    name = looks.names[int(row["name"])]
    counts = [
        f"{int(row[field]):,} {word}"
        for field, word in (("nan", "NaN"), ("positive_infinity", "+inf"), ("negative_infinity", "-inf"))
        if row[field]
    ]
    where = f" of {name.module}" if name.module else ""
    holds = f"holds {', '.join(counts)} of {int(row['count']):,}"
    if row["sink"] == Sink.PARAMETER:
        return f"{name.api} {holds} after the step of the optimizer, which made it of clean gradients"
    if row["sink"] == Sink.GRADIENT:
        return f"the gradient of {name.api} {holds}"
    return f"{name.path} of {name.api}{where} {holds}"


def _bad_sinks(looks: StepLooks) -> LooksArray:
    sinks = looks.sinks
    return sinks[is_bad(sinks)]


def only_parameters(looks: StepLooks) -> bool:
    """Whether all that is bad of what a step gave away are parameters, which its optimizer wrote."""
    bad = _bad_sinks(looks)
    return len(bad) > 0 and bool((bad["sink"] == Sink.PARAMETER).all())


def event_dict(event: WatchEvent) -> dict[str, Any]:
    words = {name: getattr(event, name) for name in ("step", "rank", "message", "api", "call", "module", "source")}
    return {"kind": event.kind.value, **words, "time": time.time()}
