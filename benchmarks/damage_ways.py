"""Ways to damage a Run or a check: bytes of files, rows of tables, values of JSON, frames of journals, whole files.

Some of the ways are those of a disk, of a copy that broke off, of a hand that slipped. Others are those of somebody who
knows the format and seals it again afterwards (``sealed``): such a folder is another Run rather than a damaged one.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trueline.store.journal import JournalWriter, read_frames
from trueline.store.seal import seal_database, sealed_text


@dataclass(frozen=True)
class Damage:
    """What was done: in words, to which file, and whether it was sealed again."""

    way: str
    file: str
    sealed: bool = False


_ODD_NUMBERS = (0, -1, 1, 7, 2**31, 2**32 - 1, 2**63 - 1, -(2**63), 1e308, -1e308, 0.5)
_ODD_JSON = (
    *_ODD_NUMBERS,
    10**29,
    10**400,
    float("nan"),
    float("inf"),
    None,
    True,
    "",
    "text",
    [],
    {},
    [[]],
    {"$t": 0},
)
_DEEP = "[" * 100_000 + "]" * 100_000
_ODD_TEXTS = (
    "", "text", "../../etc/passwd", "a" * 100_000, "\x00", "\x1b[2J", "{", "[]", "{}", "null", "-1", "nan", _DEEP,
    '{"$t": 1}', '{"$t": "x"}', '{"$tuple": 3}', '{"$dict": [[1]]}', '{"$float": "zzz"}', '{"$complex": [1]}',
    '{"$slice": 0}', '{"$record": "a.B"}', '{"$record": "a.B", "fields": []}', '{"$size": {"a": 1}}',
    '[[1, 2, 3]]', '[["a"]]', '["\\ud800"]', '[1e999]', "[1" + "0" * 5000 + "]", '[-1, 4]', '[4611686018427387904, 4]',
    '{"args": [{"$t": 999999}], "kwargs": {}}', '{"args": 5, "kwargs": []}', '[{"$dtype": 5}]',
    '{"a":' * 80 + "1" + "}" * 80,
)  # fmt: skip


def damage(folder: Path, outside: Path, source: random.Random) -> Damage:
    """Damages a copy, in one way. ``outside`` is a folder that has nothing to do with it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "ledger.lock")
    files += [path for path in files if path.name in ("ledger.db", "check.json")] * (len(files) // 2)
    ways: list[Callable[[Path, list[Path], Path, random.Random], Damage | None]] = [
        _bytes, _bytes, _bytes, _rows, _rows, _rows, _rows, _structure, _json, _json, _files, _files, _frames, _frames,
        _tensors,
    ]  # fmt: skip
    while True:
        with contextlib.suppress(sqlite3.Error, ValueError, OverflowError, FileNotFoundError):
            done = source.choice(ways)(folder, files, outside, source)
            if done is not None:
                return done


# Bytes


def _bytes(folder: Path, files: list[Path], outside: Path, source: random.Random) -> Damage | None:
    file = source.choice(files)
    content = file.read_bytes()
    if not content:
        return None
    way = source.choice((_flip, _flip, _cut, _zero, _noise, _remove, _repeat, _swap, _append, _empty))
    changed = way(content, source)
    if changed == content:
        return None
    file.write_bytes(changed)
    return Damage(f"bytes: {way.__name__.strip('_')}", file.name)


def _flip(content: bytes, source: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(source.choice((1, 1, 2, 8))):
        changed[source.randrange(len(changed))] ^= 1 << source.randrange(8)
    return bytes(changed)


def _cut(content: bytes, source: random.Random) -> bytes:
    return content[: source.randrange(len(content))]


def _zero(content: bytes, source: random.Random) -> bytes:
    return _page(content, source, lambda size: bytes(size))


def _noise(content: bytes, source: random.Random) -> bytes:
    return _page(content, source, source.randbytes)


def _page(content: bytes, source: random.Random, fill: Callable[[int], bytes]) -> bytes:
    size = source.choice((64, 512, 4096))
    start = source.randrange(-(-len(content) // size)) * size
    return content[:start] + fill(min(size, len(content) - start)) + content[start + size :]


def _remove(content: bytes, source: random.Random) -> bytes:
    start = source.randrange(len(content))
    return content[:start] + content[start + source.choice((1, 8, 4096)) :]


def _repeat(content: bytes, source: random.Random) -> bytes:
    start = source.randrange(len(content))
    return content[:start] + content[start : start + 4096] * 2 + content[start:]


def _swap(content: bytes, source: random.Random) -> bytes:
    first, second = (source.randrange(-(-len(content) // 4096)) * 4096 for _ in range(2))
    pages = [content[start : start + 4096] for start in range(0, len(content), 4096)]
    pages[first // 4096], pages[second // 4096] = pages[second // 4096], pages[first // 4096]
    return b"".join(pages)


def _append(content: bytes, source: random.Random) -> bytes:
    return content + source.choice((bytes(100), source.randbytes(100), content[:5000]))


def _empty(content: bytes, source: random.Random) -> bytes:
    return b""


# Rows and tables


@contextlib.contextmanager
def _database(files: list[Path], source: random.Random) -> Iterator[tuple[sqlite3.Connection | None, Path]]:
    found = [file for file in files if file.suffix == ".db"]
    if not found:
        yield None, Path()
        return
    file = source.choice(found)
    with contextlib.closing(sqlite3.connect(file)) as connection:
        yield connection, file
        connection.commit()


def _seal(file: Path, source: random.Random) -> bool:
    if source.random() < 0.5:
        return False
    seal_database(file)
    return True


def _rows(folder: Path, files: list[Path], outside: Path, source: random.Random) -> Damage | None:
    with _database(files, source) as (connection, file):
        if connection is None:
            return None
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        table = source.choice(sorted(tables))
        count = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        if not count:
            return None
        way = source.choice((_change, _change, _change, _change, _delete, _duplicate, _exchange, _shift, _many))
        way(connection, table, source)
    return Damage(f"rows: {way.__name__.strip('_')} {table}", file.name, _seal(file, source))


def _some_row(connection: sqlite3.Connection, table: str, source: random.Random) -> tuple[list[str], tuple[Any, ...]]:
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    rows = connection.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()
    return columns, source.choice(rows)


def _where(columns: list[str], row: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    return " AND ".join(f"{column} IS ?" for column in columns), row


def _odd_value(connection: sqlite3.Connection, source: random.Random, old: Any) -> Any:
    kind = source.random()
    if isinstance(old, str) and kind < 0.6:
        return source.choice(_ODD_TEXTS)
    if isinstance(old, int) and kind < 0.5:
        return old + source.choice((-1, 1, 1000))
    if isinstance(old, bytes) and kind < 0.6:
        return source.choice((old[:-4], old + b"1234", b"", source.randbytes(len(old)), b"\xff" * len(old)))
    if kind < 0.8:
        return source.choice(_ODD_NUMBERS)
    return source.choice((None, "text", b"\xff\xfe", "", *_ODD_TEXTS))


def _change(connection: sqlite3.Connection, table: str, source: random.Random) -> None:
    columns, row = _some_row(connection, table, source)
    column = source.randrange(len(columns))
    where, values = _where(columns, row)
    new = _odd_value(connection, source, row[column])
    form = "CAST(? AS TEXT)" if isinstance(new, bytes) and source.random() < 0.5 else "?"
    connection.execute(f"UPDATE {table} SET {columns[column]} = {form} WHERE {where}", (new, *values))


def _delete(connection: sqlite3.Connection, table: str, source: random.Random) -> None:
    where, values = _where(*_some_row(connection, table, source))
    connection.execute(f"DELETE FROM {table} WHERE {where}", values)


def _duplicate(connection: sqlite3.Connection, table: str, source: random.Random) -> None:
    columns, row = _some_row(connection, table, source)
    new = [1_000_000 if isinstance(row[0], int) else f"{row[0]}2", *row[1:]]
    connection.execute(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(row))})", new)


def _exchange(connection: sqlite3.Connection, table: str, source: random.Random) -> None:
    """Two rows exchange what is in one of their columns."""
    columns, first = _some_row(connection, table, source)
    _, second = _some_row(connection, table, source)
    column = source.randrange(len(columns) > 1, len(columns))
    for row, value in ((first, second[column]), (second, first[column])):
        where, values = _where(columns, row)
        connection.execute(f"UPDATE {table} SET {columns[column]} = ? WHERE {where}", (value, *values))


def _shift(connection: sqlite3.Connection, table: str, source: random.Random) -> None:
    """All of a column becomes another number."""
    columns, _ = _some_row(connection, table, source)
    column = source.choice(columns[1:] or columns)
    connection.execute(
        f"UPDATE {table} SET {column} = {source.choice(('-1', '2', f'{column} + 1', f'-{column}', 'NULL'))}"
    )


def _many(connection: sqlite3.Connection, table: str, source: random.Random) -> None:
    connection.execute(f"DELETE FROM {table} WHERE rowid % {source.choice((2, 3, 5))} = 0")


_STRUCTURES = (
    "DROP TABLE {table}",
    "ALTER TABLE {table} RENAME TO gone",
    "ALTER TABLE {table} RENAME COLUMN {column} TO gone",
    "ALTER TABLE {table} ADD COLUMN more INTEGER",
    "ALTER TABLE {table} RENAME TO real_{table}; CREATE VIEW {table} AS SELECT * FROM real_{table}",
    "DROP TABLE {table}; CREATE VIEW {table} AS WITH RECURSIVE n(a) AS (SELECT 0 UNION ALL SELECT a + 1 FROM n) "
    "SELECT {endless} FROM n",
    "ALTER TABLE {table} RENAME TO real_{table}; CREATE VIEW {table} AS SELECT {huge} FROM real_{table}",
    "CREATE TABLE kept AS SELECT * FROM {table}; DROP TABLE {table}; CREATE TABLE {table} AS SELECT * FROM kept",
    "PRAGMA user_version = 77",
    "PRAGMA writable_schema = ON; UPDATE sqlite_master SET rootpage = 2 WHERE name = '{table}'",
    "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = 'CREATE TABLE x (' WHERE name = '{table}'",
    "PRAGMA encoding = 'UTF-16'; PRAGMA page_size = 512; VACUUM",
)


def _structure(folder: Path, files: list[Path], outside: Path, source: random.Random) -> Damage | None:
    with _database(files, source) as (connection, file):
        if connection is None:
            return None
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        table = source.choice(sorted(tables))
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        endless = ", ".join(f"a AS {column}" for column in columns)
        huge = ", ".join(f"zeroblob(2000000000) AS {column}" for column in columns)
        way = source.choice(_STRUCTURES)
        connection.executescript(way.format(table=table, column=source.choice(columns), endless=endless, huge=huge))
    return Damage(
        f"structure: {way.split(';')[0].format(table=table, column='COLUMN')[:50]}", file.name, _seal(file, source)
    )


# JSON


def _json(folder: Path, files: list[Path], outside: Path, source: random.Random) -> Damage | None:
    found = [file for file in files if file.suffix == ".json"]
    if not found:
        return None
    file = source.choice(found)
    content = json.loads(file.read_text(encoding="utf-8"))
    way = source.choice(("value", "value", "value", "remove", "add", "deep", "version"))
    if way == "deep":
        file.write_text(json.dumps(content)[:-1] + f', "deep": {_DEEP}}}', encoding="utf-8")
        return Damage("json: deep", file.name)
    if way == "version":
        content["format_version" if "format_version" in content else "version"] = source.choice(
            (0, -1, 3, 99, "2", None)
        )
    elif way == "add":
        content[source.choice(("extra", "\x1b[2J", "a" * 100_000))] = source.choice(_ODD_JSON)
    else:
        _edit(content, way, source)
    sealed = "checksum" in content and source.random() < 0.5
    file.write_text(sealed_text(content) if sealed else json.dumps(content, indent=1), encoding="utf-8")
    return Damage(f"json: {way}", file.name, sealed)


def _edit(content: Any, way: str, source: random.Random) -> None:
    """Changes or removes a value somewhere in a tree."""
    keys = list(content) if isinstance(content, dict) else list(range(len(content)))
    key = source.choice(keys)
    inner = content[key]
    if isinstance(inner, dict | list) and inner and source.random() < 0.6:
        _edit(inner, way, source)
    elif way == "remove":
        del content[key]
    else:
        content[key] = source.choice(_ODD_JSON)


# Files


def _files(folder: Path, files: list[Path], outside: Path, source: random.Random) -> Damage | None:
    file = source.choice(files)
    ranks = sorted(folder.glob("rank*"))
    way = source.choice((_delete_file, _rename, _exchange_files, _link_out, _link_loop, _pipe, _a_folder, _other_rank,
                         _rank_out, _unreadable))  # fmt: skip
    return Damage(f"files: {way.__name__.strip('_')}", file.name) if way(file, files, ranks, outside, source) else None


def _delete_file(file: Path, files: list[Path], ranks: list[Path], outside: Path, source: random.Random) -> bool:
    file.unlink()
    return True


def _rename(file: Path, files: list[Path], ranks: list[Path], outside: Path, source: random.Random) -> bool:
    file.rename(file.with_name(file.name + ".old"))
    return True


def _exchange_files(file: Path, files: list[Path], ranks: list[Path], outside: Path, source: random.Random) -> bool:
    """A file takes the place of that of another rank, or of any other file."""
    others = [one for one in files if one != file and one.name == file.name] or [one for one in files if one != file]
    if not others:
        return False
    other = source.choice(others)
    kept = file.read_bytes()
    file.write_bytes(other.read_bytes())
    other.write_bytes(kept)
    return file.read_bytes() != kept


def _link_out(file: Path, files: list[Path], ranks: list[Path], outside: Path, source: random.Random) -> bool:
    target = outside / file.name
    shutil.copy(file, target)
    file.unlink()
    file.symlink_to(target)
    return True


def _link_loop(file: Path, files: list[Path], ranks: list[Path], outside: Path, source: random.Random) -> bool:
    file.unlink()
    file.symlink_to(file.name)
    return True


def _pipe(file: Path, files: list[Path], ranks: list[Path], outside: Path, source: random.Random) -> bool:
    file.unlink()
    os.mkfifo(file)
    return True


def _a_folder(file: Path, files: list[Path], ranks: list[Path], outside: Path, source: random.Random) -> bool:
    file.unlink()
    file.mkdir()
    return True


def _unreadable(file: Path, files: list[Path], ranks: list[Path], outside: Path, source: random.Random) -> bool:
    """A device that never ends."""
    file.unlink()
    file.symlink_to("/dev/zero")
    return True


def _other_rank(file: Path, files: list[Path], ranks: list[Path], outside: Path, source: random.Random) -> bool:
    if not ranks:
        return False
    rank = source.choice(ranks)
    new = source.choice(("rank7", "rank", "rank00", "rank-1", "rankx", "rank99999999999999999999", "rank\u0661"))
    rank.rename(rank.with_name(new))
    return True


def _rank_out(file: Path, files: list[Path], ranks: list[Path], outside: Path, source: random.Random) -> bool:
    if not ranks:
        return False
    rank = source.choice(ranks)
    shutil.copytree(rank, outside / "moved")
    shutil.rmtree(rank)
    rank.symlink_to(outside / "moved")
    return True


# Journals


def _frames(folder: Path, files: list[Path], outside: Path, source: random.Random) -> Damage | None:
    found = [file for file in files if file.name == "journal.bin"]
    if not found:
        return None
    file = source.choice(found)
    frames = list(read_frames(file))
    way = source.choice(("drop", "double", "swap", "payload", "payload", "json", "json", "kind", "end", "numbers"))
    place = source.randrange(len(frames))
    kind, payload = frames[place]
    if way == "drop":
        del frames[place]
    elif way == "double":
        frames.insert(place, frames[place])
    elif way == "swap":
        other = source.randrange(len(frames))
        frames[place], frames[other] = frames[other], frames[place]
    elif way == "payload":
        frames[place] = (kind, source.choice((_flip, _cut, _zero, _remove))(payload, source) if payload else b"x")
    elif way == "json":
        frames[place] = (source.choice((b"D", b"M", b"E", b"X")), source.choice(_ODD_TEXTS).encode("utf-8", "replace"))
    elif way == "kind":
        frames[place] = (source.choice((b"D", b"V", b"C", b"M", b"S", b"B", b"E", b"X", b"?", b"\0")), payload)
    elif way == "end":
        frames.append((b"X", b'{"complete": true, "calls": 5}'))
    else:
        frames[place] = (kind, source.choice(_ODD_NUMBERS[:6]).to_bytes(8, "little", signed=True) * (len(payload) // 8))
    file.unlink()
    journal = JournalWriter(file)
    for frame in frames:
        journal.append(*frame)
    journal.close()
    return Damage(f"frames: {way}", file.name, sealed=True)


# Tensor files


def _tensors(folder: Path, files: list[Path], outside: Path, source: random.Random) -> Damage | None:
    found = [file for file in files if file.suffix == ".safetensors"]
    if not found:
        return None
    file = source.choice(found)
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    way = source.choice(("huge header", "offsets", "dtype", "overlap", "names", "deep", "bits", "bits", "bits"))
    if way == "bits":
        changed = bytearray(content)
        changed[source.randrange(8 + length, len(content))] ^= 1 << source.randrange(8)
        file.write_bytes(bytes(changed))
        return Damage("tensors: bits", file.name)
    if way == "huge header":
        file.write_bytes(source.choice((2**63, 2**40, len(content), 0)).to_bytes(8, "little") + content[8:])
        return Damage("tensors: huge header", file.name)
    entry = header[source.choice([name for name in header if name != "__metadata__"])]
    if way == "deep":
        text = _DEEP.encode()
    else:
        if way == "offsets":
            entry["data_offsets"] = source.choice(([0, 2**62], [-5, 3], [9, 2], [], "x", [1e300, 2]))
        elif way == "dtype":
            entry["dtype"] = source.choice(("F64", "nothing", 5, None))
        elif way == "overlap":
            entry["data_offsets"] = [0, 4]
        else:
            entry["shape"] = source.choice(([2**40, 2**40], [-1], "x", [1.5], [0]))
        text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])
    return Damage(f"tensors: {way}", file.name)
