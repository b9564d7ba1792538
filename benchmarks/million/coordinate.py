"""The process that is killed: a campaign as any user runs it, which says how far it is through a few shared numbers.

    python -m benchmarks.million.coordinate CORPUS FOLDER FRAMEWORK WORKERS

Its workers do what they always do, and write down the number of every line that they execute in a file of their own:
what was executed, how often, is known without asking the ledger.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

JOBS = "benchmarks.million.coordinate:measuring"
EXECUTIONS = "executions"
STATE = "state.bin"
_STATE = struct.Struct("<qqdd")


class State:
    """Numbers in a file that a killed process leaves as they were: cases that have ended, those of them that this
    process saw end, seconds of CPU when the first and the last of these ended."""

    def __init__(self, path: Path, *, writing: bool = False) -> None:
        if writing:
            path.write_bytes(bytes(_STATE.size))
        with open(path, "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _STATE.size)

    def write(self, done: int, seen: int, first: float, last: float) -> None:
        _STATE.pack_into(self._memory, 0, done, seen, first, last)

    def read(self) -> tuple[int, int, float, float]:
        found: tuple[int, int, float, float] = _STATE.unpack_from(self._memory, 0)
        return found

    def close(self) -> None:
        self._memory.close()


def measuring(setup: dict[str, Any], announce: Callable[[str], None]) -> Any:
    """What workers do with a case, after writing down that they do it."""
    from trueline.replay import jobs
    from trueline.replay.measuring import Measuring

    inner = jobs.measuring(setup, announce)
    folder = Path(os.environ["TRUELINE_MILLION"]) / EXECUTIONS
    files: dict[int, int] = {}

    def measure(case: Any) -> Any:
        process = os.getpid()
        if process not in files:  # a worker may be a copy of a process that has opened its own
            files[process] = os.open(folder / str(process), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        number = int(case.calls[0].rpartition(":")[2])
        os.write(files[process], struct.pack("<i", number))
        return inner.measure(case)

    return Measuring(measure, inner.warm_up)


def main() -> None:
    import trueline
    from trueline.campaign.modes import Mode

    corpus, folder, framework, workers = sys.argv[1:]
    state = State(Path(os.environ["TRUELINE_MILLION"]) / STATE, writing=True)
    seen = 0
    first = 0.0

    def on_case(event: Any) -> None:
        nonlocal seen, first
        now = time.process_time()
        if not seen:
            first = now
        seen += 1
        state.write(event.done, seen, first, now)

    trueline.check(
        corpus, target=f"{framework}:cpu", out=folder, workers=int(workers), mode=Mode("accuracy", jobs=JOBS),
        on_case=on_case,
    )  # fmt: skip


if __name__ == "__main__":
    main()
