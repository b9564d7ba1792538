"""The page of a check or a campaign: whole, where it is small and done; else without its cases, which are asked for as
they are looked at, and with its progress where it is still running.

Nothing here writes: the ledger is read while the coordinator fills it. Every question opens it anew, so a page that was
forgotten in some tab keeps nobody waiting.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

from trueline.campaign import CheckReport, load_check
from trueline.campaign.columns import Columns, Positions, Query
from trueline.campaign.diff import Diff, diff_checks
from trueline.campaign.ledger_file import LEDGER_FILE, is_being_written
from trueline.campaign.overview import SCORE_EDGES, Overview, Progress
from trueline.campaign.shelf import NOT_EXECUTED, Results
from trueline.cases import CaseResult
from trueline.errors import TruelineError, UsageError
from trueline.report.check_case import case_details, case_row
from trueline.report.check_cells import Dtypes
from trueline.report.check_changes import changes_data
from trueline.report.check_html import check_page_data, keys_in, page_head, shown_cases, summary_data, write_check_page
from trueline.report.json import plain
from trueline.report.phrases import as_data
from trueline.web.pages import Page, Words, answered, detail_of, number, paged
from trueline.web.server import Answer, View

WINDOWED_FROM = 50_000
"""More cases than that stay with the server."""
_MOST_ROWS = 400
_MOST_ORDERS = 6
_PACE_SECONDS = 30.0
_MOST_TEXT = 400


def check_page(path: Path, *, standard: str | None = None, baseline: str | None = None) -> View:
    """A check that was kept or is running, judged by its own standard or by another one; ``baseline`` is an earlier
    check, to show what changed since."""
    running = is_being_written(path)
    if running and not (path / "check.json").exists():
        raise UsageError(f"the check in {path} is still being planned; view it once its first cases run")
    report = load_check(path, standard)
    old = None if baseline is None else load_check(baseline)
    if (running and standard is None) or report.summary.cases > WINDOWED_FROM:
        return CampaignView(report, path, standard, old)
    against = None if old is None else (str(baseline), diff_checks(old, report))
    data = check_page_data(report.info, report.results, folder=path, against=against) | {"served": True}
    shown = shown_cases(report.results)
    return Page(
        lambda stream: write_check_page(data, stream),
        {"data/detail": detail_of(data["count"], lambda position: case_details(shown[position], path))},
    )


class CampaignView:
    """A campaign whose cases stay in its ledger. Requests come from several threads; each asks the ledger by itself."""

    def __init__(self, report: CheckReport, folder: Path, standard: str | None, old: CheckReport | None) -> None:
        self._folder = folder
        self._standard = standard
        self._report = report
        self._old = old
        self._live = standard is None
        self._lock = threading.Lock()
        self._orders: OrderedDict[tuple[object, Query], Positions] = OrderedDict()
        self._columns = Kept()
        self._pace = Pace()
        self._page: tuple[object, Answer] | None = None
        self._changes = threading.Lock()
        self._diff: tuple[object, Diff] | None = None
        self._answers = {
            "data/detail": self._detail,
            "data/rows": self._rows,
            "data/progress": self._progress,
            "data/scores": self._scores,
            "data/changes": self._changed,
        }

    def page(self) -> Answer:
        """The page as the campaign is now."""
        state = self._state()
        known = self._page
        if known is None or known[0] != state:
            known = self._page = (state, paged(lambda stream: write_check_page(self._data(), stream)))
        self._columns.soon(self._overview, state)
        return known[1]

    def answer(self, name: str, words: Words) -> Answer | None:
        found = self._answers[name](words) if name in self._answers else None
        return None if found is None else answered(found)

    def _data(self) -> dict[str, Any]:
        running = self._running()
        report = self._fresh()
        self._pace.add(self._overview().progress())
        data = check_page_data(report.info, report.results, folder=self._folder, windowed=True)
        data["head"] = _without_waiting(data["head"]) if running else data["head"]
        more = {
            "served": True,
            "running": running,
            "baseline": "" if self._old is None else str(self._old.folder),
            "edges": list(SCORE_EDGES),
        }
        return data | more | {"rows": self._places(data)}

    def _places(self, data: dict[str, Any]) -> dict[str, int]:
        """Where the cases are that something on the page names."""
        return self._overview().positions({*keys_in(data), data["head"]["key"]} - {""})

    def _running(self) -> bool:
        return self._live and is_being_written(self._folder)

    def _fresh(self) -> CheckReport:
        """The report as of now: a check that has just begun may not have said yet by what it judges."""
        if self._running():
            self._report = load_check(self._folder)
        return self._report

    def _overview(self) -> Overview:
        results = self._report.results
        assert isinstance(results, Results)
        return results.overview()

    def _state(self) -> object:
        """What is another where the ledger is."""
        files = (self._folder / LEDGER_FILE, self._folder / f"{LEDGER_FILE}-wal")
        return tuple((path.stat().st_mtime_ns, path.stat().st_size) for path in files if path.exists())

    # What the page asks for

    def _detail(self, words: Words) -> Any:
        position = number(words.get("position", ""), 1 << 31)
        found = [] if position is None else self._overview().results([position])
        if not found:
            return None
        told = case_details(found[0][2], self._folder) | {"row": self._row(*found[0])}
        return told if found[0][1] else told | {"candidate": None, "reference": None}

    def _rows(self, words: Words) -> Any:
        """A window of the cases that a filter lets through, in an order."""
        start, size = (number(words.get(name, ""), 1 << 31) for name in ("from", "size"))
        if start is None or size is None:
            return None
        order = self._order(self._query(words))
        found = self._overview().results(order[start : start + min(size, _MOST_ROWS)].tolist())
        return {"total": len(order), "from": start, "rows": [self._row(*one) for one in found]}

    def _row(self, position: int, ended: bool, result: CaseResult) -> dict[str, Any]:
        return {"position": position, **plain(case_row(result, Dtypes(self._report.info), ended=ended))}

    def _query(self, words: Words) -> Query:
        told = {name: words.get(name, "")[:_MOST_TEXT] for name in ("text", "kind", "ending", "api", "sort", "dtype")}
        shown = told.pop("dtype")
        dtypes = Dtypes(self._report.info)
        known = self._overview().dtypes() if shown else ()
        return Query(**told, dtypes=dtypes.behind(shown, known) if shown else (), down=words.get("down") == "1")

    def _order(self, query: Query) -> Positions:
        key = (self._state(), query)
        with self._lock:
            if key in self._orders:
                self._orders.move_to_end(key)
                return self._orders[key]
        overview = self._overview()
        found = overview.order(query, lambda: self._columns.get(overview, key[0]))
        with self._lock:
            self._orders[key] = found
            while len(self._orders) > _MOST_ORDERS:
                self._orders.popitem(last=False)
        return found

    def _progress(self, words: Words) -> Any:
        """How far the campaign is; all that is counted where that is another than the page has (``seen``)."""
        running = self._running()  # asked first: what it wrote last is read after it
        state = f"{hash(self._state()):x}"
        report = self._fresh() if running else self._report
        progress = self._overview().progress()
        self._pace.add(progress)
        told: dict[str, Any] = {
            "running": running, "state": state, "cases": progress.cases, "done": progress.cases - progress.left,
            "rate": self._pace.rate, "seconds_left": self._pace.seconds_left if progress.left else 0.0,
        }  # fmt: skip
        if words.get("seen") == state:
            return told
        head = page_head(report.info, report.results, (), self._folder, windowed=True)
        head = _without_waiting(head) if running else head
        data = {"head": as_data(head), **summary_data(report.info, report.results, self._folder)}
        return told | data | {"rows": self._places(data)}

    def _scores(self, words: Words) -> Any:
        return {"bins": self._overview().scores()}

    def _changed(self, words: Words) -> Any:
        if self._old is None:
            return None
        with self._changes:  # two million rows are matched once, not for every tab
            state = self._state()
            if self._diff is None or self._diff[0] != state:
                self._diff = (state, diff_checks(self._old, self._report))
            told = changes_data(str(self._old.folder), self._diff[1])
        return {"changes": told, "rows": self._overview().positions(one["key"] for one in told["cases"])}


def _without_waiting(head: dict[str, Any]) -> dict[str, Any]:
    """Cases that have not ended were not stopped as long as the check runs."""
    return head | {"not_compared": {why: n for why, n in head["not_compared"].items() if why != NOT_EXECUTED}}


class Kept:
    """The columns of a ledger, read once for all questions. While a check runs they may be old, by ten times as long as
    it takes to read them: so a page that follows a campaign costs little."""

    _PATIENCE = 10.0

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: tuple[object, Columns] | None = None
        self._again = 0.0
        self._begun = False

    def get(self, overview: Overview, state: object) -> Columns:
        """The columns as of a state of the ledger, or hardly older."""
        with self._lock:
            if self._found is None or (self._found[0] != state and monotonic() >= self._again):
                begun = monotonic()
                self._found = (state, overview.columns())
                self._again = monotonic() + self._PATIENCE * (monotonic() - begun)
            return self._found[1]

    def soon(self, overview: Callable[[], Overview], state: object) -> None:
        """Reads them beside the requests, once: whoever opens the page will soon ask for some of its rows."""

        def read() -> None:
            with contextlib.suppress(TruelineError):  # whoever asks for rows is told
                self.get(overview(), state)

        if not self._begun:
            self._begun = True
            threading.Thread(target=read, daemon=True).start()


class Pace:
    """How fast a campaign goes, by what it did within the last half minute."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int, float]] = deque()

    def add(self, progress: Progress) -> None:
        now = monotonic()
        self._seen.append((now, progress.cases - progress.left, progress.cost_left))
        while len(self._seen) > 2 and now - self._seen[1][0] > _PACE_SECONDS:
            self._seen.popleft()

    @property
    def rate(self) -> float | None:
        """Cases a second; None where there is nothing to say yet."""
        if len(self._seen) < 2 or self._seen[-1][0] <= self._seen[0][0]:
            return None
        return (self._seen[-1][1] - self._seen[0][1]) / (self._seen[-1][0] - self._seen[0][0])

    @property
    def seconds_left(self) -> float | None:
        """By what is left of the guessed costs: the cases that take longest come first."""
        if len(self._seen) < 2:
            return None
        (then, _, before), (now, _, left) = self._seen[0], self._seen[-1]
        return left * (now - then) / (before - left) if before > left and now > then else None
