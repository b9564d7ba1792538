"""Sources into a ledger: every call or line is part of a case or skipped with its reason, none twice, in flat memory.

Planning goes on where it was killed: with every portion that is committed the ledger remembers how far it came. Once it
is done the sources are not read again as long as they, and what was asked for, are the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from trueline.campaign.ledger import LEDGER_FILE, Ledger
from trueline.campaign.ledger_checks import case_of
from trueline.campaign.schedule import estimate
from trueline.campaign.sources import START, Item, Mark, Part, Skip, SkipCount
from trueline.campaign.variants import Wish, expand
from trueline.cases import Case, Target, covers
from trueline.errors import UsageError
from trueline.events import Progress
from trueline.replay.serial import case_to_json
from trueline.report.check_cells import dtype_of

PORTION = 512
"""Items that are planned between two commits."""
_MOST_VARIABLES = 500
_MOST_BYTES = 1 << 62
"""What a case is guessed to need may be more than a column holds."""

_INSERT = (
    "INSERT INTO cases (key, position, api, dtype, line, count, cost, bytes, case_json) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


@dataclass(slots=True)
class Planned:
    """How far planning came. ``calls`` of the sources (and cases that were wished for beside them) are each part of one
    of the ``cases`` or counted in ``skipped``."""

    asked: Any = None
    part: int = 0
    mark: Mark = START
    cases: int = 0
    calls: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    told: int = 0
    done: bool = False

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be planned, and for whom costs are guessed."""

    parts: Sequence[Part]
    target: Target
    reference: Target
    wish: Wish
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"the limit must be at least 1 case, not {self.limit}")

    @property
    def identity(self) -> Any:
        """What must be the same for a plan to be still good."""
        wish = [self.wish.draws, list(self.wish.variants), self.wish.strided]
        return [[part.identity for part in self.parts], wish, self.limit]


def plan_into(ledger: Ledger, asked: Asked, progress: Progress | None = None) -> Planned:
    """Plans what was asked for, as far as it is not planned yet."""
    planned = ledger.get("plan", Planned) or Planned(asked.identity)
    if planned.done and planned.asked == asked.identity:
        return planned
    try:
        if planned.asked != asked.identity:
            planned = Planned(asked.identity)
            # Cases of the plan before that are not in this one stay in the file, but are not part of the check.
            ledger.connection.execute("UPDATE cases SET position = NULL, count = 0")
            ledger.connection.execute("DELETE FROM skips")
        _Planner(ledger, asked, planned).plan(progress)
    except BaseException:  # half a portion, of which the plan does not know, would be counted again by who goes on
        ledger.undo()
        raise
    return planned


class _Planner:
    def __init__(self, ledger: Ledger, asked: Asked, planned: Planned) -> None:
        self._ledger = ledger
        self._asked = asked
        self._planned = planned
        self._skips = SkipCount(planned.skipped, planned.told)

    def plan(self, progress: Progress | None) -> None:
        planned = self._planned
        for number in range(planned.part, len(self._asked.parts)):
            part = self._asked.parts[number]
            mark = planned.mark if number == planned.part else START
            planned.part, planned.mark = number, mark
            for portion in _portions(part.items(mark)):
                if self._full:
                    break
                self._add(portion, part)
                self._save()
                if progress is not None:
                    progress("calls planned", planned.calls, 0)
            if self._full and (left := part.calls(planned.mark)):
                planned.calls += left
                self._skip(self._left_out(left), part)
        planned.done = True
        self._save()

    @property
    def _full(self) -> bool:
        return self._asked.limit is not None and self._planned.cases >= self._asked.limit

    def _add(self, portion: Sequence[Item], part: Part) -> None:
        """One portion of items. With a limit it ends in the middle of it."""
        made: dict[str, _Row] = {}
        for item in portion:
            if self._would_be_full(made):
                break
            content = item.content
            self._planned.mark = item.mark
            if isinstance(content, Skip):
                self._planned.calls += content.count
                self._skip(content, part)
                continue
            for case in expand(content, self._asked.wish):
                self._planned.calls += case.count
                key = case.key
                if (row := made.get(key)) is not None:
                    row.count += case.count
                elif self._would_be_full(made):
                    self._skip(self._left_out(case.count), part)
                else:
                    made[key] = _Row(key, case, case.count)
        self._write(list(made.values()), self._new(made))

    def _would_be_full(self, made: Mapping[str, _Row]) -> bool:
        """Whether these cases are all that may be added. Those that are planned already do not count."""
        limit = self._asked.limit
        if limit is None or self._planned.cases + len(made) < limit:
            return False
        return self._planned.cases + len(self._new(made)) >= limit

    def _left_out(self, count: int) -> Skip:
        return Skip(f"left out: only {self._asked.limit} cases were asked for", count)

    def _new(self, made: Mapping[str, _Row]) -> dict[str, int | None]:
        """Those keys that are not planned yet, with the number of their row where an earlier plan left one."""
        keys = list(made)
        found: dict[str, int | None] = dict.fromkeys(keys)
        for start in range(0, len(keys), _MOST_VARIABLES):
            some = keys[start : start + _MOST_VARIABLES]
            query = f"SELECT key, number, position FROM cases WHERE key IN ({', '.join('?' * len(some))})"
            for key, number, position in self._ledger.connection.execute(query, some):
                if position is None:
                    found[key] = number
                else:
                    del found[key]
        return found

    def _write(self, rows: Sequence[_Row], new: Mapping[str, int | None]) -> None:
        inserted, revived, merged = [], [], []
        for row in rows:
            if row.key not in new:
                merged.append((row.count, row.key))
                continue
            place = self._planned.cases
            self._planned.cases += 1
            if (number := new[row.key]) is not None:
                revived.append((place, row.count, row.line, row.json, number))
                continue
            cost = estimate(row.case, self._asked.target, self._asked.reference)
            inserted.append((row.key, place, row.case.api, dtype_of(row.case), row.line, row.count, cost.seconds,
                             min(cost.bytes, _MOST_BYTES), row.json))  # fmt: skip
        connection = self._ledger.connection
        connection.executemany(_INSERT, inserted)
        connection.executemany("UPDATE cases SET count = count + ? WHERE key = ?", merged)
        connection.executemany(
            "UPDATE cases SET position = ?, count = ?, line = ?, case_json = ? WHERE number = ?", revived
        )

    def _skip(self, skip: Skip, part: Part) -> None:
        self._skips.add(skip, part)
        self._ledger.connection.execute(
            "INSERT INTO skips (place, reason, count) VALUES (?, ?, ?)", (skip.place or None, skip.reason, skip.count)
        )

    def _save(self) -> None:
        self._planned.skipped, self._planned.told = self._skips.reasons, self._skips.told
        self._ledger.put("plan", self._planned.as_json())
        self._ledger.commit()


_ENCODER = json.JSONEncoder(separators=(",", ":"), check_circular=False)


@dataclass(slots=True)
class _Row:
    key: str
    case: Case
    count: int

    @property
    def json(self) -> str:
        return _ENCODER.encode(case_to_json(self.case))

    @property
    def line(self) -> str:
        return self.case.calls[0] if self.case.calls else ""


def _portions(items: Iterator[Item]) -> Iterator[list[Item]]:
    portion: list[Item] = []
    for item in items:
        portion.append(item)
        if len(portion) == PORTION:
            yield portion
            portion = []
    if portion:
        yield portion


def check_overrides_are_used(ledger: Ledger, asked: Asked) -> None:
    """An override that replaces nothing would let everything pass."""
    if not asked.target.overrides:
        return
    query = "SELECT api, MIN(case_json) FROM cases WHERE position IS NOT NULL GROUP BY api"
    planned = (case_of(text, LEDGER_FILE) for _, text in ledger.connection.execute(query).fetchall())
    # With a limit, what is overridden may be among what was left out.
    parts = () if asked.limit is None else asked.parts
    left = (item.content for part in parts for item in part.items() if isinstance(item.content, Case))
    refuse_unused_overrides(chain(planned, left), asked.target)


def refuse_unused_overrides(cases: Iterable[Case], target: Target) -> None:
    """Looks at cases until each override is found to replace something."""
    from trueline.replay.translated import api_on

    unused = set(target.overrides)
    apis: set[str] = set()
    for case in cases:
        if not unused:
            return
        if case.api not in apis:
            found = {case.api, api_on(case, target)}
            apis |= found
            unused = {name for name in unused if not any(covers([name], api) for api in found)}
    for api in sorted(unused):
        near = sorted(name for name in apis if name.rpartition(".")[2] == api.rpartition(".")[2])
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(f"the override of {api} replaces nothing: no case calls it{hint}")
