"""``overflow_check``: looks at every call for NaN and infinity, dumps each that made one, and ends the program at the
n-th.

    ./ptdbg_dump_v1.0/rank0/Overflow_info_<time>.pkl, Overflow_info_<time>/*.npy    the call and its tensors
    ./forward_info_<pid>.json, backward_info_<pid>.json                             for run_overflow_check

The old tool asked the NPU; here the numbers are looked at, on any device. An API counts when it was given finite
numbers and gave others: what only handed them on does not, nor what the program filled with infinity itself (a mask),
nor memory that nobody has written yet.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from trueline.capture.held import write_held
from trueline.compat.places import say
from trueline.compat.ptdbg_ascend.kernels import KernelDump, read_dump_config
from trueline.compat.ptdbg_ascend.writing import write_dump
from trueline.errors import TruelineError, UsageError
from trueline.frameworks import machine
from trueline.frameworks.light import HeldCall
from trueline.ops.facts import Kind, facts_of
from trueline.ops.overflows import fills


class OverflowCheck:
    """One check of a process. ``config`` is the dump.json of ``dump_mode='acl'``."""

    def __init__(self, folder: Path, limit: int, config: Path | None) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise UsageError(f"overflow_nums is a number from 1, not {limit!r}")
        self._folder = folder
        self._limit = limit
        self._config = config
        self._count = 0
        self._steps = 0
        self._last = ""
        self._watcher: Any = None
        self._optimizers: Any = None

    def start(self) -> None:
        """Begins to look, or goes on."""
        if self._watcher is not None:
            return
        from trueline.frameworks.torch.alarms import AlarmWatcher

        self._folder.mkdir(parents=True, exist_ok=True)
        self._watcher = AlarmWatcher(self._found)
        self._optimizers = machine.adapter("torch")
        self._optimizers.on_optimizer(self._optimizer_begins, self._optimizer_ends)
        self._watcher.start()

    def stop(self) -> None:
        """Ceases to look; what the last backward made is judged before."""
        if self._watcher is None:
            return
        try:
            self._watcher.judge()
        finally:
            self._close()

    def _close(self) -> None:
        running, self._watcher = self._watcher, None
        if running is not None:
            running.stop()
        if self._optimizers is not None:
            self._optimizers.off_optimizer()

    def _optimizer_begins(self, optimizer: Any) -> None:
        if self._watcher is not None:
            self._watcher.optimizer_begins(optimizer)

    def _optimizer_ends(self, optimizer: Any) -> None:
        """A training step has ended: what was held of it is let go of."""
        if self._watcher is None:
            return
        self._watcher.optimizer_ends(optimizer)
        self._watcher.end_step(self._steps)
        self._watcher.poll()
        self._watcher.forget(self._steps)
        self._steps += 1

    def _found(self, call: HeldCall, forward: HeldCall | None) -> None:
        """An API whose inputs are finite and whose output is not."""
        if facts_of(call.api).kind is Kind.UNDEFINED or fills(call.api, call.arguments):
            return
        self._count += 1
        file = self._folder / f"Overflow_info_{datetime.now().strftime('%Y%m%d%H%M%S%f')}.pkl"
        try:
            self._dump([call] if forward is None else [forward, call], file)
            self._last = str(file)
        except (TruelineError, OSError) as error:  # never the end of the program
            say(f"the overflow was not dumped: {error}")
        name = f"{call.api}.{call.nth}.{call.phase.value}"
        say(f"overflow {self._count} of {self._limit}: {name}; dump: {self._last or 'none'}")
        if self._count >= self._limit:  # from inside a call nobody can leave: who goes on is told of the next
            raise ValueError(f"[overflow {self._count} times]: dump file is saved in '{self._last}'.")

    def _dump(self, calls: list[HeldCall], file: Path) -> None:
        """The last of these calls as ptdbg dumps it, and all of them for run_overflow_check."""
        from trueline.exchange import write_checker_json

        with tempfile.TemporaryDirectory(prefix=".trueline-", dir=self._folder) as scratch:
            run = Path(scratch) / "run"
            write_held(run, calls, {"overflow_check": True})
            wanted = [f"{calls[-1].api}.{calls[-1].nth}.{calls[-1].phase.value}"]
            write_dump(run, self._folder, file.stem, stacks=True, values=0, calls=wanted)
            with _kept(Path(), os.getpid()):
                write_checker_json(run, Path(), real=True, process=os.getpid(), exist_ok=True)
            if self._config is not None:
                KernelDump(read_dump_config(self._config), self._config).of_run(run, wanted)


@contextmanager
def _kept(folder: Path, process: int) -> Iterator[None]:
    """What the files of run_overflow_check hold of earlier overflows stays in them."""
    files = [folder / f"{what}_info_{process}.json" for what in ("forward", "backward", "stack")]
    before = [_content(file) for file in files]
    yield
    for file, old in zip(files, before, strict=True):
        if old:
            lines = (f" {json.dumps(key)}: {json.dumps(value)}" for key, value in (old | _content(file)).items())
            file.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _content(file: Path) -> dict[str, Any]:
    found: Any = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return dict(found)
