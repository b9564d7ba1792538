"""How a warm process ends what its commands leave behind. Needs nothing but Python, as ``infer_worker`` does, beside
which it lies.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

_HELPER_SECONDS = 0.5
"""So long helpers of a command that has ended have time to end by themselves."""


def _family(process: int) -> dict[int, int]:
    """What descends from a process, without itself: each with its session."""
    known = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                text = Path("/proc", name, "stat").read_text(encoding="utf-8", errors="replace")
                state, parent, _, session, *_ = text.rpartition(")")[2].split()
                if state != "Z":
                    known[int(name)] = (int(parent), int(session))
    family, queue = {}, [process]
    while queue:
        one = queue.pop()
        children = {child: session for child, (parent, session) in known.items() if parent == one}
        family.update(children)
        queue += children
    return family


def end_left(command: int, mark: str, *, alone: bool) -> int:
    """Ends what a command that has ended left running, after a moment for helpers that end by themselves; gives how
    many there were. What took a session of its own is known to be that command's by the mark in its environment, or
    where no other command runs."""
    deadline = time.monotonic() + _HELPER_SECONDS
    while left := [
        one for one, session in _family(os.getpid()).items() if session == command or alone or _has_mark(one, mark)
    ]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    for process in left:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)
    return len(left)


def _has_mark(process: int, mark: str) -> bool:
    with contextlib.suppress(OSError):
        return bool(mark) and mark.encode() in Path(f"/proc/{process}/environ").read_bytes()
    return False


def end_all() -> None:
    """Ends all that descends from this process, also what was started meanwhile or has lost its parent."""
    deadline = time.monotonic() + 2.0
    while (family := _family(os.getpid())) and time.monotonic() < deadline:
        for one in family:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(one, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.005)
