"""``acc_direct_cmp`` and ``acc_multi_cmp``: two replays, or two against one that is trusted, as APEX's CSV files.

The files have APEX's names, columns, words and keys, by its own rules, and two columns of ours at the end: Verdict and
Reason. A call of the replay that stands for several keys of the dump has a row for each.

``acc_multi_cmp`` takes two results of ``acc_direct_cmp`` with the same bench: the first of a peer, the second of the
device. It finds the replays through the file that ``acc_direct_cmp`` left beside its results; without them the two
tables give the old answer.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from trueline.compat.beside import Keys, Said, with_verdicts
from trueline.compat.command import Parser, exit_code, run_command
from trueline.compat.paddleapex.replay import KEYS, RUN
from trueline.compat.paddleapex.sides import add_sides, sides_of
from trueline.compat.paddleapex.tables import NO_TENSORS, comparison_of, newest_table
from trueline.compat.places import say
from trueline.diagnose import Comparison, compare_runs
from trueline.errors import UsageError
from trueline.records import Role, Verdict
from trueline.report.apex_csv import ENCODING, write_apex_csv
from trueline.report.wording import measured

SIDES_FILE = "accuracy_checking_sides_{}.json"


def parser(command: str, description: str) -> Parser:
    options = Parser(command, description, f"{command} -gpu gpu_repo -npu npu_repo -o result")
    add_sides(options)
    return options


def main_direct(words: Sequence[str] | None = None) -> int:
    return run_command(parser("acc_direct_cmp", "Compares two replays of one dump."), run_direct, words)


def main_multi(words: Sequence[str] | None = None) -> int:
    what = "Compares the errors of a device with those of a peer, both against one replay that is trusted."
    return run_command(parser("acc_multi_cmp", what), run_multi, words)


def run_direct(options: argparse.Namespace) -> int:
    bench, device = sides_of(options)
    folder, stamp = _results(options)
    code = 0
    pairs = list(_pairs(bench, device))
    for number, (left, right) in enumerate(pairs):
        place = folder if len(pairs) == 1 else folder / right.name
        place.mkdir(parents=True, exist_ok=True)
        code = max(code, _direct(left, right, place, stamp, last=number == len(pairs) - 1))
    return code


def _direct(bench: Path, device: Path, folder: Path, stamp: str, *, last: bool) -> int:
    with closing(compare_runs(bench / RUN, device / RUN, standard="apex")) as old:
        with closing(compare_runs(bench / RUN, device / RUN)) as own:
            said = _said(own)
            verdict, count = own.verdict, measured(own.counts)
        written = _write(old, folder, stamp, said, _keys(device))
        verdict, count = max(verdict, old.verdict), max(count, measured(old.counts))
    sides = {"bench": str(bench.resolve()), "device": str(device.resolve())}
    (folder / SIDES_FILE.format(stamp)).write_text(json.dumps(sides) + "\n", encoding="utf-8")
    print(f"written: {', '.join(map(str, written))}")
    return exit_code(verdict, count)


def run_multi(options: argparse.Namespace) -> int:
    results = sides_of(options)
    peer, device = (_sides_at(path) for path in results)
    folder, stamp = _results(options)
    if peer is None or device is None:
        return _of_tables(newest_table(results[0]), newest_table(results[1]), folder, stamp)
    if peer["bench"] != device["bench"]:
        raise UsageError(f"the two results have different benches, {peer['bench']} and {device['bench']}: compare both "
                         "with the same replay by acc_direct_cmp first")  # fmt: skip
    gold, baseline, candidate = (Path(one) / RUN for one in (peer["bench"], peer["device"], device["device"]))
    with closing(compare_runs(gold, candidate, baseline=baseline)) as own:
        said, verdict, count = _said(own), own.verdict, measured(own.counts)
    with closing(compare_runs(gold, candidate, baseline=baseline, standard="apex-multi")) as old:
        written = _write(old, folder, stamp, said, _keys(Path(device["device"])))
        verdict, count = max(verdict, old.verdict), max(count, measured(old.counts))
    print(f"written: {', '.join(map(str, written))}")
    return exit_code(verdict, count)


def _of_tables(peer: Path, device: Path, folder: Path, stamp: str) -> int:
    """Tables of another machine, without their replays: the old answer alone. Exit code 1 where it says error."""
    say(f"the replays behind {peer} and {device} are not here: only the old rule can be followed")
    tables = comparison_of(peer, device)
    said = {f"{pair.call.api}*{pair.call.index}": (Verdict.NOT_COMPARED, NO_TENSORS) for pair in tables.calls}
    result, details = _write(tables, folder, stamp, said, {})
    print(f"written: {result}, {details}")
    with open(details, encoding=ENCODING, newline="") as stream:
        words = {row["比对结果"] for row in csv.DictReader(stream)}
    worst = Verdict.FAIL if "error" in words else Verdict.PASS
    return exit_code(worst, len(words - {"skip"}))


def _results(options: argparse.Namespace) -> tuple[Path, str]:
    folder = Path(options.out_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder, datetime.now().strftime("%Y%m%d%H%M%S")


def _pairs(bench: Path, device: Path) -> list[tuple[Path, Path]]:
    """The replays of two folders: themselves, or those of the same dtype in both; of one and one, these."""
    sides = [_replays(bench), _replays(device)]
    if len(sides[0]) == len(sides[1]) == 1:
        return [(next(iter(sides[0].values())), next(iter(sides[1].values())))]
    common = [name for name in sides[0] if name in sides[1]]
    if not common:
        raise UsageError(f"{bench} has {', '.join(sides[0])}, {device} has {', '.join(sides[1])}: nothing in common; "
                         "name the folder of one dtype on each side")  # fmt: skip
    return [(sides[0][name], sides[1][name]) for name in common]


def _replays(folder: Path) -> dict[str, Path]:
    if (folder / RUN).is_dir():
        return {"": folder}
    found = {one.name: one for one in sorted(folder.iterdir()) if (one / RUN).is_dir()} if folder.is_dir() else {}
    if not found:
        raise UsageError(f"{folder} holds no replay: it is what was given to run_paddle -out, with -mode acc or all")
    return found


def _keys(folder: Path) -> Keys:
    path = folder / KEYS
    try:
        found: Keys = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except ValueError as error:
        raise UsageError(f"{path} is damaged: {error}") from None
    return found


def _sides_at(path: Path) -> dict[str, str] | None:
    """Which replays a result of ``acc_direct_cmp`` is of: of a folder the newest, of a CSV file its own. None where
    they are not here."""
    if path.is_dir():
        found = sorted(path.glob(SIDES_FILE.format("*")))
        file = found[-1] if found else path / SIDES_FILE.format("TIME")
    else:
        file = path.with_name(SIDES_FILE.format(path.stem.rpartition("_")[2]))
    if not file.exists():
        return None
    try:
        sides: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
        here = all((Path(sides[side]) / RUN).is_dir() for side in ("bench", "device"))
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{file} is damaged: {error}") from None
    return sides if here else None


def _said(comparison: Comparison) -> Said:
    """Calls by the worst of both directions, and their outputs."""
    found: dict[str, tuple[Verdict, str]] = {}
    for pair in comparison.calls:
        call, phase = f"{pair.call.api}*{pair.call.index}", pair.call.phase.value
        known = found.get(call)
        if known is None or pair.verdict > known[0]:
            found[call] = pair.verdict, pair.reason
        outputs = [tensor for tensor in pair.tensors if tensor.role is Role.OUTPUT]
        for number, tensor in enumerate(outputs):
            found[f"{call}.{phase}.output.{number}"] = tensor.verdict, tensor.reason or pair.reason
    return found


def _write(comparison: Any, folder: Path, stamp: str, said: Said, keys: Keys) -> tuple[Path, Path]:
    """APEX's two files, with the keys of the dump and our columns."""
    with tempfile.TemporaryDirectory(prefix="trueline-apex-") as scratch:
        result, details = write_apex_csv(comparison, Path(scratch), stamp)
        for path in (result, details):
            with (
                open(path, encoding=ENCODING, newline="") as reading,
                open(folder / path.name, "w", encoding=ENCODING, newline="") as writing,
            ):
                csv.writer(writing).writerows(with_verdicts(csv.reader(reading), said, keys))
    return folder / result.name, folder / details.name
