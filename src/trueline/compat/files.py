"""Moving and copying files that a dump is made of, without copying bytes where the file system allows it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def move_into(source: Path, folder: Path) -> None:
    """A file or folder into a folder, in place of what has its name there."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / source.name
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)
    shutil.move(source, target)


def same_file(source: Path, target: Path) -> None:
    """The same content under another name: a link, or a copy where links are not possible."""
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
