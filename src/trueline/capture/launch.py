"""Captures a program that is not changed at all: ``trueline capture -- python train.py``.

The program runs as a child process. A ``sitecustomize`` of ours, first on its path, arms the capture: it starts as
soon as a framework has been imported, before the program's own code can use it; another one that is imported later is
recorded too. Children of the program, the workers of torchrun for example, inherit this, and each process that is a
rank writes its own part of the Run; other processes (data loader workers, compile workers) are left alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from trueline.errors import UsageError

VARIABLE = "TRUELINE_CAPTURE"
"""Holds the options of the capture, as JSON, in the environment of the program."""

_HELPERS = (
    "multiprocessing", "torch._inductor", "torchrun", "torch.distributed.run", "torch.distributed.launch",
    "paddle.distributed.launch", "fleetrun",
)  # fmt: skip
_RANKS = ("RANK", "PADDLE_TRAINER_ID")
"""What launchers say to the processes that they start."""
_FRAMEWORKS = ("torch", "paddle")
_CAPTURE = "trueline.capture.session:capture"
_HOOK_FOLDER = Path(__file__).parent / "hook"


def run_command(argv: list[str], options: dict[str, Any], door: str = _CAPTURE) -> int:
    """Runs a command with a capture in it; gives the command's exit code. ``options`` are those of ``capture``, with
    ``out``, and ``seed`` and ``deterministic`` for ``seed_all``. ``door`` names what is called in the program instead
    of ``capture``: a function of trueline's that takes a path and options, and gives something that can ``start()``."""
    if not argv:
        raise UsageError("no command given; write it after --, as in: trueline capture --out runs/a -- python train.py")
    path = Path(options["out"])
    if path.exists() and any(path.iterdir() if path.is_dir() else [path]):
        raise UsageError(f"{path} exists already; choose another --out or remove it")
    environment = dict(os.environ)
    environment[VARIABLE] = json.dumps({**options, "out": str(path.absolute()), "door": door})
    source = str(Path(__file__).parents[2])
    environment["PYTHONPATH"] = os.pathsep.join(
        part for part in (str(_HOOK_FOLDER), source, environment.get("PYTHONPATH", "")) if part
    )
    try:
        with subprocess.Popen(argv, env=environment) as process, _signals_left_to(process):
            return process.wait()
    except FileNotFoundError:
        raise UsageError(f"cannot run {argv[0]!r}: no such program") from None
    except PermissionError:
        raise UsageError(f"cannot run {argv[0]!r}: not executable") from None


@contextlib.contextmanager
def _signals_left_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Leaves it to the program what a signal means. Ctrl-C reaches it without us, and it may well go on; what is sent
    to us alone, to end us, is handed on."""

    def hand_on(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)

    if threading.current_thread() is not threading.main_thread():  # only there can signals be asked for
        yield
        return
    ways = {signal.SIGINT: lambda number, frame: None, signal.SIGTERM: hand_on}
    if hasattr(signal, "SIGHUP"):
        ways[signal.SIGHUP] = hand_on
    # What was ignored when we began (nohup) stays so: the program has inherited that.
    before = {number: signal.getsignal(number) for number in ways}
    try:
        for number, way in ways.items():
            if before[number] is not signal.SIG_IGN:
                signal.signal(number, way)
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)


def arm() -> None:
    """Called in the child before the program starts: waits for a framework to be imported, then starts the capture."""
    text = os.environ.get(VARIABLE)
    if not text or _is_helper_process():
        return
    options = json.loads(text)
    wanted = options.get("framework", "auto")
    sys.meta_path.insert(0, _WaitForFramework(options, list(_FRAMEWORKS) if wanted == "auto" else [wanted]))


class _WaitForFramework:
    """Sees the import of a framework coming, and starts the capture when it is done."""

    def __init__(self, options: dict[str, Any], names: list[str]) -> None:
        self._options = options
        self._names = names
        self._capture: Any = None

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self._names:
            return None
        self._names.remove(name)  # before we look for it, which asks us again
        import importlib.util

        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_start(module: Any) -> None:
            execute(module)
            self._loaded(name)

        spec.loader.exec_module = execute_and_start  # type: ignore[method-assign]
        return spec

    def _loaded(self, name: str) -> None:
        if self._capture is None:
            self._capture = _start({**self._options, "framework": name})
        else:
            _also(self._capture, name, self._options)


def _start(options: dict[str, Any]) -> Any:
    """Starts the capture in this process; a fault of ours is a warning, never the end of the program."""
    options = dict(options)
    told = options.pop("told", "")
    if not _claims_rank():
        return None
    from trueline.capture.saying import said, say
    from trueline.capture.seeds import seed_all
    from trueline.store.interrupts import from_handler

    seed, deterministic = options.pop("seed", None), options.pop("deterministic", False)
    try:
        if seed is not None or deterministic:
            seed_all(1234 if seed is None else seed, deterministic)
        opened = _opened(options.pop("door", _CAPTURE))
        started = opened(options.pop("out"), **options).start()
    except Exception as error:
        if from_handler(error):
            raise
        _tell(told, said(error))
        say(f"trueline records nothing, the program goes on: {said(error)}")
        return None
    _tell(told, getattr(started, "nothing_because", "") or "imported")
    return started


def _tell(path: str, text: str) -> None:
    """Has whoever started the program know how the capture began here: one line, from whichever process."""
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(" ".join(text.split()) + "\n")
    except OSError:
        return


def _opened(door: str) -> Any:
    """The function that a name such as ``trueline.capture.session:capture`` stands for."""
    import importlib

    module, _, name = door.partition(":")
    if not module.startswith("trueline."):
        raise UsageError(f"{door!r} is no function of trueline")
    return getattr(importlib.import_module(module), name)


def _also(captured: Any, name: str, options: dict[str, Any]) -> None:
    """Has a running capture record a framework that was imported later; seeded like the first."""
    from trueline.capture.saying import said, say
    from trueline.frameworks import machine

    seed, deterministic = options.get("seed"), options.get("deterministic", False)
    try:
        if seed is not None or deterministic:
            machine.adapter(name).seed_all(1234 if seed is None else seed, deterministic)
        captured.also(name)
    except Exception as error:
        say(f"trueline does not record {name}, the program goes on: {said(error)}")


def _is_helper_process() -> bool:
    """Whether this is a process that Python or a framework started for itself, with ``-c from multiprocessing…``."""
    line = " ".join(sys.orig_argv)
    return any(word in line for word in _HELPERS)


def _claims_rank() -> bool:
    """A launcher gives each worker a rank of its own. Otherwise the first process that imports a framework is the
    program; what it starts later inherits this mark and is left alone."""
    mark = "TRUELINE_CAPTURED_BY"
    rank = next((f"rank{os.environ[name]}" for name in _RANKS if name in os.environ), "")
    owner = rank or "program"
    if os.environ.get(mark) == owner:
        return False
    os.environ[mark] = owner
    return True
