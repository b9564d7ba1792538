"""One command, watched by a process of its own: nothing of it outlives its end, its limits, or the tester.

Run as a script by an interpreter without site packages, so that it starts in a few milliseconds; needs nothing but the
standard library. Its only argument is a JSON object {words, folder, log, timeout, memory, control, answer}: what to
execute, where, where its output goes, the limits in seconds and bytes (or null), and two descriptors. It ends the
command when the other end of ``control`` is closed, which happens by itself when the tester dies, and writes
{code, why, seconds, peak_bytes, left, printed, left_out, lost} to ``answer``.

What a command starts may put itself out of its process group (``setsid``, daemons). So this process declares itself
the one to which orphans are handed, and ends whatever descends from it. A mark in the environment would be lost where
a daemon empties its own, and a cgroup is not for everybody to make.

What it prints comes through a pipe, so that a log has a bound however fast the command prints.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterator

_SET_PARENT_DEATH_SIGNAL = 1
_SET_CHILD_SUBREAPER = 36
_LOOK_SECONDS = 0.1
_LATER_LOOK_SECONDS = 0.5
_EARLY_SECONDS = 5.0
"""So long memory is looked at often; what runs for longer changes more slowly."""
_END_LOOK_SECONDS = 0.02
_GRACE_SECONDS = 0.5
_HELPER_SECONDS = 1.0
_END_SECONDS = 5.0
LOG_BYTES = 8 << 20
"""Of an output that is longer than twice this, so much of its beginning is kept, and so much of its end."""
_CHUNK = 1 << 16
_LARGE_PIPE = 1 << 20
_SET_PIPE_SIZE = 1031


def children_of(pid: int) -> Iterator[int]:
    """All processes that descend from one, parents first."""
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        for child in _direct_children(parent):
            yield child
            waiting.append(child)


def _direct_children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                found += [int(word) for word in file.read().split()]
    return found


def memory_of(pids: list[int]) -> int:
    """Bytes that processes hold together. What several of them share is counted once, where there are several."""
    return sum(_shared_memory(pid) if len(pids) > 1 else _memory(pid) for pid in pids)


def _memory(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def _shared_memory(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            for line in file:
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        return _memory(pid)
    return 0


class Output:
    """What a command prints, on its way into a log of bounded size: the beginning at once, then a window of the end,
    which is written when the command has ended. A log that is deleted meanwhile is there again in the end; what a disk
    has no room for is dropped."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._log = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self.descriptor, self.theirs = os.pipe()
        os.set_blocking(self.descriptor, False)
        with contextlib.suppress(OSError):  # more than a user may have, or not Linux
            fcntl.fcntl(self.theirs, _SET_PIPE_SIZE, _LARGE_PIPE)
        self.open = True
        self.bytes = 0
        self._begun = 0
        self._end = bytearray()
        self.lost = ""

    def started(self) -> None:
        """The command has its own end of the pipe now."""
        os.close(self.theirs)

    def close(self) -> None:
        """Lets go of all but the command's own end, in a process that is the command."""
        for descriptor in (self._log, self.descriptor):
            os.close(descriptor)

    def read(self) -> None:
        """Takes what is there, but not for ever."""
        for _ in range(_LARGE_PIPE // _CHUNK):
            try:
                chunk = os.read(self.descriptor, _CHUNK)
            except BlockingIOError:
                return
            if not chunk:
                self.open = False
                return
            self._take(chunk)

    def finish(self) -> int:
        """Writes the end; gives how many bytes were left out between it and the beginning."""
        self.read()
        del self._end[: max(0, len(self._end) - LOG_BYTES)]
        left_out = self.bytes - self._begun - len(self._end)
        if left_out:
            self._write(f"\n[trueline: {left_out} bytes are left out here]\n".encode())
        self._write(bytes(self._end))
        self._put_back()
        self.close()
        return left_out

    def _take(self, chunk: bytes) -> None:
        self.bytes += len(chunk)
        beginning = chunk[: max(0, LOG_BYTES - self._begun)]
        self._begun += len(beginning)
        self._write(beginning)
        self._end += chunk[len(beginning) :]
        if len(self._end) > 2 * LOG_BYTES:
            del self._end[:-LOG_BYTES]

    def _write(self, content: bytes) -> None:
        try:
            while content:
                content = content[os.write(self._log, content) :]
        except OSError as error:
            self.lost = self.lost or str(error.strerror)

    def _put_back(self) -> None:
        if os.path.exists(self._path):
            return
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            content = os.pread(self._log, os.fstat(self._log).st_size, 0)
            with open(self._path, "xb") as file:
                file.write(content)


class Supervisor:
    """Starts the command and stays with it."""

    def __init__(self, request: dict[str, object]) -> None:
        self.words = [str(word) for word in _list(request["words"])]
        self.folder = str(request["folder"])
        self.log = str(request["log"])
        self.timeout = _number(request["timeout"])
        self.memory = _number(request["memory"])
        self.control = int(_number(request["control"]) or 0)
        self.peak = 0
        self.why = ""
        self.group = 0
        self.output = Output(self.log)

    def run(self) -> dict[str, object]:
        started = time.monotonic()
        self.group = pid = self._start()
        status, largest = self._wait(pid, started)
        seconds = time.monotonic() - started
        if not self.why:
            self._let_go()
        left = self._end_all(gently=False)
        left_out = self.output.finish()
        code = os.waitstatus_to_exitcode(status)
        return {
            "code": code,
            "why": self.why,
            "seconds": seconds,
            "peak_bytes": max(self.peak, largest * 1024),
            "left": left,
            "printed": self.output.bytes,
            "left_out": left_out,
            "lost": self.output.lost,
        }

    def _start(self) -> int:
        parent = os.getpid()
        pid = os.fork()
        if pid:
            self.output.started()
            return pid
        try:
            os.setsid()
            _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
            log = self.output.theirs
            for descriptor, stream in ((os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2)):
                os.dup2(descriptor, stream)
            os.chdir(self.folder)
            for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            os.execvp(self.words[0], self.words)
        except OSError as error:
            os.write(2, f"{self.words[0]}: {error.strerror}\n".encode())
        finally:
            os._exit(127)

    def _wait(self, pid: int, started: float) -> tuple[int, int]:
        """The status with which the command ended, and the kilobytes of its largest process."""
        watched = _descriptor_of(pid)
        next_look = started
        try:
            while True:
                listened = [self.control] if watched is None else [watched, self.control]
                listened += [self.output.descriptor] if self.output.open else []
                ready, _, _ = select.select(listened, [], [], self._patience(started))
                if self.output.descriptor in ready:
                    self.output.read()
                ended, status, usage = os.wait4(pid, os.WNOHANG)
                if ended:
                    return status, usage.ru_maxrss
                if self.control in ready and not os.read(self.control, 64):
                    self._give_up("ended by the tester", gently=False)
                if time.monotonic() >= next_look or self.why:  # not each time that it prints something
                    next_look = time.monotonic() + self._patience(started)
                    self._look(started)
                    self._reap(except_for=pid)
        finally:
            if watched is not None:
                os.close(watched)

    def _patience(self, started: float) -> float:
        if self.why:  # ended by us: what is left is to see it go
            return _END_LOOK_SECONDS
        seconds = time.monotonic() - started
        look = _LOOK_SECONDS if seconds < _EARLY_SECONDS else _LATER_LOOK_SECONDS
        return look if self.timeout is None else max(0.0, min(look, self.timeout - seconds))

    def _look(self, started: float) -> None:
        if self.why:
            return
        held = memory_of(list(children_of(os.getpid())))
        self.peak = max(self.peak, held)
        if self.memory is not None and held > self.memory:
            self._give_up("out of memory", gently=False)
        elif self.timeout is not None and time.monotonic() - started >= self.timeout:
            self._give_up("timed out", gently=True)

    def _give_up(self, why: str, *, gently: bool) -> None:
        self.why = self.why or why
        self._end_all(gently=gently)

    def _let_go(self) -> None:
        """Waits a moment for helpers that end by themselves once the command has; they may have to clean up."""
        deadline = time.monotonic() + _HELPER_SECONDS
        while time.monotonic() < deadline and self._alive():
            self.output.read()
            time.sleep(0.01)

    def _alive(self) -> list[int]:
        return [pid for pid in children_of(os.getpid()) if not _is_zombie(pid)]

    def _end_all(self, *, gently: bool) -> int:
        """Ends whatever descends from this process; gives how many there were at first."""
        first = len(self._alive())
        if not gently:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.group, signal.SIGKILL)
        deadline = time.monotonic() + _END_SECONDS
        kill_at = time.monotonic() + (_GRACE_SECONDS if gently else 0.0)
        told = False
        while time.monotonic() < deadline:
            alive = self._alive()
            if not alive:
                break
            final = time.monotonic() >= kill_at
            if final or not told:
                for pid in alive:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL if final else signal.SIGTERM)
                told = True
            self.output.read()
            time.sleep(0.01)
        return first

    def _reap(self, *, except_for: int) -> None:
        """Buries orphans that were handed to this process, but not the command: its end is waited for."""
        for pid in _direct_children(os.getpid()):
            if pid != except_for:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def _descriptor_of(pid: int) -> int | None:
    """What can be waited for beside other things until a process ends; None where the system has no such thing."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return True


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(AttributeError, OSError):  # Linux alone has it; elsewhere the process group must do
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def main() -> None:
    request = json.loads(sys.argv[1])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the tester says when to end
    _prctl(_SET_CHILD_SUBREAPER, 1)
    answer = Supervisor(request).run()
    with contextlib.suppress(OSError):  # the tester may be gone
        os.write(int(request["answer"]), json.dumps(answer).encode())


if __name__ == "__main__":
    main()
