"""Two checks that were kept, held against each other: what fails now and did not, what is fixed, what changed.

Cases are the same where their keys are; cases whose key changed (another version draws other numbers) where they came
from the same line and call the same API, if only one on each side does. Each check is judged by its own standard. The
columns of both lie in a file for the time of the comparison: a million cases fit any memory.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence

from trueline.campaign.check import CheckReport, load_check
from trueline.campaign.shelf import Results
from trueline.cases import CaseResult, CheckInfo
from trueline.records import Verdict
from trueline.report.diff_text import Difference

NEW, FIXED, CHANGED, APPEARED, GONE = "new failure", "fixed", "changed", "appeared", "gone"
KINDS = (NEW, FIXED, CHANGED, APPEARED, GONE)
"""In the order of their weight. ``changed`` cases ended otherwise than before, or with another error, but neither began
to fail nor are right now; ``appeared`` and ``gone`` are in one of the checks only."""
_KNOWN, _SAME = "known", "same"

_SCHEMA = "CREATE TABLE {} (number INTEGER PRIMARY KEY, key, api, line, ending, verdict, reason)"
_LONE = """
CREATE TABLE matched (old INTEGER PRIMARY KEY, new INTEGER UNIQUE);
INSERT INTO matched SELECT o.number, n.number FROM olds AS o JOIN news AS n USING (key);
INSERT OR IGNORE INTO matched
  SELECT o.number, n.number FROM
    (SELECT MIN(number) AS number, api, line FROM olds WHERE number NOT IN (SELECT old FROM matched)
     GROUP BY api, line HAVING COUNT(*) = 1 AND line != '') AS o
  JOIN
    (SELECT MIN(number) AS number, api, line FROM news WHERE number NOT IN (SELECT new FROM matched)
     GROUP BY api, line HAVING COUNT(*) = 1) AS n
  USING (api, line);
"""
_FAIL, _NOT_COMPARED = int(Verdict.FAIL), int(Verdict.NOT_COMPARED)
_PAIRS = f"""
CREATE TABLE pairs AS
SELECT COALESCE(n.number, o.number) AS place, COALESCE(n.key, o.key) AS key, COALESCE(n.api, o.api) AS api,
  COALESCE(n.line, o.line) AS line, o.ending AS old_ending, n.ending AS new_ending, o.reason AS old_reason,
  n.reason AS new_reason,
  CASE
    WHEN n.verdict >= {_FAIL} AND COALESCE(o.verdict, 0) < {_FAIL} THEN '{NEW}'
    WHEN o.ending IS NULL AND n.ending IS NULL THEN '{_SAME}'
    WHEN n.ending IS NULL THEN '{GONE}'
    WHEN o.ending IS NULL THEN '{APPEARED}'
    WHEN o.verdict >= {_FAIL} AND n.verdict < {_NOT_COMPARED} THEN '{FIXED}'
    WHEN o.ending != n.ending THEN '{CHANGED}'
    WHEN o.ending NOT IN ('pass', 'mismatch') AND gist(o.reason) != gist(n.reason) THEN '{CHANGED}'
    WHEN o.verdict >= {_FAIL} THEN '{_KNOWN}'
    ELSE '{_SAME}'
  END AS kind
FROM (
  SELECT old, new FROM matched
  UNION ALL SELECT number, NULL FROM olds WHERE number NOT IN (SELECT old FROM matched)
  UNION ALL SELECT NULL, number FROM news WHERE number NOT IN (SELECT new FROM matched)
) LEFT JOIN olds AS o ON o.number = old LEFT JOIN news AS n ON n.number = new
"""
_IN_BOTH = (
    "SELECT COUNT(*) FROM matched JOIN olds AS o ON o.number = old JOIN news AS n ON n.number = new "
    f"WHERE o.verdict >= {_FAIL} AND n.verdict >= {_FAIL}"
)
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+(\.\d+)?([eE][+-]?\d+)?")


class Diff:
    """What differs between two checks. ``counts`` has all ``KINDS``; ``known`` failures are in both, ``same`` cases are
    as they were."""

    def __init__(self, old: CheckReport, new: CheckReport) -> None:
        self.old_info: CheckInfo = old.info
        self.new_info: CheckInfo = new.info
        handle, self._path = tempfile.mkstemp(prefix="trueline-", suffix=".db")
        os.close(handle)
        weakref.finalize(self, _remove, self._path)
        with self._open() as connection:
            connection.execute("PRAGMA synchronous=OFF")
            _take(connection, "olds", old)
            _take(connection, "news", new)
            connection.executescript(_LONE)
            connection.execute(_PAIRS)
            connection.commit()
            found = dict(connection.execute("SELECT kind, COUNT(*) FROM pairs GROUP BY kind"))
            self.known: int = connection.execute(_IN_BOTH).fetchone()[0]
        self.counts: Mapping[str, int] = {kind: found.get(kind, 0) for kind in KINDS}
        self.same: int = found.get(_SAME, 0)

    @property
    def new_failures(self) -> int:
        return self.counts[NEW]

    def differences(self, kinds: Sequence[str] = KINDS, most: int | None = None) -> Iterator[Difference]:
        """The cases that differ, kind by kind, of each ``most`` at most."""
        query = (
            "SELECT kind, key, api, line, old_ending, new_ending, old_reason, new_reason FROM pairs WHERE kind = ? "
            "ORDER BY place LIMIT ?"
        )
        with self._open() as connection:
            for kind in kinds:
                for row in connection.execute(query, (kind, -1 if most is None else most)):
                    yield Difference(*(text or "" for text in row))

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self._path)
        connection.create_function("gist", 1, _gist, deterministic=True)
        try:
            yield connection
        finally:
            connection.close()


def diff_checks(
    old: str | os.PathLike[str] | CheckReport,
    new: str | os.PathLike[str] | CheckReport,
    standard: str | None = None,
) -> Diff:
    """Holds two kept checks against each other, each judged by its own standard or both by this one. A case that is in
    the new one only, and fails, is a new failure."""
    reports = [one if isinstance(one, CheckReport) else load_check(one, standard) for one in (old, new)]
    return Diff(*reports)


def _take(connection: sqlite3.Connection, table: str, report: CheckReport) -> None:
    connection.execute(_SCHEMA.format(table))
    insert = f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?, ?, ?)"
    results = report.results
    if not isinstance(results, Results):
        connection.executemany(insert, (_row(place, result) for place, result in enumerate(results, 1)))
    else:
        query = "SELECT position + 1, key, api, COALESCE(line, ''), ending, verdict, reason FROM judged"
        with results.shelf.open() as ledger:
            connection.executemany(insert, ledger.execute(query))
    connection.execute(f"CREATE INDEX {table}_keys ON {table} (key)")


def _row(place: int, result: CaseResult) -> tuple[object, ...]:
    case = result.case
    line = case.calls[0] if case.calls else ""
    return place, case.key, case.api, line, result.ending.value, int(result.verdict), result.reason


def _gist(reason: str | None) -> str:
    """A reason without its numbers, which differ from run to run."""
    return _NUMBERS.sub("#", reason or "")


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
