"""What runs inside a worker process: reads jobs, announces each, does it, answers.

The coordinator speaks first: one line with the name of a *maker* (``module:function``) and its setup. The maker gives
the function that does a job. Messages are lines over a socket that nobody else knows of: a number and the job as JSON;
the answer as JSON and, after a tab, text that goes with it and that the coordinator need not read. Whatever user code
prints goes to the worker's log. A worker dies with its coordinator, even if that one is killed.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import importlib
import json
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from trueline.cases import Outcome, Status
from trueline.errors import UsageError
from trueline.replay.board import Board
from trueline.replay.serial import outcome_to_json

Work = Callable[[Any], Any]
"""Does one job: JSON in, JSON or an ``Answer`` out."""

Maker = Callable[[dict[str, Any], Callable[[str], None]], Work]
"""Makes the function that does jobs, from the setup and a function that announces the stage of a job."""

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """The life of a worker. The last words of the command line: descriptors of socket and board, parent's id."""
    link, board, parent = (int(word) for word in sys.argv[-3:])
    die_with(parent)
    settle()
    Server(socket.socket(fileno=link), Board(board)).serve()


def settle() -> None:
    """A crash is expected here: it is to leave a stack, and no core, which may fill the disk."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


_KEPT = 2 << 30
"""Bytes of memory that a worker holds on to between two cases."""
_C_LIBRARY = ctypes.CDLL(None)


class Answer(NamedTuple):
    """An answer with something that whoever asked keeps without reading it: text in one line, without tabs, such as
    JSON."""

    content: Any
    attachment: str


class Spent(Exception):
    """A job ended so that this process can do no other: its device is lost to it. The message says how."""


class Server:
    """Serves jobs until the coordinator hangs up."""

    def __init__(self, link: socket.socket, board: Board) -> None:
        self._link = link
        self._board = board
        self._process = os.getpid()

    def serve(self) -> None:
        """Makes what does the jobs, and does them."""
        lines = self._link.makefile("rb")
        head = json.loads(next(lines))
        work, fault = make_work(head, self._board.enter)
        gc.collect()
        gc.freeze()  # what was imported stays: no collection is to look at it again
        self._serve(lines, head, work, fault)

    def serve_with(self, work: Work | None, fault: str) -> None:
        """Does jobs with what was made before, or tells why there is nothing to do them with."""
        lines = self._link.makefile("rb")
        head = next(lines, None)
        if head is not None:
            self._serve(lines, json.loads(head), work, fault)

    def _serve(self, lines: Iterable[bytes], head: dict[str, Any], work: Work | None, fault: str) -> None:
        if work is None:
            self._send({"unable": fault})
            return
        _limit_memory(head["memory"])
        kept = min(_KEPT, (head["memory"] or 4 * _KEPT) // 4)
        self._send({"ready": self._process})
        for line in lines:
            text, _, payload = line.partition(SEPARATOR)
            number = int(text)
            self._board.begin(number)
            begun = time.monotonic()
            answer = attempt(work, json.loads(payload))
            seconds = round(time.monotonic() - begun, 6)
            if os.getpid() != self._process:  # user code forked and the child came back here: it has no business here
                os._exit(0)
            attachment = answer.pop("attachment", "")
            self._send({"number": number, "stage": self._board.stage, "seconds": seconds, **answer}, attachment)
            self._board.end()
            give_back_memory(kept)
            if "outcome" in answer:  # no memory, no device, or an end that was asked for: a fresh worker goes on
                return

    def _send(self, message: dict[str, Any], attachment: str = "") -> None:
        text = _ENCODER.encode(message)
        self._link.sendall((f"{text}\t{attachment}\n" if attachment else f"{text}\n").encode())


SEPARATOR = b"\t"
_ENCODER = json.JSONEncoder(separators=(",", ":"), check_circular=False)


def make_work(head: Mapping[str, Any], announce: Callable[[str], None]) -> tuple[Work | None, str]:
    """What does the jobs, warmed up where it knows how (``work.warm_up``); or None, and why there is none."""
    try:
        work = resolve(head["maker"])(head["setup"], announce)
        warm_up = getattr(work, "warm_up", None)
        if warm_up is not None:
            warm_up()
    except Exception as error:
        return None, one_line(error)
    return work, ""


def attempt(work: Work, payload: Any) -> dict[str, Any]:
    """Does a job; what it raises is an outcome too."""
    try:
        found = work(payload)
        return found._asdict() if isinstance(found, Answer) else {"content": found}
    except MemoryError as error:
        return _ended(Status.OUT_OF_MEMORY, one_line(error))
    except Spent as error:
        return _ended(Status.CRASHED, str(error))
    except SystemExit as error:
        return _ended(Status.CRASHED, f"it ended the process: sys.exit({error.code!r})")
    except Exception as error:
        return {"fault": one_line(error)}


def resolve(maker: str) -> Maker:
    """The function behind ``module:function``."""
    module, _, name = maker.partition(":")
    found: Maker = getattr(importlib.import_module(module), name)
    return found


def one_line(error: BaseException) -> str:
    """An exception in one line of bounded length."""
    text = " ".join(str(error).split())
    name = type(error).__name__
    if isinstance(error, UsageError):
        return text[:400]
    return f"{name}: {text}"[:400] if text else name


def _ended(status: Status, reason: str) -> dict[str, Any]:
    return {"outcome": outcome_to_json(Outcome(status, reason))}


def die_with(parent: int) -> None:
    """Asks the system to kill this process when its parent ends; only Linux can. Elsewhere the closed socket ends it,
    unless it hangs."""
    if sys.platform == "linux":
        _C_LIBRARY.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we asked
        os._exit(1)


def _limit_memory(allowed: int | None) -> None:
    """From here on at most so many bytes more may be allocated; beyond that allocations fail, as they would on a
    smaller machine. Not the address space is limited: devices reserve much of it without using it."""
    if allowed is None or sys.platform != "linux":
        return
    used = memory_of(os.getpid()).allocated
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = used + allowed
    if hard == resource.RLIM_INFINITY or wanted < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))


class Memory:
    """What a process has allocated and what of it, not counting mapped files, is really in memory. In bytes."""

    __slots__ = ("allocated", "resident")

    def __init__(self, allocated: int, resident: int) -> None:
        self.allocated = allocated
        self.resident = resident


def give_back_memory(kept: int) -> None:
    """Returns to the system what a large case left; so many bytes are kept for the next."""
    if memory_of(os.getpid()).resident > kept:
        trim = getattr(_C_LIBRARY, "malloc_trim", None)
        if trim is not None:
            trim(0)


def memory_of(process: int) -> Memory:
    """Asks the system; zeros where it does not tell."""
    try:
        with open(f"/proc/{process}/statm", "rb") as file:
            _, resident, shared, _, _, data, _ = (int(word) for word in file.read().split())
    except (OSError, ValueError):
        return Memory(0, 0)
    page = resource.getpagesize()
    return Memory(data * page, (resident - shared) * page)


if __name__ == "__main__":
    main()
