"""One call of a Run as a source: ``runs/bad::torch.nn.functional.gelu.2.forward@step=2,rank=0``.

The name is as ``trueline show`` takes it; step and rank may be left out. A backward call stands for its forward call,
which is the one that is executed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from trueline.errors import UsageError
from trueline.records import Phase
from trueline.store.columns import NONE, PHASES
from trueline.store.trace import Trace

_MARK = "::"
_EXAMPLE = "RUN::torch.relu.3.forward@step=2,rank=0"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which calls of a Run are meant: those of a name, in a step and of a rank where these are said."""

    name: str
    step: int | None = None
    rank: int | None = None

    def __str__(self) -> str:
        places = [f"{key}={value}" for key, value in (("step", self.step), ("rank", self.rank)) if value is not None]
        return f"{self.name}@{','.join(places)}" if places else self.name

    def ranks(self, ranks: Iterable[int]) -> list[int]:
        """Those of some ranks that are meant."""
        return [rank for rank in ranks if self.rank is None or rank == self.rank]

    def forwards(self, trace: Trace) -> frozenset[int]:
        """The positions of the forward calls that are meant."""
        found: set[int] = set()
        backward = PHASES.index(Phase.BACKWARD)
        for position in trace.find(self.name, self.step):
            if int(trace.column("phase")[position]) != backward:
                found.add(position)
            elif (forward := int(trace.column("forward")[position])) != NONE:
                found.update(trace.find(f"#{forward}"))
        return frozenset(found)


def split_source(text: str) -> tuple[str, Selection | None]:
    """The path of a source, and the call that it names, if any."""
    path, mark, named = text.partition(_MARK)
    if not mark or os.path.exists(text):
        return text, None
    name, at, where = named.partition("@")
    if not path or not name or (at and not where):
        raise UsageError(f"{text!r} names no call of a Run; write {_EXAMPLE}")
    return path, Selection(name, **_places(text, where))


def _places(text: str, where: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for word in where.split(",") if where else ():
        key, equals, value = word.partition("=")
        if key not in ("step", "rank") or key in found or not equals or not (value.isascii() and value.isdecimal()):
            raise UsageError(f"{text!r}: {word!r} is neither step=N nor rank=N; write {_EXAMPLE}")
        found[key] = int(value)
    return found
