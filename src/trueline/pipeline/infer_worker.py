"""A process that has imported a framework once, and of which the commands of a pipeline are copies.

    python infer_worker.py DESCRIPTOR [--learn] [--share]     (started by ``trueline.pipeline.variants.WarmWorker``)

A copy is the command itself: the script runs as ``__main__`` with its arguments, in its own process group, with its own
log and variables, and no command sees another's state. This file needs nothing but Python: it is run by the interpreter
of the project that is tested, which need not have trueline. Before the first copy is made, whatever its script imports
at its top is imported. With ``--learn`` what that copy imported later besides is imported for those that follow, with
``--share`` the models that it reads are read for them (``warm_loads``). No device may be woken here: a copy could not
use it.

The socket carries lines of JSON. Orders: {"order", "words", "log", "cwd", "environment"}, where words are a script, or
``-m`` and a module, with arguments. Answers: {"order", "born"} or {"order", "refused"} with the reason (threads run
here, of which a copy would have none), later {"order", "ended", "peak_bytes", "took", "left", "printed", "left_out",
"lost"}: whether it was given a model that was read here, how many processes it left behind, and what became of what it
printed, which comes through a pipe into a log with a bound (``supervisor.Output``). When the socket closes, because the
tester is done or was killed, all that descends from this process is ended, and so is it.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import ctypes
import gc
import importlib
import importlib.util
import json
import os
import random
import runpy
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

_PARENT_DIES, _REAP_ORPHANS = 1, 36
_CHUNK = 1 << 16
_NEVER_EARLY = frozenset(("__main__", "__mp_main__", "antigravity", "this", "sitecustomize", "usercustomize"))

_HOUSEKEEPING = {
    "paddle.base.libpaddle": ("clear_executor_cache", "clear_device_manager", "clear_kernel_factory"),
    "paddle.base.libpaddle.pir": ("clear_cinn_compilation_cache",),
}
"""What libraries do at the end for the sake of memory alone. A copy shares that memory: to free it piece by piece would
be to copy it first."""
_ASLEEP = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
"""With these variables libraries find out which devices there are without waking them, as some do when imported."""
_PROBE = "trueline.pipeline.probe"
_PROBINGS = {"torch": "trueline.frameworks.torch.probing", "paddle": "trueline.frameworks.paddle.probing"}

Order = Mapping[str, Any]


class Nest:
    """Takes orders and makes copies of this process. ``loads`` is the module ``warm_loads``, None to share no model;
    ``learns`` says whether imports of the copies are imported here too."""

    def __init__(self, link: socket.socket, loads: Any = None, *, learns: bool = True) -> None:
        self._link = link
        self._incoming = b""
        self._calm = 1  # how many threads this process may have and still be copied
        self._known: set[str] = set()
        self._living: dict[int, tuple[Order, int]] = {}  # process -> its order, the file in which it tells its imports
        self._outputs: dict[int, Any] = {}
        self._learns = learns
        self._loads = loads
        self._kept = None if loads is None else loads.Kept()
        self._habits = None if loads is None else loads.Habits()
        self._took: set[int] = set()
        self._woken, self._waker = socket.socketpair()
        self._told, self._teller = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        for end in (self._woken, self._waker, self._told):
            end.setblocking(False)

    def live(self) -> None:
        """Serves until the tester hangs up."""
        signal.signal(signal.SIGCHLD, lambda *_: None)  # the descriptor below needs a handler to be written to
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        while True:
            outputs = {one.descriptor: one for one in self._outputs.values() if one.open}
            ready, _, _ = select.select([self._link, self._woken, self._told, *outputs], [], [])
            for descriptor in outputs.keys() & ready:
                outputs[descriptor].read()
            with contextlib.suppress(BlockingIOError):
                while self._woken.recv(64):
                    pass
            wanted = self._heard()
            self._reap()
            for recipe in wanted:
                self._read(recipe)
            if self._link in ready:
                chunk = self._link.recv(_CHUNK)
                if not chunk:
                    return
                *lines, self._incoming = (self._incoming + chunk).split(b"\n")
                for line in lines:
                    self._follow(json.loads(line))

    def _tell(self, **answer: Any) -> None:
        with contextlib.suppress(OSError):
            self._link.sendall(json.dumps(answer).encode() + b"\n")

    def _follow(self, order: Order) -> None:
        if "preload" in order:
            self._import(order["preload"])
            return
        script = " ".join(order["words"][: 2 if order["words"][0] == "-m" else 1])
        first = script not in self._known
        if first:
            self._known.add(script)
            self._import(_wanted(order))
        if self._habits is not None and (recipe := self._habits.foreseen(order["words"])) is not None:
            self._read(recipe)
        if _threads() > self._calm:
            self._tell(order=order["order"], refused=_told_threads())
            return
        try:
            output = _SUPERVISOR.Output(order["log"])
        except OSError as error:
            self._tell(order=order["order"], refused=f"its log cannot be written: {error.strerror}")
            return
        diary = os.memfd_create("imports") if first and self._learns else -1
        process = os.fork()
        if not process:
            signal.set_wakeup_fd(-1)
            for end in (self._link, self._told, self._woken, self._waker, output, *self._outputs.values()):
                end.close()
            _live(order, diary, self._offer, output.theirs)
        output.started()
        self._calm = min(self._calm, _threads())  # those that stopped for the copying may not be counted on again
        self._living[process], self._outputs[process] = (order, diary), output
        self._tell(order=order["order"], born=process)

    def _offer(self) -> None:
        """In a copy: gives it the models that were read here, and hears of those that it reads."""
        if self._loads is None:
            self._teller.close()
            return

        def tell(said: Mapping[str, Any]) -> None:
            with contextlib.suppress(OSError):  # a word too long, or nobody listens: then nothing is shared
                self._teller.send(json.dumps({**said, "process": os.getpid()}).encode(), socket.MSG_DONTWAIT)

        self._loads.offer(self._kept, tell)

    def _heard(self) -> list[Any]:
        """What copies have said: which took a model, and which models are wanted."""
        wanted = []
        with contextlib.suppress(BlockingIOError):
            while True:
                said = json.loads(self._told.recv(_CHUNK))
                if self._kept is None or self._habits is None:
                    continue
                if "took" in said:
                    self._took.add(said["process"])
                    self._kept.taken()
                else:
                    wanted.append(said["load"])
                if said["process"] in self._living:
                    order, _ = self._living[said["process"]]
                    self._habits.asked(order["words"], said.get("took") or said["load"])
        return wanted

    def _read(self, recipe: Any) -> None:
        """Reads a model for the copies to come."""
        if self._kept is None:
            return
        with _asleep():
            self._kept.read(recipe)
        if _threads() > self._calm and self._loads.rest_threads():
            self._calm = _threads()

    def _reap(self) -> None:
        while True:
            try:
                process, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not process:
                return
            order, diary = self._living.pop(process, (None, -1))
            if order is None:  # what a command left behind
                continue
            output, mark = self._outputs.pop(process), order["environment"].get("TRUELINE_STAGE_TOKEN", "")
            printed = {"left": _ENDS.end_left(process, mark, alone=not self._living), "left_out": output.finish()}
            printed |= {"printed": output.bytes, "lost": output.lost}
            code, took = os.waitstatus_to_exitcode(status), process in self._took
            self._took.discard(process)
            self._tell(order=order["order"], ended=code, peak_bytes=used.ru_maxrss * 1024, took=took, **printed)
            if diary >= 0:
                with open(diary, encoding="utf-8") as told:
                    told.seek(0)
                    self._import(told.read().split())

    def _import(self, names: Iterable[str]) -> None:
        """Imports what copies will need. What cannot be imported here is left to the script to complain of."""
        with _asleep():
            self._import_all(names)

    def _import_all(self, names: Iterable[str]) -> None:
        gc.disable()  # there is next to nothing to collect, but much to look through
        for name in ("numpy", *names):
            if name.partition(".")[0] in _NEVER_EARLY or name in sys.modules:
                continue
            with contextlib.suppress(BaseException):
                importlib.import_module(name)
            if name == "numpy":  # the threads of its BLAS stop before a fork and start again after it by themselves
                self._calm = _threads()
        gc.freeze()  # what lives now lives for ever: no collection is to touch, and so to copy, its pages
        gc.enable()


@contextlib.contextmanager
def _asleep() -> Iterator[None]:
    """Variables that a copy does not see keep libraries from waking a device; those of the user's stay."""
    ours = {name: value for name, value in _ASLEEP.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)


def _wanted(order: Order) -> list[str]:
    """The modules that the script of an order imports at its top, those of the project itself excepted."""
    words = order["words"]
    script = Path(order["cwd"], words[0])
    folder = script.parent
    if words[0] == "-m":  # not the module itself, which is to run as ``__main__``
        folder = Path(order["cwd"])
        with contextlib.suppress(Exception):
            found = importlib.util.find_spec(words[1])
            script = Path(found.origin or "") if found is not None else script
    local = {path.stem for path in folder.glob("*")}
    names = [name for name in _imports(script) if name.partition(".")[0] not in local]
    if "trueline" in names:  # whose hook imports the rest of itself when it is called
        names += [_PROBE, *(module for framework, module in _PROBINGS.items() if framework in names)]
    return names


def _imports(script: Path) -> list[str]:
    try:
        body = ast.parse(script.read_text(encoding="utf-8")).body
    except (OSError, SyntaxError, ValueError):
        return []
    names: list[str] = []
    for node in body:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


def _threads() -> int:
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return sys.maxsize


def _told_threads() -> str:
    """Why this process cannot be copied, with the names of its threads: libraries call theirs after themselves."""
    names = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    with contextlib.suppress(OSError):
        for task in Path("/proc/self/task").iterdir():
            if int(task.name) != os.getpid():
                names.append((task / "comm").read_text(encoding="utf-8", errors="replace").strip())
    return f"threads run in the warm process, of which a copy has none: {', '.join(dict.fromkeys(names))}"


# The life of a copy


def _live(order: Order, diary: int, prepare: Callable[[], None], log: int) -> None:
    """Is a command; does not return."""
    code = 1
    try:
        os.setsid()
        _control(_PARENT_DIES, int(signal.SIGKILL))
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for descriptor, source in ((0, os.open(os.devnull, os.O_RDONLY)), (1, log), (2, log)):
            os.dup2(source, descriptor)
        os.environ.update({name: str(value) for name, value in order["environment"].items()})
        os.chdir(order["cwd"])
        before = set(sys.modules)
        _leave_memory()
        _draw_anew()
        prepare()
        code = _run(order["words"])
        if diary >= 0:
            _tell_imports(before, diary)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            atexit._run_exitfuncs()
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _run(words: list[str]) -> int:
    """Runs a script or a module; gives the exit code that the command would have had."""
    try:
        if words[0] == "-m":
            sys.argv = words[1:]
            sys.path[0] = os.getcwd()
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = words
            sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return (error.code or 0) & 0xFF
        print(error.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _leave_memory() -> None:
    """A copy ends without freeing what it had from the start."""
    for place, names in _HOUSEKEEPING.items():
        module = sys.modules.get(place)
        for name in names:
            with contextlib.suppress(AttributeError):
                atexit.unregister(getattr(module, name))


def _draw_anew() -> None:
    """Random numbers that a fresh process draws from the system must not be the same in every copy."""
    random.seed()
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()


def _tell_imports(before: set[str], diary: int) -> None:
    """Writes down which libraries were imported while the script ran; its own modules are its own business."""
    own = (os.getcwd(), sys.path[0])
    names = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name not in before and file and not os.path.abspath(file).startswith(own):
            names.append(name)
    with open(diary, "w", encoding="utf-8", closefd=False) as told:
        told.write(" ".join(names))


# Around it


def _terminated(*_: Any) -> None:
    _ENDS.end_all()
    os._exit(128 + int(signal.SIGTERM))


def _control(what: int, value: int) -> None:
    """Asks something of Linux for this process; elsewhere it is not to be had."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(what, value, 0, 0, 0)


def _beside(name: str) -> Any:
    """A module that lies beside this file, under a name that no project has."""
    found = importlib.util.spec_from_file_location(f"_trueline_{name}", Path(__file__).with_name(f"{name}.py"))
    assert found is not None and found.loader is not None, "files of Python have loaders"
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


_SUPERVISOR, _ENDS = _beside("supervisor"), _beside("warm_ends")


def main() -> None:
    link = socket.socket(fileno=int(sys.argv[1]))
    loads = _beside("warm_loads") if "--share" in sys.argv[2:] else None
    sys.path.pop(0)  # the folder of this file, whose modules are not those of the project
    sys.path.insert(0, "")
    _control(_REAP_ORPHANS, 1)  # what a command leaves behind becomes ours, and can be found and ended
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _terminated)
    try:
        Nest(link, loads, learns="--learn" in sys.argv[2:]).live()
    finally:
        _ENDS.end_all()
        os._exit(0)


if __name__ == "__main__":
    main()
