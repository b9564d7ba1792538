"""``compare`` and ``compare_distributed``: two dumps, as compare_result_<time>.csv and advisor_<time>.txt.

The CSV has ptdbg's columns, "Accuracy Reached or Not" by its own rule; Verdict, Reason and the columns behind are ours.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from trueline.diagnose import Comparison, compare_runs
from trueline.errors import UsageError
from trueline.report.csv import safe, write_csv

STACK_COLUMN = "NPU_Stack_Info"
_PATHS = ("npu_pkl_path", "bench_pkl_path", "npu_dump_data_dir", "bench_dump_data_dir")
_KNOWN = (*_PATHS, "is_print_compare_log")


def compare(
    input_param: Mapping[str, Any],
    output_path: str,
    shape_flag: bool = False,
    stack_mode: bool = False,
    auto_analyze: bool = True,
    suffix: str = "",
) -> Path:
    """Compares two dumps and gives the path of the CSV file. ``shape_flag`` had tensors of other shapes left unmatched;
    here they are matched and the difference is said. ``stack_mode`` adds the stacks, which dumps of the modes
    api_stack, list and range have; ``auto_analyze`` writes the advice."""
    _check(input_param)
    folder = Path(output_path)
    if not folder.is_dir():
        raise UsageError(f"compare: the folder {output_path} does not exist; make it first")
    stamp = datetime.now().strftime("%Y%m%d%H%M%S")
    path = folder / f"compare_result{suffix}_{stamp}.csv"
    with tempfile.TemporaryDirectory(prefix="trueline-compare-") as scratch:
        bench = _imported(input_param, "bench", Path(scratch))
        npu = _imported(input_param, "npu", Path(scratch))
        with closing(compare_runs(bench, npu)) as comparison:
            _write(comparison, path, stack_mode, bool(input_param.get("is_print_compare_log", True)))
            if auto_analyze:
                _advise(comparison, path, folder / f"advisor{suffix}_{stamp}.txt")
    return path


def compare_distributed(npu_dump_dir: str, bench_dump_dir: str, output_path: str, **options: Any) -> list[Path]:
    """Compares the ranks of two dumps, rank by rank; gives a CSV file for each. Both must have the same ranks."""
    npu, bench = _ranks(Path(npu_dump_dir)), _ranks(Path(bench_dump_dir))
    if len(npu) != len(bench):
        raise UsageError(f"compare_distributed: {npu_dump_dir} has {len(npu)} ranks, {bench_dump_dir} has "
                         f"{len(bench)}; both must be of the same number of cards")  # fmt: skip
    found = []
    for left, right in zip(npu, bench, strict=True):
        given = {**_dump_in(left, "npu"), **_dump_in(right, "bench"), "is_print_compare_log": True}
        found.append(compare(given, output_path, suffix=f"_{left.name}-{right.name}", **options))
    return found


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
    out = scratch / side
    import_run(given[f"{side}_pkl_path"], out, format="ptdbg", data=data or None)
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
    """The one dump of a rank folder."""
    files = sorted(folder.glob("*.pkl"))
    if len(files) != 1:
        raise UsageError(f"compare_distributed: {folder} holds {len(files)} .pkl files; it must hold the one of a dump")
    data = files[0].with_suffix("")
    return {f"{side}_pkl_path": str(files[0]), **({f"{side}_dump_data_dir": str(data)} if data.is_dir() else {})}


def _write(comparison: Comparison, path: Path, stacks: bool, talk: bool) -> None:
    plain = path.with_suffix(".part")
    with open(plain, "w", encoding="utf-8", newline="") as stream:
        write_csv(comparison, stream, _progress if talk else None, observables=False)
    if not stacks:
        plain.replace(path)
        return
    with open(plain, encoding="utf-8", newline="") as reading, open(path, "w", encoding="utf-8", newline="") as writing:
        rows, writer = csv.reader(reading), csv.writer(writing)
        writer.writerow([*next(rows), STACK_COLUMN])
        for row, stack in zip(rows, _stacks(comparison), strict=True):
            writer.writerow([*row, safe(stack)])
    plain.unlink()


def _stacks(comparison: Comparison) -> Iterator[str]:
    """The stack of each row of the CSV."""
    for pair in comparison.calls:
        stack = "\n".join(map(str, pair.call.stack)) or "None"
        yield from [stack] * max(len(pair.tensors), 1)


def _progress(what: str, done: int, total: int) -> None:
    print(f"{what} {done} of {total}", file=sys.stderr)


def _advise(comparison: Comparison, table: Path, path: Path) -> None:
    """The first row that ptdbg's rule calls not reached, and what trueline says of the whole."""
    lines = [*_first_not_reached(table), f"trueline: {_origin(comparison)}"]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print("\n".join(lines))


def _first_not_reached(table: Path) -> list[str]:
    with open(table, encoding="utf-8", newline="") as stream:
        for number, row in enumerate(csv.DictReader(stream), 2):
            if row["Accuracy Reached or Not"] == "No":
                cause = "its inputs agree: the API itself is suspect" if row["Victim"] == "no" else (
                    "what it was given was wrong already")  # fmt: skip
                return [f"Line: {number}", f"Suspect Nodes: {row['NPU Name']}", f"Expert Advice: {cause}"]
    return ["Suspect Nodes: none", "Expert Advice: all tensors that were compared reach the accuracy of ptdbg's rule"]


def _origin(comparison: Comparison) -> str:
    origin = comparison.origin
    if origin is None:
        return f"no call went wrong by itself; verdict {comparison.verdict.name}"
    call = origin.comparison.call
    return f"{call.name} went wrong first{f' ({call.source})' if call.source else ''}: {origin.explanation}"
