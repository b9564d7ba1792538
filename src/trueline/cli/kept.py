"""What commands find in a folder: by the file that lies in it."""

from __future__ import annotations

from pathlib import Path

RUN_FILE, PIPELINE_FILE, PROFILE_FILE = "run.json", "pipeline.json", "profile.json"


def is_kept(path: Path, file: str) -> bool:
    """Whether this is the folder with such a file, or the file itself."""
    return (path / file).exists() or (path.name == file and path.exists())
