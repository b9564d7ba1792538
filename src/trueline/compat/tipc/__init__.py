"""TIPC's commands: its scripts by name, each one call of ``trueline pipeline``.

``trueline adopt tipc`` puts them where the documents have them, with the templates of its documents;
``python -m trueline.compat.tipc test_tipc`` puts the scripts alone into a folder of any name.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from trueline.compat.adopting import Item, Kind, door_named, place
from trueline.errors import UsageError

SCRIPTS = ("prepare.sh", "test_train_inference_python.sh", "benchmark_train.sh")


def install(folder: Path, *, replace: bool = False) -> list[Path]:
    """Writes the scripts into a folder. Those of the project stay as they are, unless ``replace`` says otherwise: then
    a copy of each is kept beside, ``prepare.before-trueline.sh``, and data is prepared by it."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is no folder")
    there = [name for name in SCRIPTS if (folder / name).exists()]
    if there and not replace:
        raise UsageError(f"{folder} has {', '.join(there)} already; write --replace to put ours in their place")
    items = [item for item in door_named("tipc").items() if item.target.parent == PurePosixPath("test_tipc")]
    flat = [Item(item.source, PurePosixPath(item.target.name), item.kind) for item in items]
    done = place("tipc", [item for item in flat if item.kind is Kind.SCRIPT or "func" in item.target.name], folder)
    return [folder / name for name in done.written]
