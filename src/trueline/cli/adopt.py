"""``trueline adopt``: the names and scripts of a predecessor in a project, so that its document works there."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
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

    done = (remove if options.remove else adopt)(options.door, options.folder)
    if options.json:
        _print_json(done)
    elif options.remove:
        _tell_removed(done)  # type: ignore[arg-type]
    else:
        _tell_adopted(options.door, done)  # type: ignore[arg-type]
    return EXIT_CLEAN


def _print_json(done: Adopted | Removed) -> None:
    from dataclasses import asdict

    from trueline.report.json import dumps, plain

    print(dumps(plain(asdict(done) | {"folder": str(done.folder)})))


def _tell_adopted(name: str, done: Adopted) -> None:
    from trueline.compat.adopting import door_named
    from trueline.report.terminal import visible

    door = door_named(name)
    lines = [f"{done.folder} has adopted {door.predecessor}: {len(done.written)} files"]
    lines += [f"  written  {one}" for one in done.written]
    lines += [f"  kept     {one} is now {copy}" for one, copy in done.copies.items()]
    lines += [f"  left     {one} as it is: the project's own, or changed by you" for one in done.left]
    lines += ["from there this works as the document writes it:", *(f"  {one}" for one in door.works)]
    lines += _of_the_interpreter()
    lines += [f"to take it away: trueline adopt {name} {'' if str(done.folder) == '.' else f'{done.folder} '}--remove"]
    print("\n".join(map(visible, lines)))


def _tell_removed(done: Removed) -> None:
    from trueline.report.terminal import visible

    lines = [f"{done.folder}: {len(done.removed)} files taken away"]
    lines += [f"  restored {one}" for one in done.restored]
    lines += [f"  left     {one}, which was changed since" for one in done.changed]
    print("\n".join(map(visible, lines)))


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
