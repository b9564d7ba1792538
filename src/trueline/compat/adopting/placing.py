"""Puts files into a project and takes them away again.

What was written is remembered in ``.trueline-adopted.json``, with a checksum each: what the user has changed since is
the user's, and stays. A file of the project that ours takes the place of is renamed, ``prepare.sh`` to
``prepare.before-trueline.sh``, beside it, so that it still finds what lies around it; it comes back when ours goes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath

from trueline.checked import Unfit, json_value, record, text_of
from trueline.compat.adopting.doors import Item, Kind, door_named
from trueline.errors import UsageError

MEMORY = ".trueline-adopted.json"
BEFORE, CHANGED = "before-trueline", "changed-by-you"
_FORMAT = 1


@dataclass(slots=True)
class _Kept:
    """What was put there for one predecessor: file -> checksum, file -> the copy of the project's own, new folders."""

    written: dict[str, str] = field(default_factory=dict)
    copies: dict[str, str] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Memory:
    format: int = _FORMAT
    doors: dict[str, _Kept] = field(default_factory=dict)


@dataclass(slots=True)
class Adopted:
    """What ``adopt`` did, as paths below the folder: files written, the project's own and where they are now, files
    that stay as the project, or the user, has them."""

    folder: Path
    written: list[str] = field(default_factory=list)
    copies: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Removed:
    """What ``remove`` did: files taken away, the project's own that are back, files that the user had changed and where
    they are now."""

    folder: Path
    removed: list[str] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


def adopt(door: str, folder: str | os.PathLike[str]) -> Adopted:
    """Puts the names, scripts and templates of a predecessor into a project."""
    known = door_named(door)
    tops = {item.target.parts[0] for item in known.items()}
    if tops == {Path(folder).resolve().name}:  # as for TIPC and its test_tipc
        raise UsageError(f"{folder} is what {door} puts into a project; give the folder of the project, "
                         f"{Path(folder).resolve().parent}")  # fmt: skip
    return place(door, known.items(), Path(folder), [PurePosixPath(name) for name in known.folders])


def place(door: str, items: Sequence[Item], folder: Path, folders: Sequence[PurePosixPath] = ()) -> Adopted:
    """The same for chosen files."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is no folder; give that of the project")
    fresh = not folder.exists() or not any(folder.iterdir())
    folder.mkdir(parents=True, exist_ok=True)
    memory = _read(folder)
    if memory.doors.get(door) is None:
        memory.doors[door] = _Kept()
    kept = memory.doors[door]
    inside = [name / "file" for name in folders]
    for target in (*(item.target for item in items), *inside):
        _refuse_outside(folder, target)
    done = Adopted(folder)
    try:
        for item in items:
            if item.kind is not Kind.CHECKOUT or fresh or str(item.target) in kept.written:
                _put(folder, item, kept, done)
        for target in inside:
            _make_folders(folder, target, kept)
    finally:
        _write(folder, memory)
    return done


def _put(folder: Path, item: Item, kept: _Kept, done: Adopted) -> None:
    name, path = str(item.target), folder / item.target
    content = item.source.read_bytes()
    if os.path.lexists(path) and not (path.is_file() and path.read_bytes() == content):
        mine = kept.written.get(name) == _checksum(path)
        if not mine and (item.kind is Kind.TEMPLATE or name in kept.written):
            done.left.append(name)
            return
        if not mine:
            copy = _free(path, BEFORE)
            path.rename(copy)
            kept.copies[name] = done.copies[name] = copy.relative_to(folder).as_posix()
    _make_folders(folder, item.target, kept)
    draft = path.with_name(f".{path.name}.part")
    draft.write_bytes(content)
    if item.source.suffix == ".sh":
        draft.chmod(0o755)
    draft.replace(path)
    kept.written[name] = _checksum(path)
    done.written.append(name)


def remove(door: str, folder: str | os.PathLike[str]) -> Removed:
    """Takes away what ``adopt`` put there and gives the project its own files back."""
    place = Path(folder)
    memory = _read(place)
    kept = memory.doors.pop(door, None)
    if kept is None:
        there = f"only {', '.join(memory.doors)}" if memory.doors else "nothing"
        raise UsageError(f"{place} has not adopted {door_named(door).name}: its {MEMORY} knows of {there}")
    done = Removed(place)
    for name, checksum in kept.written.items():
        _take(place, name, checksum, kept.copies.get(name), done)
    for name in sorted(kept.folders, key=len, reverse=True):
        with contextlib.suppress(OSError):  # what the user has put there stays, and so does its folder
            (place / name).rmdir()
    if memory.doors:
        _write(place, memory)
    else:
        (place / MEMORY).unlink()
    return done


def _take(folder: Path, name: str, checksum: str, copy: str | None, done: Removed) -> None:
    path = folder / name
    if path.is_file() and _checksum(path) == checksum:
        path.unlink()
        _drop_bytecode(path)
        done.removed.append(name)
    elif os.path.lexists(path) and copy is not None:
        aside = _free(path, CHANGED)
        path.rename(aside)
        done.changed.append(aside.relative_to(folder).as_posix())
    elif os.path.lexists(path):
        done.changed.append(name)
    if copy is not None and os.path.lexists(folder / copy):
        (folder / copy).rename(path)
        done.restored.append(name)


def _drop_bytecode(path: Path) -> None:
    """What Python made of a file that is gone."""
    for compiled in path.parent.joinpath("__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()
    with contextlib.suppress(OSError):
        path.parent.joinpath("__pycache__").rmdir()


def _make_folders(folder: Path, target: PurePosixPath, kept: _Kept) -> None:
    for parent in reversed(target.parents[:-1]):
        if not (folder / parent).exists():
            (folder / parent).mkdir()
            kept.folders.append(str(parent))


def _free(path: Path, word: str) -> Path:
    """A name beside a file that nothing has: ``prepare.before-trueline.sh``."""
    number = 1
    while os.path.lexists(
        found := path.with_name(f"{path.stem}.{word}{'' if number == 1 else f'-{number}'}{path.suffix}")
    ):
        number += 1
    return found


def _refuse_outside(folder: Path, target: PurePosixPath) -> None:
    """Nothing is written, or removed, through a link that leads out of the project."""
    home = folder.resolve()
    if not (folder / target).parent.resolve().is_relative_to(home):
        raise UsageError(f"{folder / target.parent} leads out of {folder}; nothing was changed")


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _read(folder: Path) -> _Memory:
    path = folder / MEMORY
    if not os.path.lexists(path):
        return _Memory()
    try:
        memory = record(_Memory, json_value(text_of(path)))
        if memory.format != _FORMAT:
            raise Unfit(f"its format is {memory.format}, this trueline knows {_FORMAT}")
        for kept in memory.doors.values():
            for name in (*kept.written, *kept.copies, *kept.copies.values(), *kept.folders):
                _refuse_name(folder, name)
    except Unfit as error:
        raise UsageError(f"{path} is damaged: {error}; nothing was changed") from None
    return memory


def _refuse_name(folder: Path, name: str) -> None:
    parts = PurePosixPath(name).parts
    if not parts or re.search(r"[\x00\\]", name) or name.startswith("/") or ".." in parts:
        raise Unfit(f"{name[:80]!r} is no file below the folder")
    _refuse_outside(folder, PurePosixPath(name))


def _write(folder: Path, memory: _Memory) -> None:
    draft = folder / f"{MEMORY}.part"
    draft.write_text(json.dumps(asdict(memory), indent=1) + "\n", encoding="utf-8")
    draft.replace(folder / MEMORY)
