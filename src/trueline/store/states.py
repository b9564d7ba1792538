"""The named state of a program as it lies in a Run: rows of calls whose level is *state*, made into Snapshots."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from trueline.checked import unfit
from trueline.records import Snapshot, StateMoment
from trueline.store.columns import CALL_COLUMNS, STATE_PREFIX, Integers

_API, _STEP, _MODULE, _ARGUMENTS = (CALL_COLUMNS.index(name) for name in ("api", "step", "module", "arguments"))
_MOMENTS = {STATE_PREFIX + moment.value: moment for moment in StateMoment}


def snapshots(
    columns: Integers,
    visits: Integers,
    names: Mapping[int, str],
    modules: Mapping[int, tuple[str, str]],
    paths: Mapping[int, Mapping[int, str]],
) -> tuple[Snapshot, ...]:
    """The states in these rows; ``paths`` are those of the leaves of each tree."""
    firsts = np.searchsorted(visits[:, 0], columns[:, 0], side="left").tolist()
    lasts = np.searchsorted(visits[:, 0], columns[:, 0], side="right").tolist()
    positions = visits[:, 1].tolist()
    found = []
    for row, first, last in zip(columns.tolist(), firsts, lasts, strict=True):
        moment = _MOMENTS.get(names.get(row[_API], ""))
        if moment is None:
            unfit(f"row {row[0]} of calls is a state at no known moment")
        known = paths.get(row[_ARGUMENTS], {})
        values = {known[positions[place]]: place for place in range(first, last) if positions[place] in known}
        model = modules.get(row[_MODULE], ("", ""))[1]
        found.append(Snapshot(moment=moment, step=row[_STEP], call=row[0], model=model, values=values))
    return tuple(found)
