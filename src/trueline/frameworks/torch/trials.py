"""Tries the C extensions out in a process of its own, and remembers what came of it.

Nothing here may fail or wait long: it happens inside somebody's training job, in many ranks at once. Each rank that
finds nothing kept makes a trial of its own, and files are put in place whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trueline._version import __version__
from trueline.frameworks.torch.gate import Place, Way

LIMIT = 60.0
"""So many seconds a trial may take; most go into importing torch."""
MARK = "trueline-trial "
"""Begins each line in which a trial says something."""
_QUIET = {
    "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "ASCEND_RT_VISIBLE_DEVICES": "", "ZE_AFFINITY_MASK": "",
    "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "OMP_NUM_THREADS": "1",
}  # fmt: skip
"""A trial wakes no device and takes no more than one core."""
_NOT_ITS_OWN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "TRUELINE_", "PYTHONSTARTUP", "PYTHONINSPECT", "COVERAGE_")


def tried(place: Place) -> Way:
    """What a trial says of this place: one that was made before, or a new one."""
    file = _file_for(place)
    kept = _read(file)
    if kept is not None:
        return kept
    way, certain = _try(place)
    if certain:
        _write(file, way)
    return way


def _try(place: Place) -> tuple[Way, bool]:
    """What a new trial says, and whether another one would say the same."""
    if not sys.executable:
        return Way(False, "not verified with this torch, and there is no Python to try it out with"), False
    try:
        done = subprocess.run(
            [sys.executable, "-m", "trueline.frameworks.torch.trial", place.torch],
            env=_environment(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return Way(False, f"not verified with torch {place.torch}, and trying it out took more than {LIMIT:g} s"), False
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return Way(False, f"not verified with torch {place.torch}, and trying it out was not possible: {error}"), False
    return _judged(place, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def _judged(place: Place, code: int, output: str, errors: str) -> tuple[Way, bool]:
    said: dict[str, str] = {}
    for line in output.splitlines():
        if line.startswith(MARK):
            with contextlib.suppress(ValueError):
                said.update(json.loads(line.removeprefix(MARK)))
    broken = "" if said.get("portable") == "ok" else said.get("portable") or _ending(code, errors)
    if "portable" not in said and code >= 0:  # it did not come so far: torch could not be imported, memory was short
        return Way(False, f"not verified with torch {place.torch}, and its trial failed: {broken}", broken), False
    if said.get("fast") == "ok":
        return Way(True, f"tried out with torch {place.torch} and Python {place.python}", broken), True
    found = said.get("fast") or _ending(code, errors)
    return Way(False, f"the C extensions failed their trial with torch {place.torch}: {found}", broken), True


def _ending(code: int, errors: str) -> str:
    """How a process ended that did not say it."""
    if code < 0:
        try:
            return f"it was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"it was ended by signal {-code}"
    last = errors.strip().splitlines()[-1:] or ["it said nothing"]
    return f"exit code {code}: {last[0][:200]}"


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    """That of the trial: it finds what this process finds, and has no part in its job."""
    kept = {name: value for name, value in given.items() if not name.startswith(_NOT_ITS_OWN)}
    paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)
    return kept | _QUIET | {"PYTHONPATH": paths}


# What is kept. Nothing here ever fails.


def _file_for(place: Place) -> Path | None:
    """The file for this build of torch, this Python and this trueline; None where there is no place for it."""
    try:
        facts: list[Any] = [__version__, place.torch, place.python, place.machine, sys.executable, place.folder]
        libraries = sorted(Path(place.folder, "lib").glob("*torch_[cp]*")) + [Path(name) for name in place.extensions]
        facts += [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in libraries]
        name = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]
        folder = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        return Path(folder, "trueline", f"trial-{name}.json")
    except (OSError, RuntimeError, ValueError):
        return None


def _read(file: Path | None) -> Way | None:
    if file is None:
        return None
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return Way(bool(content["fast"]), str(content["why"]), str(content["broken"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(file: Path | None, way: Way) -> None:
    """Puts a file in place whole: others may be reading, or writing the same."""
    if file is None:
        return
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(dir=file.parent, prefix=".trial-")
        try:
            with open(handle, "w", encoding="utf-8") as out:
                json.dump({"fast": way.fast, "why": way.why, "broken": way.broken}, out)
            os.replace(scratch, file)
        except OSError:
            os.unlink(scratch)
