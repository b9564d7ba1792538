"""A few bytes of memory that a worker and its coordinator share: what the worker is doing, readable after its death.

The worker writes the number of its job before it starts it, and the stage it is in; the coordinator needs no answer
from a process that hangs or is gone.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
import time

_JOB = struct.Struct("<qd")
_NUMBER, _SINCE = struct.Struct("<q"), struct.Struct("<d")
_STAGE = struct.Struct("<16s")
_SIZE = 64

IDLE = 0
"""The number of no job."""


class Board:
    """One worker's board. ``Board.make`` opens a new one; the worker opens the same by its descriptor."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, _SIZE)

    @classmethod
    def make(cls) -> Board:
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("trueline-board")
        else:
            descriptor, path = tempfile.mkstemp(prefix="trueline-board-")
            os.unlink(path)
        os.ftruncate(descriptor, _SIZE)
        return cls(descriptor)

    def begin(self, number: int) -> None:
        """A job starts now."""
        _STAGE.pack_into(self._memory, _JOB.size, b"")
        # The number last: whoever sees it sees since when, too.
        _SINCE.pack_into(self._memory, _NUMBER.size, time.monotonic())
        _NUMBER.pack_into(self._memory, 0, number)

    def end(self) -> None:
        _NUMBER.pack_into(self._memory, 0, IDLE)

    def enter(self, stage: str) -> None:
        """The job comes to a stage: ``candidate``, ``honest``, ``gold``."""
        _STAGE.pack_into(self._memory, _JOB.size, stage.encode()[:16])

    def read(self) -> tuple[int, float]:
        """The number of the running job and since when it runs, by the clock ``time.monotonic``."""
        number, since = _JOB.unpack_from(self._memory, 0)
        return number, since

    @property
    def stage(self) -> str:
        raw: bytes = _STAGE.unpack_from(self._memory, _JOB.size)[0]
        return raw.rstrip(b"\0").decode(errors="replace")

    def close(self) -> None:
        self._memory.close()
        os.close(self.descriptor)
