"""``tol_csv_stat``: tol_full.csv, tol_stat.csv and tol_stat_api.csv of all tol*.csv of a log folder.

Rows of a config are kept output by output (the old script kept the last output of each). NaN and infinities do not
spoil the means. ``TEST_LOG_PATH`` is an argument, the environment variable of this name, or what stands in
``tools/tol_csv_stat.py``.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from trueline.compat.command import EXIT_CLEAN, Parser, run_command
from trueline.compat.paddleapitest.engine import DEFAULT_FOLDER
from trueline.compat.paddleapitest.settings import add_log_path, log_path
from trueline.errors import UsageError
from trueline.report.tolerance_rows import (
    TOL_COLUMNS,
    StatKey,
    Sums,
    write_tol_full,
    write_tol_stat,
    write_tol_stat_api,
)

OUTPUTS = ("tol_full.csv", "tol_stat.csv", "tol_stat_api.csv")

Row = tuple[str, str, str, str, float, float]


def parser() -> Parser:
    options = Parser(
        "tol_csv_stat",
        "Merges and sorts the tol*.csv of a log folder, and says how large errors are of each API and dtype.",
        "tol_csv_stat tester/api_config/test_log_tol",
    )
    add_log_path(options)
    return options


def main(
    words: Sequence[str] | None = None, *, test_log_path: str | Path = DEFAULT_FOLDER, project: Path | None = None
) -> int:
    """``test_log_path`` is what the script has at its top, ``project`` where it lies."""
    return run_command(parser(), lambda options: _run(log_path(options, test_log_path, project)), words)


def _run(folder: Path) -> int:
    rows = statistics(folder)
    print(f"{rows} rows; written: {', '.join(OUTPUTS)} in {folder}")
    return EXIT_CLEAN


def statistics(folder: Path) -> int:
    """Writes the three files into the folder; gives the number of rows of the first."""
    found = sorted(path for path in folder.glob("tol*.csv") if path.name not in OUTPUTS)
    if not found:
        raise UsageError(f"{folder} has no tol*.csv: run engineV2 with --accuracy=True --test_tol=True first")
    rows = sorted(_last_of_each(found), key=lambda row: (row[0], row[2], row[1], row[3]))
    stats: dict[StatKey, tuple[Sums, Sums]] = {}
    for api, _, dtype, mode, absolute, relative in rows:
        sums = stats.setdefault((api, dtype, mode), (Sums(), Sums()))
        sums[0].add(absolute)
        sums[1].add(relative)
    with _opened(folder / OUTPUTS[0]) as stream:
        write_tol_full(rows, stream)
    with _opened(folder / OUTPUTS[1]) as stream:
        write_tol_stat(stats, stream)
    with _opened(folder / OUTPUTS[2]) as stream:
        write_tol_stat_api(stats, stream)
    return len(rows)


def _opened(path: Path) -> TextIO:
    return open(path, "w", encoding="utf-8", newline="")


def _last_of_each(paths: Sequence[Path]) -> Iterator[Row]:
    """The rows of each config, direction and output once, those of the last test. Rows have no number of the output;
    within one test they stand in the order of the outputs."""
    kept: dict[tuple[str, str], list[Row]] = {}
    last = ""
    for path in paths:
        for row in _rows(path):
            if row[1] != last:
                for mode in ("forward", "backward"):
                    kept.pop((row[1], mode), None)
            kept.setdefault((row[1], row[3]), []).append(row)
            last = row[1]
    for rows in kept.values():
        yield from rows


def _rows(path: Path) -> Iterator[Row]:
    with open(path, encoding="utf-8", newline="") as stream:
        reader = csv.DictReader(stream)
        if tuple(reader.fieldnames or ()) != TOL_COLUMNS:
            raise UsageError(f"{path} does not have the columns {', '.join(TOL_COLUMNS)}")
        for number, row in enumerate(reader, 2):
            try:
                absolute, relative = float(row["max_abs_diff"]), float(row["max_rel_diff"])
            except (TypeError, ValueError):
                raise UsageError(f"{path}, line {number}: the differences are not numbers") from None
            yield row["API"], row["config"], row["dtype"], row["mode"], absolute, relative


if __name__ == "__main__":
    sys.exit(main())
