"""What tolerances are made of, and as CSV and JSON: one row for each output of an API, dtype and direction.

The error of a tensor is that of its worst element. ``absolute`` and ``relative`` are what they say, ``ulp`` is in units
in the last place of the element, ``eps`` is the absolute error over the epsilon of the dtype times the largest
magnitude of the result: the one that means the same everywhere.

The files of the predecessor have its columns: ``tol.csv`` and ``tol_full.csv`` a row for each tensor, ``tol_stat.csv``
and ``tol_stat_api.csv`` one for each API, dtype and mode. As there, a mode is a direction, a dtype is written with the
name of its framework, and numbers of all but the first file have six digits.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from trueline.report.csv import safe

METRICS = ("absolute", "relative", "ulp", "eps")
QUANTILES = (0.5, 0.9, 0.99)

TOL_COLUMNS = ("API", "config", "dtype", "mode", "max_abs_diff", "max_rel_diff")
STAT_COLUMNS = (
    "API", "dtype", "mode", "abs_min", "abs_max", "abs_mean", "rel_min", "rel_max", "rel_mean", "count",
)  # fmt: skip
API_COLUMNS = ("API", "dtype", "mode", "count", "percentage")

FORWARD, BACKWARD = "forward", "backward"


@dataclass(frozen=True, slots=True)
class Quantile:
    """The error that a share of all tensors stays below, with the interval in which it lies for sure (as sure as
    ``Tolerances.confidence``); None where so few tensors say nothing of that end."""

    share: float
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Spread:
    """How errors of one kind are spread over tensors; ``count`` have one."""

    count: int
    quantiles: tuple[Quantile, ...]
    maximum: float


@dataclass(frozen=True, slots=True)
class Worst:
    """The worst element that was seen: its config, its index, what the reference and what the target have there."""

    config: str
    element: tuple[int, ...]
    expected: float
    actual: float


@dataclass(frozen=True, slots=True)
class Recommended:
    """Tolerances within which every tensor lies that is not wrong, with a margin: ``|error| <= atol + rtol * |x|``.
    At least ``coverage`` of all such tensors need no more, as sure as ``Tolerances.confidence``."""

    rtol: float
    atol: float
    tensors: int
    coverage: float


@dataclass(frozen=True, slots=True)
class ToleranceRow:
    """The errors of one output, or of the gradient of one input, of an API in one dtype."""

    api: str
    dtype: str
    direction: str
    path: str
    tensors: int
    configs: int
    equal: int
    """Tensors without any error, to the last bit but for the sign of zero."""
    wrong: int
    """Tensors whose errors honest arithmetic does not explain: in the spreads, not in what is recommended."""
    nan_tensors: int
    """Tensors with NaN on one side only; so many elements are ``nan_elements``."""
    nan_elements: int
    infinity_tensors: int
    infinity_elements: int
    spreads: Mapping[str, Spread]
    worst: Worst | None
    recommended: Recommended | None


@dataclass(frozen=True, slots=True)
class Tolerances:
    """Errors of a check. ``unmeasured`` are outputs and gradients without errors: reason -> how many."""

    source: str
    target: str
    reference: str
    cases: int
    measured: int
    tensors: int
    margin: float
    confidence: float
    rows: Sequence[ToleranceRow]
    unmeasured: Mapping[str, int] = field(default_factory=dict)


def columns() -> list[str]:
    """The columns of our own table."""
    names = ["API", "Dtype", "Direction", "Output", "Tensors", "Configs", "Equal", "Wrong", "NaN Tensors",
             "NaN Elements", "Inf Tensors", "Inf Elements"]  # fmt: skip
    for metric in METRICS:
        for share in QUANTILES:
            name = f"{metric} p{100 * share:g}"
            names += [name, f"{name} low", f"{name} high"]
        names.append(f"{metric} max")
    return [*names, "rtol", "atol", "From Tensors", "Coverage", "Worst Config", "Worst Element", "Worst Reference",
            "Worst Target"]  # fmt: skip


def write_rows_csv(found: Tolerances, stream: TextIO) -> None:
    """Our own table: quantiles with their intervals, and what is recommended."""
    writer = csv.writer(stream)
    writer.writerow(columns())
    writer.writerows(_cells(row) for row in found.rows)


def write_rows_json(found: Tolerances, stream: TextIO) -> None:
    """The same as JSON. Numbers that JSON cannot say are the strings nan, inf and -inf."""
    content = {
        "format": "trueline-tolerances",
        "version": 1,
        "check": found.source,
        "target": found.target,
        "reference": found.reference,
        "cases": found.cases,
        "measured": found.measured,
        "tensors": found.tensors,
        "margin": found.margin,
        "confidence": found.confidence,
        "unmeasured": dict(found.unmeasured),
        "rows": [_as_json(row) for row in found.rows],
    }
    json.dump(content, stream, indent=1)
    stream.write("\n")


def _as_json(row: ToleranceRow) -> dict[str, Any]:
    content: dict[str, Any] = {
        name: getattr(row, name)
        for name in ("api", "dtype", "direction", "path", "tensors", "configs", "equal", "wrong", "nan_tensors",
                     "nan_elements", "infinity_tensors", "infinity_elements")
    }  # fmt: skip
    content["errors"] = {metric: _spread_json(spread) for metric, spread in row.spreads.items()}
    if row.recommended is not None:
        one = row.recommended
        content["recommended"] = {"rtol": one.rtol, "atol": one.atol, "tensors": one.tensors, "coverage": one.coverage}
    if row.worst is not None:
        worst = row.worst
        content["worst"] = {"config": worst.config, "element": list(worst.element),
                            "reference": _plain(worst.expected), "target": _plain(worst.actual)}  # fmt: skip
    return content


def _spread_json(spread: Spread) -> dict[str, Any]:
    quantiles = {
        f"p{100 * one.share:g}": {"value": _plain(one.value), "low": _plain(one.low), "high": _plain(one.high)}
        for one in spread.quantiles
    }
    return {"count": spread.count, **quantiles, "max": _plain(spread.maximum)}


def _plain(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else str(value)


def _cells(row: ToleranceRow) -> list[str]:
    cells = [safe(row.api), row.dtype, row.direction, safe(row.path)]
    cells += [str(one) for one in (row.tensors, row.configs, row.equal, row.wrong, row.nan_tensors, row.nan_elements,
                                   row.infinity_tensors, row.infinity_elements)]  # fmt: skip
    for metric in METRICS:
        cells += _spread_cells(row.spreads.get(metric))
    one = row.recommended
    cells += [""] * 4 if one is None else [f"{one.rtol:g}", f"{one.atol:g}", str(one.tensors), f"{one.coverage:.4g}"]
    worst = row.worst
    if worst is None:
        return cells + [""] * 4
    return [*cells, safe(worst.config), str(list(worst.element)), _number(worst.expected), _number(worst.actual)]


def _spread_cells(spread: Spread | None) -> list[str]:
    if spread is None or not spread.count:
        return [""] * (3 * len(QUANTILES) + 1)
    return [_number(value) for one in spread.quantiles for value in (one.value, one.low, one.high)] + [
        _number(spread.maximum)
    ]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6e}"


class TolWriter:
    """``tol.csv``, a row as it comes."""

    def __init__(self, stream: TextIO) -> None:
        self._writer = csv.writer(stream)
        self._writer.writerow(TOL_COLUMNS)

    def add(self, api: str, config: str, dtype: str, direction: str, absolute: float, relative: float) -> None:
        self._writer.writerow((safe(api), safe(config), dtype, direction, repr(absolute), repr(relative)))


def write_tol_full(rows: Iterable[tuple[str, str, str, str, float, float]], stream: TextIO) -> None:
    """``tol_full.csv`` of rows that are sorted already, each config, direction and output once."""
    writer = csv.writer(stream)
    writer.writerow(TOL_COLUMNS)
    for api, config, dtype, direction, absolute, relative in rows:
        writer.writerow((safe(api), safe(config), dtype, direction, f"{absolute:.6e}", f"{relative:.6e}"))


@dataclass(slots=True)
class Sums:
    """The least, the largest and the mean of errors. The mean is that of the finite ones, so that one infinity does
    not hide all others; the largest tells of it."""

    least: float = math.inf
    largest: float = -math.inf
    total: float = 0.0
    finite: int = 0
    count: int = 0

    def add(self, value: float) -> None:
        self.count += 1
        if math.isnan(value):
            return
        self.least, self.largest = min(self.least, value), max(self.largest, value)
        if math.isfinite(value):
            self.total += value
            self.finite += 1

    def cells(self) -> list[str]:
        mean = self.total / self.finite if self.finite else math.nan
        empty = self.least > self.largest
        return [f"{math.nan if empty else value:.6e}" for value in (self.least, self.largest)] + [f"{mean:.6e}"]


StatKey = tuple[str, str, str]
"""API, dtype, mode."""


def write_tol_stat(stats: Mapping[StatKey, tuple[Sums, Sums]], stream: TextIO) -> None:
    """``tol_stat.csv``: the ranges of absolute and relative errors."""
    writer = csv.writer(stream)
    writer.writerow(STAT_COLUMNS)
    for (api, dtype, mode), (absolute, relative) in sorted(stats.items()):
        writer.writerow((safe(api), dtype, mode, *absolute.cells(), *relative.cells(), absolute.count))


def write_tol_stat_api(stats: Mapping[StatKey, tuple[Sums, Sums]], stream: TextIO) -> None:
    """``tol_stat_api.csv``: how many tensors of every API were compared, in which dtypes and directions."""
    counts: dict[str, dict[tuple[str, str], int]] = {}
    for (api, dtype, mode), (absolute, _) in stats.items():
        counts.setdefault(api, {})[dtype, mode] = absolute.count
    writer = csv.writer(stream)
    writer.writerow(API_COLUMNS)
    for api in sorted(counts):
        writer.writerows((safe(api), *row) for row in _api_rows(counts[api]))


def _api_rows(counts: Mapping[tuple[str, str], int]) -> Iterator[tuple[str, str, int, float]]:
    """All of an API first, then each direction, then each dtype and direction."""
    total = sum(counts.values())
    yield _dtypes(counts), f"modes:{FORWARD}/{BACKWARD}", total, 100.0
    for mode in (FORWARD, BACKWARD):
        of_mode = {key: count for key, count in counts.items() if key[1] == mode}
        yield _dtypes(of_mode), mode, sum(of_mode.values()), round(100 * sum(of_mode.values()) / total, 2)
    for dtype, mode in sorted(counts, key=lambda key: (key[0], key[1] == BACKWARD)):
        yield dtype, mode, counts[dtype, mode], round(100 * counts[dtype, mode] / total, 2)


def _dtypes(counts: Mapping[tuple[str, str], int]) -> str:
    return "dtypes:" + "/".join(sorted({dtype for dtype, _ in counts}))
