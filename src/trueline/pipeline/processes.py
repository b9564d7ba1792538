"""Commands as processes: started, watched, ended with all that they started.

A command runs under a supervisor (``supervisor``), which keeps the limits and survives the tester just long enough to
end everything. Where a project allows it, a command may instead be run by an interpreter that has imported its
libraries already (``WarmWorker``); its limits are kept here.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trueline.pipeline import supervisor
from trueline.pipelines import StageStatus

_LOOK_SECONDS = 0.5
_SWEEP_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: its exit code (negative for a signal), why it was ended by us (empty where it was not),
    how long it took, the most memory it held, how many processes it left behind; how many bytes it printed, how many of
    them the log leaves out, and why the log has not all of the others (empty where it has)."""

    code: int
    why: str = ""
    seconds: float = 0.0
    peak_bytes: int = 0
    left: int = 0
    printed: int = 0
    left_out: int = 0
    lost: str = ""


class Running(Protocol):
    """A command that was started."""

    def poll(self) -> Ended | None:
        """How it ended; None while it runs."""

    def kill(self) -> None:
        """Ends it, with all that it started."""


class Limits(Protocol):
    """What a command may take."""

    @property
    def timeout(self) -> float | None: ...

    @property
    def memory(self) -> int | None: ...


class Supervised:
    """A command under a supervisor of its own."""

    def __init__(
        self,
        words: list[str],
        *,
        log: Path,
        environment: Mapping[str, str],
        folder: Path,
        limits: Limits,
    ) -> None:
        theirs, self._control = os.pipe()
        self._answer, answer = os.pipe()
        request = {
            "words": words,
            "folder": str(folder),
            "log": str(log),
            "timeout": limits.timeout,
            "memory": limits.memory,
            "control": theirs,
            "answer": answer,
        }
        self._started = time.monotonic()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", supervisor.__file__, json.dumps(request)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs, answer),
                env=dict(environment),
                start_new_session=True,  # Ctrl-C reaches the tester alone, which then ends everything in order
            )
        finally:
            os.close(theirs)
            os.close(answer)
        self._said = bytearray()
        os.set_blocking(self._answer, False)
        self._ended: Ended | None = None

    @property
    def pid(self) -> int:
        """The number of the supervisor."""
        return self._process.pid

    def poll(self) -> Ended | None:
        if self._ended is None and self._process.poll() is not None:
            self._ended = self._read()
            os.close(self._control)
            os.close(self._answer)
        return self._ended

    def kill(self) -> None:
        if self._ended is None:
            os.close(self._control)
            self._control = os.open(os.devnull, os.O_RDONLY)

    def _read(self) -> Ended:
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._answer, 1 << 16):
                self._said += chunk
        seconds = time.monotonic() - self._started
        try:
            answer = json.loads(self._said)
            return Ended(
                int(answer["code"]),
                str(answer["why"]),
                float(answer["seconds"]),
                int(answer["peak_bytes"]),
                int(answer["left"]),
                int(answer["printed"]),
                int(answer["left_out"]),
                str(answer["lost"]),
            )
        except (ValueError, KeyError):
            return Ended(self._process.returncode or 1, "its supervisor died", seconds)


def end_marked(token: str) -> int:
    """Ends all processes in whose environment a token stands; gives how many there were."""
    ended: set[int] = set()
    deadline = time.monotonic() + _SWEEP_SECONDS
    while (found := [pid for pid in _processes() if _has_token(pid, token)]) and time.monotonic() < deadline:
        ended.update(found)
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_SWEEP_SECONDS / 100)
    return len(ended)


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
    except OSError:  # not Linux
        return []


def _has_token(pid: int, token: str) -> bool:
    with contextlib.suppress(OSError):
        return token.encode() in Path(f"/proc/{pid}/environ").read_bytes()
    return False


class Started(Protocol):
    """A command that a warm worker started."""

    @property
    def pid(self) -> int: ...

    @property
    def peak_bytes(self) -> int: ...

    @property
    def left(self) -> int: ...

    @property
    def printed(self) -> int: ...

    @property
    def left_out(self) -> int: ...

    @property
    def lost(self) -> str: ...

    def poll(self) -> int | None: ...

    def kill(self) -> None: ...


class Warm:
    """A command that a warm worker runs: the limits are kept here."""

    def __init__(self, started: Started, limits: Limits) -> None:
        self._process = started
        self._limits = limits
        self._started = time.monotonic()
        self._why = ""
        self._peak = 0
        self._looked = -_LOOK_SECONDS
        self._ended: Ended | None = None

    def poll(self) -> Ended | None:
        if self._ended is not None:
            return self._ended
        seconds = time.monotonic() - self._started
        code = self._process.poll()
        if code is not None:
            ended = self._process
            self._ended = Ended(
                code, self._why, seconds, max(self._peak, ended.peak_bytes), ended.left, ended.printed,
                ended.left_out, ended.lost,
            )  # fmt: skip
            return self._ended
        if self._too_large(seconds):
            self._end("out of memory")
        elif self._limits.timeout is not None and seconds > self._limits.timeout:
            self._end("timed out")
        return None

    def _too_large(self, seconds: float) -> bool:
        """Whether it holds more memory than it may; looked at now and then, for that costs more than all the rest."""
        pid = self._process.pid
        if not pid or seconds - self._looked < _LOOK_SECONDS:
            return False
        self._looked = seconds
        held = supervisor.memory_of([pid, *supervisor.children_of(pid)])
        self._peak = max(self._peak, held)
        return self._limits.memory is not None and held > self._limits.memory

    def kill(self) -> None:
        self._end("ended by the tester")

    def _end(self, why: str) -> None:
        self._why = self._why or why
        self._process.kill()


def status_of(ended: Ended, unsupported: int) -> tuple[StageStatus, str]:
    """What the end of a command means, and the reason where it is not the command's own exit code."""
    if ended.why == "timed out":
        return StageStatus.TIMED_OUT, "ended after its time was up"
    if ended.why == "out of memory":
        return StageStatus.OUT_OF_MEMORY, "held more memory than it may"
    if ended.why:
        return StageStatus.CRASHED, ended.why
    if ended.code == 0:
        return StageStatus.DONE, ""
    if ended.code == unsupported:
        return StageStatus.UNSUPPORTED, ""
    number = -ended.code if ended.code < 0 else ended.code - 128 if 128 < ended.code <= 128 + 64 else 0
    if number:
        name = signal.Signals(number).name if number in signal.valid_signals() else f"signal {number}"
        more = ", perhaps for want of memory" if number == signal.SIGKILL else ""
        return StageStatus.CRASHED, f"killed by {name}{more}"
    return StageStatus.FAILED, f"exit code {ended.code}"
