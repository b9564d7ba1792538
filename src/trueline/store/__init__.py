"""Runs on disk: written crash-safe while a program runs, read anywhere.

    writer    what a capture hands over -> journal and tensor files (background thread)
    journal   the append-only file that survives a kill
    finish    journal -> calls.db
    reader    a Run folder -> Calls
"""

from trueline.store.columns import Batch, Payload
from trueline.store.reader import RankReader, Run, open_run
from trueline.store.trace import Trace
from trueline.store.writer import RankWriter, write_run_info

__all__ = ["Batch", "Payload", "RankReader", "RankWriter", "Run", "Trace", "open_run", "write_run_info"]
