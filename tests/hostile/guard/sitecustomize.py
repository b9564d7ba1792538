"""Runs in every Python process of a command under test, workers included: writes down what touches the bait.

The bait's folder is in ``TRUELINE_BAIT``, the log beside it. Paths under that folder and texts that hold it are
hostile: trueline has no business there. What is written down is the audit event with its arguments, before it happens.
"""

from __future__ import annotations

import json
import os
import sys
import threading

BAIT = os.environ.get("TRUELINE_BAIT", "")
CANARY = "trueline_canary"
PATHS = frozenset(
    "open os.mkdir os.symlink os.link os.rename os.remove os.rmdir os.listdir os.scandir os.chmod os.truncate os.utime "
    "ctypes.dlopen tempfile.mkstemp tempfile.mkdtemp shutil.copyfile shutil.copytree shutil.move shutil.rmtree "
    "shutil.unpack_archive shutil.make_archive sqlite3.connect sqlite3.load_extension mmap.__new__".split()
)
PROGRAMS = frozenset("os.system os.exec os.posix_spawn os.spawn os.startfile subprocess.Popen pty.spawn".split())
OTHERS = frozenset("os.putenv urllib.Request webbrowser.open socket.getaddrinfo pickle.find_class".split())
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_here = threading.local()


def _harm(event: str, arguments: tuple[object, ...]) -> str | None:
    """What kind of harm an event would be, if any."""
    if event == "import":
        return "executed" if str(arguments[0]).partition(".")[0] == CANARY else None
    if event in PATHS:
        if not any(isinstance(one, str | bytes | os.PathLike) and BAIT in _text(one) for one in arguments[:2]):
            return None
        if event == "ctypes.dlopen":
            return "executed"
        if event == "open" and f"{BAIT}/ran-" in _text(arguments[0]):
            return "executed"
        if event == "open":
            flags = arguments[2] if isinstance(arguments[2], int) else 0
            return "written" if flags & WRITING or set("wax+") & set(str(arguments[1])) else "read"
        return "read" if event in ("os.listdir", "os.scandir") else "written"
    if event in PROGRAMS or event in OTHERS:
        return "executed" if any(BAIT in _text(one) for one in arguments[:2]) else None
    if event == "socket.connect":
        return "executed" if os.environ.get("TRUELINE_BAIT_PORT", "no port") in _text(arguments[1:]) else None
    if event == "compile":
        of_a_file = os.path.isfile(
            _text(arguments[1])
        )  # a script may hold the bait as a text: what it does shows apart
        return "executed" if BAIT in _text(arguments[0]) and not of_a_file else None
    if event == "exec":
        code = arguments[0]
        constants = getattr(code, "co_consts", ())
        made = str(getattr(code, "co_filename", "")).startswith("<")
        return "executed" if made and any(isinstance(one, str) and BAIT in one for one in constants) else None
    return None


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else repr(value)


def _heard(event: str, arguments: tuple[object, ...]) -> None:
    if getattr(_here, "inside", False):
        return
    _here.inside = True
    try:
        harm = _harm(event, arguments)
        if harm is not None:
            _write(harm, event, arguments)
    except Exception:  # a guard must not change what it guards
        pass
    finally:
        _here.inside = False


def _write(harm: str, event: str, arguments: tuple[object, ...]) -> None:
    shown = arguments[:2]
    if event == "exec":
        shown = getattr(arguments[0], "co_consts", ())
    line = json.dumps({"harm": harm, "event": event, "text": _text(shown)[:2000], "pid": os.getpid()}) + "\n"
    descriptor = os.open(BAIT + ".log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(descriptor, line.encode("utf-8", "replace"))
    os.close(descriptor)


if BAIT:
    sys.addaudithook(_heard)
