"""The steps of a light watch: what is held of one, and what was seen of it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np
import torch

from trueline.frameworks.light import LooksArray, Sink, is_bad
from trueline.frameworks.torch.light_calls import Entry
from trueline.frameworks.torch.light_looks import RAW, Arriving
from trueline.frameworks.torch.light_tape import Tape


@dataclass
class Step:
    """One step: what is held of it, and what was seen of it."""

    number: int
    entries: list[Entry] = field(default_factory=list)
    rows: list[LooksArray] = field(default_factory=list)
    arriving: list[Arriving] = field(default_factory=list)
    tape: Tape | None = None
    """What belongs to the entries, where they are on a tape."""
    given: int = 0
    """How many of ``rows`` were given away by ``poll``."""
    bytes: int = 0
    missed: int = 0
    stepped: bool = False
    backward: bool = False
    graded: bool = False
    """Whether the gradients of the last backward were looked at."""
    elsewhere: bool = False
    """Whether a device was asked to look at something."""
    ended: bool = False
    reported: bool = False

    def all_rows(self) -> LooksArray:
        return np.concatenate(self.rows) if self.rows else np.zeros(0, RAW)

    def is_bad(self) -> bool:
        rows = self.all_rows()
        rows = rows[is_bad(rows)]
        return bool((rows["key"] % 8 != Sink.NONE).any())

    def arrived(self, *, wait: bool = False) -> bool:
        """Takes in what devices have answered; whether all has come."""
        while self.arriving and (wait or self.arriving[0].handle.ready()):
            self.rows.append(self.arriving.pop(0).rows())
        return not self.arriving

    def found_inf(self) -> bool | None:
        """What the loss scaler said; None where it said nothing."""
        rows = self.all_rows()
        found = rows[rows["key"] % 8 == Sink.SCALER]
        return bool((found["largest"] > 0).any()) if len(found) else None


def free_memory() -> int:
    """The memory that a program could still have: of its device if it uses one, else of this machine."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        free, _ = torch.cuda.mem_get_info()
        return int(free + torch.cuda.memory_reserved() - torch.cuda.memory_allocated())
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) << 10
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return 4 << 30
