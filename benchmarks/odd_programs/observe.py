"""One program in one way, in a process of its own: what came out is written to a file."""

from __future__ import annotations

import contextlib
import faulthandler
import hashlib
import io
import os
import pickle
import random
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

LEVELS = ("api", "module", "kernel", "api+module")
DATA = ("structure", "stats", "digest", "tensors")
BARE = "bare"
TWIN = "api/stats/twin"
"""The capture without the compiled kernels, in a process with TRUELINE_NO_KERNELS=1."""
WAYS = (*(f"{level}/{data}" for level in LEVELS for data in DATA), "api/stats/witness", "watch", TWIN)
RESULT = "result.pickle"
BEFORE: dict[str, Any] = {}
"""The attributes of torch as the parent of forked children saw them, taken once."""


def observer(way: str, folder: Path) -> Any:
    """The context manager of a way; the Run goes into ``folder/run``."""
    if way.startswith(BARE):
        return contextlib.nullcontext()
    import trueline

    if way == "watch":
        return trueline.watch(folder / "run")
    level, data, *more = way.split("/")
    return trueline.capture(folder / "run", level=level, data=data, witness="witness" in more)


def _random_state() -> tuple[str, ...]:
    import numpy
    import torch

    states = (
        torch.get_rng_state().numpy().tobytes(),
        repr(numpy.random.get_state()).encode(),
        repr(random.getstate()).encode(),
    )
    return tuple(hashlib.sha256(state).hexdigest()[:12] for state in states)


def _error(error: BaseException) -> tuple[str, str, list[str]]:
    where = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in traceback.extract_tb(error.__traceback__)]
    return type(error).__name__, str(error), where[-6:]


def _warning(caught: warnings.WarningMessage) -> tuple[str, str, str]:
    from benchmarks.odd_programs.describe import without_addresses

    return (
        caught.category.__name__,
        without_addresses(str(caught.message)),
        f"{Path(caught.filename).name}:{caught.lineno}",
    )


def perform(name: str, way: str, folder: Path) -> dict[str, Any]:
    """Runs the program; says what it gave, what it raised and warned of, and what is left in the process."""
    from benchmarks.odd_programs import left_behind, registry
    from benchmarks.odd_programs.describe import describe

    program = registry.PROGRAMS[name]
    found: dict[str, Any] = {"result": None, "error": None, "skip": ""}
    before = BEFORE or left_behind.attributes()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found["result"] = describe(registry.run(program, observer(way, folder)))
        except registry.Skip as reason:
            found["skip"] = str(reason)
        except BaseException as error:
            found["error"] = _error(error)
        found["random"] = _random_state()
    found["warnings"] = tuple(_warning(item) for item in caught)
    del caught
    found["attributes"] = left_behind.changed_attributes(before, left_behind.attributes())
    found["state"] = left_behind.state(str(folder))
    return found


def child(name: str, way: str, folder: Path) -> None:
    """The whole life of a child: its output into a file, its findings into another; does not return."""
    status = 1
    try:
        output = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout, sys.stderr = (
            io.TextIOWrapper(open(fd, "wb", 0, closefd=False), write_through=True) for fd in (1, 2)
        )
        faulthandler.enable(sys.stderr)
        found = perform(name, way, folder)
        (folder / "written").write_bytes(pickle.dumps(found))
        os.rename(folder / "written", folder / RESULT)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def open_runs(folders: dict[str, str]) -> dict[str, str]:
    """What is wrong with the Run of each way: ``trueline show`` must open it and show a certificate; else empty."""
    import json

    from trueline.cli import main

    answers = {}
    for way, folder in folders.items():
        text = io.StringIO()
        try:
            with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
                code = main(["show", str(Path(folder) / "run"), "--json"])
        except SystemExit as end:
            code = end.code
        except BaseException as error:
            answers[way] = f"show raised {type(error).__name__}: {error}"
            continue
        if code != 0:
            answers[way] = f"show ended with {code}: {text.getvalue().strip()[-200:]}"
            continue
        certificates = json.loads(text.getvalue()).get("certificates") or {}
        stopped = [item["stopped_because"] for item in certificates.values() if item["stopped_because"]]
        answers[way] = "no certificate" if not certificates else "; ".join(f"stopped: {reason}" for reason in stopped)
    return answers
