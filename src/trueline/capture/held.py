"""Writes a few calls that are held in memory as a Run of their own, with all their tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trueline.capture.about import run_info
from trueline.capture.lookback import LookBack
from trueline.capture.notebook import Notebook
from trueline.frameworks import machine
from trueline.frameworks.light import Examination, HeldCall
from trueline.records import Certificate
from trueline.store.writer import RankWriter, write_run_info


def write_held(path: Path, calls: Sequence[HeldCall], options: Mapping[str, Any], framework: str = "torch") -> None:
    """Writes calls into a new Run, the last one as the one that matters; what they hold is read before this returns."""
    known = machine.chosen(framework)
    rank, world = known.rank()
    path.mkdir(parents=True, exist_ok=True)
    writer = RankWriter(path, rank)
    write_run_info(path, run_info(known, world, {"level": "api", "data": "tensors", **options}))
    notebook = Notebook(writer)
    LookBack(notebook, calls=len(calls)).write(Examination(calls[-1].step, calls[-1], tuple(calls)))
    notebook.flush()
    writer.drain()
    tally = notebook.tally
    writer.close(
        asdict(
            Certificate(
                calls=dict(sorted(tally.calls.items())),
                tensors=notebook.next_tensor(),
                visits=tally.visits,
                bytes_seen=tally.bytes_seen,
                bytes_stored=writer.bytes_stored,
                not_recorded=dict(sorted(tally.not_recorded.items())),
                complete=not notebook.broken,
                stopped_because=notebook.broken,
            )
        )
    )
