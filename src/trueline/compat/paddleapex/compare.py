"""``acc_direct_cmp`` and ``acc_multi_cmp``: two replays, or two against one that is trusted, as APEX's CSV files.

What is compared are the folders ``backend_output`` and ``backend_output_backward`` of the replays, ours or the old
tool's (``outputs``). The files that are written have APEX's names, columns, words and keys, by its own rules, and two
columns of ours at the end: Verdict and Reason. ``compare_warning.txt`` names the keys that could not be compared.

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

from trueline.compat.beside import Said, with_verdicts
from trueline.compat.command import EXIT_FAILED, Parser, exit_code, run_command
from trueline.compat.paddleapex.missing import NOTHING, Side, all_of, explained, without_outputs, write_warnings
from trueline.compat.paddleapex.outputs import has_outputs, key_of, replay_of, runs_of
from trueline.compat.paddleapex.replay import DTYPES
from trueline.compat.paddleapex.sides import add_sides, sides_of
from trueline.compat.paddleapex.tables import NO_TENSORS, Tables, comparison_of, newest_table
from trueline.compat.places import say
from trueline.diagnose import Comparison, compare_runs
from trueline.errors import UsageError
from trueline.records import CallComparison, Role, Verdict
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
    pairs = list(_pairs(bench, device))
    sides = []
    for left, right in pairs:
        place = folder if len(pairs) == 1 else folder / right.name
        place.mkdir(parents=True, exist_ok=True)
        _tell_what_is_compared(left, right, named_apart=bool(options.device))
        sides.append(_direct(left, right, place, stamp))
    old, own = ([pair[number] for pair in sides] for number in (0, 1))
    return _conclude(all_of(old), all_of(own))


def _direct(bench: Path, device: Path, folder: Path, stamp: str) -> tuple[Side, Side]:
    """Compares two replays of one dtype; gives what the old rule says, and what trueline says."""
    folders = (bench, device)
    with tempfile.TemporaryDirectory(prefix="trueline-apex-") as scratch:
        runs = (Path(scratch) / "bench", Path(scratch) / "device")
        keys = runs_of(folders, runs)
        if not all(run.is_dir() for run in runs):  # all calls of one side failed: that is to be read in the tables
            missing = without_outputs(keys, (), folders)
            _finish(Tables(missing), folder, stamp, {}, missing, folders)
            return NOTHING, NOTHING
        with closing(compare_runs(*runs)) as own:
            said, ours = _said(own), Side(own.verdict, measured(own.counts))
        with closing(compare_runs(*runs, standard="apex")) as old:
            theirs = Side(old.verdict, measured(old.counts))
            missing = without_outputs(keys, old.calls, folders)
            calls = explained(old.calls, folders)
            _finish(Tables([*calls, *missing]), folder, stamp, said, missing, folders)
    return theirs, ours


def _finish(
    tables: Tables, folder: Path, stamp: str, said: Said, missing: Sequence[CallComparison], sides: tuple[Path, Path]
) -> None:
    """Everything that is left in the folder of the results."""
    one_sided = [one for one in tables.calls if one.reference is None or one.candidate is None]
    reasons = {key_of(one.call.name): (said.get(key_of(one.call.name), (one.verdict, ""))[0], one.reason)
               for one in reversed(one_sided)}  # fmt: skip
    written = _write(tables, folder, stamp, {**said, **reasons})
    write_warnings(folder, missing, tables.calls)
    content = {"bench": str(sides[0].resolve()), "device": str(sides[1].resolve())}
    (folder / SIDES_FILE.format(stamp)).write_text(json.dumps(content) + "\n", encoding="utf-8")
    print(f"written: {', '.join(map(str, written))}")


def _tell_what_is_compared(bench: Path, device: Path, *, named_apart: bool) -> None:
    """Two sides that are called ``-gpu`` and ``-npu`` and ran on the same device, or two of different inputs."""
    sides = [replay_of(bench), replay_of(device)]
    if None in sides:
        return
    left, right = (side for side in sides if side is not None)
    places = [side.target.partition("/")[0] for side in (left, right)]
    if named_apart and places[0] == places[1]:
        say(f"both replays were made on {places[0]}: this compares the device with itself")
    dtypes = [side.target.partition("/")[2] for side in (left, right)]
    if dtypes[0] != dtypes[1] and left.inputs == right.inputs == "":
        say(f"the inputs of {dtypes[0]} and {dtypes[1]} were rounded each to its own: that is part of the difference "
            "(run_paddle --same_inputs leaves it out)")  # fmt: skip


def _conclude(old: Side, own: Side) -> int:
    """Says which rule decides the exit code."""
    code = exit_code(max(old.verdict, own.verdict), max(old.measured, own.measured))
    print(f"PaddleAPEX's rule: {old.word}, {old.measured} calls compared; trueline's verdict: {own.verdict.name}; "
          f"{_why(code, old, own)}")  # fmt: skip
    return code


def _why(code: int, old: Side, own: Side) -> str:
    if code == EXIT_FAILED:
        return "exit code 2: nothing was compared"
    wrong = [name for name, side in (("the old rule", old), ("trueline", own)) if side.verdict >= Verdict.FAIL]
    found = "finds" if len(wrong) < 2 else "find"
    return f"exit code {code}: {' and '.join(wrong) if wrong else 'neither'} {found} something wrong"


def run_multi(options: argparse.Namespace) -> int:
    results = sides_of(options)
    peer, device = (_sides_at(path) for path in results)
    folder, stamp = _results(options)
    if peer is None or device is None:
        return _of_tables(newest_table(results[0]), newest_table(results[1]), folder, stamp)
    if peer["bench"] != device["bench"]:
        raise UsageError(f"the two results have different benches, {peer['bench']} and {device['bench']}: compare both "
                         "with the same replay by acc_direct_cmp first")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="trueline-apex-") as scratch:
        gold, baseline, candidate = (Path(scratch) / name for name in ("gold", "peer", "device"))
        replays = [Path(one) for one in (peer["bench"], peer["device"], device["device"])]
        runs_of(replays, (gold, baseline, candidate))
        if empty := [one for one, run in zip(replays, (gold, baseline, candidate), strict=True) if not run.is_dir()]:
            raise UsageError(f"{empty[0]} has no output of any call: there is nothing to compare")
        with closing(compare_runs(gold, candidate, baseline=baseline)) as own:
            said, ours = _said(own), Side(own.verdict, measured(own.counts))
        with closing(compare_runs(gold, candidate, baseline=baseline, standard="apex-multi")) as old:
            written = _write(old, folder, stamp, said)
            theirs = Side(old.verdict, measured(old.counts))
    print(f"written: {', '.join(map(str, written))}")
    return _conclude(theirs, ours)


def _of_tables(peer: Path, device: Path, folder: Path, stamp: str) -> int:
    """Tables of another machine, without their replays: the old answer alone. Exit code 1 where it says error."""
    say(f"the replays behind {peer} and {device} are not here: only the old rule can be followed")
    tables = comparison_of(peer, device)
    said = {f"{pair.call.api}*{pair.call.index}": (Verdict.NOT_COMPARED, NO_TENSORS) for pair in tables.calls}
    result, details = _write(tables, folder, stamp, said)
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
    sides = [{DTYPES.get(name, name): path for name, path in _replays(side).items()} for side in (bench, device)]
    if len(sides[0]) == len(sides[1]) == 1:
        return [(next(iter(sides[0].values())), next(iter(sides[1].values())))]
    common = [name for name in sides[0] if name in sides[1]]
    if not common:
        raise UsageError(f"{bench} has {', '.join(sides[0])}, {device} has {', '.join(sides[1])}: nothing in common; "
                         "name the folder of one dtype on each side")  # fmt: skip
    return [(sides[0][name], sides[1][name]) for name in common]


def _replays(folder: Path) -> dict[str, Path]:
    if has_outputs(folder):
        return {"": folder}
    found = {one.name: one for one in sorted(folder.iterdir()) if has_outputs(one)} if folder.is_dir() else {}
    if not found:
        raise UsageError(f"{folder} holds neither backend_output nor output, nor folders with one: it is what was "
                         "given to run_paddle -out, with -mode acc or all")  # fmt: skip
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
        here = all(has_outputs(Path(sides[side])) for side in ("bench", "device"))
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


def _write(comparison: Any, folder: Path, stamp: str, said: Said) -> tuple[Path, Path]:
    """APEX's two files, with our columns."""
    with tempfile.TemporaryDirectory(prefix="trueline-apex-") as scratch:
        result, details = write_apex_csv(comparison, Path(scratch), stamp)
        for path in (result, details):
            with (
                open(path, encoding=ENCODING, newline="") as reading,
                open(folder / path.name, "w", encoding=ENCODING, newline="") as writing,
            ):
                csv.writer(writing).writerows(with_verdicts(csv.reader(reading), said, {}))
    return folder / result.name, folder / details.name
