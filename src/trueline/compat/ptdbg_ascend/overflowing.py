"""``overflow_check``: watches a training for overflows, dumps each call that made one, and ends it at the n-th.

    ./ptdbg_dump_v1.0/rank0/Overflow_info_<time>.pkl, Overflow_info_<time>/*.npy    the call and its tensors
    ./forward_info_<pid>.json, backward_info_<pid>.json                             for run_overflow_check

The old tool asked the NPU; here the watch of trueline looks at the numbers, on any device.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

from trueline.compat.places import say
from trueline.compat.ptdbg_ascend.kernels import KernelDump, read_dump_config
from trueline.compat.ptdbg_ascend.writing import write_dump
from trueline.diagnose.watching import watch
from trueline.errors import TruelineError, UsageError
from trueline.overflows import WatchEvent


class OverflowCheck:
    """One check of a process. ``config`` is the dump.json of ``dump_mode='acl'``."""

    def __init__(self, folder: Path, limit: int, config: Path | None) -> None:
        if limit < 1:
            raise UsageError(f"overflow_nums is a number from 1, not {limit}")
        self._folder = folder
        self._limit = limit
        self._config = config
        self._count = 0
        self._last = ""
        self._watch: Any = None
        self._scratch: Path | None = None

    def start(self) -> None:
        """Begins to look, or goes on."""
        if self._watch is not None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        self._scratch = Path(tempfile.mkdtemp(prefix=".trueline-", dir=self._folder))
        self._watch = watch(self._scratch / "watch", on_overflow=self._found).start()

    def stop(self) -> None:
        """Ceases to look."""
        if self._watch is None:
            return
        running, self._watch = self._watch, None
        running.stop()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _found(self, event: WatchEvent) -> None:
        """Counts a bad step. One that follows another is its consequence: it counts, and has no dump of its own."""
        self._count += 1
        if event.call:
            file = self._folder / f"Overflow_info_{datetime.now().strftime('%Y%m%d%H%M%S%f')}.pkl"
            try:
                self._dump(event, file)
                self._last = str(file)
            except TruelineError as error:  # never the end of the program
                say(f"the overflow was not dumped: {error}")
        say(f"overflow {self._count} of {self._limit}: {event.message}; dump: {self._last or 'none'}")
        if self._count >= self._limit:
            raise ValueError(f"[overflow {self._count} times]: dump file is saved in '{self._last}'.")

    def _dump(self, event: WatchEvent, file: Path) -> None:
        from trueline.exchange import write_checker_json

        run, wanted = Path(event.run), [event.call]
        write_dump(run, self._folder, file.stem, stacks=True, values=0, calls=wanted)
        write_checker_json(
            run, Path(), real=True, process=os.getpid(), choose=lambda call: call.name in wanted, exist_ok=True
        )
        if self._config is not None:
            KernelDump(read_dump_config(self._config), self._config).of_run(run, wanted)
