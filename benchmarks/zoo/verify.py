"""Whether the cases are what they say, measured without any tool of ours: the distance of what both sides give away.

    python -m benchmarks.zoo.verify [NAME ...]       cases whose names contain one of the texts

For each case and dtype: the largest distance of any value that the program gives away, beside the largest that
rounding alone makes (the reference in that dtype against the reference in float64, where the program runs in float64).
A fault whose distance is not clearly larger changes nothing beyond rounding in that dtype; the two sides of a clean
pair must not be clearly further apart than rounding is.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import sys
import traceback
from typing import Any

from benchmarks.zoo import bare, torchvision_ops
from benchmarks.zoo.spec import CASES, KINDS, PHASES, PROGRAMS, Case, Fault, Setting, half


def warm(name: str, ready: set[str]) -> None:
    """Imports what a program needs, once, so that the processes forked from this one need not."""
    program = PROGRAMS.get(name)
    if program is None or name in ready:
        return
    ready.add(name)
    if program.framework == "torch":
        import torch

        torch.set_num_threads(1)  # a process with a pool of threads must not be forked
        torchvision_ops.prepare()
    with contextlib.suppress(Exception):  # the process that measures says it
        program.build(Setting())


def measured(case: Case, side: str, dtype: str) -> Any:
    """What the side gives away, from a process of its own; the text of the exception where it raises one."""
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe()
    process = context.Process(target=_run, args=(theirs, case.name, side, dtype))
    process.start()
    theirs.close()
    try:
        given = mine.recv()
    except EOFError:
        given = "its process died"
    process.join()
    return given


def _run(pipe: Any, name: str, side: str, dtype: str) -> None:
    try:
        pipe.send(bare.run(CASES[name], side, Setting(dtype)))
    except BaseException:
        pipe.send(traceback.format_exc())


def worst(distances: dict[str, float]) -> tuple[float, str]:
    name = max(distances, key=lambda key: distances[key])
    return distances[name], name


def form(case: Case, package: str) -> list[str]:
    """What is wrong with how a case is written down."""
    faults = []
    if half(case.name) != package:
        faults.append(f"belongs in the folder {half(case.name)}/")
    faults += [f"no program {name}" for name in (case.reference, case.candidate) if name not in PROGRAMS]
    if not case.description:
        faults.append("has no docstring")
    if isinstance(case, Fault):
        if not case.where or not case.source:
            faults.append("says no place or no source")
        faults += [f"no kind {w.kind}" for w in case.where if w.kind not in KINDS]
        faults += [f"no phase {w.phase}" for w in case.where if w.phase not in PHASES]
    return faults


def lines(case: Case) -> list[str]:
    rows = []
    for dtype in case.dtypes:
        sides = [measured(case, side, dtype) for side in ("reference", "candidate")]
        again = measured(case, "reference", dtype)
        broken = next((side for side in (*sides, again) if isinstance(side, str)), None)
        if broken is not None:
            rows.append(f"  {dtype}: RAISED\n{broken}")
            continue
        apart, name = worst(bare.distance(*sides))
        repeated = worst(bare.distance(sides[0], again))[0]
        exact = measured(case, "reference", "float64")
        rounding = "none to compare" if isinstance(exact, str) else f"{worst(bare.distance(exact, sides[0]))[0]:.1e}"
        rows.append(f"  {dtype}: apart {apart:.1e} ({name}); rounding {rounding}; repeated {repeated:.1e}")
    sides = [measured(case, side, "float64") for side in ("reference", "candidate")]
    if not any(isinstance(side, str) for side in sides):
        rows.append(f"  float64: apart {worst(bare.distance(*sides))[0]:.1e}")
    return rows


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args(argv)
    bad, ready = 0, set[str]()
    for package in ("work", "counted"):
        known = set(CASES)
        bare.load(("programs", package))
        for case in (CASES[name] for name in list(CASES) if name not in known):
            if arguments.names and not any(part in case.name for part in arguments.names):
                continue
            complaints = form(case, package)
            bad += bool(complaints)
            print(f"{case.name} [{type(case).__name__.lower()}, {package}]", *complaints, sep="\n  ! ", flush=True)
            for name in (case.reference, case.candidate):
                warm(name, ready)
            for line in lines(case):
                print(line, flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
