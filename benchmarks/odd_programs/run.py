"""Runs the odd programs bare and observed, and says what observing changed.

    python -m benchmarks.odd_programs.run [--half work|counted|all] [--only NAME,...] [--ways WAY,...] [--jobs 2]
                                          [--out FILE] [--details]

Every program runs bare twice: one that differs from itself is ``bad`` and not observed. Then it runs in each way, in a
forked child of its own with a limit of time, and is compared with the bare run bit for bit: what it returned, the
errors and warnings that left it (their places too), the random generators, and what is left in the process when the
observer has stopped. At the end ``trueline show`` must open the Run and find a certificate. Of the counted half only
the outcomes are written, no details, unless ``--details`` asks.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

from benchmarks.odd_programs import judge, left_behind, observe, page, registry
from benchmarks.odd_programs.halves import HALVES, half_of

LIMIT, LIMIT_ALONE = 20.0, 90.0
"""Seconds a forked child may take, and a process of its own, which has to import torch first."""
_EARLY = (
    "torch._dynamo",
    "torch._subclasses.fake_tensor",
    "torch.fx.experimental.proxy_tensor",
    "torch._functorch.aot_autograd",
    "torch._dynamo.backends.debugging",
    "torch._decomp.decompositions_for_jvp",
    "torch.export",
    "torch.distributed.tensor.debug",
    "torch.nn.attention.flex_attention",
    "torch.optim.swa_utils",
    "torch.masked",
    "torch.profiler",
    "torch.testing._internal.two_tensor",
    "trueline.cli",
)
"""Imported once by the parent, so that not every child does it again."""

Task = tuple[str, str]


def _prepare() -> None:
    """Imports what the children need; no thread and no autograd here, or they could not be forked."""
    import torch

    torch.set_num_threads(1)
    for name in _EARLY:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    for name in _modules_of_an_observer():
        try:
            importlib.import_module(name)
        except Exception:
            continue
    registry.load()
    observe.BEFORE.update(left_behind.attributes())
    gc.collect()
    gc.freeze()


def _modules_of_an_observer() -> list[str]:
    """What an observer imports when it starts, found out in a child."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            import torch

            had = set(sys.modules)
            for way in ("api/tensors/witness", "api+module/stats", "kernel/digest", "watch"):
                with tempfile.TemporaryDirectory() as folder, observe.observer(way, Path(folder)):
                    torch.relu(torch.ones(1, requires_grad=True)).backward()
            new = "\n".join(name for name in sys.modules if name not in had and not name.startswith("__"))
            os.write(write, new.encode()[:60000])
        finally:
            os._exit(0)
    os.close(write)
    with open(read) as stream:
        names = stream.read().split()
    os.waitpid(pid, 0)
    return names


class Child:
    """A process that is waited for without blocking, and killed with its own children when its time is over."""

    def __init__(self, work: Callable[[], None] | list[str], folder: Path, limit: float) -> None:
        self.folder, self.until = folder, time.monotonic() + limit
        self.hung = False
        if callable(work):
            self.pid = os.fork()
            if self.pid == 0:
                os.setsid()
                work()
                os._exit(0)
        else:
            self.pid = subprocess.Popen(work, start_new_session=True, stdin=subprocess.DEVNULL).pid

    def status(self) -> int | None:
        """The exit code, or none while it runs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if not pid:
            if time.monotonic() < self.until:
                return None
            self.hung = True
            os.killpg(self.pid, signal.SIGABRT)  # faulthandler writes where it hangs
            time.sleep(0.2)
            _kill_group(self.pid)
            status = os.waitpid(self.pid, 0)[1]
        _kill_group(self.pid)  # workers that it left
        return os.waitstatus_to_exitcode(status)

    def output(self) -> str:
        path = self.folder / "output.txt"
        return path.read_text(errors="replace") if path.exists() else ""


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _start(program: registry.Program, way: str, folder: Path) -> Child:
    folder.mkdir(parents=True)
    if program.fork:
        return Child(lambda: observe.child(program.name, way, folder), folder, LIMIT)
    module = "benchmarks.odd_programs.run"
    return Child([sys.executable, "-m", module, "--child", program.name, way, str(folder)], folder, LIMIT_ALONE)


def _came(child: Child, code: int) -> dict[str, Any]:
    """The findings of a child that has ended, or how it failed."""
    path = child.folder / observe.RESULT
    if path.exists() and not child.hung:
        return pickle.loads(path.read_bytes())
    text = child.output().strip()
    hanging = text.split("Current thread")[-1].splitlines() if child.hung else []
    lines = [line.strip() for line in hanging if "File " in line][:4]
    return {"failed": "hang" if child.hung else "crashed", "detail": f"exit {code}; {'; '.join(lines) or text[-300:]}"}


def _observed(program: registry.Program, way: str, folder: Path, patient: bool = True) -> Iterator[Any]:
    """A part of the coroutine below: one run; one that hung, maybe as the machine is busy, may try again."""
    came: dict[str, Any] = {}
    for attempt in ("", ".again") if patient else ("",):
        child = _start(program, way, folder.with_name(folder.name + attempt))
        code = yield child
        came = _came(child, code)
        if came.get("failed") != "hang":
            break
    return came, str(child.folder)


def _one_program(program: registry.Program, ways: list[str], root: Path) -> Iterator[Child | dict[str, Any]]:
    """A coroutine: gives the children to wait for, gets their exit codes, and gives the row at last."""
    row: dict[str, Any] = {"name": program.name, "theme": program.theme, "half": half_of(program.name), "ways": {}}
    bare = []
    for way in ("bare", "bare again"):
        came, _ = yield from _observed(program, way, root / way)
        bare.append(came)
    problem = _bad(*bare)
    if problem or bare[0].get("skip"):
        row["bad" if problem else "skip"] = problem or bare[0]["skip"]
        yield row
        return
    folders = {}
    for way in ways:
        hung = any(found and found[0][0] == "hang" for found in row["ways"].values())
        came, folders[way] = yield from _observed(program, way, root / way.replace("/", "-"), not hung)
        row["ways"][way] = [(came["failed"], came["detail"])] if "failed" in came else judge.differences(bare[0], came)
    reader = root / "reader"
    reader.mkdir()
    yield Child(lambda: _write_answers(folders, reader), reader, LIMIT_ALONE)
    answers = reader / "answers.json"
    answered = json.loads(answers.read_text()) if answers.exists() else dict.fromkeys(ways, "show crashed")
    for way, text in answered.items():
        if text and not any(kind in ("hang", "crashed") for kind, _ in row["ways"][way]):
            row["ways"][way].append(("run does not open", text))
    yield row


def _write_answers(folders: dict[str, str], reader: Path) -> None:
    text = json.dumps(observe.open_runs(folders))
    (reader / "answers.json").write_text(text)


def _bad(one: dict[str, Any], other: dict[str, Any]) -> str:
    """Why a program cannot be judged; empty where both its bare runs are alike."""
    for came in (one, other):
        if "failed" in came:
            return f"{came['failed']} bare: {came['detail']}"
    if one["error"]:
        return f"raises bare: {one['error']}"
    found = judge.differences(one, other)
    return f"not the same bare: {found[0][1]}" if found else ""


class Rows:
    """The rows of a run, written down as they come, so that an interrupted run goes on where it was."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.found = path, {}
        for line in path.read_text().splitlines() if path is not None and path.exists() else ():
            self._take(json.loads(line))

    def _take(self, row: dict[str, Any]) -> None:
        known = self.found.get(row["name"])
        self.found[row["name"]] = {**row, "ways": known["ways"] | row["ways"]} if known else row

    def add(self, row: dict[str, Any]) -> None:
        self._take(row)
        if self.path is not None:
            with self.path.open("a") as stream:
                stream.write(json.dumps(row) + "\n")

    def missing(self, name: str, ways: list[str]) -> list[str]:
        row = self.found.get(name, {"ways": {}})
        return [] if "bad" in row or "skip" in row else [way for way in ways if way not in row["ways"]]


def run_all(programs: list[registry.Program], ways: list[str], jobs: int, rows: Rows, root: Path) -> None:
    """All programs in all ways that are not done, at most ``jobs`` children at a time; those of their own last."""
    waiting = [program for program in programs if rows.missing(program.name, ways)]
    waiting.sort(key=lambda program: program.fork)
    done, of = 0, len(waiting)
    slots: list[tuple[Any, Child, Path]] = []
    while waiting or slots:
        while waiting and len(slots) < jobs:
            program = waiting.pop()
            folder = root / program.name
            routine = _one_program(program, rows.missing(program.name, ways), folder)
            slots.append((routine, routine.send(None), folder))  # as below: each child begins at the same depth
        for slot in list(slots):
            routine, child, folder = slot
            if (code := child.status()) is None:
                continue
            slots.remove(slot)
            given = routine.send(code)
            if isinstance(given, Child):
                slots.append((routine, given, folder))
                continue
            rows.add(given)
            shutil.rmtree(folder, ignore_errors=True)
            done += 1
            _progress(given, done, of)
        time.sleep(0.002)


def _progress(row: dict[str, Any], done: int, of: int) -> None:
    counts = Counter(judge.outcome_of(found) for found in row["ways"].values())
    text = "bad" if "bad" in row else "skipped" if "skip" in row else ", ".join(f"{n} {k}" for k, n in counts.items())
    print(
        f"[{done}/{of}] {row['name'] if row['half'] == 'work' else 'one of the counted half'}: {text}", file=sys.stderr
    )


def _in_the_twin(arguments: argparse.Namespace, names: list[str], rows: Path) -> None:
    """The same run by a process without the compiled kernels, into the same rows."""
    command = [sys.executable, "-m", "benchmarks.odd_programs.run", "--ways", observe.TWIN, "--rows", str(rows)]
    command += ["--only", ",".join(names), "--jobs", str(arguments.jobs), "--twin"]
    subprocess.run(command, env={**os.environ, "TRUELINE_NO_KERNELS": "1"}, check=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.odd_programs.run", description="Runs programs bare and observed.")
    parser.add_argument("--half", choices=[*HALVES, "all"], default="all")
    parser.add_argument("--only", metavar="NAME,...", help="only these programs")
    parser.add_argument("--ways", metavar="WAY,...", help=f"only these ways; all: {' '.join(observe.WAYS)}")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", metavar="FILE", help="the JSON; benchmarks/results/odd_programs.json for a full run")
    parser.add_argument("--details", action="store_true", help="show what differs in the counted half, too")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--rows", metavar="FILE", type=Path, help="rows as they come; what is there is not run again")
    parser.add_argument("--twin", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.ways = arguments.ways.split(",") if arguments.ways else list(observe.WAYS)
    if unknown := [way for way in arguments.ways if way not in observe.WAYS]:
        parser.error(f"unknown ways: {', '.join(unknown)}")
    return arguments


def _chosen(arguments: argparse.Namespace) -> list[registry.Program]:
    programs = list(registry.load().values())
    if arguments.only:
        names = arguments.only.split(",")
        if unknown := [name for name in names if name not in registry.PROGRAMS]:
            sys.exit(f"unknown programs: {', '.join(unknown)}")
        return [registry.PROGRAMS[name] for name in names]
    return [program for program in programs if arguments.half in ("all", half_of(program.name))]


def main() -> None:
    arguments = _parse()
    if arguments.child:
        registry.load()
        observe.child(arguments.child[0], arguments.child[1], Path(arguments.child[2]))
    programs = _chosen(arguments)
    _prepare()
    with tempfile.TemporaryDirectory(prefix="odd_programs_") as root:
        path = arguments.rows or Path(root) / "rows.jsonl"
        rows = Rows(path)
        ways = arguments.ways if arguments.twin else [way for way in arguments.ways if way != observe.TWIN]
        if ways:
            run_all(programs, ways, arguments.jobs, rows, Path(root))
        if arguments.twin:
            return
        left = [program.name for program in programs if rows.missing(program.name, arguments.ways)]
        if left:
            _in_the_twin(arguments, left, path)
            rows = Rows(path)
    full = not arguments.only and arguments.half == "all" and len(arguments.ways) == len(observe.WAYS)
    chosen = [rows.found[program.name] for program in programs]
    page.write(chosen, arguments, full)


if __name__ == "__main__":
    main()
