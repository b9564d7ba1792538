"""Whether the C extensions may be used with the torch that is here.

They read torch's memory by offsets and call functions of its libraries, none of which torch promises to keep. So they
are used with versions on which they were verified, and with others after a **trial**: a process of its own, whose
crash harms nobody, records a small program with them and without and compares the rows (``trial.py``). What it found
is kept in the user's cache folder, for this build of torch, this Python and this trueline. Everything else takes the
portable way, in Python, which gives the same rows, slower.

torch is not imported here: ``trueline doctor`` asks too.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from trueline.frameworks.torch.verified import LACKING, MACHINE, VERIFIED

EXTENSIONS = ("trueline.frameworks.torch._look", "trueline.frameworks.torch._calls")
_RELEASE = re.compile(r"(\d+\.\d+\.\d+)(\+(cpu|cu\d+|rocm[\d.]+|xpu))?")
"""How torch's own builds call themselves; those of others may be made of other sources."""
_VERSION = re.compile(r"^__version__\s*=\s*['\"]([^'\"]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Way:
    """Which way a capture takes and why. ``broken`` is what went wrong when a trial recorded in Python; most often
    nothing."""

    fast: bool
    why: str
    broken: str = ""

    def __str__(self) -> str:
        return f"{'fast' if self.fast else 'portable'} ({self.why})"


@dataclass(frozen=True, slots=True)
class Place:
    """What there is: torch, the Python that runs, our extensions."""

    torch: str
    folder: str
    extensions: tuple[str, ...]
    python: str = platform.python_version()
    machine: str = f"{platform.system()} {platform.machine()}"
    free_threaded: bool = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


_forced: bool | None = None
"""What a trial has decided for its own process."""


def force(fast: bool) -> None:
    """Takes this way in this process, whatever is known of it; for trials."""
    global _forced
    _forced = fast


def way() -> Way:
    """The way that captures take in this process."""
    if os.environ.get("TRUELINE_NO_KERNELS", "0") not in ("", "0"):
        return Way(False, "switched off by TRUELINE_NO_KERNELS")
    if _forced is not None:
        return Way(_forced, "a trial")
    return _way_here()


@cache
def _way_here() -> Way:
    return decide(place())


def decide(place: Place) -> Way:
    """The way for what there is at a place; may start a trial, which takes some seconds, once."""
    if place.free_threaded:  # importing an extension that needs the lock would bring it back for the whole program
        return Way(False, "this Python has no global lock, which the C extensions rely on")
    if not place.extensions:
        return Way(False, "the C extensions were not built")
    release, python = _RELEASE.fullmatch(place.torch), ".".join(place.python.split(".")[:2])
    if release and place.machine == MACHINE and python in VERIFIED.get(release[1], ()):
        return Way(True, f"verified with torch {release[1]} and Python {python}")
    lacking = LACKING.get(".".join(place.torch.split(".")[:2]))
    if lacking:
        return Way(False, f"the C extensions cannot work with torch {place.torch}: {lacking}")
    from trueline.frameworks.torch.trials import tried

    return tried(place)


def place() -> Place:
    """What there is here, without importing torch."""
    file = getattr(sys.modules.get("torch"), "__file__", None) or _origin("torch")
    folder = str(Path(file).parent) if file else ""
    return Place(_version_in(folder), folder, _extensions())


def _origin(name: str) -> str | None:
    try:
        return getattr(find_spec(name), "origin", None)
    except (ImportError, ValueError):  # what a program has put into sys.modules need not be a module that was imported
        return None


def _version_in(folder: str) -> str:
    loaded = getattr(sys.modules.get("torch"), "__version__", "")
    if loaded:
        return str(loaded)
    try:
        found = _VERSION.search(Path(folder, "version.py").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return found[1] if found else ""


def _extensions() -> tuple[str, ...]:
    """The files of the extensions; none where one of them is missing."""
    found = [_origin(name) for name in EXTENSIONS]
    return tuple(str(origin) for origin in found) if all(found) else ()
