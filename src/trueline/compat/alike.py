"""Which calls of a Run are one case: the old tools have a row for each call, the library executes equal ones once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trueline.cases import Case
from trueline.records import Level, Phase
from trueline.store import Trace, open_run
from trueline.store.columns import LEVELS, NONE, PHASES


def calls_alike(run: Path, cases: Iterable[Case]) -> dict[str, tuple[str, ...]]:
    """The first call of each case (``torch.relu.0.forward``) -> all calls that are this case, itself included."""
    groups: dict[str, list[str]] = {}
    with open_run(run) as opened:
        for rank in opened.ranks:
            for name, look in _looks(opened.rank(rank).trace()):
                groups.setdefault(look, []).append(name)
    member = {name: names for names in groups.values() for name in names}
    found: dict[str, tuple[str, ...]] = {}
    first = {case.calls[0]: case for case in cases if case.calls}
    for name in first:
        others = [one for one in member.get(name, [name]) if one == name or one not in first]
        found[name] = tuple(others)
    return found


def _looks(trace: Trace) -> Iterable[tuple[str, str]]:
    """Every forward API call with what makes it the same as another: API, arguments, layouts, gradients."""
    backward = _backwards(trace)
    wanted = (trace.column("level") == LEVELS.index(Level.API)) & (trace.column("phase") == PHASES.index(Phase.FORWARD))
    for position in np.flatnonzero(wanted).tolist():
        call = trace.call(position, statistics=False)
        arrived = trace.visits_of(backward[call.id])[:, 4].tolist() if call.id in backward else []
        look: list[Any] = [call.api, call.arguments, trace.visits_of(position)[:, 4].tolist(), arrived]
        yield call.name, json.dumps(look, sort_keys=True)


def _backwards(trace: Trace) -> Mapping[int, int]:
    """The number of a forward call -> the position of its first backward call."""
    found: dict[int, int] = {}
    for position, forward in enumerate(trace.column("forward").tolist()):
        if forward != NONE:
            found.setdefault(forward, position)
    return found
