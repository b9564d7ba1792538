"""What the victim's machine has that a hostile call could touch, and what was touched.

Each call has its own files in the bait's folder (``ran-0012``, ``wrote-0012``, …), its own address of a listener, and
its own secret text. ``Bait.harm`` reads the guard's log and looks at the folder itself, since a framework's own code
writes without telling Python's audit hooks.
"""

from __future__ import annotations

import json
import pickle
import re
import shutil
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_NUMBER = re.compile(r"(?:ran|wrote|secret|pickle|script|hub|library|s3cr3t)-(\d{4})")
_PLANTED = re.compile(r"(?:secret|pickle|script|hub|library)-\d{4}(?:\.\w+)?")
UNKNOWN = 0
"""Stands for a call that is not known: what happened does not say which one did it."""


@dataclass
class Harm:
    """The numbers of the calls that did something, by what they did; ``told`` has the events in words."""

    executed: set[int] = field(default_factory=set)
    written: set[int] = field(default_factory=set)
    read: set[int] = field(default_factory=set)
    told: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.executed or self.written or self.read)


class _Pickled:
    def __init__(self, command: str) -> None:
        self._command = command

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        import os

        return os.system, (self._command,)


class Bait:
    """A folder of bait, and a listener while it is used as a context."""

    def __init__(self, folder: Path, numbers: Iterable[int]) -> None:
        self.folder = folder
        self.log = folder.with_name(folder.name + ".log")
        self._numbers = list(numbers)
        self._asked: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self._asked))
        self.port = self._server.server_port
        self.lay()

    def __enter__(self) -> Bait:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def lay(self) -> None:
        """Everything as it is before anything has happened."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.log.unlink(missing_ok=True)
        self._asked.clear()
        for number in self._numbers:
            self._plant(number)

    def _plant(self, number: int) -> None:
        name, shell = f"{number:04d}", f"touch {self.folder}/ran-{number:04d}"
        python = f"__import__('os').system('{shell}')\n"
        (self.folder / f"secret-{name}").write_text(f"s3cr3t-{name}\n" * 4)
        (self.folder / f"pickle-{name}").write_bytes(pickle.dumps(_Pickled(shell), 2))
        (self.folder / f"script-{name}.py").write_text(python)
        (self.folder / f"library-{name}.so").write_text("no library")
        hub = self.folder / f"hub-{name}"
        hub.mkdir()
        (hub / "hubconf.py").write_text(python + "def entry(*_, **__): return 1\n")

    def fill(self, number: int) -> Callable[[str], str]:
        """Fills in the marks of one call."""
        at = {
            "{shell}": f"touch {self.folder}/ran-{number:04d}",
            "{python}": f"__import__('os').system('touch {self.folder}/ran-{number:04d}')",
            "{url}": f"http://127.0.0.1:{self.port}/ran-{number:04d}",
            "{module}": "trueline_canary",
        }
        ends = {"script": ".py", "library": ".so"}
        for kind in ("ran", "wrote", "secret", "pickle", "script", "hub", "library"):
            at["{" + kind + "}"] = f"{self.folder}/{kind}-{number:04d}{ends.get(kind, '')}"

        def fill(text: str) -> str:
            if "{" not in text:
                return text
            for mark, value in at.items():
                text = text.replace(mark, value)
            return text

        return fill

    def harm(self, texts: Iterable[str] = ()) -> Harm:
        """What has happened since the bait was laid; ``texts`` is what was printed, where no secret may stand."""
        found = Harm()
        for line in self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else ():
            event = json.loads(line)
            _number_into(getattr(found, event["harm"]), event["text"])
            found.told.append(f"{event['harm']}: {event['event']} {event['text'][:160]}")
        found.told = list(dict.fromkeys(found.told))
        for path in sorted(self.folder.iterdir()):
            if _PLANTED.fullmatch(path.name) is None:
                _number_into(found.executed if path.name.startswith("ran-") else found.written, path.name)
                found.told.append(f"there is {path.name}")
        for request in list(self._asked):
            _number_into(found.executed, request)
            found.told.append(f"executed: asked for {request}")
        for text in texts:
            for secret in re.findall(r"s3cr3t-\d{4}", text):
                _number_into(found.read, secret)
                found.told.append(f"read: printed {secret}")
        return found


def _number_into(numbers: set[int], text: str) -> None:
    listed = _NUMBER.findall(text)
    numbers.update(map(int, listed) if listed else [UNKNOWN])


def _handler(asked: list[str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    return Handler
