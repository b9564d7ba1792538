"""Numbers of scripts without our hook: what they print or save, read as a config says.

A reader is one of

    {regex: 'prob: ([-+.\\deE]+)', every: true}     what is printed: the last match, or every one; group 1 or ``value``
    {json: 'output/result.json', path: 'scores.0'}   a JSON file, and where in it
    {npy: 'output/*.npy'}                            arrays, in the order of their names (also .npz)

with ``limit``, the relative error that is allowed beside what the printed digits leave open (1e-5). Readers are given
by kind of stage and by name: ``outputs``, ``labels`` and names of metrics are also found in the probe of a stage with a
hook, so that a stage with one and a stage without can be compared. A file older than the start of its stage is stale.
"""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from trueline.errors import UsageError
from trueline.pipeline.gold import error_of
from trueline.pipeline.power import why_blind
from trueline.pipeline.recording import doubles, points_in, readable
from trueline.pipeline.sides import side_of
from trueline.pipelines import NumberFinding, StageRun
from trueline.records import Verdict

LIMIT = 1e-5
_KINDS = ("regex", "json", "npy")
_OPTIONS = {*_KINDS, "every", "path", "limit"}
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)", re.IGNORECASE)
_CLOCK = 2.0
"""Seconds by which the clock of a file system may be behind."""
_MOST_BYTES = 256 << 20

Doubles = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Reading:
    """Numbers that a stage left. ``open`` is how far each may be from what was computed, since so many digits were
    printed. ``trouble`` says why there are none; ``stale`` that they are not of this run; ``probed`` that they are
    those of the hook."""

    values: Doubles
    open: Doubles
    source: str
    trouble: str = ""
    stale: bool = False
    limit: float = LIMIT
    probed: bool = False


def judge_readings(
    reference: StageRun,
    candidate: StageRun,
    readers: Mapping[str, Any],
    earlier: Sequence[StageRun] = (),
    followers: Sequence[str] = (),
) -> Iterator[NumberFinding]:
    """Compares what a stage left under each name with the nearest stage before it that has numbers of this name:
    ``reference``, else one of the ``earlier`` ones. ``followers`` are the kinds of the stages that come after it."""
    mine = readings(candidate, readers)
    others = [run for run in reversed(earlier) if run.stage.name not in (reference.stage.name, candidate.stage.name)]
    before = [(run, readings(run, readers)) for run in (reference, *others)]
    compared = 0
    for name, reading in mine.items():
        found = [(run, theirs[name]) for run, theirs in before if name in theirs]
        if reading.stale:
            yield NumberFinding(name, Verdict.FAIL, reading.trouble, candidate.stage.name)
        elif nearest := next(((run, theirs) for run, theirs in found if not theirs.trouble), None):
            yield _judged(name, reading, nearest, candidate, first=found[-1][0] is nearest[0])
        elif found or reading.trouble:
            run, theirs = (candidate, reading) if reading.trouble else found[0]
            yield NumberFinding(name, Verdict.NOT_COMPARED, f"{run.stage.name}: {theirs.trouble}")
        else:
            continue
        compared += 1
    if not compared:
        yield _nothing_read(candidate, mine, before, readers, followers)


def _nothing_read(
    candidate: StageRun,
    mine: Mapping[str, Reading],
    before: Sequence[tuple[StageRun, Mapping[str, Reading]]],
    readers: Mapping[str, Any],
    followers: Sequence[str],
) -> NumberFinding:
    """What is said of a stage without numbers to compare. An export may leave none: what it made shows in the stages
    that come after it, which are compared with the one before it."""
    known = {name: run for run, theirs in reversed(before) for name, one in theirs.items() if not one.trouble}
    tables = [table for kind in followers if isinstance(table := readers.get(kind), Mapping)]
    shown = sorted(str(name) for table in tables for name in table if name in known)
    if not mine and shown:
        reason = f"it leaves no numbers of its own; {shown[0]} of what comes after it is compared with that of "
        return NumberFinding("outputs", Verdict.PASS, f"{reason}{known[shown[0]].stage.name}")
    reason = f"{before[0][0].stage.name} and {candidate.stage.name} have no number of the same name to compare"
    return NumberFinding("outputs", Verdict.NOT_COMPARED, reason)


def _judged(
    name: str, mine: Reading, nearest: tuple[StageRun, Reading], candidate: StageRun, *, first: bool
) -> NumberFinding:
    """``first``: no stage before the nearest has numbers of this name, so that what is wrong with them is its fault."""
    stage, (run, theirs) = candidate.stage.name, nearest
    before = run.stage.name
    size = theirs.values.size
    if mine.trouble or not mine.values.size:
        reason = f"{mine.trouble or f'{mine.source} is empty'}; {before} has {size} numbers"
        return NumberFinding(name, Verdict.FAIL, reason, stage)
    count = min(mine.values.size, size)
    made, right = mine.values.reshape(-1)[:count], theirs.values.reshape(-1)[:count]
    bad = ~np.isfinite(made) & np.isfinite(right)
    if bad.any():
        reason = f"{int(bad.sum())} of {count} numbers are NaN or infinite, in {before} they are not"
        return NumberFinding(name, Verdict.FAIL, reason, stage, {"bad": float(bad.sum())})
    found = _agreed(name, mine, theirs, candidate, before)
    if found.verdict >= Verdict.FAIL:
        return found
    if lost := int(np.count_nonzero(~np.isfinite(right))):
        reason = f"{lost} of {count} numbers are NaN or infinite, in {before} already: nothing agrees there"
        return NumberFinding(name, Verdict.FAIL if first else Verdict.NOT_COMPARED, reason, before, found.numbers)
    if mine.values.size != size:
        reason = f"{mine.values.size} numbers, in {before} {size}; the first {count} agree"
        alike = mine.probed == theirs.probed
        return NumberFinding(name, Verdict.FAIL if alike else Verdict.NOT_COMPARED, reason, stage, found.numbers)
    if blind := why_blind(theirs.values):
        reason = f"these numbers cannot tell: {blind}; {found.reason}"
        return NumberFinding(name, Verdict.NOT_COMPARED, reason, numbers=found.numbers)
    return found


def _agreed(name: str, mine: Reading, theirs: Reading, candidate: StageRun, before: str) -> NumberFinding:
    """Whether the numbers that both have are the same, as far as their digits and the limit go."""
    count = min(mine.values.size, theirs.values.size)
    made, right = mine.values.reshape(-1)[:count], theirs.values.reshape(-1)[:count]
    allowed = mine.open.reshape(-1)[:count] + theirs.open.reshape(-1)[:count]
    both = np.isfinite(made) & np.isfinite(right)
    scale = float(np.max(np.abs(right), initial=0.0, where=np.isfinite(right)))
    limit = max(mine.limit, theirs.limit)
    with np.errstate(invalid="ignore"):
        over = np.where(both, np.abs(made - right), 0.0) - allowed - limit * scale
    over[np.isfinite(made) & ~np.isfinite(right)] = np.inf
    error = error_of(made, right)
    numbers = {"error": error.spread, "peak": error.peak, "count": float(count), "limit": limit}
    if (over > 0.0).any():
        place = int(np.argmax(over))
        reason = f"number {place} is {made[place]:.9g}, in {before} {right[place]:.9g} (limit {limit:g}, relative)"
        return NumberFinding(name, Verdict.FAIL, reason, candidate.stage.name, numbers)
    return NumberFinding(name, Verdict.PASS, f"{count} numbers agree with {before}", numbers=numbers)


def readings(run: StageRun, readers: Mapping[str, Any]) -> dict[str, Reading]:
    """What a stage left: by its readers, and in its probe."""
    own = readers.get(str(run.stage.kind)) or {}
    if not isinstance(own, Mapping):
        raise UsageError(f"the readers of {run.stage.kind} stages must be a table: name -> reader")
    found = _probed(run)
    for name, reader in own.items():
        found[str(name)] = read(reader, run, str(name))
    return found


def _probed(run: StageRun) -> dict[str, Reading]:
    """The numbers of the last probe of a stage, under the names that readers use."""
    points = [point for point in points_in(run.probe) if not readable(point)]
    if not points:
        return {}
    side = side_of(run, points[-1])
    found = {name: _exact(np.array([float(value)]), "probe") for name, value in
             (points[-1].facts.get("metrics") or {}).items()}  # fmt: skip
    first = next(iter(side.outputs.values()), None)
    if first is not None:
        values = doubles(first)
        found["outputs"] = _exact(values, "probe")
        if values.ndim > 1:
            found["labels"] = _exact(np.argmax(values, axis=-1).astype(np.float64).reshape(-1), "probe")
    return {name: replace(one, probed=True) for name, one in found.items()}


def read(reader: Any, run: StageRun, name: str) -> Reading:
    """What one reader finds of one stage."""
    if not isinstance(reader, Mapping) or sum(kind in reader for kind in _KINDS) != 1 or set(reader) - _OPTIONS:
        raise UsageError(
            f"reader {name!r}: give one of {', '.join(_KINDS)}, with path (json), every (regex), limit; not {reader!r}"
        )
    limit = reader.get("limit", LIMIT)
    if not isinstance(limit, int | float) or isinstance(limit, bool) or not 0.0 <= limit < 1.0:
        raise UsageError(f"reader {name!r}: limit is a relative error, a number from 0 to 1, not {limit!r}")
    if "regex" in reader:
        found = _printed(str(reader["regex"]), bool(reader.get("every", False)), run, name)
    elif "json" in reader:
        found = _from_json(str(reader["json"]), str(reader.get("path", "")), run)
    else:
        found = _arrays(str(reader["npy"]), run)
    return Reading(found.values, found.open, found.source, found.trouble, found.stale, float(limit))


def _printed(pattern: str, every: bool, run: StageRun, name: str) -> Reading:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"reader {name!r}: {pattern!r} is no regular expression: {error}") from error
    if not compiled.groups:
        raise UsageError(f"reader {name!r}: {pattern!r} has no group; put the number in parentheses")
    log = Path(run.result.log)
    if not run.result.log or not log.is_file():
        return _none(str(log), f"there is no log {log}")
    text = log.read_text(encoding="utf-8", errors="replace")
    matches = [match.group("value" if "value" in compiled.groupindex else 1) for match in compiled.finditer(text)]
    numbers = [number for match in (matches if every else matches[-1:]) for number in _NUMBER.findall(match or "")]
    if not numbers:
        return _none(str(log), f"nothing in {log} is like {pattern!r}")
    values = np.array([float(number) for number in numbers])
    return Reading(values, np.array([_open(number) for number in numbers]), str(log))


def _open(number: str) -> float:
    """Half a unit of the last digit that was printed; nothing for whole numbers."""
    digits, _, power = number.lower().partition("e")
    decimals = len(digits.partition(".")[2])
    if not decimals and not power:
        return 0.0
    return float(0.5 * 10.0 ** (int(power or 0) - decimals))


def _from_json(pattern: str, path: str, run: StageRun) -> Reading:
    file, trouble = _newest(pattern, run)
    if file is None or trouble is not None:
        return trouble or _none(pattern, f"there is no file {pattern}")
    try:
        content: Any = json.loads(file.read_text(encoding="utf-8"))
        for step in path.split(".") if path else ():
            content = content[int(step)] if isinstance(content, list) else content[step]
        return _exact(np.array(content, dtype=np.float64), str(file))
    except (ValueError, KeyError, IndexError, TypeError) as error:
        return _none(str(file), f"{file} has no numbers at {path!r}: {type(error).__name__}: {error}")


def _arrays(pattern: str, run: StageRun) -> Reading:
    files = sorted(glob.glob(pattern, recursive=True))
    parts = []
    for name in files:
        if stale := _stale(Path(name), run):
            return stale
        try:
            if Path(name).stat().st_size > _MOST_BYTES:
                return _none(name, f"{name} is larger than {_MOST_BYTES >> 20} MiB; probe fewer samples")
            loaded = np.load(name, allow_pickle=False)
            arrays = [loaded[key] for key in loaded.files] if hasattr(loaded, "files") else [loaded]
            parts += [np.asarray(array, dtype=np.float64) for array in arrays]
        except (ValueError, OSError, TypeError) as error:
            return _none(name, f"{name} cannot be read: {error}")
    if not parts:
        return _none(pattern, f"there is no file {pattern}")
    shapes = {part.shape[1:] for part in parts if part.ndim}
    if len(shapes) == 1 and all(part.ndim for part in parts):
        return _exact(np.concatenate(parts), pattern)
    return _exact(np.concatenate([part.reshape(-1) for part in parts]), pattern)


def _newest(pattern: str, run: StageRun) -> tuple[Path | None, Reading | None]:
    files = [Path(name) for name in glob.glob(pattern, recursive=True)]
    if not files:
        return None, None
    file = max(files, key=lambda path: path.stat().st_mtime)
    return file, _stale(file, run)


def _stale(file: Path, run: StageRun) -> Reading | None:
    """A reading that says that a file is older than its stage; None where it is not."""
    try:
        started = datetime.fromisoformat(run.result.started).timestamp()
    except (ValueError, TypeError):
        return None
    written = file.stat().st_mtime
    if written >= started - _CLOCK:
        return None
    when = datetime.fromtimestamp(written).isoformat(timespec="seconds")
    nothing = np.empty(0)
    return Reading(nothing, nothing, str(file), f"{file} is stale: written {when}, before the stage began", stale=True)


def _exact(values: Doubles, source: str) -> Reading:
    return Reading(values, np.zeros(values.shape), source)


def _none(source: str, trouble: str) -> Reading:
    nothing = np.empty(0)
    return Reading(nothing, nothing, source, trouble)
