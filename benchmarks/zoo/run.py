"""Captures both sides of every case, compares, and counts how often the origin is named rightly.

    python -m benchmarks.zoo.run [--half work] [--dtypes float32] [--data tensors] [NAME ...]

Each side runs in a process forked from one that has imported the libraries. Of the counted half only numbers are
printed, never a case. Rows of earlier runs are kept in ``--rows`` and not run again unless ``--again`` is given; with
``--seconds`` no case is begun after so long, and the same command goes on where it was.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import math
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.zoo import bare, devices, scoring
from benchmarks.zoo.spec import CASES, PROGRAMS, UNCHANGED, Case, Clean, Fault, Setting, half
from benchmarks.zoo.verify import measured, warm

RESULTS = Path(__file__).resolve().parent.parent / "results"
SECONDS = 240.0
"""How long one process may take."""


def in_child(work: Callable[..., Any], *arguments: Any, seconds: float = SECONDS) -> Any:
    """What ``work`` gives in a process of its own; raises RuntimeError with its traceback where it raises."""
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(theirs, work, arguments))
    process.start()
    theirs.close()
    try:
        if not mine.poll(seconds):
            process.kill()
            raise RuntimeError(f"took longer than {seconds:.0f} s")
        good, value = mine.recv()
    except EOFError:
        good, value = False, "its process died"
    finally:
        process.join()
        mine.close()
    if not good:
        raise RuntimeError(value)
    return value


def _child(pipe: Any, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    try:
        pipe.send((True, work(*arguments)))
    except BaseException:
        pipe.send((False, traceback.format_exc()[-3000:]))


def wakes_the_gpu(program: str) -> bool:
    """Whether a process that imported what a program needs has woken CUDA, so that no copy of it can use the GPU. Some
    libraries ask for the devices when they are imported: then each copy imports for itself."""
    try:
        in_child(_copy_after, program)
    except RuntimeError:
        return True
    return False


def _copy_after(program: str) -> None:
    warm(program, set())
    in_child(_touch_gpu)


def _touch_gpu() -> None:
    import torch

    torch.zeros(1, device="cuda")


def capture_side(case: Case, side: str, setting: Setting, data: str, path: Path) -> None:
    """Records all steps of one side, as a user would: the program is built, then captured."""
    import trueline

    built = bare.build(case, side, setting)
    with trueline.capture(path, data=data) as capture:
        for index in range(PROGRAMS[getattr(case, side)].steps):
            built.step(built, index)
            capture.step()


def answer(reference: Path, candidate: Path) -> dict[str, Any]:
    """What a comparison says, as plain data."""
    import trueline

    started = time.perf_counter()
    with trueline.compare(reference, candidate) as report:
        return scoring.said(report) | {"compare_seconds": time.perf_counter() - started}


class Runner:
    """``device``: that of both sides, or of the reference and the candidate with a comma between."""

    def __init__(self, scratch: Path, device: str = "cpu") -> None:
        self._scratch = scratch
        self._device = devices.of_device(device)
        self._shared: dict[Any, Path] = {}

    def row(self, case: Case, dtype: str, data: str) -> dict[str, Any]:
        head = {"case": case.name, "dtype": dtype, "data": data, "half": half(case.name), "kind": kind(case)}
        started = time.perf_counter()
        path = self._scratch / f"{case.name}-{dtype}-{data}-{os.getpid()}"
        try:
            reference = self._reference(case, dtype, data)
            in_child(capture_side, case, "candidate", Setting(dtype, self._device["candidate"]), data, path)
            found = in_child(answer, reference, path)
        except RuntimeError as error:
            found = {"exit": 2, "verdict": "raised", "error": str(error)}
        finally:
            shutil.rmtree(path, ignore_errors=True)
        return head | found | {"seconds": time.perf_counter() - started}

    def _reference(self, case: Case, dtype: str, data: str) -> Path:
        own = case.both is not UNCHANGED or (isinstance(case, Clean) and case.reference_change is not UNCHANGED)
        key = (case.name if own else case.reference, dtype, data)
        if key not in self._shared:
            path = self._scratch / f"reference-{'-'.join(key)}-{os.getpid()}"
            try:
                in_child(capture_side, case, "reference", Setting(dtype, self._device["reference"]), data, path)
            except RuntimeError:
                shutil.rmtree(path, ignore_errors=True)
                raise
            self._shared[key] = path
        return self._shared[key]


def portions(groups: Iterable[Sequence[str]], jobs: int) -> list[Sequence[str]]:
    """The cases of each program in portions that keep all processes at work to the end, in an order that says nothing,
    so that what was answered when the time is up stands for all."""
    groups = list(groups)
    most = max(4, sum(map(len, groups)) // (8 * jobs)) if jobs > 1 else sys.maxsize
    found = [group[first : first + most] for group in groups for first in range(0, len(group), most)]
    return sorted(found, key=lambda names: hashlib.sha256(names[0].encode()).digest())


def kind(case: Case) -> str:
    return "fault" if isinstance(case, Fault) else "clean"


def frameworks(case: Case) -> str:
    names = {PROGRAMS[side].framework for side in (case.reference, case.candidate)}
    return names.pop() if len(names) == 1 else "across"


def truth(case: Case, dtype: str) -> dict[str, float | str]:
    """How far apart the two sides are without any tool, and how far rounding alone takes the reference."""
    sides = [measured(case, side, dtype) for side in ("reference", "candidate")]
    exact = measured(case, "reference", "float64")
    broken = next((side for side in sides if isinstance(side, str)), None)
    if broken is not None:
        return {"error": broken[-500:]}
    found: dict[str, float | str] = {"apart": max(bare.distance(*sides).values(), default=0.0)}
    if not isinstance(exact, str):
        apart, rounding = bare.distance(*sides), bare.distance(exact, sides[0])
        found["rounding"] = max(rounding.values(), default=0.0)
        found["times"] = max((apart[name] / max(rounding.get(name, 0.0), 1e-12) for name in apart), default=0.0)
    return found


def load_rows(path: Path) -> dict[tuple[str, str, str], dict[str, Any]]:
    if not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {(row["case"], row["dtype"], row["data"]): row for row in rows}


@contextlib.contextmanager
def appended(path: Path) -> Iterator[Callable[[dict[str, Any]], None]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as stream:

        def write(row: dict[str, Any]) -> None:
            stream.write(json.dumps(row) + "\n")
            stream.flush()

        yield write


def share(names: Sequence[str], arguments: argparse.Namespace) -> None:
    """One process's share: all cases of some programs."""
    known = load_rows(arguments.rows)
    ready: set[str] = set()
    arguments.scratch.mkdir(parents=True, exist_ok=True)
    on_gpu = "cuda" in arguments.device
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder, appended(arguments.rows) as write:
        runner = Runner(Path(folder), arguments.device)
        for name in names:
            case = CASES[name]
            for dtype in [one for one in arguments.dtypes.split(",") if one in case.dtypes]:
                for data in arguments.data.split(","):
                    if (name, dtype, data) in known and not arguments.again:
                        continue
                    if time.time() > arguments.until:
                        return
                    for program in (case.reference, case.candidate):
                        if program not in ready and not (on_gpu and wakes_the_gpu(program)):
                            warm(program, ready)
                        ready.add(program)
                    row = {"case": name, "dtype": dtype, "data": data, "half": half(name), "kind": kind(case)}
                    row |= truth(case, dtype) if data == "truth" else runner.row(case, dtype, data)
                    write(row)
                    if half(name) == "work" or arguments.tell:
                        print(scoring.line(case, row), flush=True)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--half", choices=("work", "counted", "all"), default="all")
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--data", default="truth,tensors,stats", help="truth: both sides without any tool")
    parser.add_argument("--kind", choices=("fault", "clean", "all"), default="all")
    parser.add_argument("--device", default="cpu", help="cuda, or cpu,cuda: see devices.py")
    parser.add_argument("--framework", choices=("torch", "paddle", "across"), help="only cases of one, or across both")
    parser.add_argument("--share", type=int, default=1, help="only one of so many cases, chosen by their order")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, help="begin no case after so long; run again to go on")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--tell", action="store_true", help="print cases of the counted half as well")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--rows", type=Path, default=RESULTS / "zoo_rows.jsonl")
    parser.add_argument("--page", type=Path, help="write the table, and what is wrong in the half to work with, there")
    parser.add_argument("--report", action="store_true", help="run nothing: count what is in --rows")
    arguments = parser.parse_args(argv)
    arguments.until = math.inf if arguments.seconds is None else time.time() + arguments.seconds
    bare.load(("programs", *(("work", "counted") if arguments.half == "all" else (arguments.half,))))
    on_two = "," in arguments.device
    if "cuda" in arguments.device:  # a process in which CUDA is awake cannot be forked
        os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    if on_two:
        devices.declare_pairs()
    chosen = [
        case.name
        for case in bare.cases(arguments.names)
        if (arguments.device == "cpu" or case.reference in devices.PROGRAMS_THERE)
        and on_two == case.name.endswith("-on-two-devices")
        and arguments.kind in ("all", kind(case))
        and {case.reference, case.candidate} <= PROGRAMS.keys()
        and arguments.framework in (None, frameworks(case))
    ][:: arguments.share]
    if not arguments.report:
        by_program: dict[tuple[str, str], list[str]] = {}
        for name in chosen:
            by_program.setdefault((CASES[name].reference, CASES[name].candidate), []).append(name)
        groups = portions(by_program.values(), arguments.jobs)
        with ThreadPoolExecutor(arguments.jobs) as pool:
            list(pool.map(lambda names: _wait(names, arguments), groups))
    rows = [row for row in load_rows(arguments.rows).values() if row["case"] in chosen]
    print(scoring.table(rows, CASES))
    if arguments.page:
        arguments.page.write_text(scoring.page(rows, CASES, arguments.device), encoding="utf-8")
    return 0


def _wait(names: Sequence[str], arguments: argparse.Namespace) -> None:
    process = multiprocessing.get_context("fork").Process(target=share, args=(names, arguments))
    process.start()
    process.join()


if __name__ == "__main__":
    sys.exit(main())
