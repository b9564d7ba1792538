"""``compare`` and ``compare_distributed``: two dumps, as compare_result_<time>.csv and advisor_<time>.txt.

The CSV has ptdbg's columns, "Accuracy Reached or Not" by its own rule; Verdict, Reason and the columns behind are ours.
``compare_distributed`` writes one for each rank, and compare_result_merged_<time>.csv with all rows of all ranks, the
rank in front, and a line for each rank on top of its advice.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from trueline.compat.ptdbg_ascend.tables import Advice, advice_of, matched_by_shape, write_merged
from trueline.diagnose import Comparison, compare_runs
from trueline.errors import UsageError
from trueline.records import Verdict
from trueline.report.csv import safe, write_csv

STACK_COLUMN = "NPU_Stack_Info"
_PATHS = ("npu_pkl_path", "bench_pkl_path", "npu_dump_data_dir", "bench_dump_data_dir")
_MSPROBE = "dump.json"
_KNOWN = (*_PATHS, "is_print_compare_log")


def compare(
    input_param: Mapping[str, Any],
    output_path: str,
    shape_flag: bool = False,
    stack_mode: bool = False,
    auto_analyze: bool = True,
    suffix: str = "",
) -> Path:
    """Compares two dumps and gives the path of the CSV file. With ``shape_flag`` APIs match only where all their shapes
    agree: a call without such a counterpart stands alone in its rows, and nothing of it is compared by ptdbg's rule.
    ``stack_mode`` adds the stacks, which dumps of the modes api_stack, list and range have; ``auto_analyze`` writes the
    advice."""
    return _compared(input_param, output_path, shape_flag, stack_mode, auto_analyze, suffix).table


@dataclass(frozen=True, slots=True)
class Compared:
    """One comparison: its table, what ptdbg's rule says of it, and what trueline does."""

    table: Path
    not_reached: str
    verdict: Verdict
    origin: str


def _compared(
    input_param: Mapping[str, Any],
    output_path: str,
    shape_flag: bool = False,
    stack_mode: bool = False,
    auto_analyze: bool = True,
    suffix: str = "",
) -> Compared:
    _check(input_param)
    folder = Path(output_path)
    if not folder.is_dir():
        raise UsageError(f"compare: the folder {output_path} does not exist; make it first")
    stamp = datetime.now().strftime("%Y%m%d%H%M%S")
    path = folder / f"compare_result{suffix}_{stamp}.csv"
    with tempfile.TemporaryDirectory(prefix=".trueline-", dir=folder) as scratch:
        with ThreadPoolExecutor(2) as both:
            bench, npu = both.map(lambda side: _imported(input_param, side, Path(scratch)), ("bench", "npu"))
        with closing(compare_runs(bench, npu)) as comparison:
            talk = bool(input_param.get("is_print_compare_log", True))
            _write(comparison, path, shape_flag=shape_flag, stacks=stack_mode, talk=talk)
            advice = advice_of(path)
            if auto_analyze:
                _advise(comparison, advice, folder / f"advisor{suffix}_{stamp}.txt")
            return Compared(path, advice.name, comparison.verdict, _origin(comparison))


def compare_distributed(npu_dump_dir: str, bench_dump_dir: str, output_path: str, **options: Any) -> list[Path]:
    """Compares the ranks of two dumps, rank by rank; gives a CSV file for each. Both must have the same ranks. Beside
    them lies one table of all ranks."""
    npu, bench = _ranks(Path(npu_dump_dir)), _ranks(Path(bench_dump_dir))
    if len(npu) != len(bench):
        raise UsageError(f"compare_distributed: {npu_dump_dir} has {len(npu)} ranks, {bench_dump_dir} has "
                         f"{len(bench)}; both must be of the same number of cards")  # fmt: skip
    found = {}
    for left, right in zip(npu, bench, strict=True):
        given = {**_dump_in(left, "npu"), **_dump_in(right, "bench"), "is_print_compare_log": True}
        found[left.name] = _compared(given, output_path, suffix=f"_{left.name}-{right.name}", **options)
    merged = Path(output_path) / f"compare_result_merged_{datetime.now().strftime('%Y%m%d%H%M%S')}.csv"
    write_merged({rank: one.table for rank, one in found.items()}, merged)
    for rank, one in found.items():
        print(f"{rank}: first not reached by ptdbg's rule: {one.not_reached or 'none'}; "
              f"trueline: {one.verdict.name}, {one.origin}")  # fmt: skip
    print(f"all ranks in one table: {merged}")
    return [one.table for one in found.values()]


def _check(given: Mapping[str, Any]) -> None:
    unknown = next((key for key in given if key not in _KNOWN), None)
    if unknown is not None:
        raise UsageError(f"compare: unknown key {unknown!r}; there are {', '.join(_KNOWN)}")
    for key in ("npu_pkl_path", "bench_pkl_path"):
        if key not in given:
            raise UsageError(f"compare: {key} is missing: the .pkl file of the dump")
    for key in _PATHS:
        if given.get(key) and not Path(given[key]).exists():
            raise UsageError(f"compare: {key}: there is no {given[key]}")


def _imported(given: Mapping[str, Any], side: str, scratch: Path) -> Path:
    from trueline.exchange import import_run

    data = given.get(f"{side}_dump_data_dir")
    out, path = scratch / side, Path(given[f"{side}_pkl_path"])
    if path.name == _MSPROBE:  # the successor's dump, which knows where its tensors lie
        import_run(path.parent, out, format="msprobe")
        return out
    import_run(given[f"{side}_pkl_path"], out, format="ptdbg", data=data or None, links=True)
    return out


def _ranks(folder: Path) -> list[Path]:
    """The rank folders, in their order. Anything else in there is an error, as it has always been."""
    if not folder.is_dir():
        raise UsageError(f"compare_distributed: {folder} is not a folder")
    found = [one for one in folder.iterdir() if not one.name.startswith(".")]
    strange = [one.name for one in found if not (one.is_dir() and one.name[4:].isdigit() and one.name[:4] == "rank")]
    if strange or not found:
        what = f"holds {', '.join(sorted(strange)[:3])}" if strange else "is empty"
        raise UsageError(f"compare_distributed: {folder} {what}; it must hold rank folders (rank0, rank1) alone")
    return sorted(found, key=lambda one: int(one.name[4:]))


def _dump_in(folder: Path, side: str) -> dict[str, str]:
    """The one dump of a rank folder: ptdbg's, or that of msprobe, its successor."""
    if (folder / _MSPROBE).is_file():
        return {f"{side}_pkl_path": str(folder / _MSPROBE)}
    files = sorted(folder.glob("*.pkl"))
    if len(files) != 1:
        raise UsageError(f"compare_distributed: {folder} holds {len(files)} .pkl files; it must hold the one of a dump")
    data = files[0].with_suffix("")
    return {f"{side}_pkl_path": str(files[0]), **({f"{side}_dump_data_dir": str(data)} if data.is_dir() else {})}


def _write(comparison: Comparison, path: Path, *, shape_flag: bool, stacks: bool, talk: bool) -> None:
    plain = path.with_suffix(".part")
    with open(plain, "w", encoding="utf-8", newline="") as stream:
        write_csv(comparison, stream, _progress if talk else None, observables=False)
    if not (shape_flag or stacks):
        plain.replace(path)
        return
    with open(plain, encoding="utf-8", newline="") as reading, open(path, "w", encoding="utf-8", newline="") as writing:
        rows: Iterator[list[str]] = csv.reader(reading)
        if stacks:
            rows = _with_stacks(rows, comparison)
        csv.writer(writing).writerows(matched_by_shape(rows) if shape_flag else rows)
    plain.unlink()


def _with_stacks(rows: Iterator[list[str]], comparison: Comparison) -> Iterator[list[str]]:
    yield [*next(rows), STACK_COLUMN]
    for row, stack in zip(rows, _stacks(comparison), strict=True):
        yield [*row, safe(stack)]


def _stacks(comparison: Comparison) -> Iterator[str]:
    """The stack of each row of the CSV."""
    for pair in comparison.calls:
        stack = "\n".join(map(str, pair.call.stack)) or "None"
        yield from [stack] * max(len(pair.tensors), 1)


def _progress(what: str, done: int, total: int) -> None:
    print(f"{what} {done} of {total}", file=sys.stderr)


def _advise(comparison: Comparison, advice: Advice, path: Path) -> None:
    """The first row that ptdbg's rule calls not reached, and what trueline says of the whole."""
    lines = [*advice.lines, f"trueline: {_origin(comparison)}"]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print("\n".join(lines))


def _origin(comparison: Comparison) -> str:
    origin = comparison.origin
    if origin is None:
        return f"no call went wrong by itself; verdict {comparison.verdict.name}"
    call = origin.comparison.call
    return f"{call.name} went wrong first{f' ({call.source})' if call.source else ''}: {origin.explanation}"
