"""The rows of a ledger as results, read when they are asked for: a check of a million cases fits any memory.

A ``Shelf`` opens its ledger for each question and closes it again, so that nobody who holds a report keeps a check from
going on. Counts come from columns; what was measured of a case is read and judged when the case is looked at. Judged by
another standard than the ledger was, all its cases are gone through once, and what that says lies in a file beside.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload
from urllib.parse import quote

from trueline._version import __version__
from trueline.campaign.endings import counted
from trueline.campaign.ledger import SCHEMA, judgement
from trueline.campaign.ledger_checks import case_of, check_file, check_rows, measured_of
from trueline.campaign.ledger_file import LEDGER_FILE, VERSION, ledger_version
from trueline.cases import Case, CaseMeasured, CaseResult, Outcome, Status
from trueline.errors import UsageError
from trueline.judge.checks import CHECK_STANDARDS, CheckStandard, judge_case
from trueline.judge.predecessors import is_call
from trueline.records import Verdict
from trueline.report.check_summary import Summary

if TYPE_CHECKING:
    from trueline.campaign.overview import Overview

_PAGE = 512
_MOST_REASONS = 1000
_STREAMED = "count, case_json, measured_json"
_COLUMNS = f"number, {_STREAMED}"
# The plus keeps the view from choosing an index; whoever asks names the one that helps by repeating its condition.
_PLAIN_VIEW = "CREATE TEMP VIEW IF NOT EXISTS judged AS SELECT * FROM main.cases WHERE +position IS NOT NULL"
ALL = "position IS NOT NULL"
_WRONG = f"verdict > 0 AND verdict >= {int(Verdict.FAIL)}"
_OTHER_VIEW = (
    "CREATE TEMP VIEW judged AS SELECT c.number, c.key, c.position, c.api, c.dtype, c.line, c.count, c.cost, c.bytes, "
    "c.case_json, c.measured_json, o.ending, o.verdict, o.reason, o.score, c.seconds, c.simulated FROM main.cases AS c "
    "LEFT JOIN other.judgements AS o ON o.number = c.number WHERE +c.position IS NOT NULL"
)
NOT_EXECUTED = "not executed: the check was stopped"

Judge = Callable[[Case, CaseMeasured], CaseResult]


def judge_name(standard: CheckStandard) -> str | None:
    """What says that rows were judged as this standard judges now; None where nothing can: rules in a file may have
    changed."""
    known = standard.name in CHECK_STANDARDS or is_call(standard.name)
    return f"{standard.name} of {__version__}" if known else None


def judged(case: Case, measured: CaseMeasured | None, standard: CheckStandard) -> CaseResult:
    """A case with what a standard says of it; one that was not executed is not compared."""
    if measured is None:
        measured = CaseMeasured(case.key, Outcome(Status.UNSUPPORTED), skipped=NOT_EXECUTED)
    return judge_case(case, measured, standard)


def read_row(row: Sequence[Any], standard: CheckStandard, place: str | None = None) -> CaseResult:
    """A row of ``_COLUMNS`` as a result; ``place`` names the ledger, for messages."""
    number, count, case_text, measured_text = row
    where = f"{LEDGER_FILE}, row {number}" if place is None else f"{place}, row {number}"
    case = case_of(case_text, where)
    if case.count != count:
        case = replace(case, count=count)
    measured = None if measured_text is None else measured_of(measured_text, where)
    return judged(case, measured, standard)


def shelf_of(folder: Path, standard: CheckStandard) -> Shelf:
    """What lies in a folder. Rows of version 1 are taken into memory and judged there."""
    with reading(folder) as connection:
        old = ledger_version(connection) == 1
        memory = _from_version_one(connection, standard) if old else None
        known = old or _is_judged_by(connection, standard)
    shelf = Shelf(None if old else folder, memory, standard, judged=known)
    return shelf


class Shelf:
    """The cases of one ledger, judged by one standard. Either of a folder, or of a ledger in memory. ``judged`` says
    that its rows hold what this standard says."""

    def __init__(
        self, folder: Path | None, memory: sqlite3.Connection | None, standard: CheckStandard, *, judged: bool
    ) -> None:
        self.standard = standard
        self._folder = folder
        self._memory = memory
        self._other: Path | None = None
        self._counted: tuple[tuple[object, ...], Summary] | None = None
        if memory is not None:
            memory.execute(_PLAIN_VIEW)
            weakref.finalize(self, memory.close)
        elif not judged:
            self._judge_again()

    @property
    def name(self) -> str:
        """Of the file, for messages."""
        return str(self._folder / LEDGER_FILE) if self._folder is not None else "the ledger"

    @contextlib.contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        """A connection with the view ``judged``: the rows of all planned cases, in the words of the standard."""
        if self._memory is not None:
            yield self._memory
            return
        assert self._folder is not None
        with reading(self._folder) as connection:
            if self._other is None:
                connection.execute(_PLAIN_VIEW)
            else:
                connection.execute("ATTACH ? AS other", (str(self._other),))
                connection.execute(_OTHER_VIEW)
            yield connection

    def ask(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of an answer."""
        with self.open() as connection:
            return connection.execute(query, values).fetchall()

    def results(self, where: str = ALL, order: str = "position") -> Results:
        """The cases for which a condition holds, in an order."""
        return Results(self, where, order)

    def read(self, row: Sequence[Any]) -> CaseResult:
        """A row as a result."""
        return read_row(row, self.standard, self.name)

    def summary(self) -> Summary:
        """Everything that is counted, from columns; counted again where the ledger has changed."""
        state = self._state()
        if self._counted is None or self._counted[0] != state:
            self._counted = (state, self._count())
        return self._counted[1]

    def _state(self) -> tuple[object, ...]:
        """What is another where the ledger is."""
        if self._folder is None:
            assert self._memory is not None
            return (self._memory.total_changes,)
        found = (self._folder / LEDGER_FILE, self._folder / f"{LEDGER_FILE}-wal")
        return tuple((path.stat().st_mtime_ns, path.stat().st_size) for path in found if path.exists())

    def _count(self) -> Summary:
        with self.open() as connection:
            ask = connection.execute
            groups = ask(
                "SELECT ending, verdict, COUNT(*), SUM(count), TOTAL(seconds) FROM judged "
                f"WHERE {ALL} GROUP BY ending, verdict"
            ).fetchall()
            compared = _reasons(connection, "reason", f"verdict > 0 AND verdict = {int(Verdict.NOT_COMPARED)}")
            warnings = _reasons(connection, "api || ': ' || reason", f"verdict > 0 AND verdict = {int(Verdict.WARN)}")
            simulated = _reasons(connection, "simulated", "simulated IS NOT NULL")
        left = sum(cases for ending, _, cases, _, _ in groups if ending is None)
        verdicts = dict.fromkeys(Verdict, 0)
        endings: dict[str, int] = {"skipped": 0}
        for ending, verdict, cases, _, _ in groups:
            verdicts[Verdict.NOT_COMPARED if verdict is None else Verdict(verdict)] += cases
            endings[ending or "skipped"] = endings.get(ending or "skipped", 0) + cases
        if left:
            compared = {NOT_EXECUTED: left, **compared}
        return Summary(
            cases=sum(group[2] for group in groups),
            calls=sum(group[3] for group in groups),
            verdicts=verdicts,
            endings=counted(endings.items()),
            not_compared=compared,
            simulated=simulated,
            warnings=warnings,
            seconds=sum(group[4] for group in groups),
            left=left,
        )

    def _judge_again(self) -> None:
        """What this standard says of all cases, into a file of its own."""
        assert self._folder is not None
        handle, path = tempfile.mkstemp(prefix="trueline-", suffix=".db")
        os.close(handle)
        self._other = Path(path)
        weakref.finalize(self, _remove, path)
        other = sqlite3.connect(path)
        other.execute("PRAGMA synchronous=OFF")
        other.execute("CREATE TABLE judgements (number INTEGER PRIMARY KEY, ending, verdict, reason, score)")
        query = f"SELECT {_COLUMNS} FROM cases WHERE measured_json IS NOT NULL AND position IS NOT NULL"
        with reading(self._folder) as connection:
            other.executemany(
                "INSERT INTO judgements VALUES (?, ?, ?, ?, ?)",
                ((row[0], *judgement(self.read(row))[:4]) for row in connection.execute(query)),
            )
        other.commit()
        other.close()


class Results(Sequence[CaseResult]):
    """Cases of a shelf as a sequence that reads itself from the ledger, again each time."""

    def __init__(self, shelf: Shelf, where: str = ALL, order: str = "position") -> None:
        self.shelf = shelf
        self._where = f"WHERE {where}"
        self._order = order

    def __len__(self) -> int:
        return int(self.shelf.ask(f"SELECT COUNT(*) FROM judged {self._where}")[0][0])

    def __bool__(self) -> bool:
        return bool(self.shelf.ask(f"SELECT 1 FROM judged {self._where} LIMIT 1"))

    def __iter__(self) -> Iterator[CaseResult]:
        """Few at a time; the order is that of the numbers that were there at the beginning."""
        numbers = self._numbers()
        for start in range(0, len(numbers), _PAGE):
            yield from self._some(numbers[start : start + _PAGE])

    @overload
    def __getitem__(self, index: int) -> CaseResult: ...

    @overload
    def __getitem__(self, index: slice) -> list[CaseResult]: ...

    def __getitem__(self, index: int | slice) -> CaseResult | list[CaseResult]:
        if isinstance(index, slice):
            return list(self._some(self._numbers()[index]))
        place = index if index >= 0 else len(self) + index
        query = f"SELECT {_COLUMNS} FROM judged {self._where} ORDER BY {self._order} LIMIT 1 OFFSET ?"
        rows = self.shelf.ask(query, (place,)) if place >= 0 else []
        if not rows:
            raise IndexError(f"there are {len(self)} cases, none at {index}")
        return self.shelf.read(rows[0])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def summary(self) -> Summary:
        """What is counted of all cases of the shelf."""
        return self.shelf.summary()

    def wrong(self) -> Results:
        """The cases that are wrong, the worst first: errors, then by score."""
        return self.shelf.results(_WRONG, "verdict DESC, score DESC, position")

    def not_right(self) -> Results:
        """The cases that did not simply pass, the worst first."""
        return self.shelf.results("verdict IS NULL OR verdict > 0", "verdict DESC, score DESC, position")

    def by_api(self) -> Iterator[tuple[str, Results]]:
        """The cases of each API, in the order in which the APIs first occur."""
        names = self.shelf.ask(f"SELECT api FROM judged WHERE {ALL} GROUP BY api ORDER BY MIN(position)")
        for (api,) in names:
            quoted = str(api).replace("'", "''")
            yield api, self.shelf.results(f"api = '{quoted}' AND {ALL}")

    def tallies(self) -> tuple[dict[Verdict, int], float]:
        """How many of these cases have which verdict, and the sum of their seconds."""
        rows = self.shelf.ask(f"SELECT verdict, COUNT(*), TOTAL(seconds) FROM judged {self._where} GROUP BY verdict")
        verdicts = dict.fromkeys(Verdict, 0)
        for verdict, cases, _ in rows:
            verdicts[Verdict.NOT_COMPARED if verdict is None else Verdict(verdict)] += cases
        return verdicts, sum(row[2] for row in rows)

    def overview(self) -> Overview:
        """What pages ask of many cases at once."""
        from trueline.campaign.overview import Overview

        return Overview(self.shelf)

    def skips(self) -> Iterator[tuple[str, str, int]]:
        """What became no case of the shelf: where it stands, why, and how many calls it is."""
        last = -1
        while rows := self.shelf.ask(
            "SELECT number, place, reason, count FROM skips WHERE number > ? ORDER BY number LIMIT ?", (last, _PAGE)
        ):
            last = rows[-1][0]
            yield from ((place or "", reason, count) for _, place, reason, count in rows)

    def _numbers(self) -> Any:
        """The numbers of the rows, eight bytes each."""
        from array import array

        with self.shelf.open() as connection:
            query = f"SELECT number FROM judged {self._where} ORDER BY {self._order}"
            return array("q", (row[0] for row in connection.execute(query)))

    def _some(self, numbers: Sequence[int]) -> Iterator[CaseResult]:
        for start in range(0, len(numbers), _PAGE):
            part = list(numbers[start : start + _PAGE])
            query = f"SELECT {_COLUMNS} FROM main.cases WHERE number IN ({', '.join('?' * len(part))})"
            rows = {row[0]: row for row in self.shelf.ask(query, part)}
            for number in part:
                if number in rows:
                    yield self.shelf.read(rows[number])


@contextlib.contextmanager
def reading(folder: Path) -> Iterator[sqlite3.Connection]:
    """A connection to read with, for a moment; ledgers of version 1 are read as well. Errors are said in one line."""
    database = folder / LEDGER_FILE
    try:
        connection = _connect(folder, database)
    except sqlite3.Error as error:
        raise _unreadable(folder, database, error) from error
    try:
        yield connection
    except sqlite3.Error as error:
        raise _unreadable(folder, database, error) from error
    finally:
        connection.close()


def _connect(folder: Path, database: Path) -> sqlite3.Connection:
    if not database.exists():
        raise UsageError(f"{folder} is not a check (no {LEDGER_FILE} in it); it is the folder given to check --out")
    check_file(folder)
    # Where nothing can be written there is no memory to share with a writer either, and nobody who writes.
    options = "?mode=ro" if os.access(folder, os.W_OK) else "?mode=ro&immutable=1"
    connection = sqlite3.connect(f"file:{quote(str(database.absolute()))}{options}", uri=True, timeout=2.0)
    try:
        if ledger_version(connection) not in (1, VERSION):
            raise UsageError(f"{folder} holds a check that this trueline does not read: update it")
        check_rows(connection, folder)
    except BaseException:
        connection.close()
        raise
    return connection


def _is_judged_by(connection: sqlite3.Connection, standard: CheckStandard) -> bool:
    found = connection.execute("SELECT value FROM meta WHERE key = 'judge'").fetchone()
    name = judge_name(standard)
    return name is not None and found is not None and found[0] == json.dumps(name)


def _from_version_one(old: sqlite3.Connection, standard: CheckStandard) -> sqlite3.Connection:
    """The rows of the first version, in memory, as this one has them."""
    new = sqlite3.connect(":memory:", check_same_thread=False)
    new.executescript(SCHEMA)
    new.executemany(
        "INSERT INTO cases (key, position, api, count, case_json, measured_json) VALUES (?, ?, ?, ?, ?, ?)",
        old.execute("SELECT key, position, api, count, case_json, measured_json FROM cases"),
    )
    rows = new.execute(f"SELECT {_COLUMNS} FROM cases WHERE measured_json IS NOT NULL").fetchall()
    new.executemany(
        "UPDATE cases SET ending = ?, verdict = ?, reason = ?, score = ?, seconds = ?, simulated = ? WHERE number = ?",
        ((*judgement(read_row(row, standard)), row[0]) for row in rows),
    )
    new.commit()
    return new


def _unreadable(folder: Path, database: Path, error: sqlite3.Error) -> UsageError:
    if "locked" in str(error):
        return UsageError(f"a check is writing into {folder} just now; wait until it has ended")
    return UsageError(f"{database} cannot be read: {error}")


def _reasons(connection: sqlite3.Connection, column: str, where: str) -> dict[str, int]:
    """What occurs most, with its count; what is beyond the bound together as one."""
    found = connection.execute(
        f"SELECT {column}, COUNT(*) FROM judged WHERE {where} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {_MOST_REASONS}"
    ).fetchall()
    if len(found) == _MOST_REASONS:
        total = connection.execute(f"SELECT COUNT(*) FROM judged WHERE {where}").fetchone()[0]
        found.append(("other reasons", total - sum(row[1] for row in found)))
    return dict(found)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def stream(folder: Path) -> Iterator[tuple[Case, CaseMeasured | None]]:
    """The cases of a check that was kept, in order, with what was measured of them; nothing is judged."""
    last = -1
    while True:
        with reading(folder) as connection:
            rows = connection.execute(
                f"SELECT position, {_STREAMED} FROM cases WHERE position > ? ORDER BY position LIMIT ?", (last, _PAGE)
            ).fetchall()
        if not rows:
            return
        for position, count, case_text, measured_text in rows:
            last = position
            case = case_of(case_text, folder / LEDGER_FILE)
            measured = None if measured_text is None else measured_of(measured_text, folder / LEDGER_FILE)
            yield (case if case.count == count else replace(case, count=count)), measured
