"""What a Run tells about the calls that an overflow report names: the way that bad numbers took, how the room to the
limit shrank step by step, and what the calls just before gave.

The report names calls; the Run, where it is at hand, knows their modules, lines and numbers. Nothing here has an
opinion: who is to blame was said by the report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from trueline.dtypes import limit_of
from trueline.overflows import Birth, Forecast
from trueline.records import Call, Phase
from trueline.report.call_numbers import Vector, call_numbers
from trueline.report.json import plain
from trueline.store import Run, Trace
from trueline.store.columns import PHASES
from trueline.store.watch_log import WatchHistory, watched_ranks

_MOST_POINTS = 400
"""Of a course; a longer one is thinned out, the newest steps stay."""
_CALLS_BEFORE = 12


class RunStory:
    """The Run behind an overflow report; ``offsets`` are the rows at which the ranks begin on the page of the Run."""

    def __init__(self, run: Run, traces: Sequence[Trace] | None = None) -> None:
        self._traces = traces if traces is not None else [run.rank(rank).trace() for rank in run.ranks]
        self._by_rank = {trace.rank: _RankStory(trace) for trace in self._traces}
        self._logs: Mapping[int, WatchHistory] = watched_ranks((rank, run.rank(rank).folder) for rank in run.ranks)
        ends = np.cumsum([0, *(len(trace) for trace in self._traces)]).tolist()
        self._offsets = {trace.rank: start for trace, start in zip(self._traces, ends, strict=False)}

    def way(self, birth: Birth) -> list[dict[str, Any]]:
        """The calls through which it went, the birth first; with what each of them gave."""
        rank = self._by_rank.get(birth.call.rank)
        names = birth.chain if birth.chain[:1] == (birth.call.name,) else (birth.call.name, *birth.chain)
        if rank is None:
            return [{"name": name} for name in names]
        found, at, step = [], -1, birth.call.step
        for name in names:
            position = rank.find(name, step, after=at)
            if position is None:
                found.append({"name": name})
                continue
            at, step = position, int(rank.trace.column("step")[position])
            found.append(rank.row(position, self._offsets[birth.call.rank]))
        return found

    def before(self, birth: Birth) -> list[dict[str, Any]]:
        """The calls of the same rank just before it, the oldest first."""
        rank = self._by_rank.get(birth.call.rank)
        at = None if rank is None else rank.find(birth.call.name, birth.call.step)
        if rank is None or at is None:
            return []
        level, offset = int(rank.trace.column("level")[at]), self._offsets[birth.call.rank]
        earlier = np.flatnonzero(rank.trace.column("level")[:at] == level)[-_CALLS_BEFORE:]
        return [rank.row(int(position), offset) for position in earlier]

    def course(self, found: Birth | Forecast) -> dict[str, Any] | None:
        """The room to the limit over the steps, of one call; None where there are fewer than two steps of it."""
        call = found.call
        points = self._logged(found) if call.rank in self._logs else None
        if points is None or len(points[0]) < 2:
            rank = self._by_rank.get(call.rank)
            points = None if rank is None else rank.course(call)
        if points is None or len(points[0]) < 2:
            return None
        kept = _thinned(len(points[0]))
        steps, headroom, bad = (one[kept] for one in points)
        room = [None if not np.isfinite(one) else round(float(one), 3) for one in headroom]
        return {"steps": steps.tolist(), "headroom": room, "bad": bad.astype(int).tolist()}

    def _logged(self, found: Birth | Forecast) -> tuple[Vector, Vector, Vector] | None:
        """What a watch wrote down of a tensor, which is many more steps than those whose calls it kept."""
        log, call = self._logs[found.call.rank], found.call
        numbers = [
            number
            for number, one in log.series.items()
            if (one.api, one.nth, one.phase, one.path) == (call.api, call.index, call.phase.value, found.path)
        ]
        if not numbers:
            return None
        points = log.points[np.isin(log.points["series"], numbers)]
        points = points[np.argsort(points["step"], kind="stable")]
        limit = limit_of(log.series[numbers[0]].dtype)
        return points["step"], limit - points["size"].astype(float), (points["nan"] > 0) | (points["infinite"] > 0)


class _RankStory:
    """One rank."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._places: dict[str, Vector] = {}

    @cached_property
    def numbers(self) -> dict[str, Vector]:
        return call_numbers(self.trace)

    def find(self, name: str, step: int, after: int = -1) -> int | None:
        """The call of this name in a step, or in the first one that follows, at or after a position."""
        places = self._named(name)
        steps = self.trace.column("step")[places]
        chosen = places[(steps >= step) & (places >= after)]
        return int(chosen[0]) if len(chosen) else None

    def row(self, position: int, offset: int) -> dict[str, Any]:
        call, numbers = self.trace.call(position, statistics=False), self.numbers
        return {
            "position": offset + position,
            "name": call.name,
            "phase": call.phase.value,
            "module": call.module,
            "source": call.source,
            "step": call.step,
            **{name: int(numbers[name][position]) for name in ("nan", "infinite", "elements")},
            **{name: plain(float(numbers[name][position])) for name in ("largest", "headroom", "norm", "mean")},
        }

    def course(self, call: Call) -> tuple[Vector, Vector, Vector]:
        places = self._named(call.name)
        bad = (self.numbers["nan"][places] > 0) | (self.numbers["infinite"][places] > 0)
        return self.trace.column("step")[places], self.numbers["headroom"][places].astype(float), bad

    def _named(self, name: str) -> Vector:
        """The positions of all calls of a name."""
        if name not in self._places:
            api, _, rest = name.rpartition(".")
            api, _, nth = api.rpartition(".")
            numbers = [number for number, text in self.trace.names.items() if text == api]
            phase = PHASES.index(Phase(rest)) if rest in Phase._value2member_map_ else -1
            here = np.isin(self.trace.column("api"), numbers) & (self.trace.column("phase") == phase)
            index = int(nth) if nth.isdecimal() else -1
            self._places[name] = np.flatnonzero(here & (self.trace.column("nth") == index))
        return self._places[name]


def _thinned(count: int) -> Vector:
    """Which of so many points to keep: the newest half of what may be kept, the others evenly."""
    if count <= _MOST_POINTS:
        return np.arange(count)
    new = np.arange(count - _MOST_POINTS // 2, count)
    old = np.unique(np.linspace(0, count - _MOST_POINTS // 2 - 1, _MOST_POINTS // 2).astype(int))
    return np.concatenate([old, new])
