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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from trueline.errors import UsageError
from trueline.pipeline.gold import error_of
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
    printed. ``trouble`` says why there are none; ``stale`` that they are not of this run."""

    values: Doubles
    open: Doubles
    source: str
    trouble: str = ""
    stale: bool = False
    limit: float = LIMIT


def judge_readings(reference: StageRun, candidate: StageRun, readers: Mapping[str, Any]) -> Iterator[NumberFinding]:
    """Compares whatever both stages left under the same name."""
    theirs, mine = readings(reference, readers), readings(candidate, readers)
    names = [name for name in mine if name in theirs]
    for name, reading in mine.items():
        if reading.stale:
            yield NumberFinding(name, Verdict.FAIL, reading.trouble, candidate.stage.name)
        elif reading.trouble:
            yield NumberFinding(name, Verdict.NOT_COMPARED, reading.trouble)
        elif name in names:
            yield _judged(name, reading, theirs[name], reference, candidate)
    if not names:
        reason = f"{reference.stage.name} and {candidate.stage.name} have no number of the same name to compare"
        yield NumberFinding("outputs", Verdict.NOT_COMPARED, reason)


def _judged(name: str, mine: Reading, theirs: Reading, reference: StageRun, candidate: StageRun) -> NumberFinding:
    stage, before = candidate.stage.name, reference.stage.name
    if theirs.trouble:
        return NumberFinding(name, Verdict.NOT_COMPARED, f"{before}: {theirs.trouble}")
    count = min(mine.values.size, theirs.values.size)
    made, right = mine.values.reshape(-1)[:count], theirs.values.reshape(-1)[:count]
    allowed = mine.open.reshape(-1)[:count] + theirs.open.reshape(-1)[:count]
    bad = ~np.isfinite(made) & ~((made == right) | (np.isnan(made) & np.isnan(right)))
    if bad.any():
        reason = f"{int(bad.sum())} of {count} numbers are NaN or infinite, in {before} they are not"
        return NumberFinding(name, Verdict.FAIL, reason, stage, {"bad": float(bad.sum())})
    scale = float(np.max(np.abs(right), initial=0.0, where=np.isfinite(right)))
    limit = max(mine.limit, theirs.limit)
    with np.errstate(invalid="ignore"):
        over = np.nan_to_num(np.abs(made - right), nan=0.0) - allowed - limit * scale
    error = error_of(made, right)
    numbers = {"error": error.spread, "peak": error.peak, "count": float(count), "limit": limit}
    if (over > 0.0).any():
        place = int(np.argmax(over))
        reason = f"number {place} is {made[place]:.9g}, in {before} {right[place]:.9g} (limit {limit:g}, relative)"
        return NumberFinding(name, Verdict.FAIL, reason, stage, numbers)
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
        found["outputs"] = _exact(values.reshape(-1), "probe")
        if values.ndim > 1:
            found["labels"] = _exact(np.argmax(values, axis=-1).astype(np.float64).reshape(-1), "probe")
    return found


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
            parts += [np.asarray(array, dtype=np.float64).reshape(-1) for array in arrays]
        except (ValueError, OSError, TypeError) as error:
            return _none(name, f"{name} cannot be read: {error}")
    if not parts:
        return _none(pattern, f"there is no file {pattern}")
    return _exact(np.concatenate(parts), pattern)


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
