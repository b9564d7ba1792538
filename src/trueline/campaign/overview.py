"""What pages ask of many cases at once: counts for the matrix, what is wrong and slow, and which cases a filter lets
through in which order. All of it from columns of the ledger; a case itself is read when its row is looked at.

Nothing that a request says becomes a part of a question to the ledger: positions and keys are bound as values, and
texts are looked for in memory (``columns``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from trueline.campaign.columns import WORST, Columns, Positions, Query
from trueline.campaign.shelf import ALL, Shelf
from trueline.cases import CaseResult
from trueline.records import Verdict
from trueline.report.check_cells import WAITING, Cell, Failing, Slow

_FAIL, _PASS = int(Verdict.FAIL), int(Verdict.PASS)
SCORE_EDGES = tuple(10.0 ** (half / 2) for half in range(-8, 13))
"""Half decades, from a ten-thousandth of the limit to a million times it."""
_BINS = len(SCORE_EDGES) + 3
_PORTION = 500


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a check has come: ``left`` cases have not ended, which are guessed to cost ``cost_left``."""

    cases: int
    left: int
    cost_left: float


class Overview:
    """The cases of a shelf, all at once."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def cells(self) -> list[Cell]:
        """How many cases of each API and dtype ended how."""
        rows = self._shelf.ask(
            "SELECT api, dtype, ending, verdict, COUNT(*), MAX(score) FROM judged "
            f"WHERE {ALL} GROUP BY ending, verdict, api, dtype"
        )
        return [
            Cell(api, dtype or "", ending or WAITING, None if verdict is None else Verdict(verdict), cases, score)
            for api, dtype, ending, verdict, cases, score in rows
        ]

    def failing(self) -> list[Failing]:
        """What is wrong, by what it looks like."""
        rows = self._shelf.ask(
            "SELECT api, COALESCE(dtype, ''), ending, reason, COUNT(*), key, MIN(position) FROM judged "
            f"WHERE verdict > 0 AND verdict >= {_FAIL} GROUP BY api, dtype, ending, reason"
        )
        return [Failing(*row[:6]) for row in rows]

    def slowest(self, most: int) -> list[Slow]:
        """The cases that took longest."""
        # The number is written out: with one that is bound SQLite goes through the table and not through the index.
        where = f"{ALL} AND seconds > 0 ORDER BY seconds DESC LIMIT {most:d}"
        rows = self._shelf.ask(f"SELECT position, api, seconds FROM judged WHERE {where}")
        keys = {position: key for key, position in self.positions(positions=[row[0] for row in rows]).items()}
        return [Slow(keys[position], api, seconds) for position, api, seconds in rows]

    def scores(self) -> list[tuple[int, int, int]]:
        """Verdict, bin and number of the cases that have a score. The first bin is 0, the n-th lies below the n-th of
        ``SCORE_EDGES``, the last but one at or above the last edge, and the last is what is beyond any limit."""
        with self._shelf.open() as connection:
            rows = connection.execute(f"SELECT verdict, score FROM judged WHERE {ALL} AND score IS NOT NULL")
            found = np.fromiter(rows, np.dtype([("verdict", np.int8), ("score", np.float64)]))
        bins = 1 + np.searchsorted(SCORE_EDGES, found["score"], side="right")
        bins[found["score"] <= 0] = 0
        bins[np.isinf(found["score"])] = len(SCORE_EDGES) + 2
        kinds, cases = np.unique(found["verdict"].astype(np.int64) * _BINS + bins, return_counts=True)
        return [(int(kind) // _BINS, int(kind) % _BINS, int(n)) for kind, n in zip(kinds, cases, strict=True)]

    def progress(self) -> Progress:
        """From the index of what waits, which holds the costs; SQLite by itself would choose another one."""
        left, cost = self._shelf.ask(
            f"SELECT COUNT(*), TOTAL(cost) FROM main.cases INDEXED BY case_waiting WHERE ending IS NULL AND {ALL}"
        )[0]
        return Progress(self.size(), left, cost)

    def size(self) -> int:
        """How many cases there are; they are numbered from 0, without gaps."""
        last = self._shelf.ask(f"SELECT MAX(position) FROM judged WHERE {ALL}")[0][0]
        return 0 if last is None else int(last) + 1

    def dtypes(self) -> list[str]:
        """The dtypes that cases have."""
        rows = self._shelf.ask(f"SELECT DISTINCT COALESCE(dtype, '') FROM judged WHERE {ALL}")
        return [row[0] for row in rows]

    def positions(self, keys: Iterable[str] = (), positions: Iterable[int] = ()) -> dict[str, int]:
        """Where cases are, by their keys; of the cases with these keys and of those at these positions."""
        found: dict[str, int] = {}
        for column, values in (("key", keys), ("position", positions)):
            wanted = list(dict.fromkeys(values))
            for start in range(0, len(wanted), _PORTION):
                some = wanted[start : start + _PORTION]
                marks = ", ".join("?" * len(some))
                found.update(self._shelf.ask(f"SELECT key, position FROM judged WHERE {column} IN ({marks})", some))
        return found

    def results(self, positions: Sequence[int]) -> list[tuple[int, bool, CaseResult]]:
        """Cases by their positions, in that order: position, whether it has ended, and the case."""
        marks = ", ".join("?" * len(positions))
        rows = self._shelf.ask(
            "SELECT position, ending IS NOT NULL, number, count, case_json, measured_json FROM judged "
            f"WHERE position IN ({marks}) AND {ALL}", list(map(int, positions)),
        )  # fmt: skip
        found = {row[0]: (row[0], bool(row[1]), self._shelf.read(row[2:])) for row in rows}
        return [found[int(position)] for position in positions if int(position) in found]

    def order(self, query: Query, columns: Callable[[], Columns] | None = None) -> Positions:
        """The positions of the cases that a query lets through, in its order. What is asked first, all cases with the
        worst in front, needs none of the columns but the index of what did not pass; ``columns`` gives the others."""
        if query.is_open and query.sort == WORST:
            return self._worst(down=query.down)
        return (columns or self.columns)().order(query)

    def columns(self) -> Columns:
        """All that can be filtered and sorted by, as it is now."""
        return Columns(self._shelf)

    def _worst(self, *, down: bool) -> Positions:
        rows = self._shelf.ask(f"SELECT position, verdict, COALESCE(score, -1) FROM judged WHERE verdict > {_PASS}")
        rows.sort(key=lambda row: (-row[1], -row[2], row[0]) if down else (row[1], row[2], row[0]))
        told = np.fromiter((row[0] for row in rows), np.int32, len(rows))
        left = self._shelf.ask(f"SELECT position FROM judged WHERE {ALL} AND ending IS NULL")
        waiting = np.sort(np.fromiter((row[0] for row in left), np.int32, len(left)))
        passed = _others(self.size(), told, waiting)
        return np.concatenate((told, passed, waiting) if down else (waiting, passed, told))


def _others(size: int, *known: Positions) -> Positions:
    """All positions but those that are known."""
    left = np.ones(size, dtype=bool)
    for positions in known:
        left[positions[positions < size]] = False
    return np.flatnonzero(left).astype(np.int32)
