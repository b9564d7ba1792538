"""TIPC's commands: its scripts by name, each one call of ``trueline pipeline``.

``python -m trueline.compat.tipc test_tipc`` puts them where the documents have them.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from trueline.errors import UsageError

SCRIPTS = ("prepare.sh", "test_train_inference_python.sh", "benchmark_train.sh")


def install(folder: Path, *, replace: bool = False) -> list[Path]:
    """Writes the scripts into a folder. Those of the project stay as they are, unless ``replace`` says otherwise."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is no folder")
    there = [name for name in SCRIPTS if (folder / name).exists()]
    if there and not replace:
        raise UsageError(f"{folder} has {', '.join(there)} already; write --replace to put ours in their place")
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in SCRIPTS:
        path = folder / name
        path.write_text((resources.files(__name__) / name).read_text(encoding="utf-8"), encoding="utf-8")
        path.chmod(0o755)
        written.append(path)
    return written
