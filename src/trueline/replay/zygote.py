"""A process that has imported everything once, and of which workers are copies: a new one is there in milliseconds.

    zygote = Zygote(head, environment)
    worker = Worker(head, zygote.start)

The zygote makes what does the jobs, does what warms it up, and then waits for orders: for each it forks. Each message
is one packet: orders carry the descriptors of the new worker's socket, board and log; what comes back are the process
of the worker and, later, the code with which it ended. A copy has none of the threads of its original, so a zygote in
which threads run makes no copies: it says so, and workers are fresh interpreters. All of it dies with its coordinator.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from trueline.replay.board import Board
from trueline.replay.process import Handle, search_path
from trueline.replay.serve import Server, Work, die_with, make_work, settle

_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from trueline.replay.zygote import main; main()"
_PACKET = 1 << 16
_DESCRIPTORS = 3
_LOST = -int(signal.SIGKILL)
"""The code of workers whose zygote is gone: they are killed with it."""


class Zygote:
    """The coordinator's side. Nothing here waits, but for processes that are known to end."""

    def __init__(self, head: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        words = [sys.executable, "-c", _START, json.dumps(search_path()), str(theirs.fileno()), str(os.getpid())]
        with theirs:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, **environment},
                start_new_session=True,
            )
        self._control.send(json.dumps({"maker": head["maker"], "setup": head["setup"]}).encode())
        self._unborn: list[_Forked] = []
        self._living: dict[int, _Forked] = {}
        self.usable = True

    def start(self, link: int, board: int, log: int) -> Handle:
        """Orders a copy; its process is known a little later."""
        made = _Forked(self)
        self._unborn.append(made)
        try:
            socket.send_fds(self._control, [b"fork"], [link, board, log])
        except OSError:
            self._lose()
        return made

    def listen(self, timeout: float = 0.0) -> None:
        """Hears what the zygote has to say; with a timeout, waits so long for the first word."""
        while self._control.fileno() >= 0 and select.select([self._control], [], [], timeout)[0]:
            timeout = 0.0
            try:
                packet = self._control.recv(_PACKET)
            except OSError:
                packet = b""
            if not packet:
                self._lose()
                return
            self._heard(json.loads(packet))

    def _heard(self, message: dict[str, Any]) -> None:
        if "born" in message:
            made = self._unborn.pop(0)
            made.process = message["born"]
            self._living[made.process] = made
        elif "ended" in message:
            ended = self._living.pop(message["ended"], None)
            if ended is not None:
                ended.code = message["code"]
        else:  # it cannot make copies, of which it was ordered one
            self.usable = False
            self._unborn.pop(0).code = 0

    def _lose(self) -> None:
        self.usable = False
        self._control.close()
        for made in (*self._unborn, *self._living.values()):
            made.code = _LOST
        self._unborn.clear()
        self._living.clear()

    def close(self) -> None:
        """Ends the zygote; its copies end with it."""
        self._lose()
        self._process.kill()
        self._process.wait()


class _Forked:
    """A copy, or one that was ordered."""

    def __init__(self, zygote: Zygote) -> None:
        self._zygote = zygote
        self.process = 0
        self.code: int | None = None

    @property
    def pid(self) -> int:
        if not self.process:
            self._zygote.listen()
        return self.process

    def poll(self) -> int | None:
        if self.code is None:
            self._zygote.listen()
        return self.code

    def wait(self, timeout: float | None = None) -> int:
        end = None if timeout is None else time.monotonic() + timeout
        while self.code is None:
            if end is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired("a worker", timeout or 0.0)
            self._zygote.listen(0.1)
        return self.code


# Inside the zygote


def main() -> None:
    """The life of a zygote. The last words of the command line: descriptor of the control socket, parent's id."""
    control, parent = (int(word) for word in sys.argv[-2:])
    settle()
    die_with(parent)
    _Nest(socket.socket(fileno=control)).live()


class _Nest:
    """Makes the work once and copies this process for each order."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._board: Board | None = None
        self._woken, waker = socket.socketpair()
        for end in (self._woken, waker):
            end.setblocking(False)
        self._waker = waker

    def live(self) -> None:
        head = json.loads(self._control.recv(_PACKET))
        work, fault = make_work(head, self._announce)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # the wakeup descriptor needs a handler to be written to
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        gc.collect()
        gc.freeze()  # what lives now lives for ever: no collection is to touch, and so to copy, its pages
        while True:
            ready, _, _ = select.select([self._control, self._woken], [], [])
            with contextlib.suppress(BlockingIOError):
                while self._woken.recv(64):
                    pass
            self._reap()
            if self._control in ready:
                order, descriptors, _, _ = socket.recv_fds(self._control, 16, _DESCRIPTORS)
                if not order:  # the coordinator has hung up
                    return
                self._copy(work, fault, descriptors)

    def _announce(self, stage: str) -> None:
        if self._board is not None:
            self._board.enter(stage)

    def _reap(self) -> None:
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not process:
                return
            self._tell({"ended": process, "code": os.waitstatus_to_exitcode(status)})

    def _copy(self, work: Work | None, fault: str, descriptors: list[int]) -> None:
        if _threads() > 1:
            self._tell({"unable": "threads are running"})
        else:
            parent = os.getpid()
            child = os.fork()
            if not child:
                self._be_worker(work, fault, descriptors, parent)
            self._tell({"born": child})
        for descriptor in descriptors:
            os.close(descriptor)

    def _be_worker(self, work: Work | None, fault: str, descriptors: list[int], parent: int) -> None:
        """The copy's life; does not return."""
        code = 1
        try:
            link, board, log = descriptors
            die_with(parent)
            os.setsid()
            os.dup2(log, 2)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._control.close()
            self._board = Board(board)
            Server(socket.socket(fileno=link), self._board).serve_with(work, fault)
            code = 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 1
        finally:
            os._exit(code)

    def _tell(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self._control.send(json.dumps(message).encode())


def _threads() -> int:
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 2


def can_fork() -> bool:
    """Whether this system has what a zygote needs: Linux says which threads run, and kills children with parents."""
    return sys.platform == "linux" and hasattr(socket, "SOCK_SEQPACKET")


if __name__ == "__main__":
    main()
