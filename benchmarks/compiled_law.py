"""Whether looking at a compiled program changes what is compiled, and what comes out: one table.

    python -m benchmarks.compiled_law [--only NAME,...] [--ways WAY,...] [--out FILE] [--jobs 1]

Every configuration (``compiled_law_programs``) trains, or runs, a small net. It does so bare, and under every observer
twice: once everything happens inside of the observer, once the first compilation lies before it. Compared with the bare
program are

    graphs      how many dynamo made, and how many operators are in them
    breaks      graph breaks, by their reason
    compiled    the frames that dynamo compiled and compiled again, with the reasons for which it did
    backend     how often the backend was called, forward and backward, as torch counts it
    code        what inductor generated, as text
    bits        outputs, losses, gradients, parameters and buffers, to the bit

Each run is a process of its own. A wrong backend, which makes its output 1 % too large, is among them: it must stay as
wrong under an observer as it is without, and ``trueline compare`` against the eager program must name its region.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import io
import json
import os
import pickle
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
os.environ.setdefault("TORCHINDUCTOR_FX_GRAPH_CACHE", "0")
os.environ.setdefault("TORCHINDUCTOR_AUTOGRAD_CACHE", "0")

from benchmarks.tables import table

BARE = "bare"
WAYS = ("api/structure", "api/stats", "api/tensors", "module/stats", "kernel/stats", "api+module/digest", "watch")
STAGES = ("inside", "before")
KEYS = ("graphs", "breaks", "compiled", "backend", "code", "bits", "error")
LIMIT = 300.0
_EARLY = (
    "torch._dynamo",
    "torch._inductor.compile_fx",
    "torch._dynamo.backends.debugging",
    "torch.export",
    "trueline.cli",
)


def observer(way: str, folder: Path) -> Any:
    """The context manager of a way; the Run goes into ``folder/run``."""
    if way == BARE:
        return contextlib.nullcontext()
    import trueline

    if way == "watch":
        return trueline.watch(folder / "run")
    level, data = way.split("/")
    return trueline.capture(folder / "run", level=level, data=data)


def perform(name: str, way: str, stage: str, folder: Path) -> dict[str, Any]:
    """Runs a configuration; says what was compiled and what came out."""
    import torch

    from benchmarks.compiled_law_programs import PROGRAMS, Skip, code_listener
    from benchmarks.odd_programs.describe import describe

    torch.manual_seed(0)
    code: list[str] = []
    found: dict[str, Any] = {"error": ""}
    program = PROGRAMS[name]()
    try:
        with code_listener(code):
            if stage == "before":
                next(program)
            with observer(way, folder):
                if stage == "inside":
                    next(program)
                next(program)
            result = next(program)
        found["bits"] = hashlib.sha256(repr(describe(result)).encode()).hexdigest()[:16]
    except Skip as reason:
        found["skip"] = str(reason)
    except Exception as error:
        found["error"] = f"{type(error).__name__}: {str(error)[:300]}"
    found["code"] = hashlib.sha256("\n".join(code).encode()).hexdigest()[:16] if code else ""
    found.update(compilations())
    if (folder / "run").exists():
        found["run"] = about_run(folder / "run")
    return found


def compilations() -> dict[str, Any]:
    """What torch counts of its own compilations in this process."""
    from torch._dynamo.utils import counters, get_compilation_metrics

    counts = {key: dict(values) for key, values in counters.items() if values}
    frames = [
        (m.co_name, m.compile_id.rpartition("/")[2] if m.compile_id else "", m.recompile_reason or "", m.graph_op_count)
        for m in get_compilation_metrics()
    ]
    graphs = counts.pop("stats", {})
    breaks = counts.pop("graph_break", {})
    counts.pop("inline_call", None)
    without = {_ADDRESS.sub("0x", reason): count for reason, count in breaks.items()}
    return {"graphs": graphs, "breaks": without, "compiled": frames, "backend": counts}


_ADDRESS = re.compile(r"0x[0-9a-f]+")


def about_run(run: Path) -> dict[str, Any]:
    """The borders that a Run holds, and what it says it lacks."""
    import trueline.store as store

    try:
        with store.open_run(run) as opened:
            reader = opened.rank(0)
            names = [reader.trace().names[int(n)] for n in reader.trace().column("api")]
            return {
                "borders": sum(name.startswith(("torch.compile.", "torch.jit.")) for name in names),
                "graphs": sum(event.get("kind") == "graph" for event in reader.events()),
                "calls": len(names),
            }
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:200]}


def child(name: str, way: str, stage: str, folder: Path) -> None:
    """The whole life of a process; does not return."""
    try:
        log = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.stdout, sys.stderr = (
            io.TextIOWrapper(open(fd, "wb", 0, closefd=False), write_through=True) for fd in (1, 2)
        )
        found = perform(name, way, stage, folder)
        (folder / "result.pickle").write_bytes(pickle.dumps(found))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def run(name: str, way: str, stage: str, scratch: Path) -> dict[str, Any]:
    """One run in a child that was forked when everything had been imported."""
    folder = Path(tempfile.mkdtemp(dir=scratch))
    pid = os.fork()
    if pid == 0:
        child(name, way, stage, folder)
    until = time.monotonic() + LIMIT
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > until:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            return {"error": f"did not end within {LIMIT:.0f} s"}
        time.sleep(0.02)
    result = folder / "result.pickle"
    found = (
        pickle.loads(result.read_bytes()) if result.exists() else {"error": (folder / "output.txt").read_text()[-400:]}
    )
    shutil.rmtree(folder, ignore_errors=True)
    return found


def differences(bare: dict[str, Any], seen: dict[str, Any]) -> list[str]:
    """What differs from the bare program, as ``name: bare -> observed``."""
    return [f"{key}: {bare.get(key)} -> {seen.get(key)}"[:600] for key in KEYS if bare.get(key) != seen.get(key)]


def measured(names: Sequence[str], ways: Sequence[str], scratch: Path) -> list[dict[str, Any]]:
    found = []
    for name in names:
        first = run(name, BARE, "inside", scratch)
        again = run(name, BARE, "inside", scratch)
        entry: dict[str, Any] = {"name": name, "bare": first, "unsteady": differences(first, again), "ways": {}}
        found.append(entry)
        if "skip" in first or entry["unsteady"]:
            print(f"{name}: {first.get('skip') or entry['unsteady']}", flush=True)
            continue
        for way in ways:
            for stage in STAGES:
                seen = run(name, way, stage, scratch)
                entry["ways"][f"{way} {stage}"] = {"changed": differences(first, seen), "run": seen.get("run", {})}
                if entry["ways"][f"{way} {stage}"]["changed"]:
                    print(name, way, stage, *entry["ways"][f"{way} {stage}"]["changed"], sep="\n    ", flush=True)
        print(
            f"{name}: {sum(not one['changed'] for one in entry['ways'].values())} of {len(entry['ways'])}", flush=True
        )
    return found


def page(found: list[dict[str, Any]], ways: Sequence[str]) -> str:
    rows = []
    for entry in found:
        bare = entry["bare"]
        if "skip" in bare or entry["unsteady"]:
            reason = bare.get("skip") or "the bare program differs from itself"
            rows.append([entry["name"], *[""] * 4, *["-"] * len(ways), reason])
            continue
        cells = []
        for way in ways:
            stages = [entry["ways"][f"{way} {stage}"] for stage in STAGES]
            text = "same" if not any(one["changed"] for one in stages) else "CHANGED"
            about = stages[0]["run"]
            cells.append(f"{text} ({about['borders']}/{about['graphs']})" if "borders" in about else text)
        counts = bare["graphs"]
        rows.append([
            entry["name"], str(counts.get("unique_graphs", 0)), str(sum(bare["breaks"].values())),
            str(len(bare["compiled"])), bare["code"][:8] or "-", *cells, bare["error"][:60],
        ])  # fmt: skip
    header = ["configuration", "graphs", "breaks", "frames compiled", "code", *ways, "note"]
    return table(header, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--out", default="")
    options = parser.parse_args(arguments)
    for name in _EARLY:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    import torch

    from benchmarks.compiled_law_programs import PROGRAMS

    torch.set_num_threads(1)
    names = [name for name in PROGRAMS if not options.only or name in options.only.split(",")]
    ways = options.ways.split(",")
    with tempfile.TemporaryDirectory() as scratch:
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(scratch) / "cache"))
        found = measured(names, ways, Path(scratch))
    text = page(found, ways)
    print(text)
    if options.out:
        Path(options.out).write_text(json.dumps({"torch": torch.__version__, "ways": ways, "found": found}, indent=1))
        Path(options.out).with_suffix(".md").write_text(HEAD.format(torch=torch.__version__) + text)
    changed = sum(bool(one["changed"]) for entry in found for one in entry["ways"].values())
    print(f"{changed} of {sum(len(entry['ways']) for entry in found)} observed runs differ from the bare program")
    return 1 if changed else 0


HEAD = """# Looking at compiled programs

`python -m benchmarks.compiled_law`, torch {torch}. Each cell: whether graphs, graph breaks, compilations and their
reasons, calls of the backend, generated code and all bits are those of the bare program, with the first compilation
inside of the observer and before it; in brackets the border calls and the graphs that the Run holds.

"""

if __name__ == "__main__":
    sys.exit(main())
