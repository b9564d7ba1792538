"""Writes files that an attacker would send: each is whole and valid but for the names and texts in it."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.helpers.synthetic import Spec, array, write_run
from tests.hostile.names import Hostile, Raw, Tensor, config_text, filled
from trueline.exchange import export_run
from trueline.formats.names import stem_of
from trueline.store.seal import seal_database, sealed_text

Fill = Callable[[int], Callable[[str], str]]
GOOD_LINES = ['torch.relu(Tensor([5],"float32"), )', 'paddle.nn.functional.relu(Tensor([5],"float32"), )']
"""One of them must pass, or the file was not read at all."""
VERSIONS = {"torch": "2.13.0", "paddle": "3.3.1"}
FORMATS = ("msprobe", "ptdbg", "checker")
"""Dumps that a Run of torch can be written as."""


def write_config(path: Path, calls: Sequence[Hostile], fill: Fill) -> dict[int, int]:
    """A file of config lines; which line belongs to which call (a name with line breaks has several)."""
    lines: list[str] = list(GOOD_LINES)
    owners: dict[int, int] = {}
    for call in calls:
        for line in config_text(call, fill(call.number)).split("\n"):
            lines.append(line)
            owners[len(lines)] = call.number
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass") + b"\n")
    return owners


def write_hostile_run(
    path: Path,
    calls: Sequence[Hostile],
    fill: Fill,
    *,
    framework: str = "torch",
    shift: float = 0.0,
    nan: bool = False,
) -> Path:
    """A Run of which each call stands in a module of its own, ``n0012``; ``shift`` is added to its outputs."""
    specs = [_spec(call, fill(call.number), shift, nan) for call in calls if not call.raw]
    good = array(4, seed=3)
    harmless = {"torch": "torch.relu", "paddle": "paddle.nn.functional.relu"}[framework]
    specs.append(Spec(harmless, [good], [np.maximum(good, 0)], module="good"))
    write_run(path, specs, framework=framework, framework_version=VERSIONS[framework])
    names = {_place(call): fill(call.number)(call.name) for call in calls}
    rename(path / "rank0" / "calls.db", names)
    return path


def _spec(call: Hostile, fill: Callable[[str], str], shift: float, nan: bool) -> Spec:
    out = (
        np.full((2, 2), np.nan, np.float32) if nan else np.maximum(array(2, 2, seed=call.number), 0) + np.float32(shift)
    )
    inputs = [_planted(filled(value, fill), call.number) for value in call.args]
    named = {fill(key): _planted(filled(value, fill), call.number) for key, value in call.kwargs.items()}
    return Spec(_place(call), inputs, [out], named, module=f"n{call.number:04d}", source=("model.py", 1, "forward"))


def _planted(value: Any, seed: int) -> Any:
    """A value with arrays for its tensors; the same for both sides of a comparison."""
    if isinstance(value, Tensor):
        return array(*value.shape, seed=seed).astype(value.dtype)
    if isinstance(value, list):
        return [_planted(item, seed) for item in value]
    return value


def _place(call: Hostile) -> str:
    """A name that stands for the hostile one until the file is whole."""
    return f"{call.framework}.place{call.number:04d}"


def rename(database: Path, names: Mapping[str, str]) -> None:
    """Puts other texts into the table of names, also such as are no UTF-8."""
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        for old, new in names.items():
            raw = new.encode("utf-8", "surrogatepass")
            connection.execute("UPDATE names SET text = CAST(? AS TEXT) WHERE text = ?", (raw, old))
    seal_database(database)  # a checksum keeps out accidents: whoever changes a file on purpose makes it again


def write_journal_run(path: Path, calls: Sequence[Hostile], fill: Fill) -> Path:
    """A Run of a program that was killed: a journal and no database. Its names are those that JSON can say."""
    from tests.helpers.synthetic import _Recorder
    from trueline.records import Data
    from trueline.store import RankWriter

    write_hostile_run(path, [], fill)
    shutil.rmtree(path / "rank0")
    writer = RankWriter(path, 0)
    specs = []
    for call in calls:
        name = fill(call.number)(call.name)
        if not call.raw and "\ud800" not in name:
            spec = _spec(call, fill(call.number), 0.0, False)
            spec.api = name
            specs.append(spec)
    writer.submit(_Recorder(Data("tensors")).batch(specs))
    writer.close({"complete": True})
    _back_to_journal(path / "rank0")
    return path


def _back_to_journal(rank: Path) -> None:
    """Makes the journal again of which a database was made: its frames of definitions, visits and calls."""
    from trueline.store.columns import CALL_COLUMNS, VISIT_COLUMNS
    from trueline.store.journal import JournalWriter

    with contextlib.closing(sqlite3.connect(rank / "calls.db")) as database:
        tables = {}
        for table, parsed in (("names", ()), ("modules", ()), ("stacks", (1,)), ("trees", (1,)), ("layouts", (2, 3))):
            rows = [list(row) for row in database.execute(f"SELECT * FROM {table}")]
            tables[table] = [[json.loads(v) if n in parsed else v for n, v in enumerate(row)] for row in rows]
        calls = list(database.execute(f"SELECT {', '.join(CALL_COLUMNS)} FROM calls"))
        visits = list(database.execute(f"SELECT {', '.join(VISIT_COLUMNS)} FROM visits"))
        kept = list(database.execute("SELECT tensor, file, offset, nbytes FROM bytes"))
    (rank / "calls.db").unlink()
    journal = JournalWriter(rank / "journal.bin")
    journal.append(b"D", json.dumps(tables).encode())
    for kind, rows in ((b"V", visits), (b"C", calls), (b"B", kept)):
        journal.append(kind, np.array(rows, dtype="<i8").tobytes())
    journal.close()


def write_dump(folder: Path, format: str, calls: Sequence[Hostile], fill: Fill) -> list[Hostile]:
    """A dump of another tool, in which the names of calls are hostile; the calls that are in it."""
    framework = "paddle" if format == "apex" else "torch"
    usable = [call for call in calls if not call.raw and (format == "apex" or call.framework == framework)]
    usable = [call for call in usable if call.kind != "names of values"]  # trees that no dump can hold
    names = {call.number: "".join((call.name, *call.kwargs)) for call in usable}
    usable = [call for call in usable if names[call.number].isprintable() and len(call.name) < 500]  # or all is refused
    if format == "ptdbg":  # it keeps tensors alone
        usable = [call for call in usable if any(isinstance(value, Tensor) for value in call.args)]
    run = folder.with_name(folder.name + "_run")
    specs = [_spec(call, fill(call.number), 0.0, False) for call in usable]
    for call, spec in zip(usable, specs, strict=True):
        spec.api = f"{framework}.place{call.number:04d}"
    write_run(run, specs, data="stats", framework=framework, framework_version="2.13.0")
    export_run(run, folder, format=format, tensors=False)
    names = {f"{call.number:04d}": fill(call.number)(call.name) for call in usable}
    for file in folder.rglob("*"):
        if file.is_file():
            _rename_in(file, names)
    return usable


def told_whole(folder: Path, calls: Sequence[Hostile], fill: Fill) -> list[Hostile]:
    """The calls that a dump holds as they are. Dumps leave out what they have no word for: of a good name with hostile
    arguments a good call is left, which may pass."""
    text = "".join(file.read_text(encoding="utf-8") for file in folder.rglob("*") if file.is_file())
    found = []
    for call in calls:
        words = [*call.kwargs, *_texts([*call.args, *call.kwargs.values()])]
        if not call.declared or all(json.dumps(fill(call.number)(word)) in text for word in words):
            found.append(call)
    return found


def _texts(value: Any) -> list[str]:
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return [value] if isinstance(value, str) else [text for part in parts for text in _texts(part)]


_PLACES = re.compile(r"(Torch|Paddle|torch|paddle)([._*])place(\d{4})")


def _rename_in(file: Path, names: Mapping[str, str]) -> None:
    def put(found: re.Match[str]) -> str:
        name = names[found[3]]
        if found[1] not in ("torch", "paddle"):
            name = found[2].join(stem_of(name))
        return json.dumps(name)[1:-1]

    file.write_text(_PLACES.sub(put, file.read_text(encoding="utf-8")), encoding="utf-8")


def rewrite_check(folder: Path, calls: Sequence[Hostile], fill: Fill) -> dict[str, int]:
    """Gives the rows of a kept check, one after another, the names and arguments of hostile calls; the number of the
    call by the key of its row."""
    keys: dict[str, int] = {}
    usable = [call for call in calls if not call.raw]
    with contextlib.closing(sqlite3.connect(folder / "ledger.db")) as ledger, ledger:
        rows = list(ledger.execute("SELECT number, key, case_json FROM cases ORDER BY number"))
        for (number, key, text), call in zip(rows, usable, strict=False):
            raw = fill(call.number)(call.name).encode("utf-8", "surrogatepass")
            name = raw.decode("utf-8", "replace")
            case = json.loads(text)
            case["api"], keys[key] = name, call.number
            case["arguments"]["kwargs"] = {"name": fill(call.number)("');{python};('")}
            if not _holds_tensor(call.args):
                case["arguments"] = {"args": _plain(call.args, fill(call.number)), "kwargs": {}}
                case["tensors"], case["backward"] = [], False
            ledger.execute(
                "UPDATE cases SET api = CAST(? AS TEXT), line = ?, case_json = ? WHERE number = ?",
                (raw, name + "(x, )", json.dumps(case), number),
            )
    seal_database(folder / "ledger.db")
    return keys


def _holds_tensor(value: Any) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return isinstance(value, Tensor) or any(map(_holds_tensor, parts))


def _plain(values: Sequence[Any], fill: Callable[[str], str]) -> list[Any]:
    return [filled(value, fill) for value in values if not isinstance(value, Raw)]


def rewrite_head(path: Path, changes: Mapping[str, Any]) -> None:
    """Changes fields of a JSON file: ``run.json``, ``check.json``."""
    content = json.loads(path.read_text(encoding="utf-8"))
    content.update(changes)
    path.write_text(sealed_text(content), encoding="utf-8")
