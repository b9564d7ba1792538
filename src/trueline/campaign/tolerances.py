"""Tolerance statistics of a check that was kept: how large errors are, of which API, dtype, direction and output.

    found = tolerances("checks/a")                 quantiles, worst elements, recommended tolerances
    found = write_tolerances("checks/a", "tol")    the same, and as files

The ledger is gone through once, tensor by tensor; errors lie in a file of SQLite meanwhile, which sorts them, so that a
million cases need no more memory than a thousand. An error is that of the target against the reference in the same
dtype; where the reference has no kernel, against the gold, rounded.
"""

from __future__ import annotations

import contextlib
import math
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from trueline.campaign.ledger import read_info
from trueline.campaign.shelf import stream
from trueline.campaign.tolerance_groups import Group, errors_of, output_name
from trueline.campaign.tolerance_math import interval, rank_of
from trueline.cases import Case, CheckInfo, Evidence
from trueline.errors import UsageError
from trueline.formats.configs import ConfigError, config_line
from trueline.judge.checks import check_standard_named, judge_evidence
from trueline.records import Verdict
from trueline.report.tolerance_rows import (
    BACKWARD,
    FORWARD,
    METRICS,
    QUANTILES,
    Quantile,
    Spread,
    StatKey,
    Sums,
    ToleranceRow,
    Tolerances,
    TolWriter,
    write_rows_csv,
    write_rows_json,
    write_tol_full,
    write_tol_stat,
    write_tol_stat_api,
)

FOLDER = "tolerances"
JSON_FILE = "tolerances.json"
DEFAULT_MARGIN = 2.0
DEFAULT_CONFIDENCE = 0.95
_SCHEMA = "CREATE TABLE errors (place INTEGER, config TEXT, absolute REAL, relative REAL, ulp REAL, eps REAL)"
_GROUPS = "CREATE TABLE IF NOT EXISTS groups (place INTEGER PRIMARY KEY, api, dtype, mode, path)"
_FULL = (
    "SELECT api, config, dtype, mode, absolute, relative, max(errors.rowid) FROM errors JOIN groups USING (place) "
    "GROUP BY api, dtype, config, mode, path ORDER BY api, dtype, config, mode, path"
)
_A_CHECK = ":check "
_BATCH = 5000
_MOST_REASONS = 100

Source = str | os.PathLike[str]


def tolerances(
    check: Source, *, margin: float = DEFAULT_MARGIN, confidence: float = DEFAULT_CONFIDENCE
) -> Tolerances:
    """The errors of a check that was kept, in the folder ``check``. What is recommended is ``margin`` times what was
    seen; intervals and coverages hold with ``confidence``."""
    with _collected(Path(check), margin, confidence, None) as collection:
        return collection.found()


def write_tolerances(
    check: Source,
    out: Source | None = None,
    *,
    margin: float = DEFAULT_MARGIN,
    confidence: float = DEFAULT_CONFIDENCE,
) -> Tolerances:
    """The same, written into the folder ``out`` (default: ``tolerances`` in that of the check): tolerances.csv and
    .json, and the predecessor's tol.csv, tol_full.csv, tol_stat.csv and tol_stat_api.csv."""
    folder = Path(check) / FOLDER if out is None else Path(out)
    read_info(Path(check))  # what is no check makes no folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _file(folder / "tol.csv") as tol, _collected(Path(check), margin, confidence, tol) as collection:
            found = collection.found()
            for name, write in collection.writers(found).items():
                with _file(folder / name) as file:
                    write(file)
    except OSError as error:
        raise UsageError(f"cannot write tolerances into {folder}: {error.strerror or error}") from None
    return found


@contextlib.contextmanager
def _file(path: Path) -> Iterator[TextIO]:
    """A text file that takes its place when it is whole."""
    draft = path.with_name(f".{path.name}.part")
    try:
        with open(draft, "w", encoding="utf-8", newline="") as file:
            yield file
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextlib.contextmanager
def _collected(check: Path, margin: float, confidence: float, tol: TextIO | None) -> Iterator[_Collection]:
    if margin < 1.0:
        raise UsageError(f"the margin must be at least 1 (no more than was seen), not {margin:g}")
    if not 0.0 < confidence < 1.0:
        raise UsageError(f"the confidence must lie between 0 and 1, not {confidence:g}")
    info = read_info(check)
    with tempfile.TemporaryDirectory(prefix="trueline-tolerances-") as scratch:
        collection = _Collection(check, info, margin, confidence, Path(scratch) / "errors.db", tol)
        try:
            collection.read()
            yield collection
        finally:
            collection.close()


class _Collection:
    """The errors of a check, while they are gathered and sorted."""

    def __init__(
        self, check: Path, info: CheckInfo, margin: float, confidence: float, database: Path, tol: TextIO | None
    ) -> None:
        self._check = check
        self._info = info
        self._margin = margin
        self._confidence = confidence
        self._tol = None if tol is None else TolWriter(tol)
        self._standard = check_standard_named("calibrated")
        self._groups: dict[tuple[str, ...], int] = {}
        self._list: list[Group] = []
        self._stats: dict[StatKey, tuple[Sums, Sums]] = {}
        self._unmeasured: dict[str, int] = {}
        self._cases = self._measured = self._tensors = 0
        self._waiting: list[tuple[object, ...]] = []
        self._connection = sqlite3.connect(database, isolation_level=None)
        for setting in ("journal_mode=OFF", "synchronous=OFF", "temp_store=FILE"):
            self._connection.execute(f"PRAGMA {setting}")
        self._connection.execute(_SCHEMA)

    def close(self) -> None:
        self._connection.close()

    def read(self) -> None:
        """Goes through the ledger."""
        self._connection.execute("BEGIN")
        for case, measured in stream(self._check):
            self._cases += 1
            if measured is None or measured.skipped or not measured.evidence:
                continue
            before = self._tensors
            config = _config_of(case)
            seen: set[int] = set()
            for evidence in measured.evidence:
                self._add(case, config, evidence, seen)
            self._measured += self._tensors > before
        self._flush()
        self._connection.execute("COMMIT")

    def found(self) -> Tolerances:
        """What was gathered, the largest errors first."""
        spreads: list[dict[str, Spread]] = [{} for _ in self._list]
        for metric in METRICS:
            for place, spread in self._spreads(metric):
                spreads[place][metric] = spread
        rows = [self._row(group, spreads[place]) for place, group in enumerate(self._list)]
        return Tolerances(
            source=str(self._check),
            target=self._info.target,
            reference=self._info.reference,
            cases=self._cases,
            measured=self._measured,
            tensors=self._tensors,
            margin=self._margin,
            confidence=self._confidence,
            rows=sorted(rows, key=_worst_first),
            unmeasured=dict(sorted(self._unmeasured.items(), key=lambda item: -item[1])),
        )

    def writers(self, found: Tolerances) -> dict[str, Callable[[TextIO], None]]:
        """The files to be written, by name."""
        return {
            "tol_full.csv": lambda file: write_tol_full(self._full(), file),
            "tol_stat.csv": lambda file: write_tol_stat(self._stats, file),
            "tol_stat_api.csv": lambda file: write_tol_stat_api(self._stats, file),
            "tolerances.csv": lambda file: write_rows_csv(found, file),
            JSON_FILE: lambda file: write_rows_json(found, file),
        }

    def _full(self) -> Iterator[tuple[str, str, str, str, float, float]]:
        """Every tensor of every config once, sorted as the predecessor has it; of several draws the last."""
        self._connection.execute(_GROUPS)
        self._connection.executemany(
            "INSERT OR REPLACE INTO groups VALUES (?, ?, ?, ?, ?)",
            ((place, one.api, one.prefix + one.dtype, one.direction, one.path) for place, one in enumerate(self._list)),
        )
        for api, config, dtype, mode, absolute, relative, _ in self._connection.execute(_FULL):
            yield api, config, dtype, mode, _or_nan(absolute), _or_nan(relative)

    def _add(self, case: Case, config: str, evidence: Evidence, seen: set[int]) -> None:
        if _A_CHECK in evidence.path and not evidence.structure:
            return  # what must hold of a result as a whole has no error
        measurement = evidence.direct or evidence.gold
        if evidence.structure or evidence.note or measurement is None or not measurement.count:
            reason = evidence.structure or evidence.note or ("empty" if measurement else "nothing was measured")
            if reason in self._unmeasured or len(self._unmeasured) < _MOST_REASONS:
                self._unmeasured[reason] = self._unmeasured.get(reason, 0) + 1
            return
        place = self._place(case, evidence)
        group = self._list[place]
        errors = errors_of(measurement, evidence.dtype)
        wrong = judge_evidence(evidence, case, self._standard).verdict >= Verdict.FAIL
        group.add(evidence, measurement, errors, config, wrong=wrong)
        group.configs += place not in seen
        seen.add(place)
        self._tensors += 1
        self._keep(group, place, config, errors)

    def _place(self, case: Case, evidence: Evidence) -> int:
        direction = BACKWARD if evidence.part == "gradient" else FORWARD
        key = (case.api, evidence.dtype, direction, output_name(case.api, evidence.path))
        if key not in self._groups:
            self._groups[key] = len(self._list)
            self._list.append(Group(*key, prefix=f"{case.api.partition('.')[0]}."))
        return self._groups[key]

    def _keep(self, group: Group, place: int, config: str, errors: Sequence[float]) -> None:
        dtype, (absolute, relative) = group.prefix + group.dtype, errors[:2]
        sums = self._stats.setdefault((group.api, dtype, group.direction), (Sums(), Sums()))
        sums[0].add(absolute)
        sums[1].add(relative)
        if self._tol is not None:
            self._tol.add(group.api, config, dtype, group.direction, absolute, relative)
        self._waiting.append((place, config, *(None if math.isnan(value) else value for value in errors)))
        if len(self._waiting) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        self._connection.executemany("INSERT INTO errors VALUES (?, ?, ?, ?, ?, ?)", self._waiting)
        self._waiting.clear()

    def _spreads(self, metric: str) -> Iterator[tuple[int, Spread]]:
        """How one kind of errors is spread, group by group: sorted by the database, looked at where ranks ask."""
        query = f"SELECT place, {metric} FROM errors WHERE {metric} IS NOT NULL ORDER BY place, {metric}"
        place, rank = -1, 0
        ranks: set[int] = set()
        values: dict[int, float] = {}
        for where, value in self._connection.execute(query):
            if where != place:
                if place >= 0:
                    yield place, self._spread(rank, values)
                place, rank, values = where, 0, {}
                ranks = self._ranks(self._list[where].counts[metric])
            rank += 1
            if rank in ranks:
                values[rank] = value
        if place >= 0:
            yield place, self._spread(rank, values)

    def _ranks(self, count: int) -> set[int]:
        found = {count}
        for share in QUANTILES:
            found.add(rank_of(share, count))
            found.update(rank for rank in interval(share, count, self._confidence) if rank is not None)
        return found

    def _spread(self, count: int, values: dict[int, float]) -> Spread:
        quantiles = []
        for share in QUANTILES:
            low, high = interval(share, count, self._confidence)
            quantiles.append(
                Quantile(
                    share,
                    values[rank_of(share, count)],
                    None if low is None else values[low],
                    None if high is None else values[high],
                )
            )
        return Spread(count, tuple(quantiles), values[count])

    def _row(self, group: Group, spreads: dict[str, Spread]) -> ToleranceRow:
        return ToleranceRow(
            group.api, group.dtype, group.direction, group.path, group.tensors, group.configs, group.equal,
            group.wrong, group.nan_tensors, group.nan_elements, group.infinity_tensors, group.infinity_elements,
            spreads, group.worst, group.recommended(self._margin, self._confidence),
        )  # fmt: skip


def _config_of(case: Case) -> str:
    """The case as a config line; one that has none goes by its first call."""
    try:
        return config_line(case)
    except ConfigError:
        return case.calls[0] if case.calls else case.api


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _worst_first(row: ToleranceRow) -> tuple[float, str, str, str, str]:
    spread = row.spreads.get("eps") or row.spreads.get("absolute")
    return (0.0 if spread is None else -spread.maximum, row.api, row.dtype, row.direction, row.path)
