"""Commands of a pipeline that start warm: as copies of a process which has imported the framework already.

    with WarmWorker("python3", cwd=project) as worker:
        started = worker.start(["infer.py", "--batch-size=4"], log=folder / "log.txt", environment={...})
        started.wait(60.0)

A ``Started`` has the shape of a ``Popen``: ``pid`` (0 until it is known), ``poll``, ``wait``, ``kill`` (its whole
group), and ``peak_bytes`` once it has ended; ``took`` says that it was given a model which the warm process had read
for it. What cannot be a copy is refused with the reason and is run as a plain process.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from trueline.errors import TruelineError

_WORKER = Path(__file__).with_name("infer_worker.py")
_SHELL = re.compile(r"[|&;<>()$`*?\[\]{}~#\n]")
_OURS = "TRUELINE_"
_CHUNK = 1 << 16
_LOST = -int(signal.SIGKILL)
"""The code of commands whose worker is gone: they are killed with it."""
_CLOSE_SECONDS = 5.0
_BIRTH_SECONDS = 300.0
"""So long a command may wait for the warm process, which imports and reads what the command needs."""


class WarmRefused(TruelineError):
    """A command cannot be a copy of a warm process; the message says why. It is to be run as a plain process."""


def warm_words(line: str, python: str) -> list[str] | None:
    """The words behind the interpreter of a command line that a copy can do: a script, or ``-m`` and a module, with
    arguments. None where the line needs a shell, sets variables, or is for another interpreter."""
    if _SHELL.search(line):
        return None
    try:
        words = shlex.split(line)
    except ValueError:
        return None
    if len(words) < 2 or _found(words[0]) is None or _found(words[0]) != _found(python):
        return None
    is_module = words[1] == "-m" and len(words) > 2
    return words[1:] if is_module or words[1].endswith(".py") else None


def _found(python: str) -> str | None:
    """Where an interpreter lies, without following links: those of virtual environments lead to the same file."""
    path = shutil.which(python)
    return None if path is None else os.path.abspath(path)


class Started:
    """A command that was ordered."""

    def __init__(self, worker: WarmWorker) -> None:
        self._worker = worker
        self._pid = 0
        self.returncode: int | None = None
        self.peak_bytes = 0
        self.took = False
        self.left = self.printed = self.left_out = 0
        self.lost = ""
        self.refused = ""

    @property
    def pid(self) -> int:
        """Its process, and its group; 0 while it is not known."""
        if not self._pid and self.returncode is None:
            self._worker.listen()
        return self._pid

    def poll(self) -> int | None:
        """The code with which it ended, negative for a signal; None while it lives."""
        if self.returncode is None:
            self._worker.listen()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The same once it has ended; raises ``subprocess.TimeoutExpired`` where that takes too long."""
        end = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            left = 0.1 if end is None else end - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired("a warm command", timeout or 0.0)
            self._worker.listen(min(left, 0.1))
        return self.returncode

    def kill(self) -> None:
        """Ends it with all of its group."""
        if self.pid and self.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)

    def heard(self, message: Mapping[str, Any]) -> None:
        """What the worker says about it."""
        if "born" in message:
            self._pid = message["born"]
        elif "refused" in message:
            self.refused, self.returncode = message["refused"], 0
        else:
            self.returncode, self.peak_bytes = message["ended"], message["peak_bytes"]
            self.took, self.left, self.lost = message["took"], message["left"], message["lost"]
            self.printed, self.left_out = message["printed"], message["left_out"]

    def lose(self) -> None:
        """The worker is gone, and this with it."""
        if self.returncode is None:
            self.returncode = _LOST


class WarmWorker:
    """A process of which commands are copies. ``python`` is the interpreter of the commands, ``preload`` what it
    imports at once (what a script imports is found without), ``environment`` what is added to our own. With ``learn``
    what commands import while they run is imported for those that follow, with ``share`` models are read once for all
    commands that read the same."""

    def __init__(
        self,
        python: str = sys.executable,
        *,
        preload: Sequence[str] = (),
        cwd: str | os.PathLike[str] = ".",
        environment: Mapping[str, str] | None = None,
        learn: bool = True,
        share: bool = True,
    ) -> None:
        found = _found(python)
        if found is None:
            raise WarmRefused(f"there is no interpreter {python!r} on the search path")
        if not can_copy():
            raise WarmRefused("only Linux says which threads run in a process, and lets one adopt orphans")
        self._cwd = Path(cwd).resolve()
        self._environment = {**os.environ, **(environment or {})}
        self._link, theirs = socket.socketpair()
        asked = [word for word, wanted in (("--learn", learn), ("--share", share)) if wanted]
        with theirs:
            self._process = subprocess.Popen(
                [found, str(_WORKER), str(theirs.fileno()), *asked],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                cwd=self._cwd,
                env=self._environment,
                start_new_session=True,  # Ctrl-C is for the tester, which then closes the socket
            )
        self._orders: dict[int, Started] = {}
        self._number = 0
        self._incoming = b""
        self.usable = True
        self.spoilt = False
        """Whether it has refused a command for what it is, not for what the command is."""
        if preload:
            self._send({"preload": list(preload)})

    def start(
        self, words: Sequence[str], *, log: str | os.PathLike[str], environment: Mapping[str, str] | None = None
    ) -> Started:
        """Orders a command, and waits until it is born or refused. Variables that libraries may have read when they
        were imported cannot be changed for a copy: only those that begin with ``TRUELINE_`` can."""
        environment = environment or {}
        changed = [name for name, value in environment.items() if self._environment.get(name) != value]
        fixed = sorted(name for name in changed if not name.startswith(_OURS))
        if fixed:
            raise WarmRefused(f"variables that are read at import differ from the worker's: {', '.join(fixed)}")
        if not self.usable:
            raise WarmRefused("the warm process has ended")
        self._number += 1
        made = self._orders[self._number] = Started(self)
        order = {"order": self._number, "words": list(words), "log": str(Path(log).resolve()), "cwd": str(self._cwd)}
        self._send({**order, "environment": dict(environment)})
        deadline = time.monotonic() + _BIRTH_SECONDS
        while not made.pid and made.returncode is None:
            self.listen(0.1)
            if time.monotonic() > deadline:
                self.close()
                raise WarmRefused(f"the warm process did not answer within {_BIRTH_SECONDS:g} s")
        if made.refused:
            self.spoilt = True
            raise WarmRefused(made.refused)
        return made

    def listen(self, timeout: float = 0.0) -> None:
        """Hears what the worker has to say; with a timeout, waits so long for the first word."""
        while self._link.fileno() >= 0 and select.select([self._link], [], [], timeout)[0]:
            timeout = 0.0
            try:
                chunk = self._link.recv(_CHUNK)
            except OSError:
                chunk = b""
            if not chunk:
                self._lose()
                return
            *lines, self._incoming = (self._incoming + chunk).split(b"\n")
            for line in lines:
                self._heard(json.loads(line))

    def _heard(self, message: Mapping[str, Any]) -> None:
        made = self._orders[message["order"]]
        made.heard(message)
        if made.returncode is not None:
            del self._orders[message["order"]]

    def _send(self, message: Mapping[str, Any]) -> None:
        try:
            self._link.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self._lose()

    def _lose(self) -> None:
        self.usable = False
        self._link.close()
        for made in self._orders.values():
            made.lose()
        self._orders.clear()

    def close(self) -> None:
        """Ends the worker and whatever descends from it."""
        self._lose()
        try:
            self._process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> WarmWorker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def can_copy() -> bool:
    """Whether this system has what a warm worker needs."""
    return sys.platform == "linux" and os.path.isdir("/proc/self/task")
