"""A Run as the files of one dump, in the folder of the rank that the user named."""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from pathlib import Path

from trueline.compat.files import move_into
from trueline.compat.sources import source_line

_VALUES = 3
"""Of max, min, mean and norm the document has the first three."""


def write_dump(
    run: Path,
    folder: Path,
    name: str,
    *,
    stacks: bool,
    integers: bool = True,
    stack_only: bool = False,
    values: int = _VALUES,
    calls: Collection[str] | None = None,
) -> Path:
    """Writes ``<folder>/<name>.pkl`` and ``<folder>/<name>/*.npy``, in place of what has these names; gives the first.
    ``calls`` are the names of those that are wanted."""
    from trueline.exchange import write_ptdbg

    with tempfile.TemporaryDirectory(prefix=".trueline-", dir=folder) as scratch:
        sent = write_ptdbg(
            run,
            Path(scratch) / "dump",
            name=name,
            values=values,
            stacks=stacks,
            integers=integers,
            tensors=not stack_only,
            sources=source_line,
            choose=None if calls is None else lambda call: call.name in calls,
        )
        (written,) = sent.files
        for path in (written, written.with_suffix("")):
            if path.exists():
                move_into(path, folder)
    return folder / f"{name}.pkl"
