"""``trueline adopt``: the names and scripts of a predecessor in a project, so that its document works there."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from trueline.cli.options import EXIT_CLEAN, Parser, add_json

if TYPE_CHECKING:
    from trueline.compat.adopting import Adopted, Removed

_LOOK_SECONDS = 10


def parser() -> Parser:
    from trueline.compat.adopting.doors import DOORS

    options = Parser(
        "adopt",
        "{ptdbg,checker,apex,apitest,tipc} [FOLDER] [options]",
        "Puts what the document of a predecessor expects into a project: ptdbg_ascend, api_accuracy_checker, "
        "PaddleAPEX, PaddleAPITest or TIPC. Its imports and commands then work there as they are written. A file of "
        "the project is never written over: it is kept beside, as NAME.before-trueline, and --remove brings it back.",
        "trueline adopt apex my_project",
    )
    options.add_argument("door", choices=tuple(DOORS), help="the predecessor")
    options.add_argument(
        "folder", nargs="?", default=".", metavar="FOLDER",
        help="the folder of the project, in which the scripts that import the names lie (default: the current one)",
    )  # fmt: skip
    options.add_argument("--remove", action="store_true", help="take it away again; what you changed since stays")
    add_json(options)
    return options


def run(options: argparse.Namespace) -> int:
    from trueline.compat.adopting import adopt, remove
    from trueline.report.terminal import visible

    done: Adopted | Removed
    if options.remove:
        done = removed = remove(options.door, options.folder)
        lines = _removed_lines(removed)
    else:
        done = adopted = adopt(options.door, options.folder)
        lines = _adopted_lines(options.door, adopted)
    if options.json:
        from trueline.report.json import dumps, plain

        lines = [dumps(plain(asdict(done) | {"folder": str(done.folder)}))]
    print("\n".join(lines) if options.json else "\n".join(map(visible, lines)))
    return EXIT_CLEAN


def _adopted_lines(name: str, done: Adopted) -> list[str]:
    from trueline.compat.adopting import door_named

    door = door_named(name)
    here = str(done.folder) == "."
    where = "the current folder" if here else str(done.folder)
    return [
        f"{where} has adopted {door.predecessor}: {len(done.written)} files",
        *(f"  written  {one}" for one in done.written),
        *(f"  kept     {one} is now {copy}" for one, copy in done.copies.items()),
        *(f"  left     {one} as it is: the project's own, or changed by you" for one in done.left),
        "from there (scripts in another folder: adopt it there too) this works as the document writes it:",
        *(f"  {one}" for one in door.works),
        *_of_the_interpreter(),
        f"to take it away: trueline adopt {name} {'' if here else f'{done.folder} '}--remove",
    ]


def _removed_lines(done: Removed) -> list[str]:
    return [
        f"{done.folder}: {len(done.removed)} files taken away",
        *(f"  restored {one}" for one in done.restored),
        *(f"  left     {one}, which was changed since" for one in done.changed),
    ]


def _of_the_interpreter() -> list[str]:
    """What to say where the ``python`` of the documents is not one that has trueline."""
    found = shutil.which("python")
    if found is not None and Path(found).resolve() == Path(sys.executable).resolve():
        return []
    if found is not None:
        words = [found, "-c", "import trueline"]
        try:
            if not subprocess.run(words, capture_output=True, timeout=_LOOK_SECONDS, check=False).returncode:
                return []
        except (OSError, subprocess.TimeoutExpired):
            pass
    there = f"{found} has no trueline" if found else "there is no command python here"
    return [f"note: {there}: install it there, or write {sys.executable} for python"]
