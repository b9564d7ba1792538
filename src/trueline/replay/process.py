"""One worker process as its coordinator sees it: a socket, a board, a log, and a way to end it for good."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from trueline.replay.board import Board
from trueline.replay.serve import SEPARATOR
from trueline.replay.tasks import Written

_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from trueline.replay.serve import main; main()"
_CHUNK = 1 << 18
_LOG_BYTES = 1 << 20
_WAIT_SECONDS = 10.0


class Handle(Protocol):
    """A process that was started. ``pid`` is 0 while nobody knows it yet."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None:
        """The code with which it ended, negative for a signal; None while it lives."""

    def wait(self, timeout: float | None = None) -> int:
        """The same once it has ended; raises ``subprocess.TimeoutExpired`` where that takes too long."""


Starter = Callable[[int, int, int], Handle]
"""Starts a process that serves jobs, given the descriptors of its socket, its board and its log."""


class Worker:
    """A process that does the jobs it is sent. Nothing here waits for it."""

    def __init__(self, head: Mapping[str, Any], start: Starter) -> None:
        self.board = Board.make()
        self.link, theirs = socket.socketpair()
        self._log = tempfile.TemporaryFile(prefix="trueline-worker-")
        fcntl.fcntl(self._log, fcntl.F_SETFL, os.O_APPEND)  # so that it can be emptied while it is written
        with theirs:
            self.process = start(theirs.fileno(), self.board.descriptor, self._log.fileno())
        self.link.setblocking(False)
        self.hung_up = False
        self._outgoing = bytearray()
        self._incoming = b""
        self._send(json.dumps(dict(head)))
        self.flush()

    @property
    def unsent(self) -> bool:
        return bool(self._outgoing)

    def send(self, number: int, payload: Any) -> None:
        """Puts a job down for it; ``flush`` sends it."""
        text = payload if isinstance(payload, Written) else json.dumps(payload, separators=(",", ":"))
        self._send(f"{number}\t{text}")

    def _send(self, line: str) -> None:
        self._outgoing += line.encode()
        self._outgoing += b"\n"

    def flush(self) -> None:
        """Sends what fits now."""
        try:
            while self._outgoing:
                del self._outgoing[: self.link.send(self._outgoing)]
        except BlockingIOError:
            pass
        except OSError:  # it is gone; reading says so too
            self._outgoing.clear()

    def receive(self) -> list[dict[str, Any]]:
        """The whole messages that have arrived; ``attachment`` is what came with one."""
        chunks = [self._incoming]
        try:
            while chunk := self.link.recv(_CHUNK):
                chunks.append(chunk)
            self.hung_up = True
        except BlockingIOError:
            pass
        except OSError:
            self.hung_up = True
        *lines, self._incoming = b"".join(chunks).split(b"\n")
        return [_message(line) for line in lines]

    def gone(self) -> bool:
        return self.process.poll() is not None

    def kill(self) -> None:
        """Ends the process and all that it started."""
        pid = self.process.pid
        if not pid:  # not born yet; without its socket it ends at once
            return
        try:
            os.killpg(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            with contextlib.suppress(ProcessLookupError):  # it may not have a group of its own yet
                if self.process.poll() is None:
                    os.kill(pid, signal.SIGKILL)

    def wait(self) -> int:
        """The code with which it ended; a process that has hung up but does not end is killed."""
        try:
            return self.process.wait(_WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return self.process.wait()

    def last_words(self) -> str:
        """The line of its log that most likely says why it died."""
        size = os.fstat(self._log.fileno()).st_size
        text = os.pread(self._log.fileno(), _CHUNK, max(0, size - _CHUNK)).decode(errors="replace")
        before, fatal, _ = text.rpartition("Fatal Python error")  # what follows is a stack of ours
        lines = [line.strip() for line in (before if fatal else text).splitlines() if line.strip()]
        return lines[-1][:200] if lines else ""

    def close(self) -> None:
        """Ends it and frees what it held."""
        self.link.close()
        self.kill()
        self.process.wait()
        self.board.close()
        self._log.close()

    def trim_log(self) -> None:
        """User code may complain without end; only the end of it is of use."""
        if os.fstat(self._log.fileno()).st_size > _LOG_BYTES:
            with contextlib.suppress(OSError):
                os.ftruncate(self._log.fileno(), 0)


def _message(line: bytes) -> dict[str, Any]:
    head, separator, attachment = line.partition(SEPARATOR)
    message: dict[str, Any] = json.loads(head)
    if separator:
        message["attachment"] = attachment.decode()
    return message


def interpreter(environment: Mapping[str, str]) -> Starter:
    """Starts each worker as a fresh interpreter."""

    def start(link: int, board: int, log: int) -> Handle:
        words = [sys.executable, "-c", _START, json.dumps(search_path()), str(link), str(board), str(os.getpid())]
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # what user code prints would drown what a dying process says
            stderr=log,
            pass_fds=(link, board),
            env={**os.environ, **environment},
            start_new_session=True,  # so that what it starts can be ended with it, and Ctrl-C reaches us alone
        )

    return start


def search_path() -> list[str]:
    """Where the worker is to look for modules: where this process does, and in the current folder, last, so that a
    file there can be given as an override but cannot take the place of a library."""
    here = os.getcwd()
    path = [entry for entry in sys.path if entry not in ("", here)]
    return [*path, here]
